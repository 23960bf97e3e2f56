"""Witnesses, floors and evidence: what a node asks for, begins from, and leaves to others."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from reef_release.errors import Refused, SettingsError, SignatureRejected
from reef_release.node.evidence import read_evidence
from reef_release.node.explain import explain
from reef_release.node.node import Node
from reef_release.node.opening import floor_of
from reef_release.node.vault import Evidence, Vault
from reef_release.signing.keys import Role, create_key
from reef_release.signing.witness import WitnessSigner
from tests.unit.node.conftest import Host, codes


def node_with(host: Host, directory: str = "node", **changes: object) -> Node:
    config = dataclasses.replace(host.config, state=host.directory / directory, **changes)
    clock = host.service.world
    return Node(config, host.service.client(), host.engine, Vault(config.state), lambda: clock.now)


@pytest.fixture
def witnesses(tmp_path: Path) -> list[WitnessSigner]:
    made = [WitnessSigner.create(f"w{n}", tmp_path / f"w{n}.pem") for n in (1, 2, 3)]
    lines = ["# who watches the log", *(each.vkey for each in made), ""]
    (tmp_path / "witnesses").write_text("\n".join(lines))
    return made


def cosigned(host: Host, signers: list[WitnessSigner]) -> bytes:
    note = host.service.honest().checkpoint
    lines = "".join(each.cosign(note, 1_700_000_000) for each in signers)
    return host.service.signed(checkpoint=note + lines)


def test_a_node_moves_with_a_quorum_of_witnesses_and_not_without(
    host: Host, witnesses: list[WitnessSigner]
) -> None:
    release = host.service.world.serving
    node = node_with(host, witnesses=host.directory / "witnesses")
    stranger = WitnessSigner.create("w4", host.directory / "w4.pem")
    for signers in ([], witnesses[:1], [witnesses[0], stranger]):
        host.service.document = cosigned(host, signers)
        assert codes(node.step()) == ["quorum"]
    host.service.document = cosigned(host, witnesses[1:])
    standing = node.step()
    assert (standing.release_id, standing.reasons) == (release, ())
    found = explain(
        dataclasses.replace(host.config, witnesses=host.directory / "witnesses"),
        lambda: host.service.world.now,
    )
    assert found.may_be_served
    assert "2 of 3 cosigned, 2 needed: w2, w3" in str(found.findings)


def test_a_cosignature_of_other_text_is_refused_though_the_others_suffice(
    host: Host, witnesses: list[WitnessSigner]
) -> None:
    node = node_with(host, witnesses=host.directory / "witnesses", witness_quorum=1)
    note = host.service.honest().checkpoint
    lying = witnesses[0].cosign(note.replace("\n", "x\n", 1), 5)
    host.service.document = host.service.signed(
        checkpoint=note + witnesses[1].cosign(note, 5) + lying
    )
    assert codes(node.step()) == ["bad-signature"]


@pytest.mark.parametrize(
    ("text", "quorum"),
    [("{0}\n{0}\n", None), ("{0}\n", 2), ("{0} http://w1 more\n", None), ("", 1), ("x\n", None)],
)
def test_witnesses_that_cannot_be_meant_are_a_wrong_setting(
    host: Host, witnesses: list[WitnessSigner], text: str, quorum: int | None
) -> None:
    path = host.directory / "some"
    path.write_text(text.format(witnesses[0].vkey))
    with pytest.raises(SettingsError):
        node_with(host, witnesses=path, witness_quorum=quorum)


def test_a_new_node_goes_back_behind_no_floor(host: Host) -> None:
    world = host.service.world
    old = host.service.signed()
    world.release()
    node = host.started()
    path = host.directory / "floor.json"
    path.write_bytes(msgspec.json.encode(floor_of(node.memory)))

    host.service.document = old
    unwarned = node_with(host, "unwarned")
    # A clock that is behind believes the old document: nothing here can tell.
    assert unwarned.step().reasons == ()
    warned = node_with(host, "warned", floor=path)
    assert codes(warned.step()) == ["serial-lower"]
    host.service.document = None
    assert warned.step().release_id == world.serving


def test_a_floor_counts_at_the_first_start_only(host: Host) -> None:
    node = host.started()
    path = host.directory / "floor.json"
    high = msgspec.structs.replace(floor_of(node.memory), serial=10**6)
    path.write_bytes(msgspec.json.encode(high))
    again = node_with(host, floor=path)
    assert again.step().reasons == ()
    assert codes(node_with(host, "new", floor=path).step()) == ["serial-lower"]


def test_a_floor_of_another_channel_is_a_wrong_setting(host: Host) -> None:
    node = host.started()
    path = host.directory / "floor.json"
    other = msgspec.structs.replace(floor_of(node.memory), channel="canary")
    for content in (msgspec.json.encode(other), b"{", b""):
        path.write_bytes(content)
        with pytest.raises(SettingsError):
            node_with(host, "new", floor=path)


def test_a_floor_from_after_a_rotation_is_not_lost_by_following_it(host: Host) -> None:
    world = host.service.world
    keys = {**world.keys, Role.POINTER: create_key(Role.POINTER)}
    host.service.roots[2] = world.root_text(keys, version=2)
    world.keys = keys
    node = host.node()
    high = {"serial": 10**6, "root_version": 2, "time_floor": world.time()}
    path = host.directory / "floor.json"
    path.write_bytes(msgspec.json.encode(floor_of(msgspec.structs.replace(node.memory, **high))))
    host.service.document = host.service.signed(root_version=2)
    assert codes(node_with(host, "new", floor=path).step()) == ["serial-lower"]
    # Without a floor, the same document is believed.
    assert node_with(host, "other").step().reasons == ()


def evidence_of(host: Host, lie: bytes) -> Path:
    host.started()
    host.service.document = lie
    assert host.node().step().reasons
    (kept,) = (host.config.state / "evidence").iterdir()
    return kept


def test_two_documents_of_one_serial_prove_it_to_anybody(host: Host) -> None:
    kept = evidence_of(host, host.service.signed(gate_digest="ab" * 32))
    found = read_evidence(kept, host.service.world.anchor)
    assert (found.kind, found.proven) == ("serial-equivocation", True)


def test_two_trees_of_one_size_prove_it_to_anybody(host: Host) -> None:
    world = host.service.world
    honest = host.service.honest()
    size = int(honest.checkpoint.split("\n")[1])
    fork = world.sign_note(size, b"\x07" * 32, world.keys[Role.LOG])
    lie = host.service.signed(serial=honest.serial + 1, checkpoint=fork)
    found = read_evidence(evidence_of(host, lie), world.anchor)
    assert (found.kind, found.proven) == ("checkpoint-fork", True)
    assert found.sizes == (size, size)
    assert len(set(found.roots)) == 2


def test_a_tree_without_a_proof_is_evidence_but_no_proof(host: Host) -> None:
    world = host.service.world
    honest = host.service.honest()
    size = int(honest.checkpoint.split("\n")[1]) + 1
    grown = world.sign_note(size, b"\x07" * 32, world.keys[Role.LOG])
    lie = host.service.signed(serial=honest.serial + 1, checkpoint=grown)
    found = read_evidence(evidence_of(host, lie), world.anchor)
    assert (found.kind, found.proven) == ("inconsistent-log", False)
    assert "a proof from" in found.found


def test_evidence_that_was_made_up_convinces_nobody(host: Host, tmp_path: Path) -> None:
    kept = evidence_of(host, host.service.signed(gate_digest="ab" * 32))
    anchor = host.service.world.anchor
    true = msgspec.json.decode(kept.read_bytes(), type=Evidence)
    assert true.accepted is not None
    path = tmp_path / "made-up.json"

    def made_up(**changes: object) -> None:
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(true, **changes)))
        read_evidence(path, anchor)

    made_up()
    with pytest.raises(SignatureRejected):
        made_up(received=host.service.signed(key=create_key(Role.POINTER)).decode())
    with pytest.raises(SignatureRejected):
        made_up(origin="reef.example/other")
    with pytest.raises(Refused, match="channel"):
        made_up(channel="canary")
    with pytest.raises(Refused):
        made_up(received=true.accepted)
    with pytest.raises(Refused):
        made_up(accepted=None)
    path.write_bytes(b"{}")
    with pytest.raises(SettingsError):
        read_evidence(path, anchor)
