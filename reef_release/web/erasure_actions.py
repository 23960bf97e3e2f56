"""Erasing from a session's page: what a call or a whole session said, by the same path as the API.

What was said is repeated by later calls and quoted by judges, so that goes as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from reef_release.api.erasures import erase_all
from reef_release.api.given import given_reason
from reef_release.api.service import Service
from reef_release.domain.reasons import Reason
from reef_release.errors import Conflict
from reef_release.privacy_wire import ErasureRequest
from reef_release.web.words import count_of
from reef_release.wire import WrittenView

__all__ = ["erase_said", "foresee_erasure", "session_of"]


async def erase_said(
    service: Service, actor: str, scenario: str, of: Mapping[str, str], reason: str
) -> WrittenView:
    """Erase all that is known of the call or session in *of*; its last event.

    Raises `Conflict` with reasons when nothing of it is left to erase.
    """
    wanted = _request(of, given_reason(reason))
    last = None
    while True:
        found = await erase_all(service, actor, scenario, wanted)
        if not found.bodies:
            break
        last = found.bodies[-1]
        if not found.remaining:
            break
    if last is None or last.position is None or last.event_id is None:
        raise Conflict(
            "Nothing of it is left to erase.",
            next_step="What is erased once is gone for good; the session's page says when.",
            reasons=_why_nothing(service, scenario, of),
        )
    return WrittenView(position=last.position, event_id=last.event_id)


async def foresee_erasure(service: Service, scenario: str, of: Mapping[str, str]) -> str:
    """What would be erased. Raises `NotFound`."""
    found = await erase_all(service, "", scenario, _request(of, "", dry_run=True))
    count = len(found.bodies) + found.remaining
    if not count:
        return "Nothing of it is left to erase."
    return (
        f"This erases {count_of(count, 'body', 'bodies')}: what was said in "
        f"{count_of(found.calls, 'call')}, and the votes, hints and feedback about it."
    )


def session_of(service: Service, scenario: str, of: Mapping[str, str]) -> tuple[str, ...]:
    """The page to go back to: that of the session."""
    turn = service.scenario(scenario).traffic.turns.get(of.get("turn_id", ""))
    session_id = of.get("session_id") if turn is None else turn.session_id
    return ("sessions", session_id) if session_id else ("sessions",)


def _request(of: Mapping[str, str], reason: str, *, dry_run: bool = False) -> ErasureRequest:
    return ErasureRequest(
        reason=reason,
        turn_id=of.get("turn_id"),
        session_id=of.get("session_id"),
        dry_run=dry_run,
    )


def _why_nothing(service: Service, scenario: str, of: Mapping[str, str]) -> list[Reason]:
    """Why the calls' own bodies stay, or are gone already."""
    state, traffic = service.state, service.scenario(scenario).traffic
    session = traffic.sessions.get(of.get("session_id", ""))
    calls = [of["turn_id"]] if session is None else session.calls[:10]
    reasons = []
    for body in (traffic.turns[each].body for each in calls):
        if body in state.kept:
            message = "promotions follow from this blob; it is never erased"
            reasons.append(Reason(code="kept", message=message, where=body))
        elif body in state.erased:
            erasure = state.erased[body]
            message = f"{erasure.actor} erased it at {erasure.position}: {erasure.reason}"
            reasons.append(Reason(code="erased", message=message, where=body))
    return reasons
