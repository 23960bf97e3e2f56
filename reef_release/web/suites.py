"""How far the suites of a scenario are worn: gates that used each, and how many are left."""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.web.facts import suite_gates_at
from reef_release.web.past import Past

__all__ = ["SuiteLine", "suite_line", "suite_lines"]


@dataclass(frozen=True, kw_only=True)
class SuiteLine:
    """A suite: `gates` used it, `most` may by the newest policy that names it.

    `policy` and `version` are of that policy; `in_force` is whether gates still open with the
    suite, as far as its policy goes.
    """

    suite: str
    gates: int
    most: int
    policy: str
    version: int
    in_force: bool

    @property
    def left(self) -> int:
        """How many more gates it may serve."""
        return max(self.most - self.gates, 0)


def suite_line(past: Past, suite: str) -> SuiteLine:
    """The *suite* that a policy of then names."""
    named = next(
        each
        for each in reversed(past.scenario.policies)
        if past.seen(each.position) and each.policy.suite == suite
    )
    return SuiteLine(
        suite=suite,
        gates=suite_gates_at(past.scenario, suite, past.at),
        most=named.policy.suite_max_gates,
        policy=named.digest,
        version=named.policy.version,
        in_force=past.policy.policy.suite == suite,
    )


def suite_lines(past: Past, limit: int) -> list[SuiteLine]:
    """Up to *limit* suites, that of the newest policy first."""
    suites = dict.fromkeys(
        each.policy.suite for each in reversed(past.scenario.policies) if past.seen(each.position)
    )
    return [suite_line(past, suite) for suite in list(suites)[:limit]]
