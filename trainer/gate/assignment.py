"""What a worker makes of the service's word before it runs or signs anything.

What always holds: a gate gets through here only if its seed follows from the checkpoint in the
log, its policy and its weights have the digests that the gate names, and its trials are those
that this policy asks for, one after another. So a signature never covers a decision of another
policy, other weights or another draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import TrialSummary
from reef_release.domain.events import (
    GLOBAL,
    CandidateRevoked,
    CheckpointPublished,
    GateTrial,
    ReleaseRevoked,
    VerdictRecord,
    decode,
)
from reef_release.domain.gate import Gate
from reef_release.domain.gating.rules import measures, protected_tasks, slot_count
from reef_release.domain.policy import Policy
from reef_release.domain.reasons import Reason
from reef_release.domain.suite import Task, draw_seed, sampling_seed
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Refused
from reef_release.wire import Due, GateAssignment, ModelView, TrialRequest
from trainer.gate.spending import share_of

__all__ = ["check_due", "due_of", "known_gate", "recorded"]


def known_gate(client: ReefClient, assignment: GateAssignment, scenario: str) -> Gate:
    """The gate as far as a worker can know it: with questions, without answers.

    Raises `Refused` with every reason why this assignment must not be worked on.
    """
    opened = assignment.opened
    try:
        policy = msgspec.convert(assignment.policy, Policy)
    except msgspec.ValidationError as error:
        raise _refused(
            opened.gate_id, [_reason("policy", f"this is no policy: {error}")]
        ) from error
    gate = Gate(
        opened=opened,
        opened_position=-1,
        policy=policy,
        policy_key="",  # a decision does not name it
        tasks=[
            Task(id=each.task_id, question=each.question, answer="") for each in assignment.tasks
        ],
        share=assignment.share,
    )
    reasons = _opening_reasons(assignment, scenario, policy)
    reasons += _model_reasons("candidate", assignment.candidate, opened.candidate_id)
    reasons += _model_reasons("incumbent", assignment.incumbent, opened.base)
    # Each of these reads what the one before it has found in order.
    reasons = reasons or _seed_reasons(client, assignment)
    reasons = reasons or _share_reasons(client, assignment)
    reasons = reasons or _revocation_reasons(client, assignment)
    reasons = reasons or _task_reasons(assignment, gate)
    reasons = reasons or _replay(gate, assignment.trials)
    if reasons:
        raise _refused(opened.gate_id, reasons)
    check_due(gate, assignment.due)
    return gate


def due_of(gate: Gate) -> Due | None:
    """The trial that *gate* waits for; None when it is decided."""
    due = gate.due()
    return None if due is None else Due(slot=due[0], side=due[1], attempt=due[2])


def check_due(gate: Gate, due: Due | None) -> None:
    """Raise `Refused` when the service waits for something else than *gate* does."""
    own = due_of(gate)
    if own != due:
        message = f"the service waits for {due}, the trials so far ask for {own}"
        raise _refused(gate.opened.gate_id, [_reason("due", message)])


def recorded(gate: Gate, posted: TrialRequest, echo: TrialSummary) -> GateTrial:
    """The trial as an entry of *gate*. Raises `Refused` when *echo* is not what was *posted*."""
    whole = posted.reply is not None and posted.reply.finish_reason == "stop"
    error = posted.error if posted.reply is None else None if whole else "truncated"
    tokens = None
    if posted.reply is not None and measures(gate.part.rule):
        tokens = len(posted.reply.token_ids)
    faults = []
    if _identity(echo) != (posted.slot, posted.side, posted.attempt, posted.task_id):
        faults.append("slot, side, attempt or task")
    if (echo.body is None) != (posted.reply is None):
        faults.append("whether there is a reply")
    if (echo.passed is None) == whole:
        faults.append("whether there is a verdict")
    if (echo.error, echo.tokens) != (error, tokens):
        faults.append("the error or the length of the reply")
    if faults:
        message = f"what was recorded differs from what was posted in {', '.join(faults)}"
        raise _refused(gate.opened.gate_id, [_reason("echo", message)])
    return _taken(gate, echo)


def _opening_reasons(assignment: GateAssignment, scenario: str, policy: Policy) -> list[Reason]:
    opened = assignment.opened
    reasons = []
    if assignment.scenario != scenario:
        reasons.append(_reason("scenario", f"it is of {assignment.scenario!r}"))
    if sha256_hex(canonical_json(assignment.policy)) != opened.policy_digest:
        reasons.append(_reason("policy-digest", "the policy is not the one that the gate names"))
    if policy.suite != opened.suite:
        reasons.append(_reason("suite", "the suite is not the policy's"))
    if opened.phase != ("bootstrap" if opened.base is None else "standard"):
        reasons.append(_reason("phase", f"phase {opened.phase!r} does not fit the base"))
    return reasons


def _seed_reasons(client: ReefClient, assignment: GateAssignment) -> list[Reason]:
    opened = assignment.opened
    page = client.events(after=opened.checkpoint_position - 1, limit=1, scenario=GLOBAL)
    for event in map(decode, page.events):
        at_place = event.envelope.position == opened.checkpoint_position
        if at_place and isinstance(event.data, CheckpointPublished):
            seed = draw_seed(
                checkpoint_root=bytes.fromhex(event.data.root),
                candidate_id=opened.candidate_id,
                policy_digest=opened.policy_digest,
            )
            if seed.hex() == opened.seed:
                return []
            return [_reason("seed", "the seed does not follow from the checkpoint")]
    return [_reason("checkpoint", "there is no checkpoint where the gate names one")]


def _share_reasons(client: ReefClient, assignment: GateAssignment) -> list[Reason]:
    own = share_of(client, assignment.scenario, assignment.opened)
    if own == assignment.share:
        return []
    message = f"the log gives this gate {own} of the error budget, the service {assignment.share}"
    return [_reason("budget", message)]


def _revocation_reasons(client: ReefClient, assignment: GateAssignment) -> list[Reason]:
    """Whoever says that a candidate was revoked has it ended: so it must stand in the log."""
    position, candidate = assignment.revoked_position, assignment.candidate
    if position is None:
        return []
    models = {candidate.release_id}
    if candidate.foundation is not None:
        models.add(candidate.foundation.release_id)
    page = client.events(after=position - 1, limit=1, scenario=assignment.scenario)
    for event in map(decode, page.events):
        match event.data:
            case CandidateRevoked(candidate_id=revoked) | ReleaseRevoked(release_id=revoked):
                if event.envelope.position == position and revoked in models:
                    return []
    return [_reason("revoked", f"the log revokes no such candidate at {position}")]


def _model_reasons(name: str, model: ModelView | None, release_id: str | None) -> list[Reason]:
    if model is None or release_id is None:
        agree = model is None and release_id is None
        return [] if agree else [_reason("model", f"gate and weights disagree on the {name}")]
    files = digests_by_path((file.path, file.sha256) for file in model.files)
    reasons = []
    if not model.release_id == release_id == candidate_id(files):
        reasons.append(_reason("model", f"these are not the files of the {name}"))
    if model.foundation is not None:
        below = model.foundation
        reasons += _model_reasons(f"{name}'s foundation", below, below.release_id)
    return reasons


def _task_reasons(assignment: GateAssignment, gate: Gate) -> list[Reason]:
    seed, rule = bytes.fromhex(assignment.opened.seed), gate.part.rule
    right = [(slot, sampling_seed(seed, slot)) for slot in range(slot_count(rule))]
    if [(task.slot, task.sampling_seed) for task in assignment.tasks] != right:
        return [_reason("tasks", "slots or sampling seeds do not follow from the gate's seed")]
    if len({task.task_id for task in assignment.tasks}) != len(right):
        return [_reason("tasks", "a task is drawn twice")]
    protected = protected_tasks(rule)
    if [task.task_id for task in assignment.tasks[: len(protected)]] != protected:
        return [_reason("tasks", "the policy's protected tasks do not come first")]
    return []


def _replay(gate: Gate, trials: Sequence[TrialSummary]) -> list[Reason]:
    """Put the recorded trials into *gate*, each at its turn."""
    for summary in trials:
        due = due_of(gate)
        if due is None or _identity(summary) != (*_place(due), gate.tasks[due.slot].id):
            return [_reason("trials", f"the trial of slot {summary.slot} was not due")]
        gate.trials.append(_taken(gate, summary))
    return []


def _taken(gate: Gate, summary: TrialSummary) -> GateTrial:
    """The trial as the next entry of *gate*, which is told the length of its reply."""
    if summary.tokens is not None:
        gate.tokens[len(gate.trials)] = summary.tokens
    verdict = None if summary.passed is None else VerdictRecord(passed=summary.passed, checks={})
    return GateTrial(
        gate_id=gate.opened.gate_id,
        slot=summary.slot,
        side=summary.side,
        attempt=summary.attempt,
        task_id=summary.task_id,
        body=summary.body,
        error=summary.error,
        verdict=verdict,
    )


def _identity(trial: TrialSummary) -> tuple[int, str, int, str]:
    return trial.slot, trial.side, trial.attempt, trial.task_id


def _place(due: Due) -> tuple[int, str, int]:
    return due.slot, due.side, due.attempt


def _reason(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)


def _refused(gate_id: str, reasons: list[Reason]) -> Refused:
    return Refused(
        f"Gate {gate_id} is not worked on: the service's word does not add up.",
        next_step="Nothing was signed. Audit the log; compare it with what the service says.",
        reasons=reasons,
    )
