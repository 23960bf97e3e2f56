"""Two checkers that share no line: `reef-release audit`, and the file in `tools/`.

They must say the same of honest exports, and of every tampered one that it is bad, and where it
begins to be.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reef_release.audit import export, replay, verify
from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from reef_release.domain.gating.default import default_budget, default_rule
from reef_release.signing import dsse
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, load_key
from reef_release.signing.strict import decode_base64
from reef_release.signing.vsa import EXTENSION
from reef_release.signing.weights import IN_TOTO_TYPE
from tests.unit.audit.check_export import load_checker
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import World, WorldSource, suite_lines

EARLY = Path(__file__).parent / "data" / "early.tar.gz"
LATER = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    return load_checker()


Check = Callable[[Path, str], dict[str, Any]]


@pytest.fixture
def check(
    checker: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """What the second checker prints of an export, against the text of a root."""

    def run(folder: Path, anchor: str) -> dict[str, Any]:
        root = tmp_path / "root.json"
        root.write_text(anchor, "utf-8")
        status = checker.main([str(folder), "--root", str(root), "--json"])
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert status == (1 if result["problems"] else 0)
        return result

    return run


# Honest exports


def budgeted(directory: Path) -> World:
    """A budget, a test against the incumbent, an approval, a failed gate, another root."""
    world = World(directory)
    part = {"verifiers": ["answer@1"], "rule": default_rule()}
    world.create_scenario(
        suite=world.blobs.put_bytes_sync(suite_lines(60)),
        standard=part,
        bootstrap={**part, "rule": part["rule"]["rules"][0]},
        budget=default_budget(),
        approvals=1,
    )
    for marks in ("+++", "-" * 40, "+" * 40):
        gate = world.gate(world.admitted(), marks)
        if world.gate_of(gate).outcome == "passed":
            world.sign(gate)
            approve(world, gate)
            world.promote(gate)
    world.checkpoint()
    keys = {**world.keys, Role.GATE: create_key(Role.GATE)}
    text = world.root_text(keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="a new gate worker"))
    world.keys = keys
    world.add_key(keys[Role.GATE])
    world.run_trials(world.open_gate(world.admitted()), "-+-+-")
    assert world.state.violations == []
    return world


def approve(world: World, gate: str) -> None:
    release = world.gate_of(gate).opened.candidate_id
    data = ev.ReleaseApproved(release_id=release, gate_id=gate, reason="it reads well")
    world.append(data, actor="a person")


def agree_on_good(check: Check, folder: Path, anchor: str) -> dict[str, Any]:
    ours, theirs = replay(folder, anchor), check(folder, anchor)
    assert (ours.problems, theirs["problems"]) == ([], [])
    assert theirs["events"] == ours.event_count
    said = [(each.position, each.type, each.release_id) for each in ours.pointer_events]
    assert [(each[0], each[1], each[4]) for each in theirs["promotions"]] == said
    return theirs


def test_both_say_that_an_honest_story_is_good(check: Check, story: Story) -> None:
    result = agree_on_good(check, story.folder, story.anchor)
    assert len(result["promotions"]) == 3
    assert not [name for name in result["counts"] if name.startswith("unjudged")]


def test_both_say_that_a_log_with_a_budget_and_a_new_root_is_good(
    check: Check, tmp_path: Path
) -> None:
    world = budgeted(tmp_path / "world")
    export(WorldSource(world), tmp_path / "export")
    result = agree_on_good(check, tmp_path / "export", world.anchor)
    assert len(result["promotions"]) == 2


def ruled(directory: Path, rule: dict[str, Any]) -> World:
    """A release, then gates against it that pass and do not, by *rule* and all verifiers."""
    world = World(directory)
    verifiers = ["answer@1"]
    world.create_scenario(standard={"verifiers": verifiers, "rule": rule})
    world.release()
    for marks in ("+" * 40, "-" * 40, "+-" * 20):
        gate = world.gate(world.admitted(), marks)
        if world.gate_of(gate).outcome == "passed":
            world.sign(gate)
            world.promote(gate)
    world.checkpoint()
    assert world.state.violations == []
    return world


RULES: dict[str, dict[str, Any]] = {
    "pass_rate": {"kind": "pass_rate", "bar": "0.6", "alpha": None, "max_trials": 8},
    "pass_rate tested": {"kind": "pass_rate", "bar": "0.3", "alpha": "0.2", "max_trials": 20},
    "non_regression": {
        "kind": "non_regression",
        "margin": "0.2",
        "alpha": "0.2",
        "max_trials": 20,
    },
    "protected": {
        "kind": "all_of",
        "rules": [
            {"kind": "protected", "tasks": ["sum-003", "sum-001"]},
            {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3},
        ],
    },
}


@pytest.mark.parametrize("name", sorted(RULES))
def test_both_say_that_a_log_under_another_rule_is_good(
    check: Check, tmp_path: Path, name: str
) -> None:
    world = ruled(tmp_path / "world", RULES[name])
    export(WorldSource(world), tmp_path / "export")
    result = agree_on_good(check, tmp_path / "export", world.anchor)
    assert len(result["promotions"]) > 1


def test_both_say_that_a_log_of_an_earlier_version_is_good(check: Check, tmp_path: Path) -> None:
    with tarfile.open(EARLY) as packed:
        packed.extractall(tmp_path, filter="data")
    anchor = (tmp_path / "early-root.json").read_text("utf-8")
    result = agree_on_good(check, tmp_path / "early", anchor)
    assert len(result["promotions"]) == 3


def test_both_say_that_a_log_of_trust_alone_is_good(check: Check, tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    export(WorldSource(world), tmp_path / "export")
    assert agree_on_good(check, tmp_path / "export", world.anchor)["promotions"] == []


# Tampered exports; each function falsifies one thing and says where


Change = Callable[[dict[str, Any]], dict[str, Any]]
Tamper = Callable[[Tampered, Story], int | None]
TAMPERINGS: dict[str, Tamper] = {}


def tampering(function: Tamper) -> Tamper:
    TAMPERINGS[function.__name__.replace("_", " ")] = function
    return function


def checkpoint_before(export: Tampered, position: int) -> int:
    """The size of the last published checkpoint before *position*: so far all is vouched for."""
    found = [event for event in export.events() if event["type"] == "checkpoint.published"]
    return max(e["data"]["size"] for e in found if e["position"] < position)


@tampering
def an_event_edited(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.held")
    export.edit(position, actor="somebody else")
    return next(
        event["position"]
        for event in export.events()[position:]
        if event["type"] == "checkpoint.published"
    )


@tampering
def the_last_event_edited(export: Tampered, story: Story) -> int:
    position = len(export.bodies()) - 1
    export.edit(position, actor="somebody else")
    return checkpoint_before(export, position)


@tampering
def an_event_deleted(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.failed")
    bodies = export.bodies()
    del bodies[position]
    export.write(bodies)
    return position


@tampering
def two_events_in_each_others_place(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.trial", 0)
    bodies = export.bodies()
    bodies[position : position + 2] = bodies[position + 1], bodies[position]
    export.write(bodies)
    return position


@tampering
def an_event_twice(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.trial", 0)
    bodies = export.bodies()
    bodies.insert(position, bodies[position])
    export.write(bodies)
    return position + 1


@tampering
def cut_off_inside_the_last_line(export: Tampered, story: Story) -> int:
    (segment,) = (export.path / "events").iterdir()
    segment.write_bytes(segment.read_bytes()[:-20])
    return len(export.bodies()) - 1


@tampering
def an_event_slipped_in_and_all_signed_again(export: Tampered, story: Story) -> int:
    events, position = export.events(), export.position_of("scenario.held")
    again = json.loads(json.dumps(events[position]))
    events.insert(position, {**again, "event_id": LATER, "type": "release.promoted"})
    events[position]["data"] = {**events[export.position_of("release.promoted")]["data"]}
    events[position]["stream"] = "release/stable"
    export.renumber(events)
    export.resign()
    return position


@tampering
def an_event_id_used_twice(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.held")
    export.edit(position, event_id=export.events()[3]["event_id"])
    export.resign()
    return position


@tampering
def bytes_that_are_not_canonical(export: Tampered, story: Story) -> int:
    bodies, position = export.bodies(), export.position_of("candidate.admitted", 0)
    bodies[position] = bodies[position].replace(b'"actor":', b'"actor": ')
    export.write(bodies)
    return position


@tampering
def time_that_runs_backwards(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.held")
    export.edit(position, recorded_at="2020-01-01T00:00:00.000000Z")
    export.resign()
    return position


@tampering
def a_version_left_out(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.resumed")
    export.edit(position, version=7)
    export.resign()
    return position


@tampering
def a_checkpoint_of_another_key(export: Tampered, story: Story) -> None:
    export.set_note(story.world.checkpoint_note(key=create_key(Role.LOG)))


@tampering
def a_published_checkpoint_of_another_key(export: Tampered, story: Story) -> int:
    position = export.position_of("checkpoint.published")
    size = export.events()[position]["data"]["size"]
    note = story.world.checkpoint_note(size, create_key(Role.LOG))
    export.edit_data(position, note=note)
    export.resign_head()
    return position


@tampering
def another_seed(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.opened")
    export.edit_data(position, seed="ab" * 32)
    export.resign()
    return position


@tampering
def a_task_that_was_not_drawn(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.trial", 0)
    task = export.events()[position]["data"]["task_id"]
    export.edit_data(position, task_id="sum-001" if task != "sum-001" else "sum-002")
    export.resign()
    return position


@tampering
def a_verdict_flipped(export: Tampered, story: Story) -> int:
    position = first_verdict(export, passed=True)
    export.edit_data(position, verdict={"passed": False, "checks": {"answer@1": False}})
    export.resign()
    return position


@tampering
def a_failed_trial_called_passed(export: Tampered, story: Story) -> int:
    position = first_verdict(export, passed=False)
    export.edit_data(position, verdict={"passed": True, "checks": {"answer@1": True}})
    export.resign()
    return position


@tampering
def checks_that_say_otherwise_than_their_verdict(export: Tampered, story: Story) -> int:
    position = first_verdict(export, passed=False)
    export.edit_data(position, verdict={"passed": True, "checks": {"answer@1": False}})
    export.resign()
    return position


def first_verdict(export: Tampered, *, passed: bool) -> int:
    return next(
        int(event["position"])
        for event in export.events()
        if event["type"] == "gate.trial"
        and event["data"]["verdict"] is not None
        and event["data"]["verdict"]["passed"] is passed
    )


@tampering
def another_reply(export: Tampered, story: Story) -> int:
    position = first_verdict(export, passed=False)
    digest = export.events()[position]["data"]["body"]
    right = story.world.gate_of(export.events()[position]["data"]["gate_id"])
    task = next(
        each for each in right.tasks if each.id == export.events()[position]["data"]["task_id"]
    )

    def told_right(data: bytes) -> bytes:
        body = json.loads(data[32:])
        return data[:32] + json.dumps({**body, "reply": f"The answer is {task.answer}."}).encode()

    export.edit_data(position, body=export.rewrite_blob(digest, told_right))
    export.resign()
    return position


@tampering
def a_reply_of_another_trial(export: Tampered, story: Story) -> int:
    one, other = export.position_of("gate.trial", 0), export.position_of("gate.trial", 1)
    export.edit_data(other, body=export.events()[one]["data"]["body"])
    export.resign()
    return other


@tampering
def the_bytes_of_a_reply_changed(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.trial", 0)
    blob = export.blob(export.events()[position]["data"]["body"])
    blob.write_bytes(blob.read_bytes().replace(b"answer", b"Answer"))
    return position


@tampering
def a_reply_missing(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.trial", 0)
    export.blob(export.events()[position]["data"]["body"]).unlink()
    export.list_blobs()
    return position


@tampering
def a_canary_missing(export: Tampered, story: Story) -> int:
    return without_blob(export, export.position_of("gate.passed"), "canary")


@tampering
def a_schema_missing(export: Tampered, story: Story) -> int:
    return without_blob(export, export.position_of("scenario.created"), "schema")


def without_blob(export: Tampered, position: int, name: str) -> int:
    export.blob(export.events()[position]["data"][name]).unlink()
    export.list_blobs()
    return position


@tampering
def another_policy(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.created")
    digest, envelope = story.world.signed_policy(
        story.world.policy(max_attempts=9), create_key(Role.POLICY)
    )
    export.edit_data(position, policy=envelope, policy_digest=digest)
    export.resign()
    return position


@tampering
def the_digest_of_another_policy(export: Tampered, story: Story) -> int:
    position = export.position_of("scenario.created")
    export.edit_data(position, policy_digest="cd" * 32)
    export.resign()
    return position


@tampering
def a_decision_by_another_key(export: Tampered, story: Story) -> int:
    return decided_again(export, story, lambda said: said, create_key(Role.GATE))


@tampering
def a_decision_over_other_trials(export: Tampered, story: Story) -> int:
    return decided_again(export, story, lambda said: {**said, "trials_digest": "ab" * 32})


@tampering
def a_decision_over_fewer_trials(export: Tampered, story: Story) -> int:
    return decided_again(export, story, lambda said: {**said, "trial_count": 1})


def decided_again(
    export: Tampered, story: Story, change: Change, key: SigningKey | None = None
) -> int:
    """Sign the last pass again, with something else in it."""
    position = export.position_of("gate.passed")
    resigned(export, position, change, key or story.world.keys[Role.GATE])
    return position


def resigned(export: Tampered, position: int, change: Change, key: SigningKey) -> None:
    payload = decode_base64(
        export.events()[position]["data"]["attestation"]["payload"], "decision", "payload"
    )
    value = json.loads(payload)
    value["predicate"][EXTENSION] = change(value["predicate"][EXTENSION])
    envelope = dsse.sign(canonical_json(value), IN_TOTO_TYPE, key)
    export.edit_data(position, attestation=envelope)
    export.resign()


@tampering
def a_failed_gate_called_passed(export: Tampered, story: Story) -> int:
    position = export.position_of("gate.failed")
    export.edit(position, type="gate.passed")
    export.resign()
    return position


@tampering
def a_promotion_without_a_gate(export: Tampered, story: Story) -> int:
    position = export.position_of("release.promoted")
    failed = export.events()[export.position_of("gate.failed")]["data"]
    export.edit_data(position, release_id=failed["candidate_id"], gate_id=failed["gate_id"])
    export.resign()
    return position


@tampering
def a_promotion_on_another_base(export: Tampered, story: Story) -> int:
    position = export.position_of("release.promoted")
    export.edit_data(position, base=None)
    export.resign()
    return position


@tampering
def a_gate_used_twice(export: Tampered, story: Story) -> int:
    events = export.events()
    promotion = json.loads(json.dumps(events[export.position_of("release.promoted")]))
    promotion.update(event_id=LATER, recorded_at=events[-1]["recorded_at"])
    export.renumber([*events, promotion])
    export.resign()
    return len(events)


@tampering
def a_bundle_of_another_release(export: Tampered, story: Story) -> int:
    first, last = export.position_of("release.signed", 0), export.position_of("release.signed")
    export.edit_data(last, bundle=export.events()[first]["data"]["bundle"])
    export.resign()
    return last


@tampering
def a_rollback_to_what_was_never_promoted(export: Tampered, story: Story) -> int:
    position = export.position_of("release.rolled_back")
    failed = export.events()[export.position_of("gate.failed")]["data"]["candidate_id"]
    export.edit_data(position, release_id=failed)
    export.resign()
    return position


@tampering
def a_key_that_no_root_lists(export: Tampered, story: Story) -> int:
    position = export.position_of("key.added")
    key = create_key(Role.POINTER)
    export.edit_data(position, key_id=key.key_id, public_key=key.public.pem)
    export.resign()
    return position


@tampering
def another_first_root(export: Tampered, story: Story) -> int:
    keys = story.world.keys
    position = export.position_of("root.rotated", 0)
    export.edit_data(position, metadata=story.world.root_text(keys, version=1))
    export.resign()
    return position


@tampering
def other_weights(export: Tampered, story: Story) -> None:
    files = export.events()[export.position_of("candidate.submitted", 0)]["data"]["files"]
    blob = export.blob(next(each["sha256"] for each in files if "safetensors" in each["path"]))
    blob.write_bytes(bytes(len(blob.read_bytes())))


@tampering
def a_manifest_that_is_no_json(export: Tampered, story: Story) -> None:
    (export.path / "manifest.json").write_bytes(b"\xff{")


@tampering
def an_export_that_says_it_goes_on_from_another(export: Tampered, story: Story) -> None:
    export.manifest(since={"origin": "reef", "size": 4, "root": "ab" * 32})


@pytest.mark.parametrize("name", sorted(TAMPERINGS))
def test_both_say_that_a_tampered_export_is_bad_and_where(
    check: Check, story: Story, tampered: Tampered, name: str
) -> None:
    expected = TAMPERINGS[name](tampered, story)
    ours = replay(tampered.path, story.anchor).problems
    theirs = check(tampered.path, story.anchor)["problems"]
    assert ours
    assert theirs
    if expected is None:
        assert {each.position for each in ours} == {None}
    else:
        assert theirs[0]["position"] == expected
        assert expected in {each.position for each in ours}


def test_both_say_that_events_beyond_the_checkpoint_are_bad(
    check: Check, story: Story, tampered: Tampered
) -> None:
    tampered.set_note(story.world.checkpoint_note(len(tampered.bodies()) - 1))
    assert replay(tampered.path, story.anchor).problems
    (problem,) = check(tampered.path, story.anchor)["problems"]
    assert problem["place"] == "checkpoint"


RULED_BY_METRIC = {
    "kind": "metric",
    "metric": "mean_reply_tokens",
    "of": "candidate",
    "at_least": None,
    "at_most": "500",
    "min_trials": 2,
    "max_trials": 4,
}


def test_a_rule_that_it_cannot_judge_is_a_problem_in_words(check: Check, tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    passes = {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3}
    rule = {"kind": "all_of", "rules": [passes, RULED_BY_METRIC]}
    world.create_scenario(standard={"verifiers": ["answer@1"], "rule": rule})
    world.release()
    opened = world.head
    world.gate(world.admitted(), "+" * 4)
    export(WorldSource(world), tmp_path / "export")
    assert replay(tmp_path / "export", world.anchor).problems == []
    first = check(tmp_path / "export", world.anchor)["problems"][0]
    assert first["position"] >= opened
    assert first["place"] == "gate.opened"
    words = 'kind of rule that is judged here: expected "consecutive_passes", found "metric"'
    assert first["problem"] == words


# Crimes of somebody who also appends to the log, each in a log of its own


Crime = Callable[[World], int]
CRIMES: dict[str, Crime] = {}


def crime(function: Crime) -> Crime:
    CRIMES[function.__name__.replace("_", " ")] = function
    return function


@crime
def a_gate_gone_stale(world: World) -> int:
    first, candidate = world.release(), world.admitted()
    gate = world.gate(candidate)
    world.sign(gate)
    other = world.scenario.releases[candidate]
    assert other.promoted_position is None
    world.promote(gate)
    world.rollback(first)
    return world.append_raw(world.promotion(gate))


@crime
def a_release_promoted_after_it_was_revoked(world: World) -> int:
    gate = world.passed()
    world.revoke_release(world.gate_of(gate).opened.candidate_id)
    return world.append_raw(world.promotion(gate))


@crime
def a_candidate_promoted_after_it_was_revoked(world: World) -> int:
    gate = world.passed()
    world.revoke_candidate(world.gate_of(gate).opened.candidate_id)
    return world.append_raw(world.promotion(gate))


@crime
def a_release_promoted_after_its_gate_key_was_revoked(world: World) -> int:
    gate = world.passed()
    world.revoke_key(Role.GATE)
    return world.append_raw(world.promotion(gate))


@crime
def a_decision_by_a_revoked_key(world: World) -> int:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    world.revoke_key(Role.GATE)
    return world.append_raw(world.decision(gate))


@crime
def a_promotion_while_the_scenario_is_held(world: World) -> int:
    gate = world.passed()
    world.hold()
    return world.append_raw(world.promotion(gate))


@crime
def a_promotion_without_the_approval_asked_for(world: World) -> int:
    world.change_policy(approvals=1)
    return world.append_raw(world.promotion(world.passed()))


@crime
def a_promotion_of_weights_that_nobody_signed(world: World) -> int:
    return world.append_raw(world.promotion(world.gate(world.admitted())))


@crime
def a_second_gate_after_a_failed_one(world: World) -> int:
    world.release()
    candidate = world.admitted()
    world.gate(candidate, "---")
    return world.append_raw(world.opening(candidate))


@crime
def a_gate_by_a_later_checkpoint(world: World) -> int:
    candidate = world.admitted()
    position = world.checkpoint()
    return world.append_raw(world.opening(candidate, checkpoint_position=position))


@crime
def a_gate_against_another_incumbent(world: World) -> int:
    world.release()
    return world.append_raw(world.opening(world.admitted(), base=None, phase="bootstrap"))


@crime
def a_root_left_out(world: World) -> int:
    text = world.root_text(world.keys, version=3)
    return world.append_raw(ev.RootRotated(version=3, metadata=text, reason="in a hurry"))


@crime
def a_root_signed_by_too_few(world: World) -> int:
    text = world.root_text(world.keys, version=2, signers=world.root_keys[:1])
    return world.append_raw(ev.RootRotated(version=2, metadata=text, reason="in a hurry"))


@crime
def a_policy_without_an_objective_verifier(world: World) -> int:
    part = {**world.policy()["standard"], "verifiers": ["style@1"]}
    return world.append_raw(world.policy_data(standard=part))


@crime
def an_older_policy_put_back(world: World) -> int:
    return world.append_raw(world.policy_data(version=1))


@crime
def a_trial_left_out(world: World) -> int:
    gate = world.open_gate(world.admitted())
    return world.append_raw(world.trial(gate, "+", slot=1))


@crime
def a_cut_reply_with_a_verdict(world: World) -> int:
    gate = world.open_gate(world.admitted())
    good = ev.VerdictRecord(passed=True, checks={"answer@1": True})
    return world.append_raw(world.trial(gate, "t", error=None, verdict=good))


@crime
def a_whole_reply_called_cut_short(world: World) -> int:
    gate = world.open_gate(world.admitted())
    return world.append_raw(world.trial(gate, "-", error="truncated", verdict=None))


@crime
def a_key_added_twice(world: World) -> int:
    key = world.keys[Role.GATE]
    data = ev.KeyAdded(
        key_id=key.key_id, role=Role.GATE.value, public_key=key.public.pem, root_version=1
    )
    return world.append_raw(data)


@crime
def a_rollback_to_what_is_served(world: World) -> int:
    return world.append_raw(world.rollback_data(world.release()))


@crime
def a_gate_called_stale_that_is_not(world: World) -> int:
    world.release()
    gate = world.open_gate(world.admitted())
    pointer = world.scenario.serving("stable")
    assert pointer is not None
    return world.append_raw(ev.GateStale(gate_id=gate, pointer_position=pointer.position))


@crime
def a_release_revoked_that_nobody_signed(world: World) -> int:
    data = ev.ReleaseRevoked(release_id=world.admitted(), reason="just so")
    return world.append_raw(data)


@crime
def a_bundle_signed_twice(world: World) -> int:
    return world.append_raw(world.signature(world.passed()))


def test_both_say_that_a_candidate_and_its_release_may_be_revoked(
    check: Check, world: World, tmp_path: Path
) -> None:
    release = world.release()
    world.revoke_release(release)
    world.revoke_candidate(release)
    export(WorldSource(world), tmp_path / "export")
    agree_on_good(check, tmp_path / "export", world.anchor)


@pytest.mark.parametrize("name", sorted(CRIMES))
def test_both_say_that_a_crime_in_the_log_is_one_and_where(
    check: Check, world: World, tmp_path: Path, name: str
) -> None:
    expected = CRIMES[name](world)
    export(WorldSource(world), tmp_path / "export")
    assert verify_codes(tmp_path / "export", world) <= {expected}
    ours = replay(tmp_path / "export", world.anchor).problems
    theirs = check(tmp_path / "export", world.anchor)["problems"]
    assert {each.position for each in ours} == {expected}
    assert {each["position"] for each in theirs} == {expected}


def verify_codes(folder: Path, world: World) -> set[int | None]:
    return {each.position for each in verify(folder, world.anchor).problems}


@pytest.mark.parametrize("lie", ["answer@1", "style@1", "work_steps@1"])
def test_both_say_that_another_verdict_of_one_verifier_is_a_crime(
    check: Check, world: World, tmp_path: Path, lie: str
) -> None:
    verifiers = ["answer@1", "work_steps@1", "style@1"]
    rule = {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3}
    world.change_policy(bootstrap={"verifiers": verifiers, "rule": rule})
    gate = world.open_gate(world.admitted())
    task = world.gate_of(gate).tasks[0]
    reply = f"First 2 * 3 = 6. Then 6 + 1 = 7. So the answer is {task.answer}."
    body = world.put_trial(world.trial_body(gate, "+", reply=reply))
    honest = ev.VerdictRecord(passed=True, checks=dict.fromkeys(verifiers, True))
    lied = ev.VerdictRecord(passed=False, checks={**honest.checks, lie: False})
    world.append_raw(world.trial(gate, "+", body=body, verdict=lied))
    world.append(world.trial(gate, "+", body=body, verdict=honest))
    export(WorldSource(world), tmp_path / "export")
    expected = world.head - 1
    ours = replay(tmp_path / "export", world.anchor).problems
    theirs = check(tmp_path / "export", world.anchor)
    assert {each.position for each in ours} == {expected}
    assert {each["position"] for each in theirs["problems"]} == {expected}
    assert not [name for name in theirs["counts"] if name.startswith("unjudged")]


def test_both_say_that_another_share_of_the_budget_is_a_crime(check: Check, tmp_path: Path) -> None:
    world = budgeted(tmp_path / "world")
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    copy = Tampered(folder, tmp_path / "tampered", world)
    position = copy.position_of("gate.passed")
    generous = {"level": "1/2"}
    resigned(
        copy,
        position,
        lambda said: {**said, "budget": {**said["budget"], **generous}},
        load_key(tmp_path / "world" / "keys" / "gate" / PRIVATE_NAME, Role.GATE),
    )
    ours = replay(copy.path, world.anchor).problems
    assert check(copy.path, world.anchor)["problems"][0]["position"] == position
    assert position in {each.position for each in ours}
