"""Claim a gate, run the trials that are due, sign the decision; again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from reef_release.client import ReefClient
from reef_release.domain.decision import GateDecision, TrialSummary, decision_of
from reef_release.domain.events import GLOBAL, CheckpointPublished, GateTrial, VerdictRecord, decode
from reef_release.domain.gate import Gate
from reef_release.domain.policy import Policy
from reef_release.domain.suite import Task, draw_seed, sampling_seed
from reef_release.errors import Conflict, NotFound, ReefError, Refused, Unavailable
from reef_release.signing.keys import SigningKey
from reef_release.signing.vsa import sign_decision
from reef_release.wire import DecisionRequest, Due, GateAssignment, TrialReply, TrialRequest
from trainer.engines.protocol import Engine, Sampling
from trainer.gate.canary import canary_blob
from trainer.gate.models import ModelCache

__all__ = ["GateWorker", "GateWorkerConfig"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class GateWorkerConfig:
    """`name` tells this worker's leases from others'; `models` caches downloaded weights."""

    name: str
    models: Path
    poll_s: float = 1.0
    threads: int = 1


class GateWorker:
    """Runs gates for every scenario that its token covers."""

    def __init__(
        self,
        config: GateWorkerConfig,
        client: ReefClient,
        key: SigningKey,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._client = client
        self._key = key
        self._clock = clock
        self._models = ModelCache(client, config.models, threads=config.threads)

    def run(self, *, once: bool = False) -> int:
        """Work until nothing is left (*once*) or for ever; returns how many gates it ended."""
        ended = 0
        while True:
            try:
                worked = self._round()
            except Unavailable as error:
                if once:
                    raise
                _log.warning("service away", why=error.detail)
                worked = 0
            ended += worked
            if not worked:
                if once:
                    return ended
                time.sleep(self._config.poll_s)

    def _round(self) -> int:
        ended = 0
        for scenario in self._client.scenarios():
            assignment = self._client.claim_gate(scenario.name, self._config.name)
            if assignment is None:
                continue
            try:
                ended += self._gate(assignment)
            except (Conflict, NotFound) as error:
                # The gate went stale, or another worker took it: what was recorded stays.
                _log.warning("gate left", gate=assignment.opened.gate_id, why=str(error))
        return ended

    def _gate(self, assignment: GateAssignment) -> int:
        gate = self._reconstructed(assignment)
        opened = assignment.opened
        _log.info("gate claimed", gate=opened.gate_id, candidate=opened.candidate_id[:12])
        due = assignment.due
        while due is not None:
            due = self._trial(assignment, gate, due)
            self._client.renew_lease(assignment.lease_id)
        outcome = gate.verdict_due()
        if outcome is None:
            raise Refused(
                f"The service ended gate {opened.gate_id}, but its trials decide nothing.",
                next_step="Not signed. Compare the policy with the recorded trials.",
            )
        canary = None
        if outcome == "passed":
            engine = self._models.engine(assignment.candidate)
            prompts = gate.policy.canaries
            canary = self._client.put_blob(canary_blob(engine, prompts))
        decision = decision_of(assignment.scenario, gate, outcome, canary)
        self._post(assignment, decision)
        self._models.keep_only(assignment.candidate, assignment.incumbent)
        _log.info("gate ended", gate=opened.gate_id, outcome=outcome)
        return 1

    def _post(self, assignment: GateAssignment, decision: GateDecision) -> None:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._client.post_decision(
            assignment.scenario,
            decision.gate_id,
            DecisionRequest(
                attestation=sign_decision(decision, now, self._key), canary=decision.canary
            ),
        )

    def _trial(self, assignment: GateAssignment, gate: Gate, due: Due) -> Due | None:
        task = gate.tasks[due.slot]
        model = assignment.candidate if due.side == "candidate" else assignment.incumbent
        if model is None:
            raise Refused(f"A trial of the {due.side} is due, but the gate names none.")
        reply = error = None
        try:
            seed = sampling_seed(bytes.fromhex(assignment.opened.seed), due.slot)
            reply = _reply(self._models.engine(model), task.question, gate.policy, seed)
        except Unavailable:
            error = "timed-out"
        except ReefError as failure:
            _log.warning("trial crashed", side=due.side, slot=due.slot, why=str(failure))
            error = "crashed"
        view = self._client.post_trial(
            assignment.scenario,
            assignment.opened.gate_id,
            TrialRequest(
                slot=due.slot,
                side=due.side,
                attempt=due.attempt,
                task_id=task.id,
                reply=reply,
                error=error,
            ),
        )
        gate.trials.append(_trial_of(assignment, view.trial))
        return view.due

    def _reconstructed(self, assignment: GateAssignment) -> Gate:
        """The gate as this worker knows it: the service's word, with the draw recomputed."""
        opened = assignment.opened
        page = self._client.events(after=opened.checkpoint_position - 1, limit=1, scenario=GLOBAL)
        checkpoint = decode(page.events[0]).data if page.events else None
        if not isinstance(checkpoint, CheckpointPublished):
            raise Refused("The gate names a checkpoint that is not in the log.")
        seed = draw_seed(
            checkpoint_root=bytes.fromhex(checkpoint.root),
            candidate_id=opened.candidate_id,
            policy_digest=opened.policy_digest,
        )
        if seed.hex() != opened.seed:
            raise Refused("The gate's seed does not follow from its checkpoint.")
        return Gate(
            opened=opened,
            opened_position=-1,
            policy=msgspec.convert(assignment.policy, Policy),
            policy_key="",  # a decision does not name it
            tasks=[
                Task(id=task.task_id, question=task.question, answer="")
                for task in assignment.tasks
            ],
            trials=[_trial_of(assignment, trial) for trial in assignment.trials],
        )


def _trial_of(assignment: GateAssignment, summary: TrialSummary) -> GateTrial:
    verdict = None if summary.passed is None else VerdictRecord(passed=summary.passed, checks={})
    return GateTrial(
        gate_id=assignment.opened.gate_id,
        slot=summary.slot,
        side=summary.side,
        attempt=summary.attempt,
        task_id=summary.task_id,
        body=summary.body,
        error="recorded" if verdict is None else None,
        verdict=verdict,
    )


def _reply(engine: Engine, question: str, policy: Policy, seed: int) -> TrialReply:
    generation = engine.generate(
        question,
        Sampling(
            temperature=float(policy.generation.temperature),
            max_new_tokens=policy.generation.max_new_tokens,
        ),
        seed,
    )
    return TrialReply(
        prompt_token_ids=list(generation.prompt_token_ids),
        token_ids=list(generation.token_ids),
        # A probability of exactly 1 may round to a logarithm just above 0.
        logprobs=[min(value, 0.0) for value in generation.logprobs],
        reply=generation.text,
        finish_reason=generation.finish_reason,
    )
