"""One claimed gate, from the trial that is due to the signed decision.

What always holds: a decision other than `errored` is signed only over trials that this worker
ran itself, of a candidate that it admitted itself. A gate with anybody else's trial is ended as
errored, and the candidate gets a fresh one with the same draw; so is one whose candidate was
revoked, which gets none. A reply that could not be had is
an error of the trial, whichever side it was, and never a verdict; an outage (of the service, of
a download, of this machine's disk) is not even that, but ends the work here, to be gone on with
where the log stands.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog

from reef_release.artifacts.schema import MAX_SCHEMA_BYTES, parse_schema
from reef_release.client import ReefClient
from reef_release.domain.decision import decision_of
from reef_release.domain.gate import Gate
from reef_release.domain.suite import sampling_seed
from reef_release.errors import BadRequest, PayloadTooLarge, Refused, Unavailable
from reef_release.signing.keys import SigningKey
from reef_release.signing.vsa import sign_decision
from reef_release.wire import (
    DecisionRequest,
    Due,
    GateAssignment,
    ModelView,
    TrialReply,
    TrialRequest,
    TrialView,
)
from trainer.engines.protocol import Engine, Sampling, TimedOut
from trainer.gate.assignment import check_due, due_of, recorded
from trainer.gate.canary import canary_blob
from trainer.gate.journal import Journal
from trainer.gate.models import CannotLoad, MachineTrouble, ModelCache

__all__ = ["GateRun"]

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class _Crashed(Refused):
    """The engine failed over a prompt; which side's it was does not matter."""


