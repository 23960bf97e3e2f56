"""Counts per scenario, and what they say about a client: findings for people.

A finding changes no binding; it says why bindings are missing and what to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from reef_release.domain.correlation.calls import Binding
from reef_release.domain.correlation.memory import Limits
from reef_release.domain.correlation.tags import Tag

__all__ = ["Finding", "FindingCode", "Tally", "findings_of"]

FindingCode = Literal[
    "gaps-near-expiry",
    "nothing-continues",
    "reactions-after-expiry",
    "side-calls-only",
    "tag-carries-many",
    "tag-is-reused",
]

_ENOUGH = 9
_NEAR = 0.5
_COMMON = 0.05


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a scenario's traffic that a person should know; `count` says how much."""

    code: FindingCode
    scenario: str
    tag: str | None
    count: int
    message: str


class Tally(msgspec.Struct, kw_only=True):
    """What has been seen in a scenario; `near_expiry`: reactions past half the time they had."""

    calls: int = 0
    bound: dict[str, int] = msgspec.field(default_factory=dict)
    unbound: dict[str, int] = msgspec.field(default_factory=dict)
    near_expiry: int = 0

    def add(self, binding: Binding, spent: float) -> None:
        """Count a binding; *spent* is the share of its time that the reaction took."""
        self.calls += 1
        if binding.method is not None:
            self.bound[binding.method] = self.bound.get(binding.method, 0) + 1
        if binding.reason is not None:
            self.unbound[binding.reason] = self.unbound.get(binding.reason, 0) + 1
        self.near_expiry += spent > _NEAR


def findings_of(scenario: str, tally: Tally, tags: Iterable[Tag], limits: Limits) -> list[Finding]:
    """Everything worth saying, the scenario's findings first, then its tags by name."""
    found = [
        Finding(code=code, scenario=scenario, tag=None, count=count, message=message)
        for code, (count, message) in _about_all(tally, limits).items()
    ]
    for tag in sorted(tags, key=lambda each: each.name):
        if tag.switches:
            code: FindingCode = "tag-carries-many"
            message = (
                f"The session tag {tag.name!r} carries at least {tag.openings} conversations side"
                " by side; they were told apart by their transcripts. Send one tag per"
                " conversation."
            )
        elif tag.echoing and tag.openings > 1:
            code = "tag-is-reused"
            message = (
                f"The session tag {tag.name!r} was used for {tag.openings} conversations, one after"
                " another. Send a new tag when a conversation begins."
            )
        else:
            continue
        found.append(
            Finding(code=code, scenario=scenario, tag=tag.name, count=tag.calls, message=message)
        )
    return found


def _about_all(tally: Tally, limits: Limits) -> Mapping[FindingCode, tuple[int, str]]:
    found: dict[FindingCode, tuple[int, str]] = {}
    bound = sum(tally.bound.values())
    side = tally.unbound.get("side-call", 0)
    late = tally.unbound.get("expired", 0) + tally.unbound.get("tag-idle", 0)
    if tally.calls >= _ENOUGH and side == tally.calls:
        found["side-calls-only"] = (
            side,
            "Every call is marked as a side call, so none can be trained on. Send"
            " x-reef-tag-turn-type: main with the calls whose replies people see.",
        )
    elif tally.calls >= _ENOUGH and not bound:
        found["nothing-continues"] = (
            tally.calls,
            "No call continues another. Send the conversation so far with each call, or a session"
            " tag (x-reef-tag-session) per conversation.",
        )
    if late:
        found["reactions-after-expiry"] = (
            late,
            f"{late} calls came too late to be bound. Raise the expiry ({limits.expiry_s:g} s;"
            f" {limits.tag_alone_s:g} s where only a tag speaks) or the number of turns kept.",
        )
    if tally.near_expiry >= max(_ENOUGH, _COMMON * bound):
        found["gaps-near-expiry"] = (
            tally.near_expiry,
            f"{tally.near_expiry} of {bound} reactions came after more than half the expiry"
            f" ({limits.expiry_s:g} s; {limits.tag_alone_s:g} s where only a tag speaks); more are"
            " lost beyond it. Raise the expiry.",
        )
    return found
