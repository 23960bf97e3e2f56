"""The service is killed in the midst of a gate."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from reef_release.errors import Unavailable
from reef_release.signing.keys import Role
from reef_release.tokens import TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.gate.conftest import School
from trainer.engines.protocol import Engine, Generation, Messages, Sampling
from trainer.engines.weights import ModelFiles
from trainer.gate.models import transformers_loader
from trainer.gate.worker import GateWorker, GateWorkerConfig
from trainer.tiny.shipped import ORIGIN


class KillingEngine:
    """An engine that pulls the service's plug before its second sampled reply."""

    def __init__(self, engine: Engine, server: ServerProcess) -> None:
        self._engine = engine
        self._server = server
        self._replies = 0
        self.score = engine.score

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        if sampling.temperature > 0:
            self._replies += 1
            if self._replies == 2:
                self._server.kill()
        return self._engine.generate(prompt, sampling, seed, timeout_s=timeout_s)


def run_until_something_ended(worker: GateWorker) -> None:
    """A draw waits for the checkpoint after the admission."""
    while not worker.run(once=True):
        time.sleep(0.01)


def test_a_service_killed_in_mid_gate_comes_back_to_the_same_place(
    server: ServerProcess, tmp_path: Path
) -> None:
    school = School(
        site=server.site, url=server.url, scenario="interrupted", models=tmp_path / "models"
    )
    school.create()
    candidate = school.submit(ORIGIN)
    stock = transformers_loader(1)

    def load(model: ModelFiles, foundation: ModelFiles | None) -> Engine:
        return KillingEngine(stock(model, foundation), server)

    with school.client(TokenRole.GATE) as client:
        config = GateWorkerConfig(name="gate-1", models=school.models)
        worker = GateWorker(config, client, school.site.key(Role.GATE), load=load)
        with pytest.raises(Unavailable):
            run_until_something_ended(worker)
        server.restart()
        # As another process of the same worker, which knows nothing of the first one's place.
        assert school.worker(client).run(once=True) == 1
        view = client.candidate("interrupted", candidate.candidate_id)
    assert view.status == "passed"
    trials = school.events("gate.trial")
    slots = [(trial["slot"], trial["attempt"]) for trial in trials]
    assert slots == [(slot, 0) for slot in range(len(trials))]
    assert len(trials) >= 2
