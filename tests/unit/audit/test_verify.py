"""Verifying: every way to falsify an export, each named, and where the audit says it happened."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reef_release.audit import VerifyReport, layout, verify
from reef_release.audit.report import Problems
from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import NotFound
from reef_release.signing.keys import Role, create_key
from reef_release.signing.note import sign_checkpoint
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import ORIGIN, World, suite_lines

Found = list[tuple[str, str, int | None]]
SEGMENT = "events/000000000000.jsonl"


def found(report: VerifyReport) -> Found:
    return [(problem.where, problem.code, problem.position) for problem in report.problems]


def check(export: Tampered, *, earlier: tuple[str, ...] = ()) -> Found:
    return found(verify(export.path, export.world.anchor, earlier=earlier))


def test_an_honest_export_is_good(story: Story) -> None:
    report = verify(story.folder, story.anchor, earlier=[story.kept])
    assert report.problems == []
    assert report.good
    assert report.event_count == len(story.world.bodies)
    assert report.checkpoint is not None
    assert report.checkpoint.root == report.root == story.world.state.tree.root().hex()
    assert report.first_recorded_at is not None
    assert report.last_recorded_at is not None
    assert report.first_recorded_at < report.last_recorded_at


def test_a_copy_that_was_only_written_again_is_good(tampered: Tampered) -> None:
    tampered.write(tampered.bodies())
    tampered.set_note(tampered.note())
    tampered.list_blobs()
    assert check(tampered) == []


def test_what_is_no_folder_is_no_export(story: Story, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no export"):
        verify(tmp_path / "nothing", story.anchor)


# Events


def after(export: Tampered, position: int) -> Found:
    """What the published checkpoints that cover *position* say once its bytes are wrong."""
    return [
        (SEGMENT, "root", event["position"])
        for event in export.events()
        if event["type"] == "checkpoint.published" and event["data"]["size"] > position
    ]


def last_good(export: Tampered, position: int) -> int:
    sizes = [
        event["data"]["size"]
        for event in export.events()
        if event["type"] == "checkpoint.published" and event["data"]["size"] <= position
    ]
    return max(sizes, default=0)


def test_an_edited_event_is_found_between_two_checkpoints(tampered: Tampered) -> None:
    position = tampered.position_of("candidate.submitted", 1)
    tampered.edit(position, actor="somebody else")
    assert check(tampered) == [
        *after(tampered, position),
        ("checkpoint", "root", last_good(tampered, position)),
    ]


def test_the_very_last_event_edited_is_found(tampered: Tampered) -> None:
    position = len(tampered.bodies()) - 1
    tampered.edit(position, actor="somebody else")
    assert after(tampered, position) == []
    assert check(tampered) == [("checkpoint", "root", last_good(tampered, position))]


def test_a_deleted_event_leaves_a_hole(tampered: Tampered) -> None:
    position = tampered.position_of("gate.failed")
    events = tampered.events()
    del events[position]
    tampered.write_events(events)
    places = check(tampered)
    assert (SEGMENT, "position", position) in places
    assert ("checkpoint", "events-missing", len(events)) in places


def test_a_deleted_event_whose_hole_was_closed_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.failed")
    events = tampered.events()
    del events[position]
    tampered.renumber(events)
    places = check(tampered)
    assert "position" not in {code for _, code, _ in places}
    # The next published checkpoint covers one event more than now stand before it.
    following = next(
        event["position"] for event in events[position:] if event["type"] == "checkpoint.published"
    )
    assert (SEGMENT, "size", following) in places
    assert ("checkpoint", "events-missing", len(events)) in places


def test_the_last_event_deleted_is_tampering_and_no_torn_write(tampered: Tampered) -> None:
    bodies = tampered.bodies()
    tampered.write(bodies[:-1])
    assert check(tampered) == [
        ("manifest.json", "manifest", None),
        ("checkpoint", "events-missing", len(bodies) - 1),
    ]


def test_two_events_in_each_others_place_are_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.trial", 0)
    bodies = tampered.bodies()
    bodies[position : position + 2] = bodies[position + 1], bodies[position]
    tampered.write(bodies)
    places = check(tampered)
    assert places[:2] == [
        (SEGMENT, "position", position),
        (SEGMENT, "version", position),
    ]
    assert (SEGMENT, "position", position + 1) in places
    assert places[-1][:2] == ("checkpoint", "root")


def test_an_event_that_stands_twice_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.trial", 0)
    bodies = tampered.bodies()
    bodies.insert(position, bodies[position])
    tampered.write(bodies)
    places = check(tampered)
    assert (SEGMENT, "position", position + 1) in places
    assert (SEGMENT, "version", position + 1) in places
    assert ("events", "event-id", position + 1) in places


def test_an_id_used_for_two_events_is_found_also_when_all_was_signed_again(
    tampered: Tampered,
) -> None:
    held = tampered.position_of("scenario.held")
    tampered.edit(held, event_id=tampered.events()[3]["event_id"])
    tampered.resign()
    assert check(tampered) == [("events", "event-id", held)]


def test_events_appended_behind_the_checkpoint_are_vouched_for_by_nobody(
    tampered: Tampered,
) -> None:
    size = len(tampered.bodies())
    event = tampered.events()[tampered.position_of("scenario.held")]
    event.update(position=size, version=99, event_id="01890a5d-ac96-774b-bcce-b302099a8057")
    event.update(recorded_at="2026-01-02T04:00:00.000000Z")
    tampered.write_events([*tampered.events(), event])
    tampered.manifest(size=size)
    assert check(tampered) == [
        (SEGMENT, "version", size),
        ("checkpoint", "events-beyond-checkpoint", size),
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"recorded_at": "2020-01-01T00:00:00.000000Z"}, "time"),
        ({"recorded_at": "yesterday"}, "time"),
        ({"version": 7}, "version"),
        ({"event_id": "42"}, "event-id"),
        ({"event_id": "01890a5d-ac96-474b-bcce-b302099a8057"}, "event-id"),
        ({"type": "scenario.erased"}, "malformed"),
        ({"schema_version": 2}, "malformed"),
        ({"extra": 1}, "malformed"),
        ({"data": {"reason": 5}}, "malformed"),
    ],
)
def test_an_event_in_a_wrong_form_is_found_also_when_all_was_signed_again(
    tampered: Tampered, fields: dict[str, Any], code: str
) -> None:
    position = tampered.position_of("scenario.resumed")
    tampered.edit(position, **fields)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, code, position)]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"actor":', b'"actor": '),
        lambda body: body.replace(b'"actor":', b'"actor":"eve","actor":'),
        lambda body: body.replace(b"service", b"\\u0073ervice"),
        lambda body: body + b" ",
        lambda body: body[1:],
        lambda body: b"",
        lambda body: b"\xff" + body,
    ],
    ids=["space", "duplicate key", "escape", "trailing space", "cut", "empty", "not UTF-8"],
)
def test_an_event_in_other_bytes_than_the_canonical_ones_is_found(
    tampered: Tampered, change: Callable[[bytes], bytes]
) -> None:
    bodies = tampered.bodies()
    position = tampered.position_of("candidate.admitted", 0)
    bodies[position] = change(bodies[position])
    tampered.write(bodies)
    assert (SEGMENT, "malformed", position) in check(tampered)


def test_an_endless_line_is_refused_without_being_read_into_memory(tampered: Tampered) -> None:
    bodies = tampered.bodies()
    position = tampered.position_of("candidate.admitted", 0)
    bodies[position] = b'{"actor":"' + b"a" * 3_000_000 + b'"}'
    tampered.write(bodies)
    places = check(tampered)
    assert places[0] == (SEGMENT, "line", position)
    assert (SEGMENT, "position", position + 1) in places


def test_a_last_line_without_its_newline_was_cut_off(tampered: Tampered) -> None:
    segment = tampered.path / SEGMENT
    data = segment.read_bytes()
    segment.write_bytes(data[:-1])
    position = len(tampered.bodies()) - 1
    assert (SEGMENT, "line", position) in check(tampered)
    segment.write_bytes(data[:-40])
    assert (SEGMENT, "line", position) in check(tampered)


def test_one_flipped_bit_anywhere_in_the_events_is_found(tampered: Tampered) -> None:
    segment = tampered.path / SEGMENT
    good = segment.read_bytes()
    for at in range(0, len(good), 997):
        segment.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert check(tampered), f"the flipped bit at byte {at} was not found"


def test_any_event_edited_is_found(tampered: Tampered) -> None:
    good = tampered.bodies()
    for position, body in enumerate(good):
        event = json.loads(body)
        changed = canonical_json({**event, "actor": event["actor"] + "2"})
        tampered.write([*good[:position], changed, *good[position + 1 :]])
        places = check(tampered)
        assert ("checkpoint", "root") in [place[:2] for place in places], position


def test_a_fault_does_not_hide_another(tampered: Tampered) -> None:
    events = tampered.events()
    first = tampered.position_of("candidate.submitted", 0)
    second = tampered.position_of("scenario.held")
    events[second]["recorded_at"] = "2020-01-01T00:00:00.000000Z"
    del events[first]
    tampered.write_events(events)
    places = check(tampered)
    assert (SEGMENT, "position", first) in places
    assert (SEGMENT, "time", second - 1) in places
    assert "blob-missing" not in {code for _, code, _ in places}


def test_a_log_that_is_all_wrong_gives_a_short_report(tampered: Tampered) -> None:
    tampered.write([b"{}"] * 3000)
    report = verify(tampered.path, tampered.world.anchor)
    assert len(report.problems) == 1000
    assert report.problems_left_out > 2000
    assert not report.good


def test_problems_beyond_the_limit_are_counted() -> None:
    problems = Problems(limit=2)
    for number in range(5):
        problems.add("events", "line", "wrong", number)
    assert ([each.position for each in problems.found], problems.left_out) == ([0, 1], 3)


# Segments and files


def test_segments_must_follow_one_another(
    tampered: Tampered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "SEGMENT_EVENTS", 10)
    bodies = tampered.bodies()
    tampered.write(bodies)
    assert check(tampered) == []
    (tampered.path / "events" / "000000000010.jsonl").unlink()
    places = check(tampered)
    assert ("events/000000000020.jsonl", "segment", None) in places
    assert ("events/000000000020.jsonl", "position", 10) in places
    assert ("events/000000000010.jsonl", "segment", None) in places


def test_a_segment_under_another_name_is_found(tampered: Tampered) -> None:
    (tampered.path / SEGMENT).rename(tampered.path / "events" / "000000000001.jsonl")
    places = check(tampered)
    assert ("events/000000000001.jsonl", "segment", None) in places
    assert ("events/000000000001.jsonl", "unlisted-file", None) in places


@pytest.mark.parametrize(
    "name", ["events/notes.txt", "blobs/readme", "run-me.sh", "trust/root.9.json", "a/b/c"]
)
def test_a_file_that_was_slipped_in_is_found(tampered: Tampered, name: str) -> None:
    path = tampered.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("hello")
    assert (name, "unlisted-file", None) in check(tampered)


def test_a_link_in_the_place_of_a_file_is_not_followed(tampered: Tampered, tmp_path: Path) -> None:
    digest = tampered.world.suite
    outside = tmp_path / "outside"
    tampered.blob(digest).rename(outside)
    tampered.blob(digest).symlink_to(outside)
    assert (f"blobs/{digest}", "unreadable", None) in check(tampered)
    segment = tampered.path / SEGMENT
    segment.rename(tmp_path / "segment")
    segment.symlink_to(tmp_path / "segment")
    assert (SEGMENT, "unreadable", None) in check(tampered)


def test_a_fifo_in_the_place_of_a_file_does_not_hang_the_audit(tampered: Tampered) -> None:
    digest = tampered.world.suite
    tampered.blob(digest).unlink()
    os.mkfifo(tampered.blob(digest))
    assert (f"blobs/{digest}", "unreadable", None) in check(tampered)


# Blobs


def body_of_trial(export: Tampered, nth: int = 0) -> tuple[str, int]:
    position = export.position_of("gate.trial", nth)
    return export.events()[position]["data"]["body"], position


def test_an_altered_blob_is_found(tampered: Tampered) -> None:
    digest, _ = body_of_trial(tampered)
    data = tampered.blob(digest).read_bytes()
    tampered.blob(digest).write_bytes(data.replace(b"answer", b"Answer"))
    assert check(tampered) == [(f"blobs/{digest}", "blob-altered", None)]


def test_a_shortened_blob_is_found(tampered: Tampered) -> None:
    digest, _ = body_of_trial(tampered)
    tampered.blob(digest).write_bytes(tampered.blob(digest).read_bytes()[:-1])
    tampered.list_blobs()
    assert check(tampered) == [(f"blobs/{digest}", "blob-altered", None)]


def test_a_missing_blob_is_found_with_the_event_that_needs_it(tampered: Tampered) -> None:
    digest, position = body_of_trial(tampered)
    tampered.blob(digest).unlink()
    tampered.list_blobs()
    assert check(tampered) == [(f"blobs/{digest}", "blob-missing", position)]


@pytest.mark.parametrize("what", ["suite", "schema", "bundle", "canary", "weights"])
def test_every_kind_of_blob_is_missed(tampered: Tampered, what: str) -> None:
    events = tampered.events()
    digest = {
        "suite": tampered.world.suite,
        "schema": tampered.world.schema,
        "bundle": events[tampered.position_of("release.signed", 0)]["data"]["bundle"],
        "canary": events[tampered.position_of("gate.passed", 0)]["data"]["canary"],
        "weights": events[tampered.position_of("candidate.submitted", 0)]["data"]["files"][1][
            "sha256"
        ],
    }[what]
    tampered.blob(digest).unlink()
    tampered.list_blobs()
    assert (f"blobs/{digest}", "blob-missing") in [place[:2] for place in check(tampered)]


def test_a_swapped_suite_is_found(tampered: Tampered) -> None:
    easy = suite_lines(first=500)
    tampered.blob(tampered.world.suite).write_bytes(easy)
    tampered.list_blobs()
    assert check(tampered) == [(f"blobs/{tampered.world.suite}", "blob-altered", None)]


# Checkpoints


@pytest.mark.parametrize("role", [Role.LOG, None])
def test_a_checkpoint_by_another_key_is_refused(tampered: Tampered, role: Role | None) -> None:
    tree = tampered.world.state.tree
    key = create_key(Role.LOG)
    if role is None:
        # The policy key's own bytes, presented as those of a log key.
        key = type(key)(Role.LOG, tampered.world.keys[Role.POLICY]._private)
    tampered.set_note(sign_checkpoint(ORIGIN, tree.size, tree.root(), key))
    assert check(tampered) == [("checkpoint", "no-trusted-key", None)]


def test_a_checkpoint_by_a_key_that_was_revoked_by_then_is_refused(
    world: World, exported: Callable[[World], Path]
) -> None:
    world.revoke_key(Role.LOG)
    report = verify(exported(world), world.anchor)
    assert found(report) == [("checkpoint", "no-trusted-key", None)]


def test_a_checkpoint_of_another_log_is_refused(tampered: Tampered) -> None:
    tree = tampered.world.state.tree
    note = sign_checkpoint("other.test/log", tree.size, tree.root(), tampered.world.keys[Role.LOG])
    tampered.set_note(note)
    assert check(tampered) == [
        ("checkpoint", "origin", None),
        ("manifest.json", "manifest", None),
    ]


def test_a_smaller_checkpoint_leaves_the_rest_without_a_signature(tampered: Tampered) -> None:
    smaller = tampered.world.checkpoint_note(20)
    tampered.set_note(smaller)
    assert check(tampered) == [("checkpoint", "events-beyond-checkpoint", 20)]


def test_a_checkpoint_of_the_same_size_with_another_root_is_refused(tampered: Tampered) -> None:
    size = len(tampered.bodies())
    fork = sign_checkpoint(ORIGIN, size, b"\x01" * 32, tampered.world.keys[Role.LOG])
    tampered.set_note(fork)
    assert [place[:2] for place in check(tampered)] == [("checkpoint", "root")]


@pytest.mark.parametrize("note", ["", "hello", "reef.test/log\n5\nAAAA\n\n", "\x00"])
def test_what_is_no_note_is_refused(tampered: Tampered, note: str) -> None:
    (tampered.path / "checkpoint").write_text(note)
    assert ("checkpoint", "malformed", None) in check(tampered)


def test_an_export_without_its_checkpoint_is_not_good(tampered: Tampered) -> None:
    (tampered.path / "checkpoint").unlink()
    assert ("checkpoint", "no-checkpoint", None) in check(tampered)


def test_a_published_checkpoint_that_was_edited_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("checkpoint.published", 0)
    tampered.edit_data(position, root="00" * 32)
    assert (SEGMENT, "root", position) in check(tampered)


def test_a_published_checkpoint_by_another_key_is_found_when_all_was_signed_again(
    tampered: Tampered,
) -> None:
    position = tampered.position_of("checkpoint.published", 0)
    stranger = create_key(Role.LOG)
    event = tampered.events()[position]["data"]
    note = sign_checkpoint(ORIGIN, event["size"], bytes.fromhex(event["root"]), stranger)
    tampered.edit_data(position, note=note)
    tree = MerkleTree(map(leaf_hash, tampered.bodies()))
    tampered.set_note(
        sign_checkpoint(ORIGIN, tree.size, tree.root(), tampered.world.keys[Role.LOG])
    )
    places = check(tampered)
    assert places[0] == (SEGMENT, "signature-rejected", position)
    assert places[1] == (SEGMENT, "no-trusted-key", position)


# The checkpoint that the auditor kept


def test_a_log_rewritten_with_its_own_key_is_found_by_an_earlier_checkpoint(
    tampered: Tampered, story: Story
) -> None:
    # The database's superuser holds the service's log key as well, edits one event of the past
    # on which no other signature rests, and chains and signs everything again.
    position = tampered.position_of("candidate.submitted", 1)
    tampered.edit_data(position, metrics={"loss": "0.01"})
    tampered.resign()
    assert check(tampered) == []
    assert check(tampered, earlier=(story.kept,)) == [("earlier checkpoint 1", "rewritten", None)]


def test_a_log_that_was_cut_back_is_found_by_an_earlier_checkpoint(
    tampered: Tampered, story: Story
) -> None:
    tampered.write(tampered.bodies()[:20])
    tampered.set_note(tampered.world.checkpoint_note(20))
    kept = tuple(place for place in check(tampered) if place[1] != "unlisted-file")
    assert kept == ()
    assert ("earlier checkpoint 1", "shrunk", 20) in check(tampered, earlier=(story.kept,))


def test_every_earlier_checkpoint_is_compared(story: Story) -> None:
    notes = [story.world.checkpoint_note(size) for size in (0, 1, 17, len(story.world.bodies))]
    assert verify(story.folder, story.anchor, earlier=notes).good
    fork = sign_checkpoint(ORIGIN, 17, b"\x02" * 32, story.world.keys[Role.LOG])
    report = verify(story.folder, story.anchor, earlier=[notes[1], fork, notes[2]])
    assert found(report) == [("earlier checkpoint 2", "rewritten", None)]


def test_an_earlier_checkpoint_by_a_key_of_no_root_proves_nothing(story: Story) -> None:
    note = sign_checkpoint(ORIGIN, 17, b"\x02" * 32, create_key(Role.LOG))
    report = verify(story.folder, story.anchor, earlier=[note])
    assert found(report) == [("earlier checkpoint 1", "no-trusted-key", None)]


def test_an_earlier_checkpoint_of_another_log_is_named(story: Story) -> None:
    root = story.world.state.tree.root(17)
    note = sign_checkpoint("other.test/log", 17, root, story.world.keys[Role.LOG])
    report = verify(story.folder, story.anchor, earlier=[note])
    assert found(report) == [("earlier checkpoint 1", "origin", None)]


def test_an_earlier_checkpoint_by_a_log_key_that_was_replaced_since_still_counts(
    world: World, exported: Callable[[World], Path]
) -> None:
    world.release()
    kept = world.checkpoint_note()
    fresh = {**world.keys, Role.LOG: create_key(Role.LOG)}
    world.append(
        ev.RootRotated(version=2, metadata=world.root_text(fresh, version=2), reason="a new year")
    )
    world.keys = fresh
    world.add_key(fresh[Role.LOG])
    world.release()
    assert verify(exported(world), world.anchor, earlier=[kept]).problems == []


# Trust


def test_an_anchor_of_another_service_accepts_nothing(story: Story, tmp_path: Path) -> None:
    stranger = World(tmp_path / "stranger", started=False)
    report = verify(story.folder, stranger.anchor)
    assert found(report)[0] == (SEGMENT, "signature-rejected", 0)
    assert ("checkpoint", "no-trusted-key", None) in found(report)
    assert report.checkpoint is None


def test_a_root_slipped_into_the_log_is_found(tampered: Tampered) -> None:
    text = tampered.world.root_text(
        tampered.world.keys, version=1, signers=tampered.world.root_keys[:2]
    )
    tampered.edit_data(0, metadata=text)
    tampered.resign()
    places = check(tampered)
    assert places[0] == (SEGMENT, "signature-rejected", 0)
    assert ("trust/root.1.json", "root-copy", None) in places


def test_a_key_that_no_root_lists_is_found(tampered: Tampered) -> None:
    stranger = create_key(Role.GATE)
    position = tampered.position_of("key.added", 1)
    tampered.edit_data(
        position, key_id=stranger.key_id, public_key=stranger.public.pem, role="gate"
    )
    tampered.resign()
    assert (SEGMENT, "untrusted-key", position) in check(tampered)


@pytest.mark.parametrize("change", ["swapped", "missing"])
def test_the_copy_of_the_root_must_be_the_logs(tampered: Tampered, change: str) -> None:
    path = tampered.path / "trust" / "root.1.json"
    if change == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text() + " ")
    assert ("trust/root.1.json", "root-copy", None) in check(tampered)


# Signatures of policies, decisions and weights


def test_a_decision_by_another_key_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.passed", 0)
    data = tampered.events()[position]["data"]
    envelope = data["attestation"]
    envelope["signatures"][0]["sig"] = tampered.events()[tampered.position_of("gate.failed")][
        "data"
    ]["attestation"]["signatures"][0]["sig"]
    tampered.edit_data(position, attestation=envelope)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "bad-signature", position)]


def test_the_decision_of_another_gate_replayed_is_found(tampered: Tampered) -> None:
    first = tampered.position_of("gate.passed", 0)
    second = tampered.position_of("gate.passed", 1)
    theirs = tampered.events()[first]["data"]["attestation"]
    tampered.edit_data(second, attestation=theirs)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "signature", second)]


def test_a_failed_gate_written_over_as_passed_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("gate.failed")
    data = tampered.events()[position]["data"]
    passed = tampered.events()[tampered.position_of("gate.passed", 0)]["data"]["canary"]
    tampered.edit(position, type="gate.passed", data={**data, "canary": passed})
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "signature", position)]


def test_a_policy_that_was_loosened_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("scenario.created")
    loosened = tampered.world.policy(max_errors=99)
    digest, envelope = tampered.world.signed_policy(loosened, key=create_key(Role.POLICY))
    tampered.edit_data(position, policy=envelope, policy_digest=digest)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "no-trusted-key", position)]


def test_a_policy_event_that_names_another_digest_is_found(tampered: Tampered) -> None:
    position = tampered.position_of("scenario.created")
    tampered.edit_data(position, policy_digest="00" * 32)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "signature", position)]


def test_weights_signed_as_another_release_are_found(tampered: Tampered) -> None:
    first = tampered.position_of("release.signed", 0)
    second = tampered.position_of("release.signed", 1)
    bundle = tampered.events()[first]["data"]["bundle"]
    tampered.edit_data(second, bundle=bundle)
    tampered.resign()
    assert check(tampered) == [(SEGMENT, "other-release", second)]
    key_id = tampered.world.keys[Role.GATE].key_id
    tampered.edit_data(first, key_id=key_id)
    tampered.resign()
    assert (SEGMENT, "signature", first) in check(tampered)


# The manifest


def test_an_export_without_its_manifest_is_read_all_the_same(tampered: Tampered) -> None:
    (tampered.path / "manifest.json").unlink()
    report = verify(tampered.path, tampered.world.anchor)
    assert found(report) == [("manifest.json", "manifest", None)]
    assert report.checkpoint is not None


@pytest.mark.parametrize(
    "fields",
    [{"format": "zip"}, {"format_version": 2}, {"size": "all"}, {"extra": 1}, {"blobs": None}],
)
def test_a_manifest_of_another_format_is_refused(
    tampered: Tampered, fields: dict[str, Any]
) -> None:
    tampered.manifest(**fields)
    assert ("manifest.json", "manifest", None) in check(tampered)


@pytest.mark.parametrize("fields", [{"size": 3}, {"origin": "other.test/log"}])
def test_a_manifest_that_contradicts_the_checkpoint_is_found(
    tampered: Tampered, fields: dict[str, Any]
) -> None:
    tampered.manifest(**fields)
    assert check(tampered) == [("manifest.json", "manifest", None)]


def test_a_manifest_that_lists_other_lengths_is_found(tampered: Tampered) -> None:
    manifest = json.loads((tampered.path / "manifest.json").read_bytes())
    manifest["segments"][0]["size_bytes"] += 1
    manifest["blobs"][0]["size_bytes"] += 1
    digest = manifest["blobs"][0]["sha256"]
    tampered.manifest(segments=manifest["segments"], blobs=manifest["blobs"])
    assert check(tampered) == [
        (f"blobs/{digest}", "blob-size", None),
        (SEGMENT, "segment", None),
    ]


def test_a_manifest_that_hides_a_blob_is_found(tampered: Tampered) -> None:
    manifest = json.loads((tampered.path / "manifest.json").read_bytes())
    hidden = manifest["blobs"].pop()["sha256"]
    tampered.manifest(blobs=manifest["blobs"])
    assert check(tampered) == [(f"blobs/{hidden}", "unlisted-file", None)]
