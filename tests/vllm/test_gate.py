"""From the gate to the node with vLLM as the only engine, on a real service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reef_release.client import ReefClient
from reef_release.node.config import NodeConfig
from reef_release.node.run import run_node
from reef_release.signing.keyring import ROOT_NAME
from reef_release.signing.keys import Role
from reef_release.tokens import TokenRole
from tests.databases import Server
from tests.integration.gate.conftest import School, running
from trainer.engines.client import HttpEngine
from trainer.gate.remote import http_loader
from trainer.gate.worker import GateWorker, GateWorkerConfig
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN


class VllmSchool(School):
    """A scenario whose gate worker runs both sides on one vLLM."""

    engine: HttpEngine

    def worker(self, client: ReefClient) -> GateWorker:
        return GateWorker(
            GateWorkerConfig(name="gate-1", models=self.models),
            client,
            self.site.key(Role.GATE),
            load=http_loader([self.engine]),
        )


@pytest.fixture
def school(tmp_path: Path, postgres: Server, engine_url: str) -> Iterator[VllmSchool]:
    with running(tmp_path, postgres) as server, HttpEngine(engine_url) as engine:
        school = VllmSchool(
            site=server.site, url=server.url, scenario="homework", models=tmp_path / "models"
        )
        school.engine = engine
        school.create()
        yield school


def test_the_better_model_gets_through_the_gate_into_a_node_and_the_flatterer_does_not(
    school: VllmSchool, engine_url: str, tmp_path: Path, figures: list[str]
) -> None:
    config = NodeConfig(
        url=school.url,
        token=school.site.token("serve", school.scenario),
        scenario=school.scenario,
        node_id="node-1",
        anchor=school.site.home / "keys" / ROOT_NAME,
        origin=school.site.settings().origin,
        state=tmp_path / "node",
        engine_url=engine_url,
        canary_tolerance=1e-3,
        poll_wait_s=1,
    )
    for directory in (ORIGIN, BETTER):
        passed = school.gate(directory)
        assert passed.status == "passed"
        school.promote(passed)
        standing = run_node(config, once=True)
        assert (standing.release_id, standing.reasons) == (passed.candidate_id, ())
    with school.client(TokenRole.AUDIT) as client:
        page = client.events(scenario=school.scenario, type="node.loaded")
    assert len(page.events) == 2
    loaded = school.events("node.loaded")
    differences = [str(event["canary_difference"]) for event in loaded]
    figures.append(f"gate on vLLM, then a node: canary differences {', '.join(differences)} nats")
    failed = school.gate(FLATTERER)
    assert failed.status == "failed"
    # The gate had the one engine to itself meanwhile; the node takes it back.
    standing = run_node(config, once=True)
    assert (standing.release_id, standing.reasons) == (school.serving, ())
