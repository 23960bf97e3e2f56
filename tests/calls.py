"""Events of a conversation with short ids, for tests that fold traffic."""

from __future__ import annotations

from typing import Any

from reef_release.domain import events as ev

__all__ = ["AT", "DIGEST", "JUDGE", "bound", "failed", "judged", "recorded", "unbound"]

AT = "2026-01-02T03:04:05.000006Z"
DIGEST = "ab" * 32
JUDGE = ev.JudgeRecord(model="m", prompt_digest=DIGEST, settings={})


def recorded(call: str, **changes: Any) -> ev.InteractionRecorded:
    fields: dict[str, Any] = {
        "interaction_id": call,
        "at": AT,
        "tag": None,
        "turn_type": None,
        "model": None,
        "release_id": None,
        "body": DIGEST,
        "size_bytes": 1,
        "finish_reason": "stop",
        "token_count": 2,
        "token_fault": None,
    }
    return ev.InteractionRecorded(**(fields | changes))


def failed(call: str, **changes: Any) -> ev.InteractionFailed:
    fields: dict[str, Any] = {
        "interaction_id": call,
        "at": AT,
        "tag": None,
        "turn_type": None,
        "model": None,
        "release_id": None,
        "body": DIGEST,
        "size_bytes": 1,
        "error": "timed-out",
        "status": None,
    }
    return ev.InteractionFailed(**(fields | changes))


def bound(call: str, follows: str, session: str = "a", **changes: Any) -> ev.TurnBound:
    fields: dict[str, Any] = {"method": "transcript", "replaces": None}
    return ev.TurnBound(
        interaction_id=call, session_id=session, follows=follows, **(fields | changes)
    )


def unbound(call: str, session: str | None = None, **changes: Any) -> ev.TurnUnbound:
    fields: dict[str, Any] = {"kind": "main", "reason": "first-call", "replaces": None}
    return ev.TurnUnbound(interaction_id=call, session_id=session or call, **(fields | changes))


def judged(turn: str, **changes: Any) -> ev.TurnJudged:
    fields: dict[str, Any] = {
        "score": -1,
        "about": 1,
        "target": "a",
        "votes": DIGEST,
        "hints": [],
        "valid": 3,
        "asked": 3,
        "judge": JUDGE,
    }
    return ev.TurnJudged(turn_id=turn, **(fields | changes))
