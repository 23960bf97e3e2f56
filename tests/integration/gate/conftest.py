"""A real service, the shipped tiny models, and everybody who brings a model into serving."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reef_release.artifacts.schema import model_schema, schema_bytes
from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json
from reef_release.signing.keys import Role
from reef_release.signing.policy import sign_policy
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateManifest, CandidateView, ScenarioRequest
from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import CHANNEL, Site
from trainer.gate.worker import GateWorker, GateWorkerConfig
from trainer.tiny.problems import draw_many, export
from trainer.tiny.shipped import ORIGIN

_PATIENCE_S = 60.0
_SHARP = {"kind": "consecutive_passes", "k": 3, "max_trials": 12, "max_failures": 4}
_MILD = {"kind": "consecutive_passes", "k": 2, "max_trials": 24, "max_failures": 8}
BY_ALL: dict[str, Any] = {
    "verifiers": ["answer@1", "work_steps@1", "style@1"],
    "rule": _SHARP,
}
"""The better model passes every trial, so it gets through; the bad ones pass next to none."""
BY_ANSWER: dict[str, Any] = {"verifiers": ["answer@1"], "rule": _MILD}
"""The origin is right nine times in ten, so it fails one gate in a hundred thousand."""


@dataclass(kw_only=True)
class School:
    """One scenario on a running service, with a client per role and one gate worker."""

    site: Site
    url: str
    scenario: str
    models: Path
    standard: dict[str, Any] = field(default_factory=lambda: dict(BY_ALL))
    policy_changes: dict[str, Any] = field(default_factory=dict)

    def client(self, role: TokenRole) -> ReefClient:
        return ReefClient(self.url, self.site.token(role, self.scenario))

    def create(self) -> None:
        """Create the scenario, with generated problems as its suite."""
        with self.client(TokenRole.OPERATE) as client:
            suite = b"".join(export(draw_many("gate", 60, seed=0)))
            policy = {
                "name": self.scenario,
                "version": 1,
                "suite": client.put_blob(suite),
                "generation": {"temperature": "0.7", "max_new_tokens": 96},
                "canaries": ["What is 6 times 7?"],
                "standard": self.standard,
                "bootstrap": BY_ANSWER,
                "max_errors": 2,
                "max_attempts": 2,
                "suite_max_gates": 1000,
                "allowed_changes": [],
                "budget": None,
                "approvals": 0,
                "watch": None,
                **self.policy_changes,
            }
            schema = client.put_blob(schema_bytes(model_schema(ORIGIN)))
            signed = sign_policy(canonical_json(policy), self.site.key(Role.POLICY))
            request = ScenarioRequest(name=self.scenario, schema=schema, policy=signed)
            client.create_scenario(request)

    @property
    def serving(self) -> str | None:
        with self.client(TokenRole.AUDIT) as client:
            channel = client.scenario(self.scenario).channels.get(CHANNEL)
        return channel.release_id if channel else None

    def submit(self, directory: Path, **manifest: Any) -> CandidateView:
        """Upload and submit; the origin is the operator's. Raises `Refused`."""
        serving = self.serving
        role = TokenRole.TRAIN if serving else TokenRole.OPERATE
        with self.client(role) as client:
            files = client.upload_directory(directory)
            return client.submit(
                self.scenario,
                CandidateManifest(files=files, base=serving, parent=serving, **manifest),
            )

    def worker(self, client: ReefClient) -> GateWorker:
        config = GateWorkerConfig(name="gate-1", models=self.models)
        return GateWorker(config, client, self.site.key(Role.GATE))

    def gate(self, directory: Path, **manifest: Any) -> CandidateView:
        """Submit a model and let the gate worker decide on it; what became of it."""
        submitted = self.submit(directory, **manifest)
        with self.client(TokenRole.GATE) as client:
            worker = self.worker(client)
            deadline = time.monotonic() + _PATIENCE_S
            # A draw waits for the checkpoint after the admission.
            while not worker.run(once=True):
                assert time.monotonic() < deadline, "no gate opened"
                time.sleep(0.01)
            return client.candidate(self.scenario, submitted.candidate_id)

    def promote(self, candidate: CandidateView) -> None:
        """Sign the weights, and wait until they are served."""
        files = {file.path: file.sha256 for file in candidate.files}
        bundle = sign_bundle(files, self.site.key(Role.RELEASE))
        with self.client(TokenRole.SIGN) as client:
            client.post_bundle(self.scenario, candidate.candidate_id, bundle)
        deadline = time.monotonic() + _PATIENCE_S
        while self.serving != candidate.candidate_id:
            assert time.monotonic() < deadline, "it was not promoted"
            time.sleep(0.01)

    def events(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The data of the scenario's events of one type; every view of the service shows them."""
        with self.client(TokenRole.AUDIT) as client:
            page = client.events(scenario=self.scenario, type=kind)
            events = [json.loads(body) for body in page.events]
            deadline = time.monotonic() + _PATIENCE_S
            while events and json.loads(client.ready())["position"] < events[-1]["position"]:
                assert time.monotonic() < deadline, "what is stored is not folded"
                time.sleep(0.01)
        found = [event["data"] for event in events]
        return [data for data in found if all(data[name] == fields[name] for name in fields)]


@contextmanager
def running(directory: Path, postgres: Server) -> Iterator[ServerProcess]:
    """A server process with a database of its own."""
    with (
        postgres.database() as database,
        ServerProcess(Site(home=directory / "home", database=database)) as server,
    ):
        yield server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    """A server process for all tests here."""
    with running(tmp_path_factory.mktemp("gate"), postgres) as server:
        yield server


@pytest.fixture(scope="package")
def school(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> School:
    """A scenario that serves nothing yet."""
    school = School(
        site=server.site,
        url=server.url,
        scenario="homework",
        models=tmp_path_factory.mktemp("models"),
    )
    school.create()
    return school
