"""`gate odds` and `gate simulate`: the code that decides real gates, and figures that agree."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from reef_release.cli import gate_measures
from reef_release.cli.app import app
from reef_release.cli.gate_lives import GATES, PROFILES, live, profile_for
from reef_release.cli.gate_odds import chance, joint_of, new_policy
from reef_release.cli.gate_page import _measured_policy
from reef_release.cli.gate_walk import Walk
from reef_release.cli.homework import policy_document
from reef_release.cli.status_page import budget_line
from reef_release.domain.canonical import canonical_json
from reef_release.domain.gating.default import default_rule
from reef_release.domain.gating.machine import decide
from reef_release.domain.gating.rules import (
    AllOf,
    AnyOf,
    ConsecutivePasses,
    Improves,
    NonRegression,
    Protected,
    Rule,
)
from reef_release.domain.gating.slots import Slot
from reef_release.domain.odds import course, independent
from reef_release.domain.policy import parse_policy
from reef_release.errors import Refused, SettingsError
from reef_release.verifiers.registry import is_objective
from reef_release.wire import BudgetView

_ODD_CHANCES = [
    "1e-999999999",
    "1e999999999",
    "1e-5000",
    "٠.٥",
    " 0.5",
    "1_0/20",
    "1/0",
    "0." + "1" * 99,
]
RUN = ConsecutivePasses(k=3, max_trials=36, max_failures=36)
BETTER = Improves(alpha=None, max_deficit=6, max_trials=40)
SAME = NonRegression(margin="0.2", alpha="0.1", max_trials=40)
RULES: list[Any] = [
    RUN,
    BETTER,
    SAME,
    msgspec.convert(default_rule(), Rule),  # type: ignore[call-overload]
    AllOf(rules=(Protected(tasks=("a", "b")), AnyOf(rules=(RUN, SAME)), BETTER)),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rates", [(0.9, 0.3), (0.5, 0.5), (0.3, 0.6), (1.0, 0.0)])
def test_the_fast_way_decides_as_decide_does(rule: Any, rates: tuple[float, float]) -> None:
    level = Fraction(1, 100)
    walk = Walk(rule, level)
    chance = random.Random(5)
    for _ in range(150):
        ours, its = ([chance.random() for _ in range(walk.slot_count)] for _ in range(2))
        kept = [(chance.random() < 0.9, chance.random() < 0.9) for _ in range(2)]
        names = ["a", "b"] if walk.slot_count == 42 else []
        slots = [
            Slot(*verdicts, protected=name) for name, verdicts in zip(names, kept, strict=False)
        ]
        drawn = zip(ours, its, strict=True)
        slots += [Slot(one < rates[0], other < rates[1]) for one, other in drawn]
        slots = slots[: walk.slot_count]
        found = walk(ours, its, rates, lambda index, kept=kept: kept[index])
        first = next(n for n in range(len(slots) + 1) if decide(rule, slots[:n], level))
        assert (found.outcome, found.slots) == (decide(rule, slots, level), first)


def test_what_is_counted_agrees_with_what_is_exact() -> None:
    rule, level = RULES[3], Fraction(1, 960)
    exact = course(rule, independent(Fraction(9, 10), Fraction(3, 10)), level)
    assert float(exact.passed[-1]) == pytest.approx(0.95989, abs=5e-6)
    assert exact.passed[-1] + exact.failed[-1] + exact.inconclusive[-1] == 1
    walk, chance = Walk(rule, level), random.Random(1)
    passed = 0
    for _ in range(2000):
        ours, its = ([chance.random() for _ in range(40)] for _ in range(2))
        passed += walk(ours, its, (0.9, 0.3)).outcome == "passed"
    assert passed / 2000 == pytest.approx(float(exact.passed[-1]), abs=0.02)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_short_life_has_no_false_promotion_and_the_others_have(profile: Any) -> None:
    found = live(new_policy(), profile, lives=3, candidates=40, seed=2)
    false = {name: sum(life.false for life in found[name].lives) for name in GATES}
    assert false["this policy"] == 0
    assert false["three in a row in 36"] > 0
    met = {name: sum(sum(life.met.values()) for life in found[name].lives) for name in GATES}
    assert len(set(met.values())) == 1, "every gate meets the same stream"
    again = live(new_policy(), profile, lives=3, candidates=40, seed=2)
    assert [life.false for life in again["best mean so far"].lives] == [
        life.false for life in found["best mean so far"].lives
    ]


def test_more_trials_change_every_rule_that_has_them() -> None:
    changed: Any = gate_measures.with_trials(RULES[4], 100, 9)
    assert changed.rules[1].rules[0].max_failures == 100
    assert (changed.rules[2].max_trials, changed.rules[2].max_deficit) == (100, 9)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.json"
    document = policy_document("5a" * 32)
    for rule in document["standard"]["rule"]["rules"]:
        rule["max_trials"] = 14
        if "max_failures" in rule:
            rule["max_failures"] = 14
    path.write_text(json.dumps(document))
    return path


def test_odds_are_told_by_incumbent_and_gate(policy: Path) -> None:
    ask = ["gate", "odds", str(policy), "--incumbent", "0.0", "--json"]
    first = json.loads(CliRunner().invoke(app, ask).output)
    assert first["level"] == "1/960"
    by_rate = {point["p"]: float(point["passes"]) for point in first["points"]}
    assert by_rate["1.00"] == 1.0
    assert by_rate["0.00"] == 0.0
    assert [row["wins"] for row in first["budget"][:2]] == [13, 13]
    assert first["budget"][-1]["wins"] is None
    later = json.loads(CliRunner().invoke(app, [*ask, "--gate", "20", "--promotions", "3"]).output)
    assert later["level"] == "1/960"
    last = json.loads(CliRunner().invoke(app, [*ask, "--gate", "1000000000"]).output)
    assert Fraction(last["level"]) < Fraction(1, 10**9), "at once, however late the gate"
    shown = CliRunner().invoke(app, ["gate", "odds", str(policy), "--incumbent", "0.0"]).output
    assert "not within its trials" in shown
    assert "Gate 1, after 0 promotions, tests at the level 1/960." in shown
    shown = CliRunner().invoke(app, [*ask[:-1], "--gate", "40", "--promotions", "3"]).output
    assert "Gate 40, after 3 promotions, tests at the level 1/960." in shown


def test_odds_of_dependent_pairs(policy: Path) -> None:
    ask = ["gate", "odds", str(policy), "--joint", "1,0,0", "--json"]
    found = json.loads(CliRunner().invoke(app, ask).output)
    assert (found["exact"], found["median_slots"]) == ("1", 13)
    wrong = CliRunner().invoke(app, ["gate", "odds", str(policy), "--joint", "0.9,0.2,0.1"])
    assert wrong.exit_code != 0


def test_the_results_page_is_written_by_the_command(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_measures, "_MOST_TRIALS", 15)
    monkeypatch.setattr(gate_measures, "MAX_TRIALS", 120)
    monkeypatch.setattr(gate_measures, "_COUNTED", 50)
    page = tmp_path / "gate.md"
    ask = ["gate", "simulate", str(policy), "--lives", "2", "--candidates", "10"]
    done = CliRunner().invoke(app, [*ask, "--page", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    assert re.search(r"^Measured on \d{4}-\d\d-\d\d by `reef-release gate simulate ", text, re.M)
    assert "## What this does not establish" in text
    rows = json.loads(CliRunner().invoke(app, [*ask, "--json"]).output)["rows"]
    assert {row["gate"] for row in rows} == set(GATES)


def _simulated(policy: Path, tmp_path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    page = tmp_path / "gate.md"
    ask = ["gate", "simulate", str(policy), "--lives", "2", "--candidates", "20"]
    done = CliRunner().invoke(app, [*ask, "--page", str(page)])
    assert done.exit_code == 0, done.output
    rows = json.loads(CliRunner().invoke(app, [*ask, "--json"]).output)["rows"]
    return done.output, page.read_text("utf-8"), rows


def test_nothing_is_unsafe_without_a_protected_task(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_MOST_TRIALS", 15), ("MAX_TRIALS", 120), ("_COUNTED", 50)):
        monkeypatch.setattr(gate_measures, name, value)
    shown, text, rows = _simulated(policy, tmp_path)
    assert "no protected task" in shown
    assert "no candidate here breaks one" in text
    assert "*This policy* is a policy of its own, without protected tasks;" in text
    assert not [kind for row in rows for kind, *_ in row["kinds"] if kind == "unsafe"]
    ours = next(row for row in rows if row["gate"] == "this policy")
    assert ours["false_share"] == ours["lives_with_one"], "no false one: the exact upper bound"
    assert ours["false_share"]["high"] > 0.5
    assert "intervals of 95%, Clopper and Pearson's" in " ".join(shown.split())
    assert "unsafe" in PROFILES[1].chances
    assert profile_for(new_policy(), PROFILES[1]) is PROFILES[1]


def test_only_the_default_is_called_the_default() -> None:
    default = new_policy()
    assert "is the default of a new scenario, with 2 protected tasks;" in _measured_policy(default)
    bare = policy_document("5a" * 32)
    other = {**bare, "max_errors": 9}
    dear = {**bare, "budget": {**bare["budget"], "alpha": "0.1"}}
    policies = [parse_policy(canonical_json(each), is_objective) for each in (bare, other, dear)]
    words = [_measured_policy(each) for each in policies]
    assert "is the default of a new scenario, without protected tasks;" in words[0]
    assert "a policy of its own, whose standard rule and budget are the default's," in words[1]
    assert "is a policy of its own, without protected tasks;" in words[2]


def test_status_says_what_is_spent_and_what_the_next_gate_needs() -> None:
    budget = BudgetView(
        procedure="false_discovery_rate",
        alpha="0.05",
        gates=7,
        promotions=2,
        spent="0.007291",
        left="0.042708",
        next_share="1/960",
        next_level="1/320",
        wins=11,
        last_gate=16777200,
    )
    line = budget_line(budget)
    assert "0.007291 of 0.05 spent by 7 gates, 2 promoted" in line
    assert "tests at 1/320 and needs 11 wins in a row" in line
    over = msgspec.structs.replace(budget, wins=None, last_gate=None)
    assert budget_line(over).endswith("cannot pass any more")


@pytest.mark.parametrize("text", _ODD_CHANCES)
def test_a_chance_is_a_short_decimal_or_fraction(text: str) -> None:
    with pytest.raises(SettingsError, match="no probability"):
        chance(text)
    with pytest.raises(SettingsError, match="no probability"):
        joint_of(f"{text},0,0")


def test_chances_are_read_exactly() -> None:
    assert [chance(text) for text in ("0", "1", "0.3", "1/3")] == [
        0,
        1,
        Fraction(3, 10),
        Fraction(1, 3),
    ]


def test_odds_that_would_take_for_ever_are_refused_before_long() -> None:
    """What is bounded is the length of the numbers, too: states alone are cheap at first."""
    rule = gate_measures.with_trials(msgspec.convert(default_rule(), Rule), 2000)  # type: ignore[call-overload]
    pair = independent(Fraction(1, 2), Fraction(3, 10))
    with pytest.raises(Refused, match="too many states for exact odds"):
        course(rule, pair, Fraction(1, 100), most_bits=1_000_000)


def test_few_lives_and_candidates_are_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    share = gate_measures._share

    def seen(count: int, total: int) -> gate_measures.Interval:
        rows.append(total)
        return share(count, total)

    monkeypatch.setattr(gate_measures, "_share", seen)
    monkeypatch.setattr(gate_measures, "_trials_for", lambda _rule, _level: None)
    found = gate_measures.measure(new_policy(), lives=2, candidates=1, seed=1)
    assert [row.gate for row in found.power] == [1]
    assert max(rows) == 2
