"""The witness's answers, each beside the request that gets a cosignature."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.api.witness_metrics import witness_gauges
from reef_release.api.witnesses import Witnesses
from reef_release.domain.events import CheckpointPublished
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import SettingsError
from reef_release.signing.keys import Role, SigningKey, create_key
from reef_release.signing.note import parse_vkey, sign_checkpoint, vkey
from reef_release.signing.witness import (
    WitnessSigner,
    add_checkpoint_request,
    read_witnesses,
    verify_cosignatures,
    with_cosignature,
)
from reef_release.witness.app import WitnessConfig, create_witness_app, run_witness
from reef_release.witness.memory import Memory

pytestmark = pytest.mark.anyio

ORIGIN = "reef.example/log"
NOW_S = 1_700_000_000


def tree(count: int, word: str = "event") -> MerkleTree:
    return MerkleTree(leaf_hash(f"{word} {number}".encode()) for number in range(count))


class Log:
    """A log with a key, that can also lie."""

    def __init__(self) -> None:
        self.key = create_key(Role.LOG)

    def note(self, size: int, word: str = "event", key: SigningKey | None = None) -> str:
        return sign_checkpoint(ORIGIN, size, tree(size, word).root(), key or self.key)

    def request(self, old: int, size: int, word: str = "event") -> bytes:
        proof = tree(size, word).consistency_proof(old, size)
        return add_checkpoint_request(old, proof, self.note(size, word))


class Witness:
    """A witness's app on a directory, which can be opened again as after a crash."""

    def __init__(self, log: Log, directory: Path) -> None:
        self.directory = directory
        self.signer = WitnessSigner.create("witness.example/w1", directory.parent / "w1.pem")
        self.config = WitnessConfig(
            signer=self.signer, logs={ORIGIN: [log.key.public]}, state=directory
        )

    async def post(self, body: bytes) -> httpx.Response:
        with closing(Memory(self.directory)) as memory:
            memory.lock()
            app = create_witness_app(self.config, memory, lambda: NOW_S)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://witness"
            ) as client:
                return await client.post("/add-checkpoint", content=body)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def witness(log: Log, tmp_path: Path) -> Witness:
    return Witness(log, tmp_path / "w1")


async def test_growth_is_cosigned(log: Log, witness: Witness) -> None:
    for old, size in ((0, 3), (3, 8), (8, 8), (8, 21)):
        answer = await witness.post(log.request(old, size))
        assert answer.status_code == 200
        cosigned = with_cosignature(log.note(size), answer.text, witness.signer.key)
        (found,) = verify_cosignatures(cosigned, [witness.signer.key], 1)
        assert (found.witness, found.timestamp_s) == ("witness.example/w1", NOW_S)


async def test_another_old_size_is_answered_with_the_right_one(log: Log, witness: Witness) -> None:
    await witness.post(log.request(0, 5))
    for old in (0, 3):
        answer = await witness.post(log.request(old, 8))
        assert (answer.status_code, answer.text) == (409, "5\n")
        assert answer.headers["content-type"].startswith("text/x.tlog.size")
    assert (await witness.post(log.request(5, 8))).status_code == 200


async def test_a_tree_that_does_not_continue_the_last_is_not_cosigned(
    log: Log, witness: Witness
) -> None:
    await witness.post(log.request(0, 5))
    assert (await witness.post(log.request(5, 9, "other"))).status_code == 422
    honest = add_checkpoint_request(5, [], log.note(9))
    assert (await witness.post(honest)).status_code == 422
    assert (await witness.post(log.request(5, 9))).status_code == 200


async def test_two_trees_of_one_size_are_kept_as_evidence(log: Log, witness: Witness) -> None:
    await witness.post(log.request(0, 5))
    fork = add_checkpoint_request(5, [], log.note(5, "other"))
    for _ in range(2):
        assert (await witness.post(fork)).status_code == 409
    assert (await witness.post(log.request(0, 5, "another"))).status_code == 409
    kept = sorted((witness.directory / "evidence").iterdir())
    assert len(kept) == 2
    notes = [json.loads(path.read_bytes())["notes"] for path in kept]
    assert {first for first, _ in notes} == {log.note(5)}
    assert {second for _, second in notes} == {log.note(5, "other"), log.note(5, "another")}


async def test_only_keys_that_it_was_told_of_count(log: Log, witness: Witness) -> None:
    stranger = log.note(5, key=create_key(Role.LOG))
    assert (await witness.post(add_checkpoint_request(0, [], stranger))).status_code == 403
    other = sign_checkpoint("reef.example/other", 5, tree(5).root(), log.key)
    assert (await witness.post(add_checkpoint_request(0, [], other))).status_code == 404
    assert (await witness.post(log.request(0, 5))).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda body: b"",
        lambda body: body.replace(b"old 0", b"old 00"),
        lambda body: body.replace(b"old 0", b"old 9"),
        lambda body: body.replace(b"old 0", b"old -1"),
        lambda body: body.replace(b"old 0\n", b"old 0\nAAAA\n"),
        lambda body: body.replace(b"old 0\n", b"old 0\n" + b"A" * 43 + b"=\n" * 64),
        lambda body: body.replace(b"\n\n", b"\n", 1),
        lambda body: body + b"\xff",
        lambda body: body[:-3],
    ],
)
async def test_what_is_no_request_is_a_bad_one(log: Log, witness: Witness, change: Any) -> None:
    body = log.request(0, 5)
    assert (await witness.post(change(body))).status_code in (400, 403)
    assert (await witness.post(body)).status_code == 200


