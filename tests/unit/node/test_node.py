"""The node as a whole: whatever goes wrong, the last good release stays in use, and is told why."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest

from reef_release.domain import events as ev
from reef_release.errors import SettingsError, Unavailable
from reef_release.node.engine import HttpEngine
from reef_release.node.node import Node, Standing
from reef_release.node.vault import Vault
from reef_release.signing.keys import Role, create_key
from tests.fakes import FakeService, problem
from tests.unit.node.conftest import Host, codes, serve_adapter
from tests.world import World, safetensors


def stays(node: Node, host: Host, release: str | None, *expected: str) -> Standing:
    """The node does not move from *release*, for the reasons expected."""
    standing = node.step()
    assert codes(standing) == list(expected)
    assert standing.release_id == release == host.engine.serving
    return standing


def moves(node: Node, host: Host, release: str | None) -> None:
    standing = node.step()
    assert standing.reasons == ()
    assert standing.release_id == release == host.engine.serving


def test_a_node_follows_promotions_and_rollbacks_and_reports_what_it_loaded(host: Host) -> None:
    service, world = host.service, host.service.world
    first = world.serving
    node = host.started()
    second = world.release()
    moves(node, host, second)
    assert first is not None
    world.rollback(first)
    world.checkpoint()
    moves(node, host, first)
    assert host.engine.loads == [first, second, first]
    assert [(each.release_id, each.reasons) for each in service.reports] == [
        (first, []),
        (second, []),
        (first, []),
    ]
    assert {each.canary_difference for each in service.reports} == {"0.000000"}
    found = host.explained()
    assert found.may_be_served
    assert (found.release_id, found.reasons, found.warnings) == (first, [], [])
    assert found.as_of is not None
    newest = world.state.checkpoints[-1]
    assert (found.as_of.serial, found.as_of.events) == (newest.position, newest.size)
    world.revoke_release(first)
    world.checkpoint()
    moves(node, host, first)
    later = host.explained()
    # What the node was shown with the release does not grow: so it says as of when it speaks.
    assert later.may_be_served
    assert later.as_of is not None
    assert (later.as_of.serial, later.as_of.events) == (newest.position, newest.size)
    assert later.as_of.newest_serial > newest.position
    assert "A revocation after those events is not in it" in str(later.as_of)


def test_a_node_polls_without_loading_again_and_keeps_the_tag(host: Host) -> None:
    node = host.started()
    before = len(host.service.requests)
    moves(node, host, host.service.world.serving)
    assert len(host.service.requests) == before + 1
    assert host.service.requests[-1].headers["if-none-match"]
    host.service.world.checkpoint()
    moves(node, host, host.service.world.serving)
    assert len(host.engine.loads) == 1, "a fresher document for the same pointer moves nothing"


def test_before_the_first_promotion_a_node_waits_quietly(world: World, tmp_path: Path) -> None:
    host = Host(FakeService(world=world), tmp_path)
    node = host.node()
    node.start()
    stays(node, host, None)
    assert host.service.reports == []
    moves_to = world.release()
    moves(node, host, moves_to)


def test_explaining_leaves_no_trace(host: Host) -> None:
    with pytest.raises(SettingsError, match="No node has run"):
        host.explained()
    assert not host.config.state.exists()
    host.started()
    before = sorted(host.config.state.rglob("*"))
    host.explained()
    assert sorted(host.config.state.rglob("*")) == before


def test_a_node_that_has_loaded_nothing_says_what_to_look_at(world: World, tmp_path: Path) -> None:
    host = Host(FakeService(world=world), tmp_path)
    node = host.node()
    node.start()
    node.step()
    [reason] = host.explained().reasons
    assert (reason.code, "accepted no document" in reason.message) == ("nothing-loaded", True)
    world.release()
    host.engine.away = True
    assert codes(node.step()) == ["unavailable"]
    found = host.explained()
    assert (found.release_id, found.may_be_served) == (None, False)
    assert "the engine does not answer" in found.reasons[0].message


def test_a_revocation_that_the_node_has_seen_is_named_and_stops_nothing(host: Host) -> None:
    world = host.service.world
    first = world.serving or ""
    world.revoke_release(first)
    world.checkpoint()
    node = host.started()
    found = host.explained()
    assert found.may_be_served
    [warning] = found.warnings
    assert (warning.code, "the release was revoked at" in warning.message) == (
        "revoked-since",
        True,
    )
    keys = {**world.keys, Role.GATE: create_key(Role.GATE)}
    text = world.root_text(keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="a stolen key"))
    host.service.roots[2] = text
    world.checkpoint()
    moves(node, host, first)
    found = host.explained()
    assert found.may_be_served
    assert "is not listed by version 2 of the root" in found.warnings[-1].message
    assert "reef-release rollback" in found.warnings[-1].message


# First start and restart


def test_a_restarted_node_serves_the_last_good_release_without_network(host: Host) -> None:
    host.started()
    release = host.service.world.serving
    host.service.away = True
    host.engine.restart()
    node = host.node()
    assert node.start() == Standing(
        release_id=release, serial=host.service.world.state.checkpoints[-1].position
    )
    assert host.engine.serving == release
    stays(node, host, release, "unavailable")
    host.service.away = False
    moves(node, host, release)


def test_a_restarted_node_does_not_load_files_that_changed_on_disk(host: Host) -> None:
    host.started()
    release = host.service.world.serving or ""
    host.engine.restart()
    weights = host.releases / release / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    host.service.away = True
    node = host.node()
    assert codes(node.start()) == ["file-differs"]
    assert host.engine.serving is None
    assert not host.explained().may_be_served
    host.service.away = False
    node.step()
    assert host.engine.serving == release, "it was downloaded again"
    assert host.explained().may_be_served


@pytest.mark.parametrize("name", ["extra.bin", "modeling.py", "sub/dir.bin"])
def test_a_file_beside_the_signed_ones_is_refused(host: Host, name: str) -> None:
    host.started()
    release = host.service.world.serving or ""
    extra = host.releases / release / name
    extra.parent.mkdir(exist_ok=True)
    extra.write_bytes(b"x")
    host.engine.restart()
    host.service.away = True
    assert codes(host.node().start()) == ["extra-file"]
    assert host.engine.serving is None


@pytest.mark.parametrize("kind", ["symlink", "hard link"])
def test_a_link_in_the_place_of_a_file_is_refused(host: Host, tmp_path: Path, kind: str) -> None:
    host.started()
    weights = host.releases / (host.service.world.serving or "") / "model.safetensors"
    twin = tmp_path / "twin"
    twin.write_bytes(weights.read_bytes())
    weights.unlink()
    if kind == "symlink":
        weights.symlink_to(twin)
    else:
        os.link(twin, weights)
    host.engine.restart()
    host.service.away = True
    assert codes(host.node().start()) == ["file-differs"]


def test_a_record_that_was_edited_on_disk_proves_nothing(host: Host) -> None:
    world = host.service.world
    host.started()
    kept = host.config.state / "served.json"
    honest = json.loads(kept.read_text())
    other = world.admitted()
    (host.releases / (world.serving or "")).rename(host.releases / other)
    host.service.away = True
    weak = {"canaries": [{**json.loads(honest["content"]["canaries"])["canaries"][0]}]}
    weak["canaries"][0]["logprobs"] = [-9.0]
    for change in (
        {"release_id": other},
        {"pointer_position": 3},
        {"canaries": json.dumps(weak)},
    ):
        host.engine.restart()
        kept.write_text(json.dumps({**honest, "content": honest["content"] | change}))
        assert codes(host.node().start()) == ["other-record"]
        assert not host.explained().may_be_served
        assert host.engine.serving is None


def test_an_engine_that_restarts_gets_the_last_good_release_again(host: Host) -> None:
    node = host.started()
    release = host.service.world.serving
    host.engine.restart()
    moves(node, host, release)
    assert host.engine.loads == [release, release]


def test_an_engine_that_is_away_is_told_and_waited_for(host: Host) -> None:
    node = host.started()
    release = host.service.world.serving
    host.engine.away = True
    standing = node.step()
    assert codes(standing) == ["unavailable"]
    host.engine.away = False
    moves(node, host, release)


def test_an_engine_that_does_not_answer_is_named_with_its_address() -> None:
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    engine = HttpEngine("http://engine.test:8000", transport=httpx.MockTransport(refuse))
    with pytest.raises(Unavailable) as caught:
        engine.health()
    assert "The engine at http://engine.test:8000 is away" in caught.value.detail
    assert "--engine" in caught.value.next_step


# 28-30: replays, equivocation, expiry


def test_an_old_document_replayed_moves_nothing(host: Host) -> None:
    old = host.service.signed()
    node = host.started()
    release = host.service.world.release()
    moves(node, host, release)
    host.service.document = old
    stays(node, host, release, "serial-lower")
    restarted = host.node()
    restarted.start()
    stays(restarted, host, release, "serial-lower")
    host.service.document = None
    moves(restarted, host, release)


def test_two_documents_under_one_serial_are_kept_as_evidence(host: Host) -> None:
    node = host.started()
    release = host.service.world.serving
    honest = host.service.signed()
    lie = host.service.signed(gate_digest="ab" * 32)
    host.service.document = lie
    stays(node, host, release, "serial-equivocation")
    stays(node, host, release, "serial-equivocation")
    (kept,) = (host.config.state / "evidence").iterdir()
    evidence = json.loads(kept.read_bytes())
    assert evidence["received"].encode() == lie
    assert evidence["accepted"].encode() == honest
    host.service.document = None
    moves(node, host, release)


def test_an_expired_document_stops_the_node_and_it_says_so_once(host: Host) -> None:
    world, node = host.service.world, host.started()
    release = world.serving
    world.tick(61)
    for _ in range(3):
        stays(node, host, release, "expired")
    assert [codes_of(report) for report in host.service.reports] == [[], ["expired"]]
    world.checkpoint()
    moves(node, host, release)
    assert [codes_of(report) for report in host.service.reports] == [[], ["expired"], []]


def codes_of(report: object) -> list[str]:
    return [reason.code for reason in getattr(report, "reasons", [])]


def test_a_service_that_is_gone_is_noticed_by_the_documents_end(host: Host) -> None:
    world, node = host.service.world, host.started()
    release = world.serving
    host.service.away = True
    stays(node, host, release, "unavailable")
    world.tick(61)
    stays(node, host, release, "unavailable", "expired")


def test_an_expired_document_does_not_move_a_node_to_a_newer_release(host: Host) -> None:
    world, node = host.service.world, host.started()
    first = world.serving
    second = world.release()
    world.tick(3600)
    stays(node, host, first, "expired")
    world.checkpoint()
    moves(node, host, second)


# 31: clocks


@pytest.mark.parametrize("seconds", [-86_400, 10 * 365 * 86_400])
def test_a_node_with_a_wrong_clock_goes_on_when_the_clock_is_put_right(
    host: Host, seconds: float
) -> None:
    world, node = host.service.world, host.started()
    first = world.serving
    second = world.release()
    document = host.service.signed()
    host.service.document = document
    world.tick(seconds)
    standing = node.step()
    assert standing.release_id == host.engine.serving
    assert standing.release_id in (first, second)
    world.tick(-seconds)
    moves(node, host, second)


# 32, 38: roots


def test_a_node_follows_a_rotated_root_and_remembers_it(host: Host) -> None:
    world, node = host.service.world, host.started()
    pointer = create_key(Role.POINTER)
    keys = {**world.keys, Role.POINTER: pointer}
    host.service.document = host.service.signed(serial=2**53 - 1)
    stays(node, host, world.serving)
    host.service.document = None
    second = world.root_text(keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=second, reason="a new year"))
    world.keys[Role.POINTER] = pointer
    world.add_key(pointer)
    world.checkpoint()
    stays(node, host, world.serving, "no-trusted-key")
    host.service.roots[2] = second
    moves(node, host, world.serving)
    release = world.release()
    restarted = host.node()
    restarted.start()
    moves(restarted, host, release)
    assert host.explained().may_be_served


def test_a_root_that_the_old_keys_did_not_sign_is_not_followed(host: Host) -> None:
    world, node = host.service.world, host.started()
    thief = World.__new__(World)
    thief.root_keys = [create_key(Role.ROOT) for _ in range(3)]
    host.service.roots[2] = thief.root_text(world.keys, version=2)
    world.checkpoint()
    stays(node, host, world.serving, "root-threshold")
    host.service.roots.clear()
    moves(node, host, world.serving)


# 21, 41: files


def test_a_file_overwritten_after_verification_is_noticed_by_what_the_engine_read(
    host: Host,
) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()

    def overwrite(directory: Path) -> None:
        weights = directory / "model.safetensors"
        if second in str(directory):
            weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")

    host.engine.before_reading = overwrite
    stays(node, host, first, "engine-files")
    assert host.engine.loads == [first, second, first], "it went back at once"
    host.engine.before_reading = lambda _directory: None
    stays(node, host, first, "engine-files")
    assert len(host.engine.loads) == 3, "the same pointer is not tried again and again"
    third = world.release()
    moves(node, host, third)


def test_the_copy_of_a_release_belongs_to_the_node_alone(host: Host) -> None:
    host.started()
    release = host.releases / (host.service.world.serving or "")
    assert release.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in release.iterdir()} == {0o600}


def test_a_directory_that_others_can_reach_into_is_refused(host: Host) -> None:
    host.config.state.mkdir(mode=0o755)
    host.config.state.chmod(0o755)
    with pytest.raises(SettingsError, match="chmod 700"):
        host.node()


def test_a_download_with_other_bytes_leaves_nothing_behind(host: Host) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()
    path = f"/reef/scenarios/homework/releases/{second}/files/model.safetensors"
    size = {file.path: file.size_bytes for file in host.service.files(second)}["model.safetensors"]
    host.service.answers[path] = lambda _request: httpx.Response(200, content=b"x" * size)
    stays(node, host, first, "digest-mismatch")
    assert not any((host.config.state / "staging").rglob("model.safetensors*"))
    assert second not in os.listdir(host.releases)
    del host.service.answers[path]
    moves(node, host, second)


def test_an_endless_download_ends(host: Host) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()
    path = f"/reef/scenarios/homework/releases/{second}/files/model.safetensors"
    sent = []

    def endless(_request: httpx.Request) -> httpx.Response:
        def chunks():  # type: ignore[no-untyped-def]
            while True:
                sent.append(1)
                yield b"x" * 1000

        return httpx.Response(200, content=chunks())

    host.service.answers[path] = endless
    stays(node, host, first, "bad-answer")
    assert len(sent) <= 2
    del host.service.answers[path]
    moves(node, host, second)


def test_a_broken_download_is_continued_and_a_range_of_another_file_is_not_kept(
    host: Host,
) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()
    path = f"/reef/scenarios/homework/releases/{second}/files/model.safetensors"
    entry = {file.path: file for file in host.service.files(second)}["model.safetensors"]
    data = world.blobs.read_sync(entry.sha256, 1 << 20)
    asked = []

    def other_tail(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("range"))
        if len(asked) == 1:
            return httpx.Response(200, content=data[:10])
        span = f"bytes 10-{len(data) - 1}/{len(data)}"
        return httpx.Response(206, content=bytes(len(data) - 10), headers={"content-range": span})

    host.service.answers[path] = other_tail
    stays(node, host, first, "digest-mismatch")
    assert asked == [None, "bytes=10-"]
    del host.service.answers[path]
    moves(node, host, second)


# The engine's word


def test_an_engine_that_reports_other_digests_does_not_serve_the_release(host: Host) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()
    old = {file.path: file.sha256 for file in host.service.files(first or "")}

    def keep_the_first(directory: Path) -> None:
        # It answers that all is well, and goes on with the weights that it had.
        host.engine.reported = old if second in str(directory) else None

    host.engine.before_reading = keep_the_first
    stays(node, host, first, "engine-files")


def test_an_engine_that_silently_keeps_its_old_weights_is_found_out(host: Host) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()

    def keep(directory: Path) -> None:
        # It reads the new files, reports their digests, and computes with the old ones.
        host.engine.keeps = second in str(directory)

    host.engine.before_reading = keep
    stays(node, host, first, "canary")
    host.engine.before_reading = lambda _directory: None
    host.engine.keeps = False
    moves(node, host, world.release())


@pytest.mark.parametrize("error", [0.02, -5.0, float("nan"), float("-inf")])
def test_weights_that_compute_something_else_than_the_gate_saw_are_not_served(
    host: Host, error: float
) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()

    def swap(directory: Path) -> None:
        host.engine.error = error if second in str(directory) else 0.0

    host.engine.before_reading = swap
    stays(node, host, first, "canary")
    report = host.service.reports[-1]
    assert (report.release_id, codes_of(report)) == (second, ["canary"])


def test_a_difference_within_the_tolerance_is_served_and_reported(host: Host) -> None:
    host.engine.error = 0.0095
    host.started()
    assert host.service.reports[-1].canary_difference == "0.009500"


def test_an_engine_that_refuses_the_weights_goes_back(host: Host) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()

    def only_second(directory: Path) -> None:
        host.engine.refuses = second in str(directory)

    host.engine.before_reading = only_second
    stays(node, host, first, "refused")


def test_the_first_release_is_not_called_good_when_its_canaries_fail(host: Host) -> None:
    host.engine.error = 3.0
    node = host.node()
    node.start()
    standing = node.step()
    assert (standing.release_id, codes(standing)) == (None, ["canary"])
    assert not host.explained().may_be_served


# A service that lies or stumbles


def test_a_forged_promotion_moves_nothing_but_what_was_learnt_is_kept(host: Host) -> None:
    world, node = host.service.world, host.started()
    first = world.serving
    gate_id = world.passed()
    candidate = world.gate_of(gate_id).opened.candidate_id
    passed = world.last("gate.passed").envelope.position
    world.checkpoint()
    host.service.document = host.service.signed(
        release_id=candidate,
        pointer_position=passed,
        gate_digest=world.gate_of(gate_id).decision_digest,
    )
    standing = stays(node, host, first, "no-pointer-event")
    assert standing.serial == world.state.checkpoints[-1].position
    assert host.service.reports[-1].release_id == candidate
    host.service.document = None
    world.promote(gate_id)
    world.checkpoint()
    moves(node, host, candidate)


@pytest.mark.parametrize(
    "path", ["/reef/log/proof/consistency", "/reef/events", "/reef/trust/root/2"]
)
def test_a_service_that_fails_in_the_middle_is_tried_again(host: Host, path: str) -> None:
    world, node = host.service.world, host.started()
    first, second = world.serving, world.release()
    host.service.answers[path] = lambda _request: problem(503, "log-unavailable")
    stays(node, host, first, "log-unavailable")
    host.service.answers[path] = lambda _request: httpx.Response(200, content=b"\x00nonsense")
    standing = node.step()
    assert standing.reasons
    assert standing.release_id == first
    del host.service.answers[path]
    moves(node, host, second)


def test_a_report_that_was_not_heard_is_said_again(host: Host) -> None:
    reports = "/reef/nodes/node-1/reports"
    host.service.answers[reports] = lambda _request: problem(503, "unavailable")
    node = host.started()
    assert host.service.reports == []
    del host.service.answers[reports]
    moves(node, host, host.service.world.serving)
    assert len(host.service.reports) == 1
    moves(node, host, host.service.world.serving)
    assert len(host.service.reports) == 1


def test_only_the_release_in_use_and_the_one_before_stay_on_disk(host: Host) -> None:
    world, node = host.service.world, host.started()
    releases = [world.serving, world.release()]
    moves(node, host, releases[-1])
    releases.append(world.release())
    moves(node, host, releases[-1])
    assert sorted(os.listdir(host.releases)) == sorted(map(str, releases[-2:]))
    assert os.listdir(host.config.state / "staging") == []


# The vault


def test_an_adapter_is_fetched_and_loaded_with_its_foundation(host: Host) -> None:
    foundation, adapter = serve_adapter(host.service)
    host.started()
    assert host.engine.serving == adapter
    assert {path.name for path in host.releases.iterdir()} == {adapter, foundation}
    assert host.explained().may_be_served

    # A new process, without network, and with another file under the adapter.
    host.service.away = True
    host.engine.restart()
    assert host.node().start().release_id == adapter
    host.engine.restart()
    (host.releases / foundation / "config.json").write_bytes(b"[]")
    assert codes(host.node().start()) == ["file-differs"]
    assert not host.explained().may_be_served


def test_an_engine_that_ignores_the_foundation_does_not_serve_the_adapter(host: Host) -> None:
    node = host.started()
    host.engine.reads_foundation = False
    foundation, _ = serve_adapter(host.service)
    stays(node, host, foundation, "engine-files")


def test_a_foundation_stays_on_disk_as_long_as_its_adapter_may_be_gone_back_to(host: Host) -> None:
    foundation, adapter = serve_adapter(host.service)
    node = host.started()
    second = host.service.world.release()
    moves(node, host, second)
    assert {path.name for path in host.releases.iterdir()} == {second, adapter, foundation}
    third = host.service.world.release()
    moves(node, host, third)
    assert {path.name for path in host.releases.iterdir()} == {third, second}


def test_two_nodes_do_not_share_a_directory(host: Host) -> None:
    first, second = Vault(host.config.state), Vault(host.config.state)
    first.lock()
    with pytest.raises(SettingsError, match="Another node"):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_a_directory_of_another_scenario_or_anchor_is_refused(host: Host) -> None:
    host.started()
    vault = Vault(host.config.state)
    anchor = host.service.world.anchor
    assert vault.memory(anchor, "homework", "stable").serial > 0
    for other in [(anchor, "other", "stable"), (anchor, "homework", "canary"), ("x", "homework")]:
        with pytest.raises(SettingsError):
            vault.memory(*(*other, "stable")[:3])


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format":9,"content":{}}'])
def test_a_damaged_memory_stops_the_start_instead_of_being_forgotten(
    host: Host, damage: bytes
) -> None:
    host.started()
    (host.config.state / "memory.json").write_bytes(damage)
    with pytest.raises(SettingsError):
        host.node()


def test_a_crash_while_writing_leaves_the_old_memory(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = host.started()
    before = (host.config.state / "memory.json").read_bytes()
    host.service.world.release()

    def crash(_self: Path, _target: Path) -> None:
        raise OSError("the power went")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crash)
        assert codes(node.step()) == ["disk"]
    assert (host.config.state / "memory.json").read_bytes() == before
    restarted = host.node()
    restarted.start()
    moves(restarted, host, host.service.world.serving)


# Files that no candidate may have, behind an admission that never was

EVIL = {"config.json": b"{}", "model.safetensors": safetensors(9)}


@pytest.mark.parametrize(
    "name", ["modeling_evil.py", "weights.bin", "sub/vocab.json", "adapter_model.safetensors"]
)
def test_a_release_with_a_file_that_admission_refuses_is_not_even_downloaded(
    host: Host, name: str
) -> None:
    world = host.service.world
    first = world.serving
    node = host.started()
    candidate = world.submit(EVIL | {name: b"{}"})
    world.admit(candidate)
    world.checkpoint()
    world.promote(world.passed(candidate))
    world.checkpoint()
    assert world.serving == candidate
    standing = stays(node, host, first, "file-name")
    assert name in standing.reasons[0].message
    asked = [path for path in host.service.paths() if f"{candidate}/files/" in path]
    assert asked == []
    assert not (host.releases / candidate).exists()


def test_the_honest_twin_of_such_a_release_is_served(host: Host) -> None:
    world = host.service.world
    node = host.started()
    candidate = world.submit(EVIL | {"README.md": b"a card"})
    world.admit(candidate)
    world.checkpoint()
    world.promote(world.passed(candidate))
    world.checkpoint()
    moves(node, host, candidate)
