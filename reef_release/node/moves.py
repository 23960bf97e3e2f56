"""Rule: the log itself moves this channel to this release, at the position that is named.

The pointer's events of a channel are one stream, so the event before a promotion is known by
its version: it fixes what was served when the gate opened. Whether an event of that stream
broke the rule, and so had no effect, only the whole log can say; the node then refuses the
promotion after it, until the pointer has moved once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.domain.events import ReleasePromoted, ReleaseRolledBack
from reef_release.node.case import Case
from reef_release.node.leaves import Proven, refuse

__all__ = ["Move", "moved"]


@dataclass(frozen=True, kw_only=True)
class Move:
    """The pointer event, the promotion it rests on, and where the pointer moved before that.

    `previous_position` is -1 when the promotion was the channel's first move.
    """

    pointer: Proven
    promotion: Proven
    promoted: ReleasePromoted
    previous_position: int


def moved(case: Case, position: int) -> Move:
    """The move at *position*. Raises `Refused`."""
    pointer = case.proven(case.material.pointer)
    if not _is_move(case, pointer) or pointer.position != position:
        raise refuse(
            "no-pointer-event",
            f"at {position} the log has no event that moves the channel to this release; shown "
            f"was a {pointer.envelope.type} at {pointer.position}",
        )
    promotion = pointer
    if not isinstance(pointer.data, ReleasePromoted):
        promotion = case.proven(case.material.promotion)
        if not _is_move(case, promotion) or promotion.position >= position:
            raise refuse("never-promoted", "the rollback goes to a release never promoted")
    promoted = promotion.as_a(ReleasePromoted, case.document.scenario)
    case.found(
        "the log moves the channel to this release",
        f"{pointer.envelope.type} at {position}, promoted at {promotion.position}",
    )
    return Move(
        pointer=pointer,
        promotion=promotion,
        promoted=promoted,
        previous_position=_previous(case, promotion, promoted.base),
    )


def _is_move(case: Case, event: Proven) -> bool:
    data, document = event.data, case.document
    return isinstance(data, ReleasePromoted | ReleaseRolledBack) and (
        event.envelope.scenario,
        data.channel,
        data.release_id,
    ) == (document.scenario, document.channel, case.release_id)


def _previous(case: Case, promotion: Proven, base: str | None) -> int:
    """Where the pointer moved before *promotion*, which must have been to *base*."""
    version, leaf = promotion.envelope.version, case.material.previous
    if version == 1 or leaf is None:
        if version != 1 or base is not None:
            raise refuse("hidden-event", "the pointer event before the promotion is missing")
        return -1
    previous = case.proven(leaf)
    place = (previous.envelope.scenario, previous.envelope.stream, previous.envelope.version)
    if place != (case.document.scenario, promotion.envelope.stream, version - 1):
        raise refuse("hidden-event", "the pointer event before the promotion is missing")
    if getattr(previous.data, "release_id", None) != base:
        raise refuse("other-base", "the gate compared with a release that was not served")
    return previous.position
