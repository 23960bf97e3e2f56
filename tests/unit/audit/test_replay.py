"""Replaying: promotions re-derived from raw replies, and what only the rules themselves find."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.api.views import gate_view
from reef_release.audit import ReplayReport, replay, verify
from reef_release.domain import events as ev
from reef_release.signing.keys import Role, create_key
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import CHANNEL, World

GATE = "urn:reef-release:gate:v1"
SEGMENT = "events/000000000000.jsonl"
Found = list[tuple[str, int | None]]


def found(report: ReplayReport) -> Found:
    return [(problem.code, problem.position) for problem in report.problems]


def check(export: Tampered) -> Found:
    return found(replay(export.path, export.world.anchor))


def test_an_honest_log_replays_to_what_the_service_said(story: Story) -> None:
    report = replay(story.folder, story.anchor, earlier=[story.kept])
    assert report.good
    assert report.replayed_count == report.event_count == len(story.world.bodies)
    assert report.violation_count == 0
    assert [gate.outcome for gate in report.gates] == ["passed", "failed", "passed", "errored"]
    assert [gate.error_count for gate in report.gates] == [0, 1, 0, 3]
    assert [gate.passed_count for gate in report.gates] == [2, 0, 2, 0]
    assert [(each.type, each.release_id) for each in report.pointer_events] == [
        ("release.promoted", story.r1),
        ("release.promoted", story.r2),
        ("release.rolled_back", story.r1),
    ]
    (serving,) = report.serving
    assert (serving.scenario, serving.channel) == ("homework", CHANNEL)
    assert serving.release_id == story.world.serving == story.r1
    assert report.weights is None


def test_tasks_and_trials_are_counted_as_the_service_and_the_decisions_count_them(
    story: Story,
) -> None:
    gates = {gate.gate_id: gate for gate in replay(story.folder, story.anchor).gates}
    signed = 0
    for gate in story.world.scenario.gates.values():
        told, view = gates[gate.opened.gate_id], gate_view(gate)
        counted = (told.task_count, told.passed_count, told.error_count)
        assert counted == (view.task_count, view.passed_count, view.error_count)
        sides = 1 if gate.opened.base is None else 2
        assert told.trial_count >= sides * told.task_count + told.error_count
        payload = json.loads(base64.b64decode(gate.attestation["payload"]))
        assert payload["predicate"][GATE]["trial_count"] == told.trial_count
        signed += 1
    assert signed == len(gates) == 4


def test_a_replay_needs_neither_the_world_nor_its_keys(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Tampered(story.folder, tmp_path / "elsewhere", story.world)
    monkeypatch.setattr(story.world.blobs, "root", tmp_path / "nowhere")
    assert replay(elsewhere.path, story.anchor).good


def test_a_replay_is_the_same_every_time(story: Story) -> None:
    assert replay(story.folder, story.anchor) == replay(story.folder, story.anchor)


def test_a_replay_finds_all_that_verifying_finds(tampered: Tampered) -> None:
    position = tampered.position_of("candidate.submitted", 1)
    tampered.edit(position, actor="somebody else")
    verified = verify(tampered.path, tampered.world.anchor)
    replayed = replay(tampered.path, tampered.world.anchor)
    wanted = {(each.code, each.position) for each in verified.problems}
    assert wanted
    assert wanted <= set(found(replayed))


# Events that break a rule, in a log whose form and signatures are perfect


def test_a_forged_promotion_is_no_promotion(tampered: Tampered, story: Story) -> None:
    # Somebody with the service's password and the log's key appends the one event.
    events = tampered.events()
    promotion = json.loads(json.dumps(events[tampered.position_of("release.promoted")]))
    promotion.update(
        position=len(events),
        version=promotion["version"] + 2,
        event_id="01890a5d-ac96-774b-bcce-b302099a8057",
        recorded_at=events[-1]["recorded_at"],
    )
    tampered.write_events([*events, promotion])
    tampered.resign()
    assert verify(tampered.path, story.anchor).good
    report = replay(tampered.path, story.anchor)
    assert found(report) == [("stale-gate", len(events))]
    assert report.violation_count == 1
    assert [each.release_id for each in report.serving] == [story.r1]


def test_a_violation_that_the_service_let_in_is_listed_with_every_reason(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.gate(world.admitted())
    world.hold()
    position = world.append_raw(world.promotion(gate))
    folder = exported(world)
    assert verify(folder, world.anchor).good
    report = replay(folder, world.anchor)
    assert found(report) == [("not-signed", position), ("held", position)]
    assert report.problems[0].where == SEGMENT
    assert "release.promoted breaks a rule" in report.problems[0].message
    assert report.serving == []


def test_a_forged_chain_of_trials_and_decision_moves_nothing(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    decided = world.append_raw(world.decision(gate, key=create_key(Role.GATE)))
    signed = world.append_raw(world.signature(gate))
    promoted = world.append_raw(world.promotion(gate))
    report = replay(exported(world), world.anchor)
    assert found(report) == [
        ("signature-rejected", decided),
        ("no-trusted-key", decided),
        ("no-passed-gate", signed),
        ("no-passed-gate", promoted),
    ]
    assert report.serving == []
    assert [each.outcome for each in report.gates] == [None]


def test_a_stale_pass_used_after_the_pointer_came_back_is_found(
    world: World, exported: Callable[[World], Path]
) -> None:
    r1 = world.release()
    unused = world.passed()
    world.release()
    world.rollback(r1)
    position = world.append_raw(world.promotion(unused))
    report = replay(exported(world), world.anchor)
    assert found(report) == [("stale-gate", position)]
    assert [each.release_id for each in report.serving] == [r1]


def test_an_edited_reply_is_found_although_its_verdict_fits(tampered: Tampered) -> None:
    # The gate key never signed this record: the decision it signed names another one.
    position = tampered.position_of("gate.trial", 0)
    data = tampered.events()[position]["data"]
    digest = tampered.rewrite_blob(data["body"], lambda body: body.replace(b"The", b"Thy"))
    tampered.edit_data(position, body=digest)
    tampered.resign()
    assert verify(tampered.path, tampered.world.anchor).good
    decided = tampered.position_of("gate.passed", 0)
    places = check(tampered)
    assert ("decision", decided) in places
    assert ("no-passed-gate", tampered.position_of("release.promoted", 0)) in places


def test_a_wrong_reply_made_right_changes_what_the_gate_says(tampered: Tampered) -> None:
    # The failed gate's first wrong reply becomes right, verdict included.
    failed = tampered.position_of("gate.failed")
    trials = [
        event["position"]
        for event in tampered.events()
        if event["type"] == "gate.trial"
        and event["position"] < failed
        and event["data"]["verdict"] == {"passed": False, "checks": {"answer@1": False}}
        and event["data"]["side"] == "candidate"
    ]
    data = tampered.events()[trials[0]]["data"]
    task = data["task_id"]
    right = str(int(task.removeprefix("sum-")) + 2).encode()
    wrong = str(int(task.removeprefix("sum-")) + 3).encode()

    def mend(body: bytes) -> bytes:
        return body.replace(b"The answer is " + wrong, b"The answer is " + right)

    digest = tampered.rewrite_blob(data["body"], mend)
    passed = {"passed": True, "checks": {"answer@1": True}}
    tampered.edit_data(trials[0], body=digest, verdict=passed)
    tampered.resign()
    assert ("outcome", failed) in check(tampered)


def test_a_verdict_that_the_verifier_does_not_confirm_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.trial", 0)
    tampered.edit_data(position, verdict={"passed": False, "checks": {"answer@1": False}})
    tampered.resign()
    places = check(tampered)
    assert places[0] == ("verdict", position)


def test_the_decision_of_another_gate_replayed_is_found(tampered: Tampered) -> None:
    first = tampered.position_of("gate.passed", 0)
    second = tampered.position_of("gate.passed", 1)
    theirs = tampered.events()[first]["data"]["attestation"]
    tampered.edit_data(second, attestation=theirs)
    tampered.resign()
    places = check(tampered)
    assert places[0] == ("decision", second)
    assert ("no-passed-gate", tampered.position_of("release.promoted")) in places


def test_an_easy_suite_under_a_new_digest_is_found(tampered: Tampered, story: Story) -> None:
    easy = tampered.put_blob(tampered.blob(story.world.suite).read_bytes().replace(b"+ 2", b"+ 0"))
    opened = tampered.position_of("gate.opened", 0)
    tampered.edit_data(opened, suite=easy)
    tampered.resign()
    assert check(tampered)[0] == ("other-policy", opened)


def test_another_draw_is_found(tampered: Tampered) -> None:
    opened = tampered.position_of("gate.opened", 0)
    tampered.edit_data(opened, seed="11" * 32)
    tampered.resign()
    assert check(tampered)[0] == ("seed", opened)


def test_a_task_that_was_not_drawn_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.trial", 0)
    tampered.edit_data(position, task_id="sum-000x")
    tampered.resign()
    assert check(tampered)[0] == ("task-not-drawn", position)


def test_an_earlier_event_edited_changes_every_later_draw(tampered: Tampered) -> None:
    # With everything signed again the past cannot be edited without a trace in the draws: the
    # seed of a gate follows from the root over all events before it.
    tampered.edit(tampered.position_of("key.added", 0), actor="somebody else")
    tampered.resign()
    places = check(tampered)
    assert places[0] == ("seed", tampered.position_of("gate.opened", 0))


def test_a_failed_attempt_cannot_be_left_out_of_the_history(tampered: Tampered) -> None:
    events = tampered.events()
    failed = next(event for event in events if event["type"] == "gate.failed")
    kept = [event for event in events if event["stream"] != failed["stream"]]
    assert len(kept) < len(events)
    # The forger is careful: whatever names a position or a size names the new one.
    moved = {event["position"]: position for position, event in enumerate(kept)}
    for event in kept:
        if event["type"] == "checkpoint.published":
            event["data"]["size"] = moved[event["position"]]
        elif event["type"] == "gate.opened":
            event["data"]["checkpoint_position"] = moved[event["data"]["checkpoint_position"]]
    tampered.renumber(kept)
    tampered.resign()
    assert verify(tampered.path, tampered.world.anchor).good
    # The next candidate's draw followed from a root over the events that are gone now.
    assert check(tampered)[0] == ("seed", tampered.position_of("gate.opened", 1))


def test_a_hold_that_was_taken_out_is_found_by_the_resumption(tampered: Tampered) -> None:
    events = tampered.events()
    del events[tampered.position_of("scenario.held")]
    tampered.renumber(events)
    events = tampered.events()
    events[tampered.position_of("checkpoint.published")]["data"]["size"] -= 1
    tampered.write_events(events)
    tampered.resign()
    assert ("not-held", tampered.position_of("scenario.resumed")) in check(tampered)


def test_a_blob_altered_under_its_name_is_found_where_it_is_used(tampered: Tampered) -> None:
    position = tampered.position_of("gate.trial", 0)
    digest = tampered.events()[position]["data"]["body"]
    data = tampered.blob(digest).read_bytes()
    tampered.blob(digest).write_bytes(data.replace(b"The", b"Thy"))
    places = check(tampered)
    assert places[0] == ("replay-stopped", position)
    assert places[-1] == ("blob-altered", None)


def test_a_blob_that_is_missing_is_found_where_it_is_used(tampered: Tampered) -> None:
    position = tampered.position_of("release.signed", 0)
    digest = tampered.events()[position]["data"]["bundle"]
    tampered.blob(digest).unlink()
    tampered.list_blobs()
    assert check(tampered)[:2] == [("blob-missing", position), ("blob-missing", position)]


# A log whose form is broken


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 9},
        {"recorded_at": "2020-01-01T00:00:00.000000Z"},
        {"type": "scenario.erased"},
        {"schema_version": 2},
    ],
)
def test_a_replay_stops_before_an_event_in_a_wrong_form_and_says_so(
    tampered: Tampered, fields: dict[str, Any]
) -> None:
    position = tampered.position_of("release.rolled_back")
    tampered.edit(position, **fields)
    tampered.resign()
    report = replay(tampered.path, tampered.world.anchor)
    assert ("replay-stopped", position) in found(report)
    assert report.replayed_count == position
    assert report.event_count == len(tampered.bodies())
    assert [each.type for each in report.pointer_events] == ["release.promoted"] * 2
    assert report.checkpoint is not None


def test_data_of_no_form_has_no_effect_and_stops_no_replay(tampered: Tampered) -> None:
    """The database takes any object as data, and the service goes on behind it as well."""
    position = tampered.position_of("scenario.resumed")
    tampered.edit_data(position, reason=5)
    tampered.resign()
    report = replay(tampered.path, tampered.world.anchor)
    assert found(report) == [("malformed", position), ("malformed-data", position)]
    assert report.replayed_count == report.event_count
    assert report.violation_count == 1
    assert [each.held for each in report.serving] == ["the answers look odd"]


def test_a_model_file_that_an_event_without_effect_names_first_is_missed_all_the_same(
    world: World, exported: Callable[[World], Path]
) -> None:
    candidate = world.admitted()
    forged = world.append_raw(world.opening(candidate, gate_id="e" * 32, seed="0" * 64))
    world.gate(candidate)
    whole = exported(world)
    folder = Tampered(whole, whole.with_name("tampered"), world)
    file = world.scenario.candidates[candidate].submitted.files[0]
    folder.blob(file.sha256).unlink()
    folder.list_blobs()
    report = replay(folder.path, world.anchor)
    assert ("blob-missing", forged) in found(report)
    (missing,) = [each.message for each in report.unchecked if each.code == "missing-blobs"]
    assert missing == "Missing are 1 blobs that events name."


def test_a_blob_that_only_events_without_effect_name_is_told_apart(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(world.admitted())
    forged = world.append_raw(world.trial(gate, body="0" * 64))
    report = replay(exported(world), world.anchor)
    assert found(report) == [("blob-missing", forged), ("blob-missing", forged)]
    told = {each.code: each.message for each in report.unchecked}
    assert "1 of them only by events without effect" in told["missing-blobs"]
    assert f"the first at position {forged}" in told["may-have-effect"]


def test_a_submission_of_other_files_than_those_of_its_id_asks_for_no_file(
    world: World, exported: Callable[[World], Path]
) -> None:
    candidate = world.submit()
    files = [
        msgspec.structs.replace(file, sha256="0" * 64)
        for file in world.scenario.candidates[candidate].submitted.files
    ]
    forged = msgspec.structs.replace(world.scenario.candidates[candidate].submitted, files=files)
    position = world.append_raw(forged)
    world.admit(candidate)
    world.checkpoint()
    world.gate(candidate)
    report = replay(exported(world), world.anchor)
    assert {each.position for each in report.problems} == {position}
    assert "missing-blobs" not in {each.code for each in report.unchecked}


def test_after_a_hole_the_rest_is_still_verified(tampered: Tampered) -> None:
    events = tampered.events()
    hole = tampered.position_of("gate.failed")
    last = events[-1]
    last["recorded_at"] = "2020-01-01T00:00:00.000000Z"
    del events[hole]
    tampered.write_events(events)
    places = check(tampered)
    assert ("position", hole) in places
    assert ("replay-stopped", hole) in places
    assert ("time", len(events) - 1) in places
    assert places[-1][0] in ("events-missing", "manifest")


def test_an_event_id_in_another_form_does_not_stop_the_replay(tampered: Tampered) -> None:
    position = tampered.position_of("scenario.resumed")
    tampered.edit(position, event_id="forty-two")
    tampered.resign()
    report = replay(tampered.path, tampered.world.anchor)
    assert found(report) == [("event-id", position)]
    assert report.replayed_count == report.event_count


def test_an_anchor_of_another_service_replays_to_nothing(story: Story, tmp_path: Path) -> None:
    stranger = World(tmp_path / "stranger", started=False)
    report = replay(story.folder, stranger.anchor)
    assert report.serving == []
    assert report.pointer_events == []
    assert report.checkpoint is None
    assert found(report)[0] == ("signature-rejected", 0)


def test_an_export_of_an_empty_log_is_good(
    tmp_path: Path, exported: Callable[[World], Path]
) -> None:
    world = World(tmp_path / "empty", started=False)
    world.append(ev.RootRotated(version=1, metadata=world.anchor, reason="a new year"))
    world.add_key(world.keys[Role.LOG])
    report = replay(exported(world), world.anchor)
    assert report.good
    assert (report.gates, report.serving) == ([], [])


def test_several_scenarios_and_channels_are_reported_apart(
    world: World, exported: Callable[[World], Path]
) -> None:
    world.release()
    world.create_scenario("essays")
    origin = world.release()
    report = replay(exported(world), world.anchor)
    assert [(each.scenario, each.release_id == origin) for each in report.serving] == [
        ("essays", True),
        ("homework", False),
    ]
    positions = [each.position for each in report.pointer_events]
    assert positions == sorted(positions)