async def test_a_body_without_end_is_cut_off(log: Log, witness: Witness) -> None:
    answer = await witness.post(log.request(0, 5) + b"\n" * 200_000)
    assert answer.status_code == 413


def test_a_witness_that_lost_its_memory_does_not_start(tmp_path: Path) -> None:
    Memory(tmp_path / "w")
    (tmp_path / "w" / "seen.json").write_bytes(b"{")
    with pytest.raises(SettingsError, match=r"seen\.json"):
        Memory(tmp_path / "w")


def test_a_port_in_use_is_told(log: Log, tmp_path: Path) -> None:
    signer = WitnessSigner.create("witness.example/w1", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = WitnessConfig(
            signer=signer,
            logs={ORIGIN: [log.key.public]},
            state=tmp_path / "state",
            port=taken.getsockname()[1],
        )
        with pytest.raises(SettingsError, match="cannot listen on"):
            run_witness(config)


async def test_an_answer_without_end_is_read_no_further(log: Log, tmp_path: Path) -> None:
    """Attack: a witness fills the service's memory."""
    signer = WitnessSigner.create("witness.example/w1", tmp_path / "key.pem")
    path = tmp_path / "witnesses"
    path.write_text(f"{signer.vkey} http://w1.test\n")
    given = []

    async def body() -> AsyncIterator[bytes]:
        for number in range(1000):
            given.append(number)
            yield b"x" * 4096

    transport = httpx.MockTransport(lambda _request: httpx.Response(200, content=body()))
    witnesses = Witnesses(read_witnesses(path), 1, transport)
    grown = tree(3)
    checkpoint = CheckpointPublished(
        origin=ORIGIN, size=3, root=grown.root().hex(), note=log.note(3)
    )
    async with aclosing(witnesses):
        assert await witnesses.cosigned(checkpoint, grown) is None
    assert len(given) < 10


async def test_how_many_cosigned_the_last_checkpoint_is_counted(log: Log, tmp_path: Path) -> None:
    signers = [
        WitnessSigner.create(f"witness.example/w{number}", tmp_path / f"{number}.pem")
        for number in range(3)
    ]
    path = tmp_path / "witnesses"
    path.write_text(
        "".join(f"{each.vkey} http://w{number}.test\n" for number, each in enumerate(signers))
    )
    away = {"w2.test"}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host in away:
            raise httpx.ConnectError("away")
        line = signers[int(request.url.host[1])].cosign(log.note(3), 1_700_000_000)

        async def body() -> AsyncIterator[bytes]:
            yield line.encode()

        return httpx.Response(200, content=body())

    witnesses = Witnesses(read_witnesses(path), 2, httpx.MockTransport(answer))

    def shown() -> dict[str, float]:
        [gauge] = witness_gauges(witnesses)
        return {each.labels["what"]: each.value for each in gauge.samples}

    grown = tree(3)
    checkpoint = CheckpointPublished(
        origin=ORIGIN, size=3, root=grown.root().hex(), note=log.note(3)
    )
    async with aclosing(witnesses):
        assert shown() == {"configured": 3, "needed": 2}
        assert await witnesses.cosigned(checkpoint, grown) is not None
        assert shown() == {"configured": 3, "needed": 2, "cosigned": 2}
        away.add("w1.test")
        assert await witnesses.cosigned(checkpoint, grown) is None
        assert shown() == {"configured": 3, "needed": 2, "cosigned": 1}


def test_a_log_key_is_read_as_it_is_written(log: Log) -> None:
    assert parse_vkey(vkey(ORIGIN, log.key.public)) == (ORIGIN, log.key.public)
    text = vkey(ORIGIN, log.key.public)
    for wrong in ("", "x", text[:-4], text.replace("+", "-"), "y" + text):
        with pytest.raises(SettingsError):
            parse_vkey(wrong)


def test_a_witness_key_survives_its_file(tmp_path: Path) -> None:
    made = WitnessSigner.create("w1", tmp_path / "w1.pem")
    assert WitnessSigner.load("w1", tmp_path / "w1.pem").vkey == made.vkey
    assert "PRIVATE" not in repr(made)
    (tmp_path / "w1.pem").write_text("no key")
    with pytest.raises(SettingsError):
        WitnessSigner.load("w1", tmp_path / "w1.pem")
    with pytest.raises(SettingsError):
        WitnessSigner.create("two words", tmp_path / "w2.pem")
