"""Who has never read the code is told by `status` and `candidate` what is served, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from reef_release.cli import candidate_lists, candidates, status
from reef_release.cli.account import print_lines, signal_lines
from reef_release.cli.app import app
from reef_release.signing.keys import Role
from tests.desk import Desk
from tests.web_story import WebStory, tell
from tests.world import World


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> WebStory:
    return tell(tmp_path_factory.mktemp("story"))


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Desk], None]:
    """Lets the verbs ask a desk."""

    def use(desk: Desk) -> None:
        for module in (candidate_lists, candidates, status):
            monkeypatch.setattr(module, "connect", lambda _url, _token: desk)

    return use


def run(*words: str, exits: int = 0) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == exits, done.output
    return done.stdout


def test_status_says_what_is_served_since_when_and_why_it_was_allowed(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    at(Desk(story.world))
    said = run("status")
    pointer = story.scenario.pointers["stable"][-1]
    assert f"Channel stable serves {story.paired}\n" in said
    assert f"since {pointer.recorded_at} (position {pointer.position}), promoted by" in said
    assert f"allowed because its standard gate {story.paired_gate} passed" in said
    assert "passed: 3 passed tasks in a row" in said
    assert "longest run" in said
    assert "e-value" in said
    for what, role in (
        ("the policy", Role.POLICY),
        ("the gate's decision", Role.GATE),
        ("the weights", Role.RELEASE),
    ):
        assert f"{what}: signed by key {story.world.keys[role].key_id[:12]}" in said
    assert "approved by alice at position" in said
    assert "read twenty answers" in said


def test_status_says_which_policy_is_in_force_since_when_and_why(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    at(Desk(story.world))
    said = run("status")
    found = story.scenario.policy
    line = next(each for each in said.splitlines() if each.startswith("Policy version"))
    assert line.startswith(f"Policy version {found.policy.version} in force since 2026")
    assert f"(position {found.position}) by service: a better rule" in line
    workers = "worker" if found.policy.gate_quorum == 1 else "workers"
    approvals = "approval" if found.policy.approvals == 1 else "approvals"
    assert line.endswith(
        f"; asks {found.policy.gate_quorum} gate {workers}, {found.policy.approvals} {approvals}"
    )


def test_status_says_what_was_refused_and_why_and_what_operators_did(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    at(Desk(story.world))
    said = run("status")
    assert "Refused lately" in said
    stale = story.world.gate_of(story.stale_gate).opened.candidate_id
    assert f"candidate {stale[:12]} stale: The pointer moved at" in said
    assert "worse at fractions" in said
    assert "signal" in said
    refusal = story.scenario.candidates[story.refused].reasons[0]
    shown = run("candidate", "show", story.refused[:12], "--scenario", "homework")
    assert str(refusal) in shown
    assert "Next: Mend every reason" in shown


def test_status_as_json_tells_the_same_and_marks_what_is_revoked(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    at(Desk(story.world))
    (view,) = json.loads(run("status", "--json"))
    (channel,) = view["account"]["channels"]
    assert channel["grounds"]["gate"]["gate_id"] == story.paired_gate
    assert {rule["outcome"] for rule in channel["grounds"]["gate"]["rules"]} == {"passed"}
    assert channel["grounds"]["approvals"][0]["actor"] == "alice"
    assert view["channels"]["stable"]["release_id"] == story.paired
    assert [each["release_id"] for each in view["revoked_releases"]] == [story.origin]
    assert view["revoked_keys"] == []


def test_revoked_keys_and_what_rests_on_them_are_marked_in_the_json(
    tmp_path: Path, at: Callable[[Desk], None]
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    release = world.release()
    world.revoke_key(Role.GATE)
    at(Desk(world))
    (view,) = json.loads(run("status", "--json"))
    assert [key["role"] for key in view["revoked_keys"]] == ["gate"]
    assert [each["code"] for each in view["channels"]["stable"]["barred"]] == ["key-revoked"]
    assert [each["release_id"] for each in view["revoked_releases"]] == [release]
    account = view["account"]
    assert account["keyless_roles"] == ["gate"]
    assert account["levers"][0]["reason"] == "its laptop was stolen"
    said = run("status")
    assert "REVOKED" in said
    assert "its laptop was stolen" in said


def test_a_signal_of_which_nothing_can_be_trained_is_not_called_healthy(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    view = Desk(world).signal("homework", 0)
    lost = replace(view, total=replace(view.total, calls=9, judged=4, refused={"stale": 4}))
    told = list(signal_lines(lost))
    assert told[0].startswith("Signal: no alarm; 9 calls")
    assert told[1] == "  4 of 4 judged turns gave no sample and train nothing: stale 4"
    few = replace(lost, total=replace(lost.total, refused={"stale": 0}))
    assert len(list(signal_lines(few))) == 1


def test_a_hold_is_told_with_who_and_why(tmp_path: Path, at: Callable[[Desk], None]) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.hold("the answers look odd")
    at(Desk(world))
    said = run("status")
    assert "HELD since" in said
    assert "by operator: the answers look odd. Nothing is promoted until" in said


@pytest.mark.parametrize("given", [8, 64])
def test_one_candidate_is_shown_by_the_beginning_of_its_id(
    story: WebStory, at: Callable[[Desk], None], given: int
) -> None:
    at(Desk(story.world))
    said = run("candidate", "show", story.paired[:given], "--scenario", "homework")
    promoted = story.scenario.releases[story.paired].promoted_position
    assert promoted is not None
    assert promoted < story.world.head
    assert said.startswith(
        f"Candidate {story.paired} is promoted at position {promoted} (as of position "
        f"{story.world.head}).\n"
    )
    assert "Channel stable serves it now." in said
    parts = ("Next: ", "What became of it:", "Its standard gate", "Manifest: ")
    assert sorted(parts, key=said.index) == list(parts)
    assert "setting learning_rate: 1e-05" in said
    assert "metric kl: 0.01" in said
    for file in story.scenario.candidates[story.paired].submitted.files:
        assert f"{file.path}: {file.size_bytes:,} bytes, sha256 {file.sha256}" in said
    assert "Next: Nothing: it is what its channel serves." in said
    assert "submitted" in said
    assert "approved: read twenty answers" in said


def test_every_candidate_has_a_next_step_and_is_in_the_list(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    at(Desk(story.world))
    listed = run("candidate", "list", "--scenario", "homework")
    for candidate in story.scenario.candidates:
        assert candidate[:12] in listed
        account = json.loads(
            run("candidate", "show", candidate, "--scenario", "homework", "--json")
        )
        assert account["next_step"]
        assert account["headline"]
        assert account["steps"][0]["type"] == "candidate.submitted"
    assert f"{story.paired[:12]} promoted, served now, submitted" in listed
    assert f"{story.origin[:12]} promoted, served before, submitted" in listed
    failed = run("candidate", "list", "--scenario", "homework", "--status", "failed")
    gate = story.world.gate_of(story.failed_gate)
    assert failed.startswith(f"{gate.opened.candidate_id[:12]} failed, submitted at position")
    assert run("candidate", "list", "-s", "homework", "--status", "no").startswith("No candidate")


def test_no_gate_is_awaited_when_no_gate_key_counts(
    tmp_path: Path, at: Callable[[Desk], None]
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    candidate = world.admitted()
    world.run_trials(world.open_gate(candidate), "+")
    at(Desk(world))
    assert "awaited" in run("candidate", "show", candidate, "--scenario", "homework")
    world.revoke_key(Role.GATE)
    said = run("candidate", "show", candidate, "--scenario", "homework")
    assert "awaited" not in said
    assert "No gate key counts" in said
    assert "Next: The next trust root must list a new gate key" in said


def test_who_trains_is_told_which_rule_broke_and_no_figure(
    story: WebStory, at: Callable[[Desk], None]
) -> None:
    candidate = story.world.gate_of(story.failed_gate).opened.candidate_id
    words = ("candidate", "show", candidate, "--scenario", "homework", "--json")
    at(Desk(story.world))
    (full,) = json.loads(run(*words))["gates"]
    at(Desk(story.world, trains=True))
    (told,) = json.loads(run(*words))["gates"]
    assert "failed" in [rule["outcome"] for rule in told["rules"]]
    assert [rule["outcome"] for rule in told["rules"]] == [
        rule["outcome"] for rule in full["rules"]
    ]
    assert {rule["found"] for rule in told["rules"]} == {""}
    assert any(rule["found"] for rule in full["rules"])
    found = next(rule["found"] for rule in full["rules"] if rule["found"])
    assert found not in told["headline"]


def test_what_steers_a_terminal_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["a\x1b[31mred \u202eturned"])
    assert capsys.readouterr().out == "a<U+001B>[31mred <U+202E>turned\n"


def test_waiting_ends_with_the_rules_and_the_status_says_that_it_was_not_promoted(
    story: WebStory, at: Callable[[Desk], None], tmp_path: Path
) -> None:
    candidate = story.world.gate_of(story.failed_gate).opened.candidate_id

    class Submitting(Desk):
        def scenario(self, _name: str) -> Any:
            return self.scenarios()[0]

        def upload_directory(self, _directory: Path) -> list[Any]:
            return []

        def submit(self, name: str, _manifest: Any) -> Any:
            return next(each for each in self.candidates(name) if each.candidate_id == candidate)

    at(Submitting(story.world))
    said = run("candidate", "submit", str(tmp_path), "-s", "homework", "--wait", exits=1)
    decided = story.world.gate_of(story.failed_gate).decision_position
    assert f"Candidate {candidate} is failed at position {decided} (as of position " in said
    assert f"Channel stable serves {story.paired} now, not this one." in said
    assert "\n  failed: " in said
    words = ("candidate", "submit", str(tmp_path), "-s", "homework", "--wait", "--json")
    view = json.loads(run(*words, exits=1))
    assert (view["status"], view["account"]["status"]) == ("failed", "failed")
