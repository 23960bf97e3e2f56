"""What a policy lets through: exact odds, and what its error budget asks of each gate."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from reef_release.cli.homework import policy_document
from reef_release.cli.output import console, print_table
from reef_release.cli.quorum import odds_line
from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.domain.gating.admission import improves_in, null_bound
from reef_release.domain.gating.budget import Budget, Ledger
from reef_release.domain.gating.default import default_rule
from reef_release.domain.gating.machine import betting_test
from reef_release.domain.gating.rules import Improves, NonRegression, Rule, nodes
from reef_release.domain.odds import Course, Joint, course, independent
from reef_release.domain.policy import Policy, parse_policy
from reef_release.errors import BadRequest, SettingsError
from reef_release.verifiers.registry import is_objective

__all__ = [
    "MOST_BITS",
    "OddsTable",
    "as_json",
    "chance",
    "compares",
    "joint_of",
    "last_gate",
    "ledger_before",
    "level_at",
    "new_policy",
    "odds_table",
    "read_policy",
    "share_rows",
    "show",
]

_NAME_ONE = (
    "Name a policy as JSON, or the output of `reef-release policy sign`; the page for policy "
    "owners shows one."
)
_STEPS = 20
_PAIRED_STEPS = 10
_BAR = 40
_CHANCE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}|/[0-9]{1,9})?")
_GATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
MOST_BITS = 1_000_000_000
"""The work of one table, in bits of the whole numbers that its states have."""


def read_policy(path: Path) -> Policy:
    """The policy in *path*, signed or not. Raises `SettingsError`, and `Refused` with reasons."""
    try:
        document = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read: {error.strerror}.", next_step=_NAME_ONE
        ) from error
    try:
        value = parse_json(document, str(path))
    except BadRequest as error:
        raise SettingsError(error.detail, next_step=_NAME_ONE) from error
    if isinstance(value, dict) and "payload" in value:
        try:
            document = base64.b64decode(value["payload"], validate=True)
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"{path} is no signed policy: {error}.",
                next_step="Name the output of `reef-release policy sign`.",
            ) from error
    return parse_policy(document, is_objective)


def new_policy() -> Policy:
    """The default of a new scenario with two protected tasks, on a suite that nobody has."""
    rule = default_rule()
    rule["rules"].insert(0, {"kind": "protected", "tasks": ["protected-1", "protected-2"]})
    document = policy_document("0" * 64)
    document["standard"]["rule"] = rule
    return parse_policy(canonical_json(document), is_objective)


def chance(text: str) -> Fraction:
    """A probability such as "0.3" or "1/3". Raises `SettingsError`."""
    value = Fraction(-1)
    if _CHANCE.fullmatch(text):
        with suppress(ZeroDivisionError):
            value = Fraction(text)
    if not 0 <= value <= 1:
        raise SettingsError(
            f"{text[:40]!r} is no probability from 0 to 1.",
            next_step='Write it as "0.3" or "1/3", with at most 9 digits after the point.',
        )
    return value


def compares(rule: Rule) -> bool:
    """Whether the odds of *rule* depend on the incumbent."""
    return any(isinstance(node, Improves | NonRegression) for node in nodes(rule))


def ledger_before(budget: Budget, gate: int, promotions: int) -> Ledger:
    """After *gate* - 1 gates under *budget*, with that many promotions among them."""
    if promotions >= gate:
        raise SettingsError(f"{promotions} promotions need as many gates before gate {gate}.")
    spent = budget.total * budget.gamma.before(gate)
    return Ledger(gates=gate - 1, promotions=promotions, spent=spent)


@dataclass(frozen=True, kw_only=True)
class OddsTable:
    """Odds by the candidate's pass rate; `columns` are incumbents, only None where none counts."""

    level: Fraction | None
    columns: tuple[Fraction | None, ...]
    rows: tuple[tuple[Fraction, tuple[Course, ...]], ...]


def odds_table(
    policy: Policy, part: str, incumbents: Sequence[Fraction], gate: int, promotions: int
) -> OddsTable:
    """The exact odds of a part of *policy* at gate number *gate*. Raises `Refused`."""
    rule = policy.part(part).rule
    level = level_at(policy, part, gate, promotions)
    paired = compares(rule)
    steps = _PAIRED_STEPS if paired else _STEPS
    columns: tuple[Fraction | None, ...] = tuple(incumbents) if paired else (None,)
    rates = [Fraction(step, steps) for step in range(steps + 1)]
    most_bits = MOST_BITS // (len(rates) * len(columns))
    rows = (
        (
            p,
            tuple(
                course(rule, independent(p, q or Fraction(0)), level, most_bits=most_bits)
                for q in columns
            ),
        )
        for p in _widest_first(rates)
    )
    return OddsTable(level=level, columns=columns, rows=tuple(sorted(rows)))


