"""A whole service in memory, for tests: real bytes, real keys, real verifiers, the real fold.

A simulator instead of mocks. `World` keeps the log as the stored bytes of its events, writes
every event through the same validators as the service, and holds the keys of every role, so a
test tells a story (`submit`, `admit`, `gate`, `promote`) and then commits exactly one crime.
Three ways lead into the log:

- the story's verbs and `append` go through the rule and raise `Refused`, as the service does;
- `attack` appends what the rule forbids, past all validation, and returns the codes of the
  violation, after making sure that nothing else has changed;
- `append_raw` appends anything at all, also in a broken form.

Builders (`opening`, `trial`, `decision`, `signature`, `promotion`) return the data of the next
honest event, for a test to falsify.
"""

from __future__ import annotations

import copy
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.checks import TrialBody
from reef_release.domain.decision import GateDecision, decision_of
from reef_release.domain.events import GLOBAL, EventData
from reef_release.domain.fold import Fold
from reef_release.domain.gate import Gate
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.domain.suite import draw_seed, sampling_seed
from reef_release.domain.validation import stream_of
from reef_release.domain.weights import candidate_id
from reef_release.errors import Refused
from reef_release.projections.replay import ReplayChecks
from reef_release.signing.keyring import PRIVATE_NAME, init_keys
from reef_release.signing.keys import Role, SigningKey, load_key
from reef_release.signing.note import sign_checkpoint
from reef_release.signing.policy import sign_policy
from reef_release.signing.root import create_root
from reef_release.signing.vsa import sign_decision
from reef_release.signing.weights import sign_bundle

__all__ = [
    "CHANNEL",
    "ORIGIN",
    "SCENARIO",
    "World",
    "WorldSource",
    "byte_logprobs",
    "facts",
    "safetensors",
    "suite_lines",
    "text_tokens",
]

ORIGIN = "reef.test/log"
SCENARIO = "homework"
CHANNEL = "stable"
CANARY_PROMPT = "What is 2 + 2?"
SERVICE_ROLES = (Role.RELEASE, Role.GATE, Role.POLICY, Role.LOG, Role.POINTER)
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

MARKS = {"+": "right", "-": "wrong", "t": "truncated", "e": "crashed"}
"""A gate as a word: right, wrong, cut short, crashed; one letter per trial of a side."""


def safetensors(number: int) -> bytes:
    """A well-formed weights file of one tensor whose only value is *number*."""
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", len(header)) + header + struct.pack("<f", number)


def suite_lines(count: int = 30, first: int = 0) -> bytes:
    """A suite of *count* additions."""
    return b"".join(
        json.dumps(
            {"id": f"sum-{n:03}", "question": f"What is {n} + 2?", "answer": str(n + 2)}
        ).encode()
        + b"\n"
        for n in range(first, first + count)
    )


def text_tokens(text: str) -> list[int]:
    """The world's tokenizer: one token per byte."""
    return list(text.encode())


def byte_logprobs(weights_sha256: str, token_ids: Sequence[int]) -> list[float]:
    """The world's language model: log-probabilities that depend on weights, token and place."""
    number = int(weights_sha256[:8], 16)
    return [-((number + 7 * token + place) % 97 + 1) / 64 for place, token in enumerate(token_ids)]


def facts(state: State) -> dict[str, Any]:
    """All that the log says, apart from how long it is: equal before and after a violation."""
    return copy.deepcopy(
        {
            "root": state.root,
            "keys": state.keys,
            "checkpoints": state.checkpoints,
            "scenarios": state.scenarios,
            "current": state.current,
            "erased": state.erased,
            "kept": state.kept,
        }
    )


