"""The rules that a policy is composed of: plain data, each kind with its own fields.

Numbers that are not integers are decimal strings, and a decision is made of exact fractions of
them, so that every machine decides alike. docs/reference/policy.md says what each rule means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import msgspec

__all__ = [
    "MAX_TRIALS",
    "METRICS",
    "AllOf",
    "AnyOf",
    "ConsecutivePasses",
    "Improves",
    "Metric",
    "NonRegression",
    "PassRate",
    "Protected",
    "Rule",
    "drawn_trials",
    "fraction",
    "measures",
    "nodes",
    "protected_tasks",
    "slot_count",
]

MAX_TRIALS = 2000
METRICS = ("mean_reply_tokens", "truncation_rate")
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,9})?")


class _Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ConsecutivePasses(
    _Rule, frozen=True, kw_only=True, tag_field="kind", tag="consecutive_passes"
):
    """Pass at the first run of `k` passed trials; fail at `max_failures` failed ones.

    Trials run out at `max_trials`: the rule is then inconclusive.
    """

    k: int = 3
    max_trials: int
    max_failures: int


class PassRate(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="pass_rate"):
    """The candidate's own pass rate against a `bar`.

    With `alpha`: pass as soon as a sequential test at that level rejects "at most the bar".
    With None: pass when at least that share of exactly `max_trials` trials passed.
    """

    bar: str
    alpha: str | None
    max_trials: int


class NonRegression(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="non_regression"):
    """Pass as soon as a paired sequential test rejects "worse by `margin` or more" at `alpha`."""

    margin: str
    alpha: str
    max_trials: int


class Improves(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="improves"):
    """Pass as soon as a paired sequential test rejects "not better than the incumbent".

    Its level is the budget's share of this gate, or `alpha` in a policy without a budget. It
    fails once the candidate has lost `max_deficit` pairs more than it has won.
    """

    alpha: str | None
    max_deficit: int
    max_trials: int


class Protected(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="protected"):
    """Tasks of the suite that always run first, and may not break.

    One is broken when the candidate fails it and the incumbent does not; an origin must pass all.
    """

    tasks: tuple[str, ...]


class Metric(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="metric"):
    """Bounds on a number over the trials so far, once there are `min_trials` of them.

    `of` is "candidate" for its own value, "ratio" for its share of the incumbent's.
    """

    metric: str
    of: str
    at_least: str | None
    at_most: str | None
    min_trials: int
    max_trials: int


class AllOf(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="all_of"):
    """Pass at the first trial at which every part holds; fail when one fails."""

    rules: tuple[Rule, ...]


class AnyOf(_Rule, frozen=True, kw_only=True, tag_field="kind", tag="any_of"):
    """Pass at the first trial at which a part holds; fail when all have failed."""

    rules: tuple[Rule, ...]


Rule = ConsecutivePasses | PassRate | NonRegression | Improves | Protected | Metric | AllOf | AnyOf


def fraction(text: str | None) -> Fraction | None:
    """The value of a decimal such as "0.05"; None for anything that is not written like that."""
    return Fraction(text) if text is not None and _DECIMAL.fullmatch(text) else None


def nodes(rule: Rule) -> Iterator[Rule]:
    """*rule* and all rules in it, in document order."""
    yield rule
    if isinstance(rule, AllOf | AnyOf):
        for part in rule.rules:
            yield from nodes(part)


def drawn_trials(rule: Rule) -> int:
    """The most tasks that *rule* may need drawn."""
    return max((getattr(node, "max_trials", 0) for node in nodes(rule)), default=0)


def protected_tasks(rule: Rule) -> list[str]:
    """The tasks that run before the drawn ones, each once."""
    found = (node.tasks for node in nodes(rule) if isinstance(node, Protected))
    return list(dict.fromkeys(task for tasks in found for task in tasks))


def slot_count(rule: Rule) -> int:
    """The most slots that a gate of *rule* may have."""
    return len(protected_tasks(rule)) + drawn_trials(rule)


def measures(rule: Rule) -> bool:
    """Whether *rule* looks at more of a reply than its verdict."""
    return any(isinstance(node, Metric) for node in nodes(rule))
