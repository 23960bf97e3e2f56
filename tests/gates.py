"""The gate's routes of the fake service, and engines that reply what a test says.

`FakeGateService` appends through the world's one rule, as the service does: what it answers to a
worker follows from the log, unless a test puts something else in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from reef_release import wire
from reef_release.api import views
from reef_release.api.leases import Leases
from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.checks import TrialBody
from reef_release.domain.decision import summaries_of
from reef_release.domain.gate import Gate
from reef_release.domain.quorum import has_passed_it
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revoked_at
from reef_release.domain.suite import sampling_seed
from reef_release.errors import NotFound, Refused, SignatureRejected
from tests.fakes import FakeService, problem
from tests.world import CHANNEL, text_tokens
from trainer.engines.protocol import Generation, Messages, Sampling
from trainer.engines.weights import ModelFiles

__all__ = ["FakeEngines", "FakeGateService", "Script", "right", "wrong"]

Script = Callable[[str], str]
"""A question's reply. What it raises, the engine raises; see `FakeEngines` for more."""


def right(question: str) -> str:
    """The answer to one of the world's additions."""
    numbers = re.findall(r"\d+", question)
    return f"The answer is {sum(map(int, numbers))}."


def wrong(question: str) -> str:
    """One more than the answer."""
    numbers = re.findall(r"\d+", question)
    return f"The answer is {sum(map(int, numbers)) + 1}."


@dataclass(kw_only=True)
class FakeGateService(FakeService):
    """`before` runs ahead of every request, `change` may put another answer in its place.

    `now` is the leases' clock in seconds, `lease_s` their length.
    """

    lease_s: float = 600.0
    now: float = 0.0
    before: Callable[[httpx.Request], None] = lambda _request: None
    change: Callable[[httpx.Request, httpx.Response], httpx.Response] = lambda _asked, given: given
    leases: Leases = field(init=False)

    def __post_init__(self) -> None:
        self.leases = Leases(self.lease_s, lambda: self.now)

    def handle(self, request: httpx.Request) -> httpx.Response:
        if not self.away:
            self.before(request)
        scenario = re.match(r"/reef/scenarios/([^/]+)", request.url.path)
        if scenario is not None:
            self.world.scenario_name = scenario[1]
        return self.change(request, super().handle(request))

    def restart(self) -> None:
        """Forget every lease, as a new process has."""
        self.leases = Leases(self.lease_s, lambda: self.now)

    def count(self, ending: str) -> int:
        """How many requests came to paths of that ending."""
        return sum(path.endswith(ending) for path in self.paths())

    def _routes(self) -> Mapping[str, Callable[..., httpx.Response]]:
        gates = r"/reef/scenarios/[^/]+/gates"
        return {
            r"/reef/scenarios/[^/]+": self._one_scenario,
            rf"{gates}/claim": self._claim,
            rf"{gates}/([^/]+)/trials": self._trial,
            rf"{gates}/([^/]+)/decision": self._decision,
            r"/reef/leases/([^/]+)/renew": self._renew,
            r"/reef/leases/([^/]+)/release": self._release_lease,
            **super()._routes(),
        }

    def _scenarios(self, _request: httpx.Request) -> httpx.Response:
        state = self.world.state
        found = [views.scenario_view(state, each) for each in state.scenarios.values()]
        return _json(wire.ScenariosView(scenarios=found))

    def _one_scenario(self, _request: httpx.Request) -> httpx.Response:
        return _json(views.scenario_view(self.world.state, self.world.scenario))

    def _claim(self, request: httpx.Request) -> httpx.Response:
        asked = msgspec.json.decode(request.content, type=wire.GateClaimRequest)
        gate = self.world.scenario.open_gate(CHANNEL) or self._opened(asked.key_id)
        if gate is None:
            return httpx.Response(204)
        subject = f"{self.world.scenario_name}/{gate.opened.gate_id}"
        lease = self.leases.take(subject, asked.worker)
        if lease is None:
            return httpx.Response(204)
        scenario, opened = self.world.scenario, gate.opened
        base = opened.base
        return _json(
            wire.GateAssignment(
                scenario=scenario.name,
                lease_id=lease.lease_id,
                lease_s=self.lease_s,
                opened=opened,
                policy=msgspec.to_builtins(gate.policy),
                candidate=views.model_view(scenario, opened.candidate_id),
                incumbent=None if base is None else views.model_view(scenario, base),
                tasks=views.task_views(gate),
                trials=summaries_of(gate),
                due=views.due_view(gate),
                share=gate.share,
                revoked_position=revoked_at(scenario, opened.candidate_id),
            )
        )

    def _opened(self, key_id: str | None) -> Gate | None:
        scenario = self.world.scenario
        for candidate, found in scenario.candidates.items():
            if found.admitted_position is None or has_passed_it(
                self.world.state, scenario, found, actor="gate-worker", key_id=key_id
            ):
                continue
            opening = self.world.opening(candidate)
            if not self.world.reasons(opening):
                self.world.append(opening)
                return self.world.gate_of(opening.gate_id)
        return None

    def _trial(self, request: httpx.Request, gate_id: str) -> httpx.Response:
        asked = msgspec.json.decode(request.content, type=wire.TrialRequest)
        gate = self.world.gate_of(gate_id)
        if revoked_at(self.world.scenario, gate.opened.candidate_id) is not None:
            return problem(409, "conflict", "the candidate was revoked")
        if gate.due() != (asked.slot, asked.side, asked.attempt):
            return problem(409, "conflict", "another trial is due")
        body = error = verdict = None
        if asked.reply is None:
            error = asked.error
        else:
            body = self.world.put_trial(_body(gate, asked, asked.reply))
            if asked.reply.finish_reason == "length":
                error = "truncated"
            else:
                answer = gate.tasks[asked.slot].answer
                verdict = self.world.fold.verdict(gate.part.verifiers, asked.reply.reply, answer)
        trial = ev.GateTrial(
            gate_id=gate_id,
            slot=asked.slot,
            side=asked.side,
            attempt=asked.attempt,
            task_id=asked.task_id,
            body=body,
            error=error,
            verdict=verdict,
        )
        position = self.world.append(trial, actor="gate-worker")
        recorded = summaries_of(gate)[-1]
        view = wire.TrialView(position=position, trial=recorded, due=views.due_view(gate))
        return _json(view)

    def _decision(self, request: httpx.Request, gate_id: str) -> httpx.Response:
        asked = msgspec.json.decode(request.content, type=wire.DecisionRequest)
        gate = self.world.gate_of(gate_id)
        outcome = asked.outcome or gate.verdict_due()
        if gate.outcome is not None or outcome is None:
            return problem(409, "conflict", "not to be decided")
        opened = gate.opened
        kind = ev.EVENT_TYPES[f"gate.{outcome}"]
        assert issubclass(kind, ev.DecisionPosted)
        data = kind(
            gate_id=gate_id,
            candidate_id=opened.candidate_id,
            base=opened.base,
            channel=opened.channel,
            attestation=asked.attestation,
            canary=asked.canary,
        )
        try:
            position = self.world.append(data, actor="gate-worker")
        except (Refused, SignatureRejected) as error:
            reasons = msgspec.to_builtins(error.reasons)
            return problem(422, error.problem, str(error), reasons=reasons)
        return _json(wire.DecisionView(position=position, outcome=outcome))

    def _renew(self, _request: httpx.Request, lease_id: str) -> httpx.Response:
        try:
            lease = self.leases.renew(lease_id)
        except NotFound as error:
            return problem(404, "not-found", error.detail)
        return _json(wire.LeaseView(lease_id=lease.lease_id, expires_at="later"))

    def _release_lease(self, _request: httpx.Request, lease_id: str) -> httpx.Response:
        self.leases.release(self.leases.renew(lease_id).subject)
        return httpx.Response(204)

    def _blob(self, request: httpx.Request, digest: str) -> httpx.Response:
        if request.method == "HEAD":
            return httpx.Response(404)
        if request.method == "PUT":
            assert self.world.blobs.put_bytes_sync(request.content) == digest
            return httpx.Response(201)
        return super()._blob(request, digest)