def _widest_first(rates: Sequence[Fraction]) -> list[Fraction]:
    """Those in the middle first: where they are too much work, that shows at once."""
    return sorted(rates, key=lambda rate: abs(2 * rate - 1))


def level_at(policy: Policy, part: str, gate: int, promotions: int) -> Fraction | None:
    """The level of gate number *gate*; None for a part that the budget does not touch."""
    if part != "standard" or policy.budget is None:
        return None
    return Fraction(ledger_before(policy.budget, gate, promotions).share(policy.budget).level)


def share_rows(policy: Policy) -> list[dict[str, Any]]:
    """What the budget asks of gates along a scenario's life, if nothing is promoted."""
    improves = improves_in(policy.standard.rule)
    if policy.budget is None or improves is None:
        return []
    rows = []
    for gate in _GATES:
        share = ledger_before(policy.budget, gate, 0).share(policy.budget)
        wins = betting_test(improves, Fraction(share.level)).wins_needed()
        rows.append({"gate": gate, "level": share.level, "spent": share.spent, "wins": wins})
    return rows


def last_gate(policy: Policy) -> int | None:
    """The last gate that could pass if nothing were promoted."""
    improves = improves_in(policy.standard.rule)
    if policy.budget is None or improves is None:
        return None
    best = betting_test(improves, Fraction(1)).best_e_value()
    return Ledger().last_hopeful(policy.budget, best)


def joint_of(texts: str) -> Joint:
    """ "win,loss,both" as a joint distribution; what is left is that both fail."""
    parts = texts.split(",")
    if len(parts) != 3:
        raise SettingsError("A joint is three probabilities: win,loss,both.")
    win, loss, both = map(chance, parts)
    neither = 1 - win - loss - both
    if neither < 0:
        raise SettingsError("win, loss and both sum to at most 1.")
    return {
        (True, False): win,
        (False, True): loss,
        (True, True): both,
        (False, False): neither,
    }


def as_json(policy: Policy, part: str, table: OddsTable) -> dict[str, Any]:
    """The same for programs; exact fractions beside decimals."""
    return {
        "level": None if table.level is None else str(table.level),
        "points": [
            {
                "p": f"{float(p):.2f}",
                "incumbent": None if q is None else f"{float(q):.2f}",
                "passes": f"{float(found.passed[-1]):.9f}",
                "failed": f"{float(found.failed[-1]):.9f}",
                "median_slots": found.median(),
                "exact": str(found.passed[-1]),
            }
            for p, courses in table.rows
            for q, found in zip(table.columns, courses, strict=True)
        ],
        "budget": share_rows(policy) if part == "standard" else [],
        "last_gate": last_gate(policy) if part == "standard" else None,
    }


def show(policy: Policy, part: str, table: OddsTable, gate: int, promotions: int) -> None:
    """Print *table*, made for *gate* after so many *promotions*, and what the budget asks."""
    rule = policy.part(part).rule
    if table.columns == (None,):
        rows = [
            [f"{float(p):.2f}", f"{float(one.passed[-1]):.6f}", "█" * round(_BAR * one.passed[-1])]
            for p, (one,) in table.rows
        ]
        print_table(f"{part}: P(passes)", ["true pass rate", "P(passes)", "plot"], rows)
    else:
        rows = [
            [f"{float(p):.2f}"]
            + [f"{float(one.passed[-1]):.6f} ({one.median()})" for one in courses]
            for p, courses in table.rows
        ]
        heads = [f"incumbent {float(q or 0):.2f}" for q in table.columns]
        print_table(
            f"{part}, gate {gate}: P(passes), and the median of the tasks to a decision",
            ["true pass rate", *heads],
            rows,
        )
    if table.level is not None:
        console.print(
            f"Gate {gate}, after {promotions} promotion{'' if promotions == 1 else 's'}, tests at "
            f"the level {table.level}.",
            markup=False,
            soft_wrap=True,
        )
    if part == "standard":
        _show_bound(policy, rule)
    if line := odds_line(policy):
        console.print(line, markup=False, soft_wrap=True)


def _show_bound(policy: Policy, rule: Rule) -> None:
    bound = null_bound(rule)
    if policy.budget is None:
        say = f"No error budget. A candidate that is not better passes with at most: {bound}."
        console.print(say, markup=False, soft_wrap=True)
        return
    print_table(
        f"Budget: {policy.budget.procedure.replace('_', ' ')} of {policy.budget.alpha}, for "
        "comparison when nothing is promoted",
        ["gate", "level", "wins in a row"],
        [
            [str(row["gate"]), row["level"], str(row["wins"] or "not within its trials")]
            for row in share_rows(policy)
        ],
    )
    console.print(
        f"A candidate that is not better passes a gate with at most {bound}. The last gate that "
        f"could pass if nothing were promoted: {last_gate(policy)}.",
        markup=False,
        soft_wrap=True,
    )