class GateRun:
    """The trials of one gate and their decision. `gate` is advanced with the log."""

    def __init__(
        self,
        client: ReefClient,
        assignment: GateAssignment,
        gate: Gate,
        models: ModelCache,
        journal: Journal,
        trial_timeout_s: float,
    ) -> None:
        self._client = client
        self._assignment = assignment
        self._gate = gate
        self._models = models
        self._journal = journal
        self._timeout_s = trial_timeout_s
        self._canary: bytes | None = None
        self._admitted: CannotLoad | bool = False
        self._log = _log.bind(scenario=assignment.scenario, gate=gate.opened.gate_id)
        own = _stored(lambda: journal.trials(gate.opened))
        self._foreign = [trial for trial in assignment.trials if trial not in own]
        if self._foreign:
            self._log.warning("another worker's trials", count=len(self._foreign))
        self._revoked = assignment.revoked_position is not None
        if self._revoked:
            self._log.warning(
                "candidate revoked: its gate is ended", position=assignment.revoked_position
            )

    def trials(self, before_each: Callable[[], None]) -> None:
        """Run and post trials until the gate is decided; none that would decide nothing.

        Raises `Conflict` when the log has moved on without this worker, `Refused` when the
        service recorded something else, and what outages raise.
        """
        given_up = self._foreign or self._revoked
        while not given_up and (due := due_of(self._gate)) is not None:
            before_each()
            check_due(self._gate, self._posted(self._trial(due)).due)

    def decide(self, key: SigningKey, now: datetime) -> str:
        """Sign and post what the trials decide; returns the outcome. Raises as `trials` does.

        A gate with another worker's trials ends as errored, whatever those decide: nobody here
        knows that the weights gave these replies. So does that of a revoked candidate.
        """
        outcome = "errored" if self._foreign or self._revoked else self._gate.verdict_due()
        assert outcome is not None, "no trial is due, so the gate decides"
        canary = None
        if outcome == "passed":
            canary = self._client.put_blob(self._canaries(self._engine("candidate")))
        decision = decision_of(self._assignment.scenario, self._gate, outcome, canary)
        signed = sign_decision(decision, now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), key)
        self._client.post_decision(
            self._assignment.scenario,
            decision.gate_id,
            DecisionRequest(
                attestation=signed,
                canary=canary,
                outcome="errored" if outcome == "errored" else None,
            ),
        )
        self._log.info("gate ended", outcome=outcome, trials=len(self._gate.trials))
        _stored(lambda: self._journal.forget(self._gate.opened))
        return outcome

    def _trial(self, due: Due) -> TrialRequest:
        reply = error = None
        try:
            engine = self._engine(due.side)
            reply = self._reply(engine, due)
        except TimedOut as failure:
            error = self._failed(due, "timed-out", failure)
        except (CannotLoad, _Crashed) as failure:
            error = self._failed(due, "crashed", failure)
        return self._request(due, reply, error)

    def _request(self, due: Due, reply: TrialReply | None, error: str | None) -> TrialRequest:
        return TrialRequest(
            slot=due.slot,
            side=due.side,
            attempt=due.attempt,
            task_id=self._gate.tasks[due.slot].id,
            reply=reply,
            error=error,
        )

    def _posted(self, request: TrialRequest) -> TrialView:
        scenario, gate_id = self._assignment.scenario, self._gate.opened.gate_id
        try:
            view = self._client.post_trial(scenario, gate_id, request)
        except (BadRequest, PayloadTooLarge) as failure:
            if request.reply is None:
                raise
            # Else a reply that no service takes would keep the gate open for ever.
            due = Due(slot=request.slot, side=request.side, attempt=request.attempt)
            error = self._failed(due, "crashed", failure)
            request = msgspec.structs.replace(request, reply=None, error=error)
            view = self._client.post_trial(scenario, gate_id, request)
        trial = recorded(self._gate, request, view.trial)
        _stored(lambda: self._journal.add(self._gate.opened, view.trial))
        self._gate.trials.append(trial)
        return view

    def _failed(self, due: Due, error: str, failure: Exception) -> str:
        self._log.warning(
            "trial failed", error=error, side=due.side, slot=due.slot, why=str(failure)
        )
        return error

    def _engine(self, side: str) -> Engine:
        assignment = self._assignment
        model = assignment.candidate if side == "candidate" else assignment.incumbent
        if model is None:
            raise Refused(f"A trial of the {side} is due, but the gate names none.")
        if side == "candidate":
            self._require_admitted(model)
        return self._models.engine(model)

    def _require_admitted(self, candidate: ModelView) -> None:
        """Once per gate: the policy in it says which changes are allowed."""
        if self._admitted is False:
            digest = self._client.scenario(self._assignment.scenario).schema
            schema = parse_schema(self._client.read_blob(digest, MAX_SCHEMA_BYTES))
            allowed = frozenset(self._gate.policy.allowed_changes)
            try:
                self._models.require_admitted(candidate, schema, allowed)
                self._admitted = True
            except CannotLoad as failure:
                self._admitted = failure
        if isinstance(self._admitted, CannotLoad):
            refusal = self._admitted
            raise CannotLoad(refusal.detail, reasons=refusal.reasons)

    def _reply(self, engine: Engine, due: Due) -> TrialReply:
        if due.side == "candidate":
            # Before its first reply: a candidate that cannot give its canaries could pass all
            # trials and then never be decided.
            self._canaries(engine)
        generation = self._gate.policy.generation
        sampling = Sampling(
            temperature=float(generation.temperature), max_new_tokens=generation.max_new_tokens
        )
        seed = sampling_seed(bytes.fromhex(self._gate.opened.seed), due.slot)
        question = self._gate.tasks[due.slot].question
        found = _guarded(
            lambda: engine.generate(question, sampling, seed, timeout_s=self._timeout_s)
        )
        return TrialReply(
            prompt_token_ids=list(found.prompt_token_ids),
            token_ids=list(found.token_ids),
            # A probability of exactly 1 may round to a logarithm just above 0.
            logprobs=[min(value, 0.0) for value in found.logprobs],
            reply=found.text,
            finish_reason=found.finish_reason,
        )

    def _canaries(self, engine: Engine) -> bytes:
        if self._canary is None:
            prompts = self._gate.policy.canaries
            self._canary = _guarded(lambda: canary_blob(engine, prompts, self._timeout_s))
        return self._canary


def _stored(work: Callable[[], _T]) -> _T:
    """What *work* on the journal gives. Raises `MachineTrouble` when the disk is in the way."""
    try:
        return work()
    except OSError as error:
        raise MachineTrouble(
            f"The journal of trials cannot be kept: {error.strerror}.",
            next_step="Free some disk, or give --models another place.",
        ) from error


def _guarded(work: Callable[[], _T]) -> _T:
    """What *work* gives. Raises `_Crashed` for whatever is no outage and no time-out."""
    try:
        return work()
    except Unavailable:
        raise
    except Exception as error:
        raise _Crashed(f"{type(error).__name__}: {error}") from error
