"""A gate's page: the policy in words, the draw, the odds, each trial, and the signed end."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from reef_release.domain.decision import decision_of
from reef_release.domain.gating.rule_words import rule_lines
from reef_release.domain.gating.rules import Improves
from reef_release.domain.gating.slots import Slot
from reef_release.web.gate_odds import exact_odds, gate_odds, observed_rate
from reef_release.web.gate_page import GatePage, gate_page
from reef_release.web.gate_trials import Text
from reef_release.web.gates_list import gate_lines, undecided_gates
from tests.web_story import WebStory, tell, trial_positions
from tests.world import World


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> WebStory:
    return tell(Path(tmp_path_factory.mktemp("story")))


def page(
    story: WebStory,
    gate_id: str,
    *,
    at: int | None = None,
    first: int = 0,
    texts: Mapping[str, Text] | None = None,
) -> GatePage:
    at = story.world.head if at is None else at
    trials = trial_positions(story.world, gate_id, at)
    gate = story.scenario.gates[gate_id]
    return gate_page(story.state, story.scenario, gate, at, trials, first, texts)


def test_a_passed_gate_says_what_held_and_where_it_led(story: WebStory) -> None:
    found = page(story, story.paired_gate)
    assert found.outcome == "passed"
    assert "everything that the policy asks for held" in found.headline
    assert found.promoted_position is not None
    assert [name for name, _ in found.approvals] == ["alice"]
    assert found.errors == 1
    assert [line.outcome for line in found.policy.rules] == ["passed"] * 4


def test_each_rule_stands_in_words_with_what_it_found(story: WebStory) -> None:
    lines = {line.kind: line for line in page(story, story.paired_gate).policy.rules}
    assert "sum-000" in lines["protected"].words
    assert lines["protected"].found == "1 ran, none broken"
    assert "3 passed tasks in a row, within 24" in lines["consecutive_passes"].words
    assert "1/240, this gate's share of the error budget" in lines["improves"].words
    assert lines["improves"].found.startswith("e-value ")
    assert (
        " of 240; counted while not behind: won 14, lost 1; in all: won 15"
        in lines["improves"].found
    )
    assert ", lost 1" in lines["improves"].found


def test_pairs_that_do_not_count_are_told_beside_those_that_do() -> None:
    rule = Improves(alpha=None, max_deficit=6, max_trials=40)
    lost, won = Slot(False, True), Slot(True, False)
    (line,) = rule_lines(rule, Fraction(1, 960), [lost] * 6)
    assert line.found.endswith("; counted while not behind: won 0, lost 1; in all: won 0, lost 6")
    assert "drawn while the candidate is not behind; of all pairs, it fails once" in line.words
    assert line.outcome == "failed"
    (line,) = rule_lines(rule, Fraction(1, 960), [won, won, lost])
    assert line.found.endswith("; won 2, lost 1")


def test_the_seed_can_be_computed_again_by_the_line_on_the_page(story: WebStory) -> None:
    draw = page(story, story.paired_gate).draw
    assert draw.agrees
    words = draw.command.split()
    assert words[:2] == ["printf", "%s"]
    root, candidate, policy = words[2:5]
    raw = bytes.fromhex(root + candidate + policy)
    assert hashlib.sha256(raw).hexdigest() == draw.seed
    shell = subprocess.run(["sh", "-c", draw.command], capture_output=True, text=True, check=False)
    if "xxd" not in shell.stderr:
        assert shell.stdout.split()[0] == draw.seed


def test_what_the_tests_found_is_what_the_decision_signs(story: WebStory) -> None:
    gate = story.scenario.gates[story.paired_gate]
    (evidence,) = decision_of(story.scenario.name, gate, "passed", None).evidence  # type: ignore[misc]
    (course,) = page(story, story.paired_gate).courses
    assert (course.rule, course.level) == (evidence.rule, evidence.level)
    assert (course.best, course.worst) == (evidence.best, evidence.worst)
    assert evidence.e_value.startswith(course.value)


def test_the_line_of_a_test_goes_through_every_task(story: WebStory) -> None:
    (course,) = page(story, story.paired_gate).courses
    assert len(course.line.split()) == course.slots + 1
    assert len(course.dots) == course.best + course.worst
    last_y = float(course.line.split()[-1].split(",")[1])
    assert course.level_y is not None
    assert last_y <= course.level_y < course.one_y


def test_figures_are_worked_out_once_and_keep_no_word_of_a_reply(story: WebStory) -> None:
    gate = story.scenario.gates[story.paired_gate]
    texts = {trial.body: Text(reply="my cat is ill") for trial in gate.trials if trial.body}
    told = page(story, story.paired_gate, texts=texts)
    assert "my cat is ill" in repr(told.exams)
    withheld = page(story, story.paired_gate)
    assert withheld.policy.rules is told.policy.rules
    assert [*map(id, withheld.courses)] == [*map(id, told.courses)]
    assert "my cat is ill" not in repr(withheld)


def test_an_earlier_position_has_figures_of_its_own_after_the_end_was_shown(
    story: WebStory,
) -> None:
    end = page(story, story.paired_gate)
    positions = trial_positions(story.world, story.paired_gate, story.world.head)
    at = positions[len(positions) // 2]
    earlier = page(story, story.paired_gate, at=at)
    state = story.state_at(at)
    scenario = state.scenarios[story.scenario.name]
    trials = trial_positions(story.world, story.paired_gate, at)
    fresh = gate_page(state, scenario, scenario.gates[story.paired_gate], at, trials)
    assert (earlier.policy.rules, earlier.courses) == (fresh.policy.rules, fresh.courses)
    assert (earlier.policy.rules, earlier.courses) != (end.policy.rules, end.courses)


def test_a_failed_gate_names_the_rule_that_it_failed(story: WebStory) -> None:
    found = page(story, story.failed_gate)
    assert found.outcome == "failed"
    assert "“consecutive passes” is broken: longest run 0 of 2; 3 failed of 3." in found.headline


def test_errors_and_a_pointer_that_moved_are_told_apart(story: WebStory) -> None:
    assert (
        "3 trials could not be carried out; the policy allows 2"
        in page(story, story.errored_gate).headline
    )
    stale = page(story, story.stale_gate)
    assert stale.outcome == "stale"
    assert "The pointer moved at" in stale.headline
    assert stale.decision is not None
    assert stale.decision.digest is None


def test_the_gate_of_a_revoked_candidate_says_that_it_was_revoked(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    gate_id = world.open_gate(candidate := world.admitted())
    position = world.revoke_candidate(candidate)
    world.append(world.decision(gate_id, outcome="errored"))
    shown = gate_page(world.state, world.scenario, world.gate_of(gate_id), world.head, [], 0, None)
    assert f"The candidate was revoked at {position}" in shown.headline


def test_the_decision_is_shown_with_its_signature(story: WebStory) -> None:
    decision = page(story, story.paired_gate).decision
    gate = story.scenario.gates[story.paired_gate]
    assert decision is not None
    assert (decision.digest, decision.key_id) == (gate.decision_digest, gate.decision_key)
    assert len(decision.signature) > 60
    assert decision.canary == gate.canary


def test_an_open_gate_says_what_it_waits_for(story: WebStory) -> None:
    found = page(story, story.open_gate)
    assert found.outcome is None
    assert found.decision is None
    assert "is awaited" in found.headline
    assert found.begun > found.decided_slots


def test_both_sides_of_a_task_stand_beside_each_other_with_all_attempts(story: WebStory) -> None:
    found = page(story, story.paired_gate)
    exam = found.exams[3]
    assert [reply.side for reply in exam.replies] == ["candidate", "incumbent"]
    first, second = exam.replies[0].attempts
    assert (first.error, first.passed) == ("truncated", None)
    assert (second.error, second.passed) == (None, True)
    assert exam.score == "won"
    assert [each.score for each in found.exams[:3]] == ["won", "tied", "lost"]
    assert found.exams[0].is_protected
    assert {check.name for check in second.checks} == {"answer@1", "style@1"}


def test_without_the_right_to_read_there_are_verdicts_and_no_words(story: WebStory) -> None:
    found = page(story, story.paired_gate)
    assert found.texts_withheld
    for exam in found.exams:
        assert exam.question is None
        assert exam.answer is None
        for attempt in (each for reply in exam.replies for each in reply.attempts):
            assert attempt.text is None
            assert all((check.found, check.why) == ("", "") for check in attempt.checks)


def test_an_auditor_reads_the_task_the_reply_and_what_each_check_found(story: WebStory) -> None:
    body = next(
        attempt.body
        for reply in page(story, story.paired_gate).exams[0].replies
        for attempt in reply.attempts
    )
    assert body is not None
    text = Text(reply="The answer is 2.", checks={"answer@1": ("2", "The final answer is right.")})
    exam = page(story, story.paired_gate, texts={body: text}).exams[0]
    assert exam.question == "What is 0 + 2?"
    attempt = exam.replies[0].attempts[0]
    assert attempt.text == text
    assert attempt.checks[0].found == "2"


def test_a_page_has_ten_tasks(story: WebStory) -> None:
    assert next(exam.slot for exam in page(story, story.paired_gate, first=10).exams) == 10
    assert len(page(story, story.paired_gate).exams) == 10
    assert page(story, story.paired_gate, first=900).exams == ()


def test_the_page_of_a_position_is_the_one_that_was_shown_then(story: WebStory) -> None:
    ends = [gate.decision_position or story.world.head for gate in story.scenario.gates.values()]
    starts = [gate.opened_position for gate in story.scenario.gates.values()]
    for at in sorted({*starts, *ends, *(end - 3 for end in ends), story.world.head}):
        state = story.state_at(at)
        scenario = state.scenarios[story.scenario.name]
        for gate_id, gate in scenario.gates.items():
            trials = trial_positions(story.world, gate_id, at)
            then = gate_page(state, scenario, gate, at, trials)
            assert page(story, gate_id, at=at) == then
        wanted = undecided_gates(scenario, at, 50)
        assert wanted == undecided_gates(story.scenario, at, 50)
        trials_of = {each: trial_positions(story.world, each, at) for each in wanted}
        assert gate_lines(scenario, at, 50, trials_of) == gate_lines(
            story.scenario, at, 50, trials_of
        )


def test_the_list_has_the_newest_gate_first_and_pages_by_position(story: WebStory) -> None:
    head = story.world.head
    trials = {story.open_gate: trial_positions(story.world, story.open_gate, head)}
    lines = gate_lines(story.scenario, head, 3, trials)
    assert lines[0].gate_id == story.open_gate
    assert (lines[0].outcome, lines[0].slots) == (None, 2)
    older = gate_lines(story.scenario, head, 50, {}, until=lines[-1].opened_position - 1)
    assert len(lines) + len(older) == len(story.scenario.gates)
    assert lines[1].level == "1/240"


def test_the_odds_say_the_bound_and_the_price(story: WebStory) -> None:
    odds = page(story, story.paired_gate).odds
    assert odds.bound.endswith("with a probability of at most 1/240.")
    assert odds.price is not None
    assert (odds.price.alpha, odds.price.level) == ("0.2", "1/240")
    assert odds.price.wins is not None
    assert odds.compares


def test_a_policy_without_a_test_against_the_incumbent_bounds_nothing(story: WebStory) -> None:
    odds = page(story, story.failed_gate).odds
    assert odds.bound.startswith("No rule bounds")
    assert dict(odds.signed)["0.5"].startswith("0.")


def test_exact_odds_fall_as_the_candidate_gets_worse(story: WebStory) -> None:
    gate = story.scenario.gates[story.paired_gate]
    found = exact_odds(gate.part.rule, gate.level, Fraction(3, 10))
    chances = [float(chance) for _, chance, _ in found.rows]
    assert chances == sorted(chances)
    assert found.incumbent == "0.3"
    assert chances[1] < 1 / 240  # a candidate as good as the incumbent
    assert gate_odds(gate).compares


def test_the_observed_rate_is_rounded_to_a_tenth() -> None:
    assert observed_rate([True, False, False]) == Fraction(3, 10)
    assert observed_rate([]) == Fraction(1, 2)
