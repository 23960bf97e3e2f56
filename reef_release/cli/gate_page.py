"""The results page of `gate simulate`: what was measured, and what that leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

import msgspec

from reef_release.cli.gate_measures import LivesRow, Measured, PowerRow
from reef_release.cli.homework import policy_document
from reef_release.domain.gating.rules import AllOf, Protected, protected_tasks
from reef_release.domain.policy import Policy

__all__ = ["page"]

_OF_ITS_SCENARIO = ("name", "version", "suite", "canaries")


def page(policy: Policy, found: Measured, day: date, command: str) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(policy, found, day, command)) + "\n"


def _lines(policy: Policy, found: Measured, day: date, command: str) -> Iterator[str]:
    yield "# The gate: what its odds come to"
    yield ""
    yield (
        f"Measured on {day.isoformat()} by `{command}`, which wrote this page. Every gate is "
        "decided "
        "by the code that decides real ones. Intervals are of 95%: Clopper and Pearson's for "
        "shares, "
        "the normal approximation for means over lives, which says little where few lives have a "
        "false promotion; where none has one, the mean has the interval of the lives with one. "
        "Each interval stands for itself: of twenty, one may well miss. "
        "*exact* is computed, not sampled."
    )
    yield ""
    yield _measured_policy(policy)
    yield ""
    yield from _summary(found)
    yield from _power(found)
    yield from _steps(found)
    yield from _copies(found)
    yield from _all_lives(policy, found)
    yield "## What this does not establish"
    yield ""
    yield from (
        "- That the suite asks what matters. Better means: on the suite's tasks, by its verifiers.",
        "- How real candidates are spread. Lives are invented, and the gate that promotes most "
        "is not "
        "the best: look at the share that was not better.",
        "- Anything about trials that depend on each other beyond the task they share. "
        "Simulated sides "
        "pass independently; real ones agree more often, which makes discordant pairs rarer and a "
        "decision later, and changes no bound.",
        "- The bound itself. A simulation could only have refuted it. It is proved "
        "([decision 21](../decisions/0021-better-than-the-incumbent-is-tested-by-betting.md), "
        "[22](../decisions/0022-one-error-budget-for-the-life-of-a-scenario.md)) for pairs that, "
        "given the past, are won at most as often as lost, which is what is simulated here, and "
        "for tasks of one fixed score each (temperature 0). For a finite suite at a temperature "
        "above 0, which is the default, it is proved [with a factor]"
        "(../reference/policy.md#what-the-bound-means) only.",
        "- Anything about who knows a draw before its gate opens. A draw is paid for when it is "
        "known, so in a life each candidate that is drawn pays, in the order of admission.",
    )
    yield ""
    yield "## Policy"
    yield ""
    yield "```json"
    part = {"standard": policy.standard, "budget": policy.budget}
    yield msgspec.json.format(msgspec.json.encode(part), indent=2).decode()
    yield "```"


def _measured_policy(policy: Policy) -> str:
    kept = len(protected_tasks(policy.standard.rule))
    tasks = (
        f"with {kept} protected task{'s' if kept > 1 else ''}"
        if kept
        else "without protected tasks"
    )
    mine, default = _without_protected(policy), policy_document(policy.suite)
    gate = ("standard", "budget")
    if {**mine, **{each: default[each] for each in _OF_ITS_SCENARIO}} == default:
        name = "the default of a new scenario"
    elif all(mine[each] == default[each] for each in gate):
        name = "a policy of its own, whose standard rule and budget are the default's"
    else:
        name = "a policy of its own"
    return f"*This policy* is {name}, {tasks}; it stands [below](#policy)."


def _without_protected(policy: Policy) -> dict[str, Any]:
    """The document of *policy* with no rule for protected tasks, which every suite has its own."""
    document: dict[str, Any] = {
        **msgspec.to_builtins(policy),
        "budget": msgspec.to_builtins(policy.budget),
        "approvals": policy.approvals,
        "watch": msgspec.to_builtins(policy.watch),
    }
    rule = policy.standard.rule
    if isinstance(rule, AllOf):
        parts = [part for part in rule.rules if not isinstance(part, Protected)]
        document["standard"]["rule"]["rules"] = [msgspec.to_builtins(part) for part in parts]
    return document


def _summary(found: Measured) -> Iterator[str]:
    yield f"{found.lives} lives of {found.candidates} candidates each, seed {found.seed}:"
    yield ""
    yield from _table(
        ("candidates", "gate", "false share of promotions", "lives with a false one", "promotions"),
        (
            (
                row.profile,
                row.gate,
                str(row.false_share),
                str(row.lives_with_one),
                f"{row.promotions:.2f}",
            )
            for row in found.rows
        ),
    )
    yield (
        "The mean share of false promotions is at most the share of lives with one, so the "
        "upper end of "
        "the latter bounds both."
    )
    yield ""


def _power(found: Measured) -> Iterator[str]:
    yield "## Power: 0.9 against 0.3"
    yield ""
    yield from _table(
        ("gate", "promotions before", "level", "exact", "counted", "median tasks", "tasks for 0.9"),
        (
            (
                str(row.gate),
                str(row.promotions),
                row.level,
                f"{row.exact:.4f}",
                str(row.counted),
                str(row.median),
                _or_more(row.trials, 100),
            )
            for row in found.power
        ),
    )
    yield (
        "*Tasks for 0.9* is the `max_trials` with which nine in ten such candidates pass at "
        "that gate. "
        f"{_keeping(found.power)}"
    )
    yield ""


def _keeping(rows: list[PowerRow]) -> str:
    below = [row for row in rows if row.exact < 0.9]
    if not below:
        return "The target of 0.9 holds at each of them."
    worst = max(below, key=lambda row: row.trials or 1000)
    need = f"{worst.trials} tasks" if worst.trials else "more than 100 tasks"
    return (
        f"Where nothing was promoted before, the target of 0.9 is missed from gate "
        f"{below[0].gate} on "
        f"and takes {need} to keep; promotions before widen the level and bring it back."
    )


def _steps(found: Measured) -> Iterator[str]:
    yield "## Smaller steps, and the tasks they need"
    yield ""
    yield (
        "At the first gate, with up to 2,000 tasks and `max_deficit` 40; the share passed after "
        "so many tasks:"
    )
    yield ""
    after = [n for n, _ in found.steps[0].after]
    yield from _table(
        ("step", *(str(n) for n in after), "tasks for 0.9"),
        (
            (
                f"{row.incumbent} → {row.candidate}",
                *(str(share) for _, share in row.after),
                _or_more(row.trials, 2000),
            )
            for row in found.steps
        ),
    )


def _copies(found: Measured) -> Iterator[str]:
    yield "## Copies of the incumbent"
    yield ""
    yield (
        "A byte-identical copy gives the same replies to the same tasks and seeds: no pair is "
        "discordant, "
        "the e-value stays 1, and it never passes. A copy whose replies are drawn anew passes "
        "the first "
        "gate so often (exact):"
    )
    yield ""
    yield from _table(
        ("pass rate of both", "P(passes)", "median tasks to a decision"),
        ((row.pairs, f"{row.passes:.6f}", str(row.median)) for row in found.copies),
    )


def _all_lives(policy: Policy, found: Measured) -> Iterator[str]:
    yield "## Lives by kind of candidate"
    yield ""
    yield (
        "Promoted of those met at the gate, and the median of the tasks to a decision. *better "
        "by* is the "
        f"step over the incumbent that it met, to a tenth; {_unsafe_words(policy)}; "
        "those tampered with are refused at admission and spend nothing."
    )
    yield ""
    for profile in dict.fromkeys(row.profile for row in found.rows):
        rows = [row for row in found.rows if row.profile == profile]
        yield f"### {profile}"
        yield ""
        yield from _table(
            ("kind", *(row.gate for row in rows)),
            (
                (label, *(_cell(row, label) for row in rows))
                for label in sorted({label for row in rows for label, *_ in row.kinds})
            ),
        )
        finals = ", ".join(f"{row.gate} {row.final:.2f}" for row in rows)
        yield f"Mean pass rate of what is served at the end: {finals}."
        yield ""


def _unsafe_words(policy: Policy) -> str:
    if protected_tasks(policy.standard.rule):
        return "*unsafe* breaks a protected task, though it is better by 0.3 elsewhere"
    return (
        "this policy has no protected task, so no candidate here breaks one, and the mixture is "
        "of its other kinds"
    )


def _cell(row: LivesRow, label: str) -> str:
    for name, promoted, met, median in row.kinds:
        if name == label:
            return f"{promoted} of {met} ({median:g})"
    return "none"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(heads)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _or_more(number: int | None, most: int) -> str:
    return f"more than {most:,}" if number is None else str(number)
