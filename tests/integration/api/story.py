"""Everybody who talks to a service over HTTP, for tests: operator, trainer, gate worker, signer.

A `Site` is what lies on the disk of one installation: keys, blobs, the database. A `Story` is
an open HTTP client for a running service of that site, with verbs that each role could do with
its own token and its own key; the gate worker replies whatever the test says, without a model.
A gate's replies are a word of marks: right (+), wrong (-), cut short (t), crashed (e).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx
import msgspec

from reef_release import wire
from reef_release.api.service import Service, open_service
from reef_release.artifacts.schema import model_schema, schema_bytes
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import decision_of
from reef_release.domain.events import FileEntry, GateTrial, VerdictRecord
from reef_release.domain.gate import Gate
from reef_release.domain.policy import Policy
from reef_release.domain.suite import Task, parse_suite
from reef_release.domain.weights import candidate_id
from reef_release.settings import Settings
from reef_release.signing.keyring import PRIVATE_NAME, ROOT_NAME, init_keys
from reef_release.signing.keys import Role, SigningKey, load_key
from reef_release.signing.policy import sign_policy
from reef_release.signing.vsa import sign_decision
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret
from reef_release.web.pages import PAGES
from tests.applications import application
from tests.databases import Database
from tests.world import safetensors, suite_lines

__all__ = [
    "CHANNEL",
    "SCENARIO",
    "Problem",
    "Site",
    "Story",
    "has_folded",
    "known_gate",
    "model_files",
    "open_story",
    "until",
]

SCENARIO = "homework"
CHANNEL = "stable"
_PATIENCE_S = 30.0
_T = TypeVar("_T")


def model_files(number: int) -> dict[str, bytes]:
    """A model that passes admission; its one tensor holds *number*."""
    config = {"architectures": ["Tiny"], "eos_token_id": 2, "model_type": "tiny"}
    return {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": safetensors(number),
    }


@dataclass(kw_only=True)
class Site:
    """One installation."""

    home: Path
    database: Database
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """For weights that are not like any before."""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        init_keys(self.home / "keys")
        self.tokens = Tokens(load_secret(self.home / "keys" / TOKEN_SECRET, create=True))

    def settings(self, **changes: Any) -> Settings:
        """Settings of a service of this site."""
        given = {"home": self.home, "database_url": self.database.service_dsn, "port": 0}
        return Settings(**(given | changes))

    def key(self, role: Role) -> SigningKey:
        return load_key(self.home / "keys" / role / PRIVATE_NAME, role)

    @property
    def anchor(self) -> str:
        """The trust root, version 1."""
        return (self.home / "keys" / ROOT_NAME).read_text("utf-8")

    def token(self, role: TokenRole | str, scenario: str | None = None) -> str:
        role = TokenRole(role)
        return self.tokens.issue(Principal(name=f"the-{role}", role=role, scenario=scenario))

    def model_schema(self) -> bytes:
        """The schema of every `model_files`."""
        directory = self.home / "model"
        directory.mkdir(exist_ok=True)
        for path, content in model_files(0).items():
            (directory / path).write_bytes(content)
        return schema_bytes(model_schema(directory))


class Problem(Exception):
    """An answer of 400 or above, for tests that expect it."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.method} {response.request.url}: {response.text}")
        self.response = response
        self.status = response.status_code
        self.body: dict[str, Any] = response.json()

    @property
    def codes(self) -> list[str]:
        return [reason["code"] for reason in self.body["reasons"]]


