"""The event of privacy: a body that somebody wrote, or a model replied, is erased."""

from __future__ import annotations

from typing import Literal

from reef_release.domain.event_data import EventData

__all__ = ["PRIVACY_EVENTS", "BodyErased", "BodyKind"]

BodyKind = Literal["call", "votes", "hint", "feedback"]


class BodyErased(EventData, frozen=True, kw_only=True):
    """The blob `digest` is erased for good; the events that name it stay as they are.

    It is the body of the call `turn_id`, or the votes on that turn, a hint for it, or the feedback
    on it, as `kind` says. Where several turns name one blob, one of them stands here and it is gone
    for all. `reason` is `retention` where the service erased what had become too old. What a gate
    rests on (trials, suites, weights, schemas, canaries) is never erased: such an event has no
    effect.
    """

    TYPE = "body.erased"
    digest: str
    kind: BodyKind
    turn_id: str
    reason: str


PRIVACY_EVENTS: tuple[type[EventData], ...] = (BodyErased,)
