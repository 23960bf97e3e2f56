"""A gate in the hands of somebody who has its token, while the honest worker stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from reef_release.artifacts.spoiling import Files
from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.decision import TrialSummary, decision_of
from reef_release.domain.events import GateTrial, VerdictRecord
from reef_release.domain.gate import Gate
from reef_release.domain.policy import Policy
from reef_release.domain.suite import Task, parse_suite
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.stage import fresh
from reef_release.errors import ReefError
from reef_release.signing.keys import Role, SigningKey
from reef_release.signing.vsa import sign_decision
from reef_release.tokens import TokenRole
from reef_release.wire import (
    DecisionRequest,
    DecisionView,
    Due,
    GateAssignment,
    TrialReply,
    TrialRequest,
    TrialView,
)

__all__ = [
    "CANARY",
    "WORKER",
    "GateInHand",
    "attack_on_gate",
    "claimed",
    "gate_in_hand",
    "rejected",
    "served_passed",
]

WORKER = "gate-1"
"""The honest worker's name: whoever has the token may use it, and so the worker waits for none."""
CANARY = b'{"canaries": []}'
"""A canary record that measures nothing."""


@dataclass(kw_only=True)
class GateInHand:
    """One claimed gate. `gate` is advanced with the log, `due` is the trial it waits for."""

    context: Context
    client: ReefClient
    assignment: GateAssignment
    gate: Gate
    due: Due | None

    @property
    def scenario(self) -> str:
        """Whose gate it is."""
        return self.assignment.scenario

    @property
    def gate_id(self) -> str:
        """The gate's id."""
        return self.assignment.opened.gate_id

    @property
    def candidate(self) -> str:
        """The candidate's id."""
        return self.assignment.opened.candidate_id

    def answer(self, due: Due) -> str:
        """The right answer of a task, which no worker is told."""
        tasks = {task.id: task.answer for task in parse_suite(self.context.stack.suite()).tasks}
        return tasks[self.assignment.tasks[due.slot].task_id]

    def reply(self, words: str, **changes: Any) -> TrialReply:
        """A made-up reply."""
        given: dict[str, Any] = {
            "prompt_token_ids": [1, 2, 3],
            "token_ids": [4, 5],
            "logprobs": [-0.25, -1.5],
            "reply": words,
            "finish_reason": "stop",
        }
        return TrialReply(**(given | changes))

    def trial(self, words: str | None, **changes: Any) -> TrialRequest:
        """The trial that is due: a reply of these *words*, or a crash."""
        due = self.due
        assert due is not None, "no trial is due"
        fields: dict[str, Any] = {
            "slot": due.slot,
            "side": due.side,
            "attempt": due.attempt,
            "task_id": self.assignment.tasks[due.slot].task_id,
            "reply": None if words is None else self.reply(words),
            "error": "crashed" if words is None else None,
        }
        return TrialRequest(**(fields | changes))

    def post(self, request: TrialRequest) -> TrialView:
        """Post a trial. Raises as the service does."""
        view = self.client.post_trial(self.scenario, self.gate_id, request)
        _take(self.gate, view.trial)
        self.due = view.due
        return view

    def fail(self) -> None:
        """Post wrong replies until no trial is due."""
        while self.due is not None:
            self.post(self.trial("I do not know."))

    def crash(self) -> None:
        """Post crashes until no trial is due."""
        while self.due is not None:
            self.post(self.trial(None))

    def decision(
        self, outcome: str | None = None, key: SigningKey | None = None, **changes: Any
    ) -> DecisionRequest:
        """The decision that the trials ask for, or another one, signed by the gate key or not."""
        outcome = outcome or self.gate.verdict_due()
        assert outcome is not None, "the gate is not decided"
        canary = sha256_hex(CANARY) if outcome == "passed" else None
        decision = decision_of(self.scenario, self.gate, outcome, canary)
        decision = msgspec.structs.replace(decision, **changes)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        signed = sign_decision(decision, now, key or self.context.key(Role.GATE))
        return DecisionRequest(attestation=signed, canary=canary)

    def decide(self, request: DecisionRequest | None = None) -> DecisionView:
        """Post a decision, by default the right one. Raises as the service does."""
        if self.gate.verdict_due() == "passed":
            self.client.put_blob(CANARY)
        request = request or self.decision()
        view = self.client.post_decision(self.scenario, self.gate_id, request)
        self.gate.outcome = view.outcome
        return view

    def end(self) -> None:
        """End the gate, unless it has ended, in any way but a pass; no other gate follows."""
        if self.gate.outcome is None:
            self.crash()
            self.decide()
        operator = self.context.client(TokenRole.OPERATE)
        if not operator.candidate(self.scenario, self.candidate).revoked:
            operator.revoke_candidate(self.scenario, self.candidate, "a candidate of the drill")


