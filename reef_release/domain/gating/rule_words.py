"""A policy's rules in words, and how far each of them had come: what explains a gate.

The words say what `docs/reference/policy.md` defines; what each rule found is computed by the
machine that decides the gate, so that no page or report can tell another story than the decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reef_release.domain.gating.admission import approximate, node_kind
from reef_release.domain.gating.betting import BettingTest, Counts, e_value
from reef_release.domain.gating.machine import betting_test, decide
from reef_release.domain.gating.rules import (
    AllOf,
    AnyOf,
    ConsecutivePasses,
    Improves,
    Metric,
    NonRegression,
    PassRate,
    Protected,
    Rule,
)
from reef_release.domain.gating.slots import Slot

__all__ = [
    "RuleLine",
    "RuleText",
    "asks_for",
    "rule_lines",
    "rule_texts",
    "sequential_tests",
    "tally_words",
]

_LARGEST = Fraction(10**12)


@dataclass(frozen=True, kw_only=True)
class RuleLine:
    """One rule: how deep it stands, its words, what it decided, and what it had found by then.

    `outcome` is None while it is undecided. `found` is "" where there is nothing to count.
    """

    depth: int
    kind: str
    words: str
    outcome: str | None
    found: str


@dataclass(frozen=True, kw_only=True)
class RuleText:
    """One rule before any gate: how deep it stands, and its words."""

    depth: int
    words: str


def rule_texts(rule: Rule, depth: int = 0) -> Iterator[RuleText]:
    """*rule* and the rules in it, in document order."""
    yield RuleText(depth=depth, words=_words(rule, None))
    if isinstance(rule, AllOf | AnyOf):
        for part in rule.rules:
            yield from rule_texts(part, depth + 1)


def rule_lines(rule: Rule, level: Fraction | None, slots: Sequence[Slot]) -> tuple[RuleLine, ...]:
    """*rule* and the rules in it, in document order, over the *slots* of a gate."""
    return _kept_lines(rule, level, tuple(slots))


@lru_cache(maxsize=128)
def _kept_lines(
    rule: Rule, level: Fraction | None, slots: tuple[Slot, ...]
) -> tuple[RuleLine, ...]:
    """Kept by all that they follow from, so that an earlier position has lines of its own."""
    return tuple(_lines(rule, level, slots, 0))


def _lines(
    rule: Rule, level: Fraction | None, slots: tuple[Slot, ...], depth: int
) -> Iterator[RuleLine]:
    yield RuleLine(
        depth=depth,
        kind=node_kind(rule),
        words=_words(rule, level),
        outcome=decide(rule, slots, level),
        found=_found(rule, level, slots) if slots else "",
    )
    if isinstance(rule, AllOf | AnyOf):
        for part in rule.rules:
            yield from _lines(part, level, slots, depth + 1)


def sequential_tests(rule: Rule, level: Fraction | None) -> Iterator[tuple[str, BettingTest]]:
    """The tests by betting in *rule*, each with the name of its rule."""
    if isinstance(rule, AllOf | AnyOf):
        for part in rule.rules:
            yield from sequential_tests(part, level)
    elif _is_test(rule):
        assert isinstance(rule, PassRate | NonRegression | Improves)
        yield node_kind(rule), betting_test(rule, level)


def tally_words(test: BettingTest, slots: Sequence[Slot]) -> str:
    """What counted, and all that was drawn where that is more: the test passes over some."""
    counted, drawn = test.counts(slots), test.counts(slots, behind=True)
    if counted == drawn:
        return _tally(test, counted)
    return f"counted while not behind: {_tally(test, counted)}; in all: {_tally(test, drawn)}"


def _tally(test: BettingTest, counts: Counts) -> str:
    if test.paired:
        return f"won {counts.best}, lost {counts.worst}"
    return f"{counts.best} passed, {counts.worst} failed"


def asks_for(level: Fraction) -> str:
    """The e-value that a test at *level* asks for."""
    return "more than any" if level <= 0 else approximate(1 / level, 2)


def _is_test(rule: Rule) -> bool:
    return isinstance(rule, NonRegression | Improves) or (
        isinstance(rule, PassRate) and rule.alpha is not None
    )


def _words(rule: Rule, level: Fraction | None) -> str:
    match rule:
        case AllOf():
            return "All of these must hold at once:"
        case AnyOf():
            return "One of these must hold:"
        case ConsecutivePasses():
            return (
                f"{rule.k} passed tasks in a row, within {rule.max_trials}; "
                f"it fails at {rule.max_failures} failed ones."
            )
        case PassRate(alpha=None):
            return f"At least {rule.bar} of {rule.max_trials} tasks passed."
        case PassRate():
            return (
                f"A sequential test shows that more than {rule.bar} of tasks pass, at level "
                f"{rule.alpha}, within {rule.max_trials} tasks."
            )
        case NonRegression():
            return (
                f"A paired sequential test shows that the candidate is not worse than the "
                f"incumbent by {rule.margin} or more, at level {rule.alpha}, within "
                f"{rule.max_trials} tasks."
            )
        case Improves():
            return (
                f"A paired sequential test shows that the candidate is better than the "
                f"incumbent, {_at(rule, level)}, within {rule.max_trials} tasks. A pair is "
                "evidence only when it is drawn while the candidate is not behind; of all pairs, "
                f"it fails once it has lost {rule.max_deficit} more than it has won."
            )
        case Protected():
            return (
                f"Protected, run first, and not to be broken: {', '.join(rule.tasks)}. Broken is "
                "what the candidate fails and the incumbent does not."
            )
        case Metric():
            return _metric_words(rule)


def _at(rule: Improves, level: Fraction | None) -> str:
    if rule.alpha is not None:
        return f"at level {rule.alpha}"
    if level is None:
        return "at the level that the error budget gives its gate"
    return f"at level {level}, this gate's share of the error budget"


def _metric_words(rule: Metric) -> str:
    name = {
        "mean_reply_tokens": "The mean length of a reply in tokens",
        "truncation_rate": "The share of replies cut short",
    }[rule.metric]
    of = " as a share of the incumbent's" if rule.of == "ratio" else ""
    bounds = [
        f"{word} {bound}"
        for word, bound in (("at least", rule.at_least), ("at most", rule.at_most))
        if bound is not None
    ]
    return (
        f"{name}{of} is {' and '.join(bounds)}, over {rule.min_trials} to {rule.max_trials} tasks."
    )


def _found(rule: Rule, level: Fraction | None, slots: Sequence[Slot]) -> str:
    drawn = [slot for slot in slots if slot.protected is None]
    match rule:
        case AllOf() | AnyOf():
            return ""
        case ConsecutivePasses():
            verdicts = [slot.candidate for slot in drawn]
            return (
                f"longest run {_longest_run(verdicts)} of {rule.k}; "
                f"{verdicts.count(False)} failed of {len(verdicts)}"
            )
        case PassRate(alpha=None):
            return f"{sum(slot.candidate for slot in drawn)} passed of {len(drawn)}"
        case PassRate() | NonRegression() | Improves():
            return _test_found(betting_test(rule, level), slots)
        case Protected():
            broken = [
                slot.protected
                for slot in slots
                if slot.protected in rule.tasks
                and not slot.candidate
                and slot.incumbent is not False
            ]
            ran = sum(slot.protected in rule.tasks for slot in slots)
            return f"broken: {', '.join(map(str, broken))}" if broken else f"{ran} ran, none broken"
        case Metric():
            return _metric_found(rule, drawn)


def _longest_run(verdicts: Sequence[bool]) -> int:
    longest = run = 0
    for passed in verdicts:
        run = run + 1 if passed else 0
        longest = max(longest, run)
    return longest


def _test_found(test: BettingTest, slots: Sequence[Slot]) -> str:
    counts = test.counts(slots)
    value = approximate(min(e_value(test.scores, counts), _LARGEST), 2)
    return f"e-value {value} of {asks_for(test.level)}; {tally_words(test, slots)}"


def _metric_found(rule: Metric, drawn: Sequence[Slot]) -> str:
    sides = []
    for index, side in enumerate(("candidate", "incumbent")):
        replies = [slot.replies[index] for slot in drawn if slot.replies is not None]
        measured = [each for each in replies if each is not None]
        if not measured or (side == "incumbent" and rule.of != "ratio"):
            continue
        if rule.metric == "truncation_rate":
            cut, tries = sum(e.truncated for e in measured), sum(e.attempts for e in measured)
            sides.append(f"{side} {approximate(Fraction(cut, tries), 3)}")
        else:
            mean = Fraction(sum(each.tokens for each in measured), len(measured))
            sides.append(f"{side} {approximate(mean, 1)}")
    return ", ".join(sides)
