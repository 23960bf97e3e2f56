"""Which events other streams rest on, and which events rest on other streams.

The version of a stream guards what is decided by that stream alone. A promotion is also decided
by keys, holds and the pointer, a gate's opening by policy and draw: events of such types are
appended only where nothing decisive has come between their validation and their place. Traffic
is neither: a call, a turn or a trial is decided by its own stream, and must not wait for others.
"""

from __future__ import annotations

from collections.abc import Iterable

from reef_release.domain.events import EVENT_TYPES

__all__ = ["DECISIVE", "RESTING"]


def _types(*prefixes: str) -> frozenset[str]:
    return frozenset(name for name in EVENT_TYPES if name.startswith(prefixes))


def _without(names: frozenset[str], *others: str) -> Iterable[str]:
    return names - frozenset(others)


DECISIVE: frozenset[str] = frozenset(
    _without(
        _types(
            "root.",
            "key.",
            "checkpoint.",
            "scenario.",
            "policy.",
            "candidate.",
            "gate.",
            "release.",
            "watch.",
            "batch.",
            "training.",
        ),
        "gate.trial",
        "gate.claimed",
        "watch.trial",
        "batch.claimed",
        "training.step",
    )
)
"""Types after which an event of another stream of the scenario may no longer be valid; those of
no scenario count for every one."""

RESTING: frozenset[str] = DECISIVE | {
    "gate.claimed",
    "watch.trial",
    "batch.claimed",
    "training.step",
    "body.erased",
}
"""Types whose rule reads other streams than their own."""
