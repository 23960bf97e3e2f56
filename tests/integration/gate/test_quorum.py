"""Two real gate workers with a key and a token each, on a real service and the shipped models."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.replay import replay
from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.node import grounds as rules
from reef_release.node.material import gather
from reef_release.node.trusted import Memory, Trusted
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, load_key
from reef_release.signing.root import add_signature, next_root
from reef_release.tokens import Principal, TokenRole
from reef_release.verifiers.registry import is_objective
from tests.databases import Server
from tests.integration.api.story import CHANNEL
from tests.integration.gate.conftest import School, running
from trainer.gate.worker import GateWorker, GateWorkerConfig
from trainer.tiny.shipped import ORIGIN

_PATIENCE_S = 60.0


@pytest.fixture
def asking_two(tmp_path: Path, postgres: Server) -> Iterator[School]:
    """A scenario whose policy asks for two gate workers; its service gets another root."""
    with running(tmp_path / "server", postgres) as server:
        school = School(
            site=server.site,
            url=server.url,
            scenario="quorum",
            models=tmp_path / "models",
            policy_changes={"gate_quorum": 2},
        )
        school.create()
        yield school


def second_key(school: School) -> SigningKey:
    """A gate key beside the first one, in the next trust root."""
    key = create_key(Role.GATE)
    text = next_root(
        school.site.anchor, add=[key.public], expires=datetime.now(UTC) + timedelta(days=30)
    )
    for number in ("1", "2"):
        holder = school.site.home / "keys" / "root" / number / PRIVATE_NAME
        text = add_signature(text, load_key(holder, Role.ROOT))
    with ReefClient(school.url, school.site.token(TokenRole.OPERATE)) as client:
        client.publish_root(text, "another gate worker")
        deadline = time.monotonic() + _PATIENCE_S
        while key.key_id not in {each.key_id for each in client.trust_keys()}:
            assert time.monotonic() < deadline, "the key is not in the log"
            time.sleep(0.01)
    return key


def run_second(school: School, key: SigningKey, models: Path) -> int:
    """The other worker works until there is nothing left to do; how many gates it ended."""
    token = school.site.tokens.issue(Principal(name="gate-2", role=TokenRole.GATE))
    with ReefClient(school.url, token) as client:
        worker = GateWorker(GateWorkerConfig(name="gate-2", models=models), client, key)
        return worker.run(once=True)


def test_two_workers_promote_and_one_alone_does_not(asking_two: School, tmp_path: Path) -> None:
    school = asking_two
    alone = school.gate(ORIGIN)
    assert alone.status == "passing"
    assert [reason.code for reason in alone.reasons] == ["too-few-workers"]
    with school.client(TokenRole.GATE) as client:
        assert school.worker(client).run(once=True) == 0, "it passed that already"
    assert school.serving is None
    key = second_key(school)
    assert run_second(school, key, tmp_path / "second") == 1
    with school.client(TokenRole.AUDIT) as client:
        passed = client.candidate(school.scenario, alone.candidate_id)
    assert passed.status == "passed"
    first, last = passed.gates
    assert (first.outcome, last.outcome) == ("passed", "passed")
    school.promote(passed)
    assert school.serving == alone.candidate_id
    shown_to_a_node(school)
    out = tmp_path / "evidence"
    with ReefClient(school.url, school.site.token(TokenRole.AUDIT)) as client:
        export(ClientSource(client), out)
    report = replay(out, school.site.anchor)
    assert report.problems == []


def shown_to_a_node(school: School) -> None:
    """The service's own material proves both passes to a node that has seen nothing yet."""
    with ReefClient(school.url, school.site.token(TokenRole.SERVE)) as client:
        deadline = time.monotonic() + _PATIENCE_S
        while (body := client.current(school.scenario, CHANNEL).document) is None:
            assert time.monotonic() < deadline, "no document"
            time.sleep(0.05)
        memory = Memory(
            anchor=sha256_hex(school.site.anchor.encode()),
            scenario=school.scenario,
            channel=CHANNEL,
        )
        trusted = Trusted(
            anchor=school.site.anchor,
            successors=[client.trust_root(2)],
            memory=memory,
            origin="reef-release.local/log",
        )
        opened = trusted.open_document(body, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        material = gather(client, opened.document, opened.checkpoint.size, trials=False)
    assert len(material.beside) == 1
    grounds = rules.verify(
        material, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=False
    )
    assert grounds.release_id == school.serving
