"""The homework scenario of `up` and `demo`: tiny weights, generated problems, a signed policy."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reef_release.artifacts.schema import model_schema, schema_bytes
from reef_release.cli.external import module_command, tiny_models
from reef_release.cli.programs import DEVELOPMENT, PROGRAMS, Learning
from reef_release.cli.stack import LocalStack
from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json
from reef_release.domain.gating.default import default_budget, default_rule
from reef_release.errors import NotFound, Unavailable
from reef_release.ids import short_id
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, load_key
from reef_release.signing.policy import sign_policy
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateManifest, CandidateView, ScenarioRequest

__all__ = [
    "BATCH_SIZE",
    "SCENARIO",
    "await_node",
    "await_status",
    "degrade",
    "homework_learning",
    "policy_document",
    "start_homework",
    "submit",
]

SCENARIO = "homework"
BATCH_SIZE = 4
_SUITE_TASKS = 400
_DEVELOPMENT_TASKS = 200
_GATE_TIMEOUT_S = 300.0
_NODE_TIMEOUT_S = 90.0
_LOOK_S = 0.2


def policy_document(suite: str) -> dict[str, Any]:
    """The homework policy: right, worked out and in plain prose; better than what is served.

    The origin, which is compared with nothing, must be right five times in a row; `reef-release
    gate odds` prints what that lets through.
    """
    absolute = {"kind": "consecutive_passes", "k": 5, "max_trials": 24, "max_failures": 8}
    return {
        "name": SCENARIO,
        "version": 1,
        "suite": suite,
        "generation": {"temperature": "0.7", "max_new_tokens": 128},
        "canaries": ["How many apples are 3 apples and 4 apples?", "What is 6 times 7?"],
        "standard": {
            "verifiers": ["answer@1", "work_steps@1", "style@1"],
            "rule": default_rule(),
        },
        "bootstrap": {"verifiers": ["answer@1"], "rule": absolute},
        "max_errors": 3,
        "max_attempts": 2,
        "suite_max_gates": 1000,
        "allowed_changes": [],
        "budget": default_budget(),
        "approvals": 0,
        "watch": None,
    }


def homework_learning() -> Learning:
    """How the tiny policy learns, by the settings that come with it. Raises `SettingsError`."""
    return Learning(settings=tiny_models().parent / "homework.json", batch_size=BATCH_SIZE)


def start_homework(stack: LocalStack, client: ReefClient, say: Callable[[str], None]) -> None:
    """Start the programs of a prepared *stack*; the scenario comes before those that work on it."""
    service, *workers = PROGRAMS
    say(f"starting the {service}")
    stack.start(service)
    say("looking for the scenario with its signed policy")
    _ensure_scenario(stack, client)
    for name in workers:
        say(f"starting the {name}")
        stack.start(name)


def _ensure_scenario(stack: LocalStack, client: ReefClient) -> None:
    """Create the scenario if it is missing."""
    suite = stack.home / "suite.jsonl"
    _draw("gate", _SUITE_TASKS, suite)
    _draw("development", _DEVELOPMENT_TASKS, stack.home / DEVELOPMENT)
    try:
        client.scenario(SCENARIO)
    except NotFound:
        digest = client.put_blob(suite.read_bytes())
        schema = client.put_blob(schema_bytes(model_schema(tiny_models() / "origin")))
        key = load_key(stack.keys / Role.POLICY / PRIVATE_NAME, Role.POLICY)
        signed = sign_policy(canonical_json(policy_document(digest)), key)
        client.create_scenario(ScenarioRequest(name=SCENARIO, schema=schema, policy=signed))


def _draw(split: str, count: int, out: Path) -> None:
    if not out.exists():
        options = {"--split": split, "--count": count, "--seed": 0, "--out": out}
        subprocess.run(module_command("trainer.tiny.problems", options), check=True)


def degrade(how: str, init: Path, out: Path) -> None:
    """Make a bad candidate from the weights in *init*; see `python -m trainer.tiny.degrade`."""
    options = {"--how": how, "--init": init, "--out": out}
    subprocess.run(
        module_command("trainer.tiny.degrade", options), check=True, stderr=subprocess.DEVNULL
    )


def submit(stack: LocalStack, directory: Path) -> CandidateView:
    """Upload and submit *directory*; the origin is the operator's, the rest the trainer's.

    Raises `Refused` with every reason of the admission.
    """
    with stack.client(TokenRole.OPERATE) as operator:
        served = operator.scenario(SCENARIO).channels.get("stable")
    role = TokenRole.TRAIN if served else TokenRole.OPERATE
    base = served.release_id if served else None
    with stack.client(role) as client:
        files = client.upload_directory(directory)
        return client.submit(SCENARIO, CandidateManifest(files=files, base=base, parent=base))


def await_node(stack: LocalStack) -> None:
    """Wait until a node has loaded the release served. Raises `Unavailable`."""
    deadline = time.monotonic() + _NODE_TIMEOUT_S
    with stack.client(TokenRole.OPERATE) as client:
        while True:
            view = client.scenario(SCENARIO)
            serving = view.channels["stable"].release_id
            if any(node.release_id == serving for node in view.nodes):
                return
            stack.check()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"No node has loaded the release {short_id(serving)} after "
                    f"{_NODE_TIMEOUT_S:.0f} s.",
                    next_step=f"See {stack.home}/logs/node.log.",
                )
            time.sleep(_LOOK_S)


def await_status(stack: LocalStack, candidate_id: str, *ends: str) -> CandidateView:
    """Wait until the candidate's status is one of *ends*. Raises `Unavailable`."""
    deadline = time.monotonic() + _GATE_TIMEOUT_S
    with stack.client(TokenRole.OPERATE) as client:
        while (view := client.candidate(SCENARIO, candidate_id)).status not in ends:
            stack.check()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Candidate {short_id(candidate_id)} is still {view.status} after "
                    f"{_GATE_TIMEOUT_S:.0f} s.",
                    next_step=f"See the log files in {stack.home}/logs.",
                )
            time.sleep(_LOOK_S)
    return view