@contextmanager
def gate_in_hand(
    context: Context,
    files: Files | None = None,
    *,
    scenario: str | None = None,
    role: TokenRole = TokenRole.TRAIN,
) -> Iterator[GateInHand]:
    """The gate of a new candidate, by default a good one; the worker stands still meanwhile."""
    with context.stack.paused("gate"):
        view = context.submit(files or fresh(context, "better"), role=role, scenario=scenario)
        held = claimed(context, scenario or context.scenario)
        assert held.candidate == view.candidate_id, "another candidate's gate is open"
        try:
            yield held
        except Exception:
            # What went wrong is what counts, also where the gate has become another one by it.
            with suppress(ReefError):
                held.end()
            raise
        held.end()


def claimed(
    context: Context, scenario: str, client: ReefClient | None = None, worker: str = WORKER
) -> GateInHand:
    """The gate that opens next, claimed with another token than the gate worker's, if given."""
    client = client or context.client(TokenRole.GATE)
    assignment = context.until(lambda: client.claim_gate(scenario, worker))
    assert assignment is not None
    gate = Gate(
        opened=assignment.opened,
        opened_position=-1,
        policy=msgspec.convert(assignment.policy, Policy),
        policy_key="",
        tasks=[
            Task(id=task.task_id, question=task.question, answer="") for task in assignment.tasks
        ],
        share=assignment.share,
    )
    for each in assignment.trials:
        _take(gate, each)
    return GateInHand(
        context=context, client=client, assignment=assignment, gate=gate, due=assignment.due
    )


def _take(gate: Gate, summary: TrialSummary) -> None:
    """Put a recorded trial into *gate*."""
    verdict = None if summary.passed is None else VerdictRecord(passed=summary.passed, checks={})
    if summary.tokens is not None:
        gate.tokens[len(gate.trials)] = summary.tokens
    gate.trials.append(
        GateTrial(
            gate_id=gate.opened.gate_id,
            slot=summary.slot,
            side=summary.side,
            attempt=summary.attempt,
            task_id=summary.task_id,
            body=summary.body,
            error=summary.error,
            verdict=verdict,
        )
    )


def rejected(
    held: GateInHand, decisions: Mapping[str, DecisionRequest], code: str
) -> tuple[Seen, ...]:
    """Each must be refused for the reason *code*; otherwise the first that is not is named."""
    seen = []
    # A decision names a canary blob only if it passed, and that blob has to be there first.
    held.client.put_blob(CANARY)
    for words, request in decisions.items():
        act = partial(held.decide, request)
        try:
            seen.append(stopped(held.context, act, "service", code))
        except GotThrough as error:
            raise GotThrough(f"{words}: {error.detail}") from error
    return tuple(seen)


def served_passed(context: Context) -> str:
    """What became of the release served at its own gate, by the honest worker."""
    position = context.event("gate.passed", candidate_id=context.serving())
    return f"the release served passed its own gate at {position}"


def attack_on_gate(
    name: str,
    rows: tuple[int, ...],
    tries: str,
    run: Callable[[Context], Outcome],
    *stops: Stop,
) -> Attack:
    """An attack with the gate worker's token, or with its key, while it stands still."""
    needs = frozenset({Access.KEYS, Access.MODELS, Access.PROCESSES})
    return Attack(name=name, rows=rows, tries=tries, stops=stops, run=run, needs=needs)