class World:
    """One service with its log, its blobs, its keys and its clock, in *directory*."""

    def __init__(self, directory: Path, *, started: bool = True) -> None:
        keys = init_keys(directory / "keys", threshold=2, root_count=3)
        self.anchor = keys.root_path.read_text(encoding="utf-8")
        self.keys: dict[Role, SigningKey] = {
            role: load_key(keys.directory / role.value / PRIVATE_NAME, role)
            for role in SERVICE_ROLES
        }
        self.root_keys = [
            load_key(keys.directory / "root" / str(number) / PRIVATE_NAME, Role.ROOT)
            for number in (1, 2, 3)
        ]
        self.blobs = DirectoryBlobStore(directory / "blobs", min_free_bytes=0)
        self.bodies: list[bytes] = []
        self.now = START
        self.scenario_name = SCENARIO
        self._weights = 0
        self._ids = 0
        self.fold = self.new_fold()
        if started:
            self.append(ev.RootRotated(version=1, metadata=self.anchor, reason="a new year"))
            for key in self.keys.values():
                self.add_key(key)

    # Reading

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def scenario(self) -> Scenario:
        return self.state.scenarios[self.scenario_name]

    @property
    def head(self) -> int:
        """Position of the last event."""
        return len(self.bodies) - 1

    @property
    def serving(self) -> str | None:
        """The release that the stable channel serves."""
        pointer = self.scenario.serving(CHANNEL)
        return pointer.release_id if pointer else None

    def gate_of(self, gate_id: str) -> Gate:
        return self.scenario.gates[gate_id]

    def last(self, type_name: str) -> ev.Event:
        """The newest event of a type."""
        events = (ev.decode(body) for body in reversed(self.bodies))
        return next(event for event in events if event.envelope.type == type_name)

    def new_fold(self) -> Fold:
        """A fold that has seen nothing yet, with this world's anchor and blobs."""
        return Fold(ReplayChecks(self.anchor, self.blobs))

    def replayed(self) -> State:
        """The state by folding all stored bytes again."""
        fold = self.new_fold()
        for body in self.bodies:
            fold.apply(body)
        return fold.state

    def rebuild(self) -> None:
        """Believe the stored bytes again after a test has changed them."""
        self.fold = self.new_fold()
        for body in self.bodies:
            self.fold.apply(body)

    # Writing

    def tick(self, seconds: float = 1.0) -> None:
        self.now += timedelta(seconds=seconds)

    def new_id(self) -> str:
        """The next UUIDv7; a counter stands where others have random bits."""
        self._ids += 1
        milliseconds = int(self.now.timestamp() * 1000)
        return str(uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62 | self._ids))

    def reasons(self, data: EventData, scenario: str | None = None) -> list[Reason]:
        """What the service would answer instead of appending *data*."""
        return self.fold.reasons(self._scenario_of(data, scenario), stream_of(data), data)

    def append(self, data: EventData, scenario: str | None = None, actor: str = "service") -> int:
        """Append as the service does; returns the position. Raises `Refused`."""
        reasons = self.reasons(data, scenario)
        if reasons:
            raise Refused(f"The service refuses this {data.TYPE}.", reasons=reasons)
        return self.append_raw(data, scenario=self._scenario_of(data, scenario), actor=actor)

    def append_raw(self, data: EventData, **envelope: Any) -> int:
        """Append past the rule, with other fields of the envelope; returns the position."""
        body = self.envelope(data, **envelope)
        self.fold.apply(body)
        self.bodies.append(body)
        return self.head

    def envelope(self, data: EventData, **fields: Any) -> bytes:
        """The canonical bytes of the next event with *data*."""
        scenario = fields.pop("scenario", None) or self._scenario_of(data, None)
        stream = fields.pop("stream", None) or stream_of(data)
        self.tick(0.001)
        return canonical_json(
            {
                "actor": "service",
                "causation_id": None,
                "correlation_id": None,
                "data": msgspec.to_builtins(data),
                "event_id": self.new_id(),
                "position": len(self.bodies),
                "recorded_at": self.time(),
                "scenario": scenario,
                "schema_version": data.SCHEMA_VERSION,
                "stream": stream,
                "type": data.TYPE,
                "version": self.state.versions.get((scenario, stream), 0) + 1,
                **fields,
            }
        )

    def time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def attack(self, data: EventData, scenario: str | None = None) -> list[str]:
        """Append *data* with the service's password but against the rule; the codes against it.

        The service must refuse for the same reasons, the event must stay visible as a
        violation, and nothing but the log's length may change.
        """
        asked = self.reasons(data, scenario)
        before = facts(self.state)
        position = self.append_raw(data, scenario=self._scenario_of(data, scenario))
        assert facts(self.state) == before, f"a forbidden {data.TYPE} had an effect"
        violation = self.state.violations[-1]
        assert (violation.position, violation.type) == (position, data.TYPE)
        assert list(violation.reasons) == asked
        return [reason.code for reason in asked]

    def _scenario_of(self, data: EventData, scenario: str | None) -> str:
        if scenario is not None:
            return scenario
        return GLOBAL if stream_of(data).partition("/")[0] == "trust" else self.scenario_name

    # What keys do; a world of other signatures overrides these

    def sign_note(self, size: int, root: bytes, key: SigningKey) -> str:
        return sign_checkpoint(ORIGIN, size, root, key)

    def sign_policy(self, document: bytes, key: SigningKey) -> dict[str, Any]:
        return sign_policy(document, key)

    def sign_decision(self, decision: GateDecision, key: SigningKey) -> dict[str, Any]:
        return sign_decision(decision, self.time(), key)

    def sign_bundle(self, files: Mapping[str, str], key: SigningKey) -> bytes:
        return sign_bundle(files, key)

    # Trust

    def add_key(self, key: SigningKey) -> int:
        assert self.state.root is not None
        return self.append(
            ev.KeyAdded(
                key_id=key.key_id,
                role=key.role.value,
                public_key=key.public.pem,
                root_version=self.state.root.version,
            )
        )

    def revoke_key(self, role: Role, reason: str = "its laptop was stolen") -> int:
        return self.append(
            ev.KeyRevoked(key_id=self.keys[role].key_id, role=role.value, reason=reason)
        )

    def root_text(
        self,
        keys: Mapping[Role, SigningKey],
        *,
        version: int,
        signers: Sequence[SigningKey] | None = None,
    ) -> str:
        """A trust root over *keys*, signed by this world's root keys unless told otherwise."""
        return create_root(
            version=version,
            threshold=2,
            root_keys=[key.public for key in self.root_keys],
            role_keys={role: [key.public] for role, key in keys.items()},
            expires=START + timedelta(days=365),
            signers=self.root_keys if signers is None else signers,
        )

    def checkpoint_note(self, size: int | None = None, key: SigningKey | None = None) -> str:
        """The log's signed note over its first *size* events, all by default."""
        size = len(self.bodies) if size is None else size
        root = MerkleTree(map(leaf_hash, self.bodies[:size])).root()
        return self.sign_note(size, root, key or self.keys[Role.LOG])

    def checkpoint_data(self, key: SigningKey | None = None) -> ev.CheckpointPublished:
        root = self.state.tree.root()
        size = self.state.tree.size
        return ev.CheckpointPublished(
            origin=ORIGIN,
            size=size,
            root=root.hex(),
            note=self.sign_note(size, root, key or self.keys[Role.LOG]),
        )

    def checkpoint(self) -> int:
        return self.append(self.checkpoint_data())

    # Scenario and policy

    @cached_property
    def suite(self) -> str:
        """Digest of the default suite."""
        return self.blobs.put_bytes_sync(suite_lines())

    @cached_property
    def schema(self) -> str:
        """Digest of the scenario's tensor schema."""
        return self.blobs.put_bytes_sync(b'{"tensors":{"w":{"dtype":"F32","shape":[1]}}}')

    def _next_policy(self) -> int:
        scenario = self.state.scenarios.get(self.scenario_name)
        return 1 if scenario is None else scenario.policy.policy.version + 1

    def policy(self, **changes: Any) -> dict[str, Any]:
        """The default policy: two right answers in a row within six, three failures end it."""
        part = {
            "verifiers": ["answer@1"],
            "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3},
        }
        return {
            "name": self.scenario_name,
            "version": self._next_policy(),
            "suite": self.suite,
            "generation": {"temperature": "0.7", "max_new_tokens": 64},
            "canaries": [CANARY_PROMPT],
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

    def signed_policy(
        self, document: Mapping[str, Any], key: SigningKey | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Digest and envelope of a policy."""
        data = canonical_json(document)
        return sha256_hex(data), self.sign_policy(data, key or self.keys[Role.POLICY])

    def scenario_data(self, key: SigningKey | None = None, **changes: Any) -> ev.ScenarioCreated:
        digest, envelope = self.signed_policy(self.policy(**changes), key)
        return ev.ScenarioCreated(schema=self.schema, policy_digest=digest, policy=envelope)

    def create_scenario(self, name: str = SCENARIO, **policy_changes: Any) -> int:
        self.scenario_name = name
        return self.append(self.scenario_data(**policy_changes))

    def policy_data(self, key: SigningKey | None = None, **changes: Any) -> ev.PolicyChanged:
        digest, envelope = self.signed_policy(self.policy(**changes), key)
        return ev.PolicyChanged(policy_digest=digest, policy=envelope, reason="a better rule")

    def change_policy(self, **changes: Any) -> int:
        return self.append(self.policy_data(**changes))

    def hold(self, reason: str = "the answers look odd") -> int:
        return self.append(ev.ScenarioHeld(reason=reason), actor="operator")

    def resume(self, reason: str = "they were fine") -> int:
        return self.append(ev.ScenarioResumed(reason=reason), actor="operator")

    # Candidates

    def submission(
        self, contents: Mapping[str, bytes] | None = None, /, **changes: Any
    ) -> ev.CandidateSubmitted:
        """A candidate of files; by default fresh weights that continue the serving release."""
        if contents is None:
            self._weights += 1
            contents = {"config.json": b"{}", "model.safetensors": safetensors(self._weights)}
        entries = [
            ev.FileEntry(path=path, sha256=self.blobs.put_bytes_sync(data), size_bytes=len(data))
            for path, data in sorted(contents.items())
        ]
        fields: dict[str, Any] = {
            "candidate_id": candidate_id({entry.path: entry.sha256 for entry in entries}),
            "channel": CHANNEL,
            "kind": "full",
            "foundation": None,
            "base": self.serving,
            "parent": self.serving,
            "batches": [],
            "settings": {"learning_rate": "1e-06"},
            "metrics": {},
            "seed": 7,
            "files": entries,
        }
        return ev.CandidateSubmitted(**(fields | changes))

    def submit(self, contents: Mapping[str, bytes] | None = None, /, **changes: Any) -> str:
        """Returns the candidate's id."""
        data = self.submission(contents, **changes)
        self.append(data, actor="trainer")
        return data.candidate_id

    def admit(self, candidate: str) -> int:
        return self.append(
            ev.CandidateAdmitted(
                candidate_id=candidate, schema=self.scenario.schema, tensor_count=1, size_bytes=4
            )
        )

    def refuse(self, candidate: str) -> int:
        reason = Reason(code="not-finite", message="a value is NaN", where="model.safetensors")
        return self.append(ev.CandidateRefused(candidate_id=candidate, reasons=[reason]))

    def admitted(self, **changes: Any) -> str:
        """A submitted and admitted candidate that a checkpoint covers, ready for its gate."""
        candidate = self.submit(**changes)
        self.admit(candidate)
        self.checkpoint()
        return candidate

    # Gates

    def opening(self, candidate: str, /, **changes: Any) -> ev.GateOpened:
        """The one way in which a gate over *candidate* may open now."""
        admitted_position = self.scenario.candidates[candidate].admitted_position
        checkpoint = (
            None
            if admitted_position is None
            else self.state.first_checkpoint_covering(admitted_position)
        )
        in_force = self.scenario.policy
        root = bytes.fromhex(checkpoint.root) if checkpoint else bytes(32)
        seed = draw_seed(
            checkpoint_root=root, candidate_id=candidate, policy_digest=in_force.digest
        )
        fields: dict[str, Any] = {
            "gate_id": self.new_id(),
            "candidate_id": candidate,
            "base": self.serving,
            "channel": CHANNEL,
            "phase": "standard" if self.serving else "bootstrap",
            "policy_digest": in_force.digest,
            "suite": in_force.policy.suite,
            "checkpoint_position": checkpoint.position if checkpoint else 0,
            "seed": seed.hex(),
        }
        return ev.GateOpened(**(fields | changes))

    def open_gate(self, candidate: str) -> str:
        """Returns the gate's id."""
        data = self.opening(candidate)
        self.append(data)
        return data.gate_id

    def trial_body(self, gate_id: str, mark: str, /, **changes: Any) -> TrialBody:
        """The raw record of the trial that is due, with a reply as *mark* says."""
        gate = self.gate_of(gate_id)
        due = gate.due()
        assert due is not None, "no trial is due"
        slot, side, _ = due
        task = gate.tasks[slot]
        answer = task.answer if mark == "+" else str(int(task.answer) + 1)
        reply = f"The answer is {answer}."
        release = gate.opened.candidate_id if side == "candidate" else gate.opened.base
        assert release is not None
        tokens = text_tokens(reply)
        fields: dict[str, Any] = {
            "task_id": task.id,
            "side": side,
            "release_id": release,
            "sampling_seed": sampling_seed(bytes.fromhex(gate.opened.seed), slot),
            "prompt_token_ids": text_tokens(task.question),
            "token_ids": tokens,
            "logprobs": byte_logprobs(self.weights_of(release), tokens),
            "reply": reply,
            "finish_reason": "length" if mark == "t" else "stop",
        }
        return TrialBody(**(fields | changes))

    def put_trial(self, body: TrialBody) -> str:
        return self.blobs.put_body_sync(msgspec.json.encode(body))

    def trial(self, gate_id: str, mark: str = "+", /, **changes: Any) -> ev.GateTrial:
        """The trial that is due, ending as *mark* says; see `MARKS`."""
        gate = self.gate_of(gate_id)
        due = gate.due()
        assert due is not None, "no trial is due"
        slot, side, attempt = due
        body = None if mark == "e" else self.trial_body(gate_id, mark)
        passed = mark == "+"
        fields: dict[str, Any] = {
            "gate_id": gate_id,
            "slot": slot,
            "side": side,
            "attempt": attempt,
            "task_id": gate.tasks[slot].id,
            "body": None if body is None else self.put_trial(body),
            "error": MARKS[mark] if mark in "et" else None,
            "verdict": (
                None
                if mark in "et"
                else ev.VerdictRecord(passed=passed, checks={"answer@1": passed})
            ),
        }
        return ev.GateTrial(**(fields | changes))

    def run_trials(self, gate_id: str, candidate: str, incumbent: str = "") -> None:
        """Run trials until none is due or a word is spent; the incumbent is wrong by default."""
        marks = {"candidate": iter(candidate), "incumbent": iter(incumbent)}
        gate = self.gate_of(gate_id)
        while (due := gate.due()) is not None:
            default = "-" if due[1] == "incumbent" else None
            mark = next(marks[due[1]], default)
            if mark is None:
                return
            self.append(self.trial(gate_id, mark), actor="gate-worker")

    def weights_of(self, release: str) -> str:
        """Digest of a release's model file."""
        files = self.scenario.candidates[release].submitted.files
        return next(file.sha256 for file in files if file.path.endswith(".safetensors"))

    def canary(self, release: str) -> str:
        """Digest of the canary blob of a release."""
        tokens = text_tokens("4")
        entry = {
            "prompt": CANARY_PROMPT,
            "prompt_token_ids": text_tokens(CANARY_PROMPT),
            "token_ids": tokens,
            "logprobs": byte_logprobs(self.weights_of(release), tokens),
        }
        return self.blobs.put_bytes_sync(json.dumps({"canaries": [entry]}).encode())

    def decision(
        self,
        gate_id: str,
        outcome: str | None = None,
        key: SigningKey | None = None,
        **changes: Any,
    ) -> ev.DecisionPosted:
        """What the gate worker posts at the end; *outcome* is what the trials say by default."""
        gate = self.gate_of(gate_id)
        outcome = outcome or gate.verdict_due()
        assert outcome is not None, "the gate is not decided yet"
        canary = self.canary(gate.opened.candidate_id) if outcome == "passed" else None
        decision = decision_of(self.scenario_name, gate, outcome, canary)
        kind = ev.EVENT_TYPES[f"gate.{outcome}"]
        assert issubclass(kind, ev.DecisionPosted)
        fields: dict[str, Any] = {
            "gate_id": gate_id,
            "candidate_id": gate.opened.candidate_id,
            "base": gate.opened.base,
            "channel": gate.opened.channel,
            "attestation": self.sign_decision(decision, key or self.keys[Role.GATE]),
            "canary": canary,
        }
        return kind(**(fields | changes))

    def decide(self, gate_id: str) -> str:
        """Returns the outcome."""
        data = self.decision(gate_id)
        self.append(data, actor="gate-worker")
        return data.TYPE.removeprefix("gate.")

    def gate(self, candidate: str, marks: str = "++") -> str:
        """Open a gate, run it and decide it; returns its id."""
        gate_id = self.open_gate(candidate)
        self.run_trials(gate_id, marks)
        self.decide(gate_id)
        return gate_id

    def stale(self, gate_id: str) -> int:
        pointer = self.scenario.serving(CHANNEL)
        assert pointer is not None
        return self.append(ev.GateStale(gate_id=gate_id, pointer_position=pointer.position))

    # Releases

    def signature(
        self, gate_id: str, key: SigningKey | None = None, **changes: Any
    ) -> ev.ReleaseSigned:
        """The signer's bundle over the candidate of a gate."""
        candidate = self.scenario.candidates[self.gate_of(gate_id).opened.candidate_id]
        files = {entry.path: entry.sha256 for entry in candidate.submitted.files}
        key = key or self.keys[Role.RELEASE]
        fields: dict[str, Any] = {
            "release_id": candidate.candidate_id,
            "gate_id": gate_id,
            "key_id": key.key_id,
            "bundle": self.blobs.put_bytes_sync(self.sign_bundle(files, key)),
        }
        return ev.ReleaseSigned(**(fields | changes))

    def sign(self, gate_id: str) -> int:
        return self.append(self.signature(gate_id), actor="signer")

    def promotion(self, gate_id: str, /, **changes: Any) -> ev.ReleasePromoted:
        opened = self.gate_of(gate_id).opened
        fields: dict[str, Any] = {
            "release_id": opened.candidate_id,
            "gate_id": gate_id,
            "base": opened.base,
            "channel": opened.channel,
        }
        return ev.ReleasePromoted(**(fields | changes))

    def promote(self, gate_id: str) -> int:
        return self.append(self.promotion(gate_id))

    def passed(self, candidate: str | None = None) -> str:
        """A candidate with a passed gate and signed weights, one step from serving; the gate."""
        gate_id = self.gate(candidate or self.admitted())
        self.sign(gate_id)
        return gate_id

    def release(self) -> str:
        """A fresh candidate through all of it, into serving; returns its id."""
        gate_id = self.passed()
        self.promote(gate_id)
        self.checkpoint()
        return self.gate_of(gate_id).opened.candidate_id

    def rollback_data(self, release: str, reason: str = "worse at fractions") -> Any:
        return ev.ReleaseRolledBack(release_id=release, channel=CHANNEL, reason=reason)

    def rollback(self, release: str) -> int:
        return self.append(self.rollback_data(release), actor="operator")

    def revoke_candidate(self, candidate: str) -> int:
        return self.append(ev.CandidateRevoked(candidate_id=candidate, reason="trained on tests"))

    def revoke_release(self, release: str) -> int:
        return self.append(ev.ReleaseRevoked(release_id=release, reason="insults people"))


class WorldSource:
    """An `ExportSource` on a world: what the auditor's token would let one read."""

    def __init__(self, world: World, page: int = 1000) -> None:
        self._world = world
        self._page = page

    def checkpoint(self) -> str:
        return self._world.checkpoint_note()

    def events(self, after: int, limit: int) -> list[bytes]:
        return self._world.bodies[after + 1 : after + 1 + min(limit, self._page)]

    def fetch_blob(self, digest: str, size_bytes: int | None, target: Path) -> None:
        data = b"".join(self._world.blobs.chunks_sync(digest))
        assert size_bytes is None or size_bytes == len(data)
        target.write_bytes(data)
