"""One call of `append_events`: its arguments from events, its rows back into answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reef_release.domain.reasons import Reason
from reef_release.errors import ReefError
from reef_release.log.entries import Appended, IdConflict, NewEvent, RuleRefused, VersionConflict

__all__ = ["REASONS", "arguments", "outcome"]

REASONS: Mapping[str, str] = {
    "malformed-envelope": (
        "a name is empty, too long, or has characters that names of its kind do not have"
    ),
    "unknown-type": "this database knows no such event type; run `reef-release migrate`",
    "unknown-schema-version": (
        "this database knows no such version of the type; run `reef-release migrate`"
    ),
    "data-too-large": "the data is over 64,000 bytes; store it as a blob and name its digest",
    "malformed-data": "the data is not one JSON object, or nests deeper than 64 levels",
    "other-scenario": "events of the streams trust and trust/checkpoint, and only these, "
    "belong to the scenario _",
    "other-stream": "an event of this type belongs in another stream",
    "unknown-scenario": "there is no such scenario; create it first",
    "known-scenario": "the scenario exists already",
    "not-submitted": "the candidate was not submitted",
    "not-admitted": "the candidate was not admitted",
    "revoked": "the candidate or its release is revoked",
    "key-revoked": "the key that signed the weights is revoked; sign them with another",
    "other-base": "the base is not the release that the channel serves now",
    "known-gate": "a gate of this id was opened before",
    "unknown-gate": "no gate of this id was opened",
    "gate-closed": "the gate has ended",
    "other-gate": "the gate is about another candidate, base or channel",
    "pointer": "the position is not that of the channel's last pointer event",
    "not-stale": "the pointer has not moved since the gate opened",
    "no-passed-gate": "no gate.passed event stands for this gate",
    "stale-gate": "the pointer moved after the gate was opened; gate the candidate again",
    "not-signed": "no release.signed event stands for this release and gate",
    "other-policy": "no signed policy stands in the log under the digest that the gate names",
    "watch-over": "the release was found fallen already",
    "not-approved": "the gate's policy asks for the approval of more people",
    "held": "the scenario is held; resume it first",
    "never-promoted": "a rollback goes to a release that was promoted earlier in this channel",
    "already-serving": "the channel serves this release already",
    "no-reason": "say why, for the audit",
    "known-interaction": "a call was recorded under this id before",
    "unknown-turn": "no call was recorded under this id",
    "correlated": "the call is correlated already",
    "no-reply": "the call that it follows was not answered",
    "not-open": "the session is not open",
    "not-completed": "a call that failed is not judged",
    "judged": "the turn is judged already",
    "reported": "another report of the turn was received",
    "no-sample": "the turn is not judged",
    "known-batch": "a batch of this id was formed before",
    "unknown-batch": "no batch of this id was formed",
    "batch-ended": "the batch is dissolved",
    "claimed": "another trainer has the batch",
    "other-lease": "the batch is not held under this lease",
    "lease": "a lease has a name and lasts between 1 and 604,800 seconds",
    "samples": "a batch has a list of samples",
    "not-started": "no training of the batch began under this lease in this line",
    "not-trained": "no training of the batch was completed under this lease",
    "digest": "a blob is named by 64 lowercase hex digits",
    "erased": "the body was erased before",
    "other-body": "the turn names no such body",
    "failure": "a failure has a reason of those known, and at most 2,000 characters of detail",
}
"""Every code that `append_events` refuses with, in words."""


def arguments(events: Sequence[NewEvent]) -> tuple[list[Any], ...]:
    """The eleven parallel arrays that `append_events` takes."""
    return (
        [event.event_id for event in events],
        [event.scenario for event in events],
        [event.stream for event in events],
        [event.type for event in events],
        [event.schema_version for event in events],
        [event.actor for event in events],
        [event.causation_id for event in events],
        [event.correlation_id for event in events],
        [event.data.decode() for event in events],
        [event.expected_version for event in events],
        [event.validated_position for event in events],
    )


def outcome(
    event: NewEvent,
    kind: str,
    position: int | None,
    version: int | None,
    recorded_at: str | None,
    reasons: Sequence[str] | None,
) -> Appended | ReefError:
    """The answer for *event*: what is returned, or the error that is raised."""
    if kind == "appended" or kind == "duplicate":
        assert position is not None
        assert version is not None
        assert recorded_at is not None
        return Appended(
            position=position,
            version=version,
            recorded_at=recorded_at,
            duplicate=kind == "duplicate",
        )
    if kind == "version-conflict" and position is not None:
        return VersionConflict(
            f"{event.type} was judged at position {event.validated_position}; since then the event "
            f"at position {position} may have decided otherwise.",
            next_step="Read it and decide again.",
            version=version,
            position=position,
        )
    if kind == "version-conflict":
        return VersionConflict(
            f"The stream {event.stream} is at version {version}, not {event.expected_version}.",
            next_step="Read it again and decide again.",
            version=version,
        )
    if kind == "id-conflict":
        return IdConflict(
            f"The event id {event.event_id} stands at position {position} with other content.",
            next_step="Use a new id for new content; an id is never free again.",
            position=position,
        )
    found = [_reason(text) for text in reasons or ()]
    return RuleRefused(
        f"{event.type} is refused: {'; '.join(reason.message for reason in found)}.",
        reasons=found,
    )


def _reason(text: str) -> Reason:
    code, _, where = text.partition(" ")
    return Reason(code=code, message=REASONS[code], where=where)