@dataclass(kw_only=True)
class FakeEngines:
    """A loader of engines that reply by script, one token per byte, `byte_logprobs` apart.

    `scripts` are by release id, `default` is for the others. `broken` releases make no model.
    `cut` replies of these releases end by the length limit. `hook` runs before every reply.
    """

    scripts: dict[str, Script] = field(default_factory=dict)
    default: Script = right
    broken: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    hook: Callable[[str, str], None] = lambda _release_id, _question: None
    loads: list[str] = field(default_factory=list)
    replies: list[tuple[str, str, int]] = field(default_factory=list)

    def __call__(self, model: ModelFiles, foundation: ModelFiles | None) -> FakeGateEngine:
        assert model.release_id is not None
        assert model.files is not None
        self.loads.append(model.release_id)
        reasons = [
            Reason(code="digest-mismatch", message="has changed", where=path)
            for path, digest in model.files.items()
            if sha256_hex((model.directory / path).read_bytes()) != digest
        ]
        if model.release_id in self.broken or reasons:
            raise Refused("it was not loaded", reasons=reasons)
        return FakeGateEngine(self, model.release_id)


class FakeGateEngine:
    """One model of `FakeEngines`."""

    def __init__(self, engines: FakeEngines, release_id: str) -> None:
        self._engines = engines
        self._release_id = release_id

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        assert isinstance(prompt, str)
        assert timeout_s is not None
        engines, release_id = self._engines, self._release_id
        engines.hook(release_id, prompt)
        reply = engines.scripts.get(release_id, engines.default)(prompt)
        if sampling.temperature > 0:
            engines.replies.append((release_id, prompt, seed))
        tokens = text_tokens(reply)[: sampling.max_new_tokens]
        return Generation(
            prompt_token_ids=tuple(text_tokens(prompt)),
            token_ids=tuple(tokens),
            logprobs=tuple(-0.5 for _ in tokens),
            text=reply,
            finish_reason="length" if release_id in engines.cut else "stop",
        )

    def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> list[float]:
        del prompt_token_ids, temperature
        return [-0.5 for _ in token_ids]


def _body(gate: Gate, asked: wire.TrialRequest, reply: wire.TrialReply) -> TrialBody:
    release_id = gate.opened.candidate_id if asked.side == "candidate" else gate.opened.base
    assert release_id is not None
    fields: dict[str, Any] = msgspec.to_builtins(reply)
    return TrialBody(
        task_id=asked.task_id,
        side=asked.side,
        release_id=release_id,
        sampling_seed=sampling_seed(bytes.fromhex(gate.opened.seed), asked.slot),
        **fields,
    )


def _json(view: msgspec.Struct) -> httpx.Response:
    return httpx.Response(200, content=msgspec.json.encode(view))
