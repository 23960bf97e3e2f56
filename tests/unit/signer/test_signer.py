"""The signer: signs what passed its gate, after its own look, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.decision import decision_of
from reef_release.errors import Refused, SettingsError, SignatureRejected, Unavailable
from reef_release.signer.run import Signer, SignerConfig, run_signer
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, save_key
from reef_release.signing.vsa import sign_decision
from reef_release.signing.weights import verify_bundle
from tests.fakes import FakeService, problem
from tests.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world")
    made.create_scenario()
    return made


@pytest.fixture
def service(world: World) -> FakeService:
    return FakeService(world=world)


@pytest.fixture
def signer(service: FakeService) -> Signer:
    world = service.world
    return Signer(service.client(), world.keys[Role.RELEASE], world.anchor, lambda: world.now)


def test_a_candidate_whose_gate_passed_is_signed_once(service: FakeService, signer: Signer) -> None:
    world = service.world
    assert signer.round() == 0
    candidate = world.admitted()
    assert signer.round() == 0, "not before its gate"
    world.gate(candidate)
    assert signer.round() == 1
    signed = world.scenario.releases[candidate]
    bundle = world.blobs.read_sync(signed.bundle, 1 << 20)
    found = verify_bundle(bundle, candidate, [world.keys[Role.RELEASE].public])
    assert found.files == {file.path: file.sha256 for file in service.files(candidate)}
    assert signer.round() == 0


def test_the_signer_never_reads_weights(service: FakeService, signer: Signer) -> None:
    world = service.world
    world.gate(world.admitted())
    signer.round()
    assert not [path for path in service.paths() if "/blobs/" in path or "/files/" in path]


@pytest.mark.parametrize("marks", ["---", "+-+-+-"])
def test_a_candidate_whose_gate_did_not_pass_is_not_signed(
    service: FakeService, signer: Signer, marks: str
) -> None:
    world = service.world
    world.gate(world.admitted(), marks)
    assert signer.round() == 0
    assert world.scenario.releases == {}


def test_a_revoked_candidate_is_not_signed(service: FakeService, signer: Signer) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    world.revoke_candidate(candidate)
    assert signer.round() == 0


# A service that lies about a gate


def lie(
    service: FakeService, candidate: str, key: SigningKey | None = None, **changes: object
) -> None:
    """The attestation of the candidate's gate, altered and signed by *key*."""
    world = service.world
    gate = world.gate_of(world.scenario.candidates[candidate].gates[-1])
    decision = decision_of(world.scenario_name, gate, "passed", gate.canary or "00" * 32)
    altered = msgspec.structs.replace(decision, **changes)
    envelope = sign_decision(altered, world.time(), key or world.keys[Role.GATE])
    path = f"/reef/scenarios/homework/releases/{candidate}/attestation"
    service.answers[path] = lambda _request: httpx.Response(200, json=envelope)


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "failed"},
        {"candidate_id": "ab" * 32},
        {"scenario": "other"},
        {"channel": "canary"},
        {"gate_id": "another"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_decision_about_something_else_is_not_signed_for(
    service: FakeService, signer: Signer, changes: dict[str, str]
) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    lie(service, candidate, **changes)
    assert signer.round() == 0
    lie(service, candidate)
    assert signer.round() == 1, "the twin with nothing changed is signed"


@pytest.mark.parametrize("role", [Role.LOG, Role.POLICY, Role.POINTER])
def test_a_decision_signed_by_another_key_is_not_signed_for(
    service: FakeService, signer: Signer, role: Role
) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    lie(service, candidate, SigningKey(Role.GATE, world.keys[role]._private))
    assert signer.round() == 0


def test_a_manifest_with_other_files_is_not_signed(service: FakeService, signer: Signer) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    path = "/reef/scenarios/homework/candidates"

    def swapped(request: httpx.Request) -> httpx.Response:
        del service.answers[path]
        view = json.loads(service.handle(request).content)
        service.answers[path] = swapped
        view["candidates"][0]["files"][1]["sha256"] = "ab" * 32
        return httpx.Response(200, json=view)

    service.answers[path] = swapped
    assert signer.round() == 0
    del service.answers[path]
    assert signer.round() == 1


def test_one_bad_candidate_does_not_keep_others_from_being_signed(
    service: FakeService, signer: Signer
) -> None:
    world = service.world
    bad, good = world.admitted(), world.admitted()
    world.gate(bad)
    lie(service, bad, candidate_id="ab" * 32)
    world.gate(good)
    assert signer.round() == 1
    assert list(world.scenario.releases) == [good]


# Trust


def test_a_gate_key_that_a_new_root_dropped_does_not_count(
    service: FakeService, signer: Signer
) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    keys = {**world.keys, Role.GATE: create_key(Role.GATE)}
    service.roots[2] = world.root_text(keys, version=2)
    assert signer.round() == 0


def test_a_forged_root_stops_the_signer(service: FakeService, signer: Signer) -> None:
    world = service.world
    world.gate(world.admitted())
    thief = World.__new__(World)
    thief.root_keys = [create_key(Role.ROOT) for _ in range(3)]
    service.roots[2] = thief.root_text(world.keys, version=2)
    with pytest.raises(SignatureRejected):
        signer.round()
    assert world.scenario.releases == {}


def test_an_expired_root_stops_the_signer(service: FakeService, signer: Signer) -> None:
    service.world.tick(timedelta(days=1000).total_seconds())
    with pytest.raises(Refused, match="ended at"):
        signer.round()


def test_a_release_key_outside_the_root_is_a_wrong_setting(service: FakeService) -> None:
    world = service.world
    stranger = Signer(service.client(), create_key(Role.RELEASE), world.anchor, lambda: world.now)
    with pytest.raises(SettingsError, match="does not stand in the trust root"):
        stranger.round()


# The process


def test_a_service_that_is_away_is_an_error_of_one_round(
    service: FakeService, signer: Signer
) -> None:
    world = service.world
    world.gate(world.admitted())
    service.away = True
    with pytest.raises(Unavailable):
        signer.round()
    service.away = False
    assert signer.round() == 1


def test_an_answer_that_was_lost_does_not_sign_twice(service: FakeService, signer: Signer) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    path = f"/reef/scenarios/homework/releases/{candidate}/bundle"

    def lost(request: httpx.Request) -> httpx.Response:
        del service.answers[path]
        service.handle(request)
        raise httpx.ReadError("reset", request=request)

    service.answers[path] = lost
    with pytest.raises(Unavailable):
        signer.round()
    assert signer.round() == 0
    signings = [ev.decode(body).envelope.type for body in world.bodies].count("release.signed")
    assert signings == 1


def test_a_bundle_that_the_service_refuses_is_told_and_tried_again(
    service: FakeService, signer: Signer
) -> None:
    world = service.world
    candidate = world.admitted()
    world.gate(candidate)
    path = f"/reef/scenarios/homework/releases/{candidate}/bundle"
    service.answers[path] = lambda _request: problem(409, "conflict")
    assert (signer.round(), signer.round()) == (0, 0)
    del service.answers[path]
    assert signer.round() == 1


@pytest.mark.parametrize("missing", ["key", "root"])
def test_a_missing_file_is_named(tmp_path: Path, world: World, missing: str) -> None:
    files: dict[str, Callable[[Path], object]] = {
        "key": lambda path: save_key(world.keys[Role.RELEASE], path),
        "root": lambda path: path.write_text(world.anchor),
    }
    paths = {"key": tmp_path / PRIVATE_NAME, "root": tmp_path / "root.json"}
    for name, make in files.items():
        if name != missing:
            make(paths[name])
    with pytest.raises(SettingsError, match=paths[missing].name):
        run_signer(SignerConfig(url="http://reef.test", **paths), once=True)