@dataclass(kw_only=True)
class Story:
    """The roles' verbs on one running service; `scenario` is the one they all work in."""

    site: Site
    http: httpx.AsyncClient
    service: Service | None = None
    """The service's insides, if it runs in this event loop."""
    scenario: str = SCENARIO
    _policies: int = 0
    suite: bytes = field(default_factory=suite_lines)

    # Requests

    async def ask(
        self, role: TokenRole | str | None, method: str, path: str, **options: Any
    ) -> httpx.Response:
        """One request with a token of *role*; whatever comes back."""
        headers = dict(options.pop("headers", {}))
        if role is not None:
            headers.setdefault("Authorization", f"Bearer {self.site.token(role)}")
        return await self.http.request(method, path, headers=headers, **options)

    async def get(self, role: str, path: str, **options: Any) -> Any:
        """A JSON answer. Raises `Problem`."""
        return _decoded(await self.ask(role, "GET", path, **options))

    async def post(self, role: str, path: str, body: Any = None, **options: Any) -> Any:
        """A JSON answer to a JSON body. Raises `Problem`."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return _decoded(await self.ask(role, "POST", path, content=content, **options))

    def path(self, *segments: str) -> str:
        return "/".join(["/reef/scenarios", self.scenario, *segments])

    async def put_blob(self, data: bytes, role: str = "operate") -> str:
        digest = sha256_hex(data)
        response = await self.ask(role, "PUT", f"/reef/blobs/{digest}", content=data)
        assert response.status_code in (200, 201), response.text
        return digest

    # Operator

    def policy(self, **changes: Any) -> dict[str, Any]:
        """Two right answers in a row within six trials; three failures end the gate."""
        part = {
            "verifiers": ["answer@1"],
            "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3},
        }
        return {
            "name": self.scenario,
            "version": 1,
            "suite": sha256_hex(self.suite),
            "generation": {"temperature": "0.7", "max_new_tokens": 64},
            "canaries": ["What is 2 + 2?"],
            "standard": part,
            "bootstrap": part,
            "max_errors": 2,
            "max_attempts": 2,
            "suite_max_gates": 1000,
            "allowed_changes": [],
            "budget": None,
            "approvals": 0,
            "watch": None,
            **changes,
        }

    def signed_policy(self, **changes: Any) -> dict[str, Any]:
        """The scenario's next policy, signed."""
        self._policies += 1
        changes = {"version": self._policies, **changes}
        return sign_policy(canonical_json(self.policy(**changes)), self.site.key(Role.POLICY))

    async def create_scenario(self, **policy_changes: Any) -> Any:
        schema = await self.put_blob(self.site.model_schema())
        await self.put_blob(self.suite)
        policy = self.signed_policy(**policy_changes)
        return await self.post(
            "operate",
            "/reef/scenarios",
            {"name": self.scenario, "schema": schema, "policy": policy},
        )

    async def lever(self, name: str, **fields: Any) -> Any:
        """hold, resume or rollback."""
        return await self.post(
            "operate", self.path(name), {"reason": "the answers look odd", **fields}
        )

    # Trainer

    async def upload(self, files: Mapping[str, bytes], role: str = "train") -> list[FileEntry]:
        return [
            FileEntry(path=path, sha256=await self.put_blob(content, role), size_bytes=len(content))
            for path, content in files.items()
        ]

    async def serving(self, channel: str = CHANNEL) -> str | None:
        """The release that the channel serves."""
        view = await self.get("audit", self.path())
        return view["channels"].get(channel, {}).get("release_id")

    async def manifest(
        self, files: Mapping[str, bytes] | None = None, **changes: Any
    ) -> dict[str, Any]:
        """A manifest of uploaded files, by default fresh weights on the serving release."""
        if files is None:
            files = model_files(next(self.site.numbers))
        base = await self.serving(changes.get("channel", CHANNEL))
        entries = msgspec.to_builtins(await self.upload(files))
        return {"files": entries, "base": base, "parent": base, **changes}

    async def submit(
        self,
        files: Mapping[str, bytes] | None = None,
        role: str | None = None,
        wait: float = 30,
        **changes: Any,
    ) -> Any:
        """Submit and wait for the admission; the origin is the operator's. Raises `Problem`."""
        manifest = await self.manifest(files, **changes)
        role = role or ("train" if manifest["base"] else "operate")
        return await self.post(role, self.path("candidates"), manifest, params={"wait": wait})

    async def candidate(self, identity: str) -> Any:
        return await self.get("audit", self.path("candidates", identity))

    # Gate worker

    async def claim(self, worker: str = "gate-1") -> wire.GateAssignment | None:
        response = await self.ask(
            "gate", "POST", self.path("gates", "claim"), json={"worker": worker}
        )
        if response.status_code == 204:
            return None
        if response.status_code != 200:
            raise Problem(response)
        return msgspec.json.decode(response.content, type=wire.GateAssignment)

    async def claim_soon(self, worker: str = "gate-1") -> wire.GateAssignment:
        """Claim until there is work: a draw waits for the checkpoint after the admission."""
        assignment = await until(lambda: self.claim(worker))
        assert assignment is not None
        return assignment

    def trial(
        self, assignment: wire.GateAssignment, due: wire.Due, mark: str, **changes: Any
    ) -> dict[str, Any]:
        """The trial that is *due*, ending as *mark* says."""
        task = assignment.tasks[due.slot]
        answer = self._answers()[task.task_id]
        shown = answer if mark != "-" else str(int(answer) + 1)
        reply = {
            "prompt_token_ids": [1, 2, 3],
            "token_ids": [4, 5],
            "logprobs": [-0.25, -1.5],
            "reply": f"The answer is {shown}.",
            "finish_reason": "length" if mark == "t" else "stop",
        }
        return {
            "slot": due.slot,
            "side": due.side,
            "attempt": due.attempt,
            "task_id": task.task_id,
            "reply": None if mark == "e" else reply,
            "error": "crashed" if mark == "e" else None,
            **changes,
        }

    async def post_trial(
        self, assignment: wire.GateAssignment, due: wire.Due, mark: str, **changes: Any
    ) -> wire.TrialView:
        """Raises `Problem`."""
        body = self.trial(assignment, due, mark, **changes)
        path = self.path("gates", assignment.opened.gate_id, "trials")
        return msgspec.convert(await self.post("gate", path, body), wire.TrialView)

    async def run_trials(
        self, assignment: wire.GateAssignment, candidate: str, incumbent: str = ""
    ) -> Gate:
        """Post trials until none is due or a word is spent; the incumbent is wrong by default.

        Returns the gate as the worker knows it.
        """
        gate = known_gate(assignment)
        marks = {"candidate": iter(candidate), "incumbent": iter(incumbent)}
        due = assignment.due
        while due is not None:
            mark = next(marks[due.side], "-" if due.side == "incumbent" else None)
            if mark is None:
                break
            view = await self.post_trial(assignment, due, mark)
            gate.trials.append(_trial_of(assignment, view.trial))
            due = view.due
        return gate

    async def decision(
        self,
        gate: Gate,
        outcome: str | None = None,
        key: SigningKey | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """What the worker posts at the end of *gate*."""
        outcome = outcome or gate.verdict_due()
        assert outcome is not None, "the gate is not decided yet"
        canary = await self.put_blob(self.canary(), "gate") if outcome == "passed" else None
        return msgspec.to_builtins(self.signed_decision(gate, outcome, canary, key, **changes))

    def signed_decision(
        self,
        gate: Gate,
        outcome: str,
        canary: str | None,
        key: SigningKey | None = None,
        **changes: Any,
    ) -> wire.DecisionRequest:
        """The decision on *gate*, with *changes*, signed by the gate key or another."""
        decision = decision_of(self.scenario, gate, outcome, canary)
        decision = msgspec.structs.replace(decision, **changes)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        signed = sign_decision(decision, now, key or self.site.key(Role.GATE))
        return wire.DecisionRequest(
            attestation=signed,
            canary=decision.canary,
            outcome="errored" if outcome == "errored" else None,
        )

    async def decide(self, gate: Gate, **options: Any) -> str:
        """Sign and post the decision; the outcome. Raises `Problem`."""
        path = self.path("gates", gate.opened.gate_id, "decision")
        view = await self.post("gate", path, await self.decision(gate, **options))
        return str(view["outcome"])

    async def gate(self, candidate: str = "++", incumbent: str = "") -> Gate:
        """Claim what waits, run it and decide it."""
        assignment = await self.claim_soon()
        gate = await self.run_trials(assignment, candidate, incumbent)
        await self.decide(gate)
        return gate

    @staticmethod
    def canary() -> bytes:
        entry = {
            "prompt": "What is 2 + 2?",
            "prompt_token_ids": [1, 2],
            "token_ids": [4],
            "logprobs": [-0.5],
        }
        return json.dumps({"canaries": [entry]}).encode()

    # Signer

    async def bundle(self, identity: str) -> bytes:
        """The signature over the files of a candidate."""
        files = {file["path"]: file["sha256"] for file in (await self.candidate(identity))["files"]}
        assert candidate_id(files) == identity
        return sign_bundle(files, self.site.key(Role.RELEASE))

    async def sign(self, identity: str) -> Any:
        path = self.path("releases", identity, "bundle")
        return await self.post("sign", path, await self.bundle(identity))

    # All of them

    async def promoted(self, identity: str) -> int:
        """Wait until the release is promoted; the position of that event."""
        path = self.path("releases", identity)
        # Another service than the one that it was signed at may not know it yet.
        answer = await until(
            lambda: self.ask("audit", "GET", path),
            lambda answer: answer.json().get("promoted_position") is not None,
        )
        return int(answer.json()["promoted_position"])

    async def release(self, files: Mapping[str, bytes] | None = None) -> str:
        """Fresh weights through all of it, into serving; the release's id."""
        view = await self.submit(files)
        await self.gate()
        await self.sign(view["candidate_id"])
        await self.promoted(view["candidate_id"])
        return str(view["candidate_id"])

    async def current(self, **options: Any) -> httpx.Response:
        return await self.ask("serve", "GET", self.path("current"), **options)

    async def events(self, **params: Any) -> list[dict[str, Any]]:
        """All events that *params* choose, page by page; every view of the service shows them."""
        found: list[dict[str, Any]] = []
        after = -1
        while True:
            page = await self.get(
                "audit", "/reef/events", params={"after": after, "limit": 1000, **params}
            )
            found += page["events"]
            if len(page["events"]) < 1000:
                break
            after = page["next_after"]
        if found:
            await until(lambda: self.ask(None, "GET", "/readyz"), has_folded(found[-1]["position"]))
        return found

    def _answers(self) -> dict[str, str]:
        return {task.id: task.answer for task in parse_suite(self.suite).tasks}


def has_folded(position: int) -> Callable[[httpx.Response], bool]:
    """Whether /readyz says that the event there counts; what is stored is folded a moment later.

    A service that cannot fold its log says so, and is waited for in vain.
    """
    return lambda ready: ready.status_code != 200 or ready.json()["position"] >= position


async def until(look: Callable[[], Awaitable[_T]], wanted: Callable[[_T], object] = bool) -> _T:
    """Look again and again until what is seen is *wanted*: over HTTP nobody tells."""
    with anyio.fail_after(_PATIENCE_S):
        while True:
            seen = await look()
            if wanted(seen):
                return seen
            await anyio.sleep(0.01)


@asynccontextmanager
async def open_story(site: Site, **settings: Any) -> AsyncIterator[Story]:
    """A service of *site* in this event loop, and its story."""
    async with open_service(site.settings(**settings)) as service:
        with application(service, PAGES) as app:
            transport = httpx.ASGITransport(app)
            async with (
                app.lifespan(),
                httpx.AsyncClient(transport=transport, base_url="http://reef", timeout=30) as http,
            ):
                yield Story(site=site, http=http, service=service)


def known_gate(assignment: wire.GateAssignment) -> Gate:
    """The gate as its worker sees it: with questions, without answers."""
    return Gate(
        opened=assignment.opened,
        opened_position=-1,
        policy=msgspec.convert(assignment.policy, Policy),
        policy_key="",
        tasks=[
            Task(id=task.task_id, question=task.question, answer="") for task in assignment.tasks
        ],
        trials=[_trial_of(assignment, trial) for trial in assignment.trials],
        share=assignment.share,
    )


def _trial_of(assignment: wire.GateAssignment, summary: Any) -> GateTrial:
    verdict = None if summary.passed is None else VerdictRecord(passed=summary.passed, checks={})
    return GateTrial(
        gate_id=assignment.opened.gate_id,
        slot=summary.slot,
        side=summary.side,
        attempt=summary.attempt,
        task_id=summary.task_id,
        body=summary.body,
        error=summary.error,
        verdict=verdict,
    )


def _decoded(response: httpx.Response) -> Any:
    if response.status_code >= 400:
        raise Problem(response)
    return response.json() if response.content else None
