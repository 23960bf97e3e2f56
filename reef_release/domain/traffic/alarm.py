"""When traffic flows and nothing binds: the run of calls that could have bound and did not.

A call counts if it is a main one, was answered, and nothing was bound since. It could not have
bound, and does not count, when the call before it was never answered. The first call of a
conversation looks like any call of a client that leaves the conversation out; so of the first
calls since the last binding as many do not count as calls of their kind (with a session tag, or
without) were bound before, and at most 27. A tag promises that more will come: 9 first calls with
tags do not count from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ALARM_AFTER", "UnboundRun", "next_step_of"]

ALARM_AFTER = 9
"""So many calls in a row that could have bound, and did not, raise the alarm."""
_MOST_EXCUSED = 3 * ALARM_AFTER
_OPENING = "first-call"
_AFTER_A_FAILURE = "unanswered"

_NEXT_STEPS: Mapping[str, str] = {
    "ambiguous": "Send one session tag (x-reef-tag-session) per conversation.",
    "expired": "Raise the session expiry (REEF_SESSION_EXPIRY_S).",
    "other-client": "Send all calls of a conversation under one token.",
    "prefill": "Let the newest message be the user's, or a tool's result.",
    "tag-unproven": "Send the conversation so far with every call; or one session tag"
    " (x-reef-tag-session) per conversation, never one for several.",
    "tag-idle": "Send the conversation so far with every call.",
    "unknown-reply": "Send the earlier replies back as they were served, or one session tag"
    " (x-reef-tag-session) per conversation.",
}
_NEXT_STEP = (
    "Send the conversation so far with every call, or one session tag (x-reef-tag-session) per"
    " conversation."
)


def next_step_of(reason: str) -> str:
    """What to change when calls bind to nothing for this reason."""
    return _NEXT_STEPS.get(reason, _NEXT_STEP)


@dataclass(slots=True, kw_only=True)
class UnboundRun:
    """The calls since the last binding that could have bound, by the reason that each did not."""

    reasons: Counter[str] = field(default_factory=Counter)
    allowed: dict[bool, int] = field(default_factory=lambda: {True: ALARM_AFTER, False: 0})
    """How many first calls since a binding count for nothing: with a session tag, and without."""
    excused: Counter[bool] = field(default_factory=Counter)
    """How many did so far."""

    def total(self) -> int:
        """How many calls."""
        return self.reasons.total()

    def main_reason(self) -> str | None:
        """The commonest reason, of equal ones the one that came first; None for an empty run."""
        return next((reason for reason, _ in self.reasons.most_common(1)), None)

    def end(self, tag: str | None) -> None:
        """A call was bound."""
        self.reasons.clear()
        self.excused.clear()
        self.allowed[bool(tag)] = min(self.allowed[bool(tag)] + 1, _MOST_EXCUSED)

    def add(self, reason: str, tag: str | None, error: str | None) -> None:
        """A main call was not."""
        if error is not None or reason == _AFTER_A_FAILURE:
            return
        if reason == _OPENING and self.excused[bool(tag)] < self.allowed[bool(tag)]:
            self.excused[bool(tag)] += 1
            return
        self.reasons[reason] += 1
