"""The stack that a drill starts for itself: every program but the learning, and an idle engine.

What the drill may do to it, and to no other: hold programs still, kill them, read every key, and
reach its database as the superuser.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from reef_release.artifacts.schema import model_schema, schema_bytes
from reef_release.audit.weights import Scorer
from reef_release.cli.external import module_command, tiny_models
from reef_release.cli.homework import homework_learning
from reef_release.cli.programs import Program
from reef_release.cli.scorer import scoring_program
from reef_release.cli.stack import LocalStack, free_port
from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.policy import Policy
from reef_release.errors import Unavailable
from reef_release.node.engine import HttpEngine
from reef_release.signing.keyring import PRIVATE_NAME, ROOT_NAME
from reef_release.signing.keys import Role, load_key
from reef_release.signing.policy import sign_policy
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret
from reef_release.wire import CandidateManifest, ScenarioRequest

__all__ = ["SCENARIO", "DrillStack"]

SCENARIO = "drill"
_IDLE = "idle-engine"
_SUITE_TASKS = 60
_PATIENCE_S = 180.0
_LOOK_S = 0.1
_BY_ALL = {
    "verifiers": ["answer@1", "work_steps@1", "style@1"],
    "rule": {"kind": "consecutive_passes", "k": 3, "max_trials": 12, "max_failures": 4},
}
"""The better model passes every trial and the bad ones next to none, so gates are short."""
_BY_ANSWER = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 24, "max_failures": 8},
}


class DrillStack(LocalStack):
    """A `drill.stack.Stack` of processes; use it as a context."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            home,
            scenario=SCENARIO,
            learning=homework_learning(),
            # Attacks on nodes wait until a checkpoint covers what they appended.
            service_settings={"REEF_CHECKPOINT_INTERVAL_S": "2"},
        )
        self._suite = b""
        self._tokens: Tokens | None = None

    @property
    def blobs(self) -> Path:
        """Where the service keeps its blobs."""
        return self.home / "blobs"

    @property
    def owner_dsn(self) -> str:
        """The database as its superuser reaches it."""
        return self.postgres.dsn

    @property
    def anchor(self) -> str:
        """The trust root, version 1."""
        return (self.keys / ROOT_NAME).read_text("utf-8")

    def issue(self, role: TokenRole, scenario: str | None) -> str:
        """A token of *role*, for one scenario or all."""
        if self._tokens is None:
            self._tokens = Tokens(load_secret(self.keys / TOKEN_SECRET))
        return self._tokens.issue(Principal(name=role.value, role=role, scenario=scenario))

    def launch(self, say: Callable[[str], None]) -> None:
        """Start every program, and bring two releases into serving, one after the other."""
        self.prepare(say)
        say("starting the service, its workers, and two engines")
        self.start("service")
        for name in ("signer", "gate"):
            self.start(name)
        self.start("engine")
        self.start(_IDLE)
        with self.client(TokenRole.OPERATE) as client:
            self.create(client, SCENARIO)
        self.start("node")
        for name in ("origin", "better"):
            say(f"gating and promoting the {name} model")
            self.promote(name)

    def create(self, client: ReefClient, scenario: str, **changes: Any) -> None:
        """Create a scenario with a policy like `policy`."""
        client.put_blob(self.suite())
        schema = client.put_blob(schema_bytes(model_schema(tiny_models() / "origin")))
        document = self.policy(scenario) | changes
        key = load_key(self.keys / Role.POLICY / PRIVATE_NAME, Role.POLICY)
        signed = sign_policy(canonical_json(document), key)
        client.create_scenario(ScenarioRequest(name=scenario, schema=schema, policy=signed))

    def promote(self, name: str) -> None:
        """Bring a shipped model into serving, and wait until the node has loaded it."""
        with self.client(TokenRole.OPERATE) as operator, self.client(TokenRole.TRAIN) as trainer:
            served = operator.scenario(SCENARIO).channels.get("stable")
            base = served.release_id if served else None
            client = trainer if base else operator
            manifest = CandidateManifest(
                files=client.upload_directory(self.model(name)), base=base, parent=base
            )
            wanted = {file.path: file.sha256 for file in manifest.files}
            candidate = client.submit(SCENARIO, manifest).candidate_id
            ends = ("promoted", "failed", "inconclusive")
            self._until(lambda: operator.candidate(SCENARIO, candidate).status in ends)
            self._until(lambda: self.served_files() == wanted)

    def served_files(self) -> Mapping[str, str]:
        """What the engine behind the node says it has read."""
        return loaded_files(self.engine_url)

    def idle_engine(self) -> HttpEngine:
        """A client of the idle engine."""
        return HttpEngine(self._idle_url)

    def model(self, name: str) -> Path:
        """The directory of a shipped model."""
        return tiny_models() / name

    def suite(self) -> bytes:
        """The tasks, with their answers."""
        if not self._suite:
            path = self.home / "suite.jsonl"
            options = {"--split": "gate", "--count": _SUITE_TASKS, "--seed": 0, "--out": path}
            subprocess.run(module_command("trainer.tiny.problems", options), check=True)
            self._suite = path.read_bytes()
        return self._suite

    def policy(self, scenario: str) -> dict[str, Any]:
        """Short gates: three right answers in a row, worked out and in plain prose."""
        document = {
            "name": scenario,
            "version": 1,
            "suite": sha256_hex(self.suite()),
            "generation": {"temperature": "0.7", "max_new_tokens": 96},
            "canaries": ["What is 6 times 7?"],
            "standard": _BY_ALL,
            "bootstrap": _BY_ANSWER,
            "max_errors": 2,
            "max_attempts": 2,
            "budget": None,
            "approvals": 0,
            "watch": None,
        }
        # Every field is spelt out in a policy, also those that a drill has no opinion about.
        complete: dict[str, Any] = msgspec.to_builtins(msgspec.convert(document, Policy))
        return complete

    @contextmanager
    def paused(self, program: str) -> Iterator[None]:
        """*program* stands still meanwhile."""
        process = self._running[program]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def crash(self, program: str) -> None:
        """Kill *program* and start it again."""
        process = self._running.pop(program)
        process.kill()
        process.wait()
        self.start(program)

    def scorer(self) -> AbstractContextManager[Scorer]:
        """What runs weights for an audit."""
        return scoring_program()

    def _define(self) -> None:
        super()._define()
        engine = self._programs["engine"]
        self._idle_url = f"http://127.0.0.1:{free_port()}"
        port = self._idle_url.rpartition(":")[2]
        command = [*engine.command]
        command[command.index("--port") + 1] = port
        idle = Program(
            name=_IDLE,
            command=command,
            environment=engine.environment,
            answers_at=self._idle_url,
        )
        self._programs = {**self._programs, _IDLE: idle}

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"The stack of the drill is not ready after {_PATIENCE_S:.0f} s.",
                    next_step=f"See the log files in {self.home}/logs.",
                )
            time.sleep(_LOOK_S)


def loaded_files(engine_url: str) -> Mapping[str, str]:
    """Path to SHA-256 of what an engine says it has read; empty while it has nothing loaded."""
    answer = httpx.get(f"{engine_url}/reef/loaded", timeout=30)
    if answer.status_code != 200:
        return {}
    files: dict[str, str] = answer.json()["files"]
    return files
