"""Lines of training and the candidates made of them: what may be submitted, and when it is over.

A turn is trained at most once in the ancestry of a promoted release. That rests on three things:
a line's batches are trained by that line alone, which is one trainer's; a candidate of the weights
that a batch came to names all of the line's; and they are given free (`abandoned`) only when no
candidate that names them can be promoted any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from reef_release.domain.draws import redrawn_policy
from reef_release.domain.events import CandidateSubmitted
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.domain.traffic.batch_events import BatchReleased
from reef_release.domain.traffic.batch_records import Batch, Line
from reef_release.domain.traffic.records import Traffic

__all__ = [
    "abandoned_batches",
    "gating_reasons",
    "line_end",
    "live_candidate",
    "live_in_line",
    "submission_reasons",
    "teaching_reasons",
    "trained_to",
]


def line_end(state: State, scenario: Scenario, line: Line) -> str | None:
    """Why nothing more is trained in the line; None while it goes on.

    `candidate-refused`, `-revoked`, `-failed`, `-errored` (for good) or `-not-gated` (the policy
    changed after its draw was known); `base-left` when the pointer has moved since the line
    began, also if it has come back; or `given-up`, by its trainer, because a watch stopped it, or
    by an operator.
    """
    for candidate_id in line.candidates:
        end = _end(state, scenario, scenario.candidates[candidate_id])
        if end is not None:
            return f"candidate-{end}"
    if _has_left(scenario, line):
        return "base-left"
    return "given-up" if line.given_up else None


def live_candidate(state: State, scenario: Scenario, batch: Batch) -> str | None:
    """The candidate of the batch's line that may still be promoted, if there is one."""
    line = _line_of(scenario.traffic, batch)
    return None if line is None else live_in_line(state, scenario, line)


def live_in_line(state: State, scenario: Scenario, line: Line) -> str | None:
    """The candidate of the line that may still be promoted, if there is one.

    None also for one whose last gate was inconclusive: its line goes on.
    """
    if _has_left(scenario, line):
        return None
    for candidate_id in line.candidates:
        candidate = scenario.candidates[candidate_id]
        if _end(state, scenario, candidate) is not None:
            continue
        outcome = _last_outcome(scenario, candidate)
        if outcome in ("open", "passed"):
            return candidate_id
        # It waits for a gate, or for another one after an error; that opens only in a whole line.
        if outcome != "inconclusive" and line_end(state, scenario, line) is None:
            return candidate_id
    return None


def abandoned_batches(state: State, scenario: Scenario) -> Iterator[BatchReleased]:
    """What to append for the trained batches that will be part of no release."""
    traffic = scenario.traffic
    for batch_id in traffic.unsettled:
        batch = traffic.batches[batch_id]
        line = _line_of(traffic, batch)
        if line is None or line_end(state, scenario, line) is None:
            continue
        if live_candidate(state, scenario, batch) is None:
            yield BatchReleased(batch_id=batch_id, lease_id=batch.lease_id, reason="abandoned")


def teaching_reasons(state: State, scenario: Scenario, channel: str) -> list[Reason]:
    """Why nothing new may be trained in the channel.

    Training starts from the release served, and the channel's first one is its teacher: neither
    passes anything on once it is revoked.
    """
    history = scenario.pointers.get(channel, [])
    ends = {"served": history[-1], "its teacher": history[0]} if history else {}
    return [
        _no("revoked-teacher", f"the release {pointer.release_id}, {role}: {reason.message}")
        for role, pointer in ends.items()
        for reason in revocation_reasons(state, scenario, pointer.release_id)
    ]


def gating_reasons(state: State, scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """Why no gate may open over a candidate that was trained in a line."""
    batches = candidate.submitted.batches
    line = _line_of(scenario.traffic, scenario.traffic.batches[batches[0]]) if batches else None
    end = None if line is None else line_end(state, scenario, line)
    if end is None:
        return []
    # Its batches are or will be trained again in another line.
    return [_no("line-over", f"the line that it was trained in is over: {end}")]


def submission_reasons(state: State, scenario: Scenario, data: CandidateSubmitted) -> list[Reason]:
    """Why a candidate may not name these batches, or this parent.

    One that names no batch was made by hand: no batch came to its weights.
    """
    traffic = scenario.traffic
    known = data.parent in (None, data.base) or data.parent in scenario.candidates
    reasons = []
    if not known and not trained_to(traffic, data.parent or ""):
        message = "the parent is the base, a candidate, or what a batch of this scenario came to"
        reasons.append(_no("parent", message, "parent"))
    if not data.batches:
        return reasons + _unnamed(traffic, data)
    if len(set(data.batches)) != len(data.batches):
        reasons.append(_no("batch-twice", "each batch is named once", "batches"))
    lines: dict[str, Line] = {}
    for batch_id in dict.fromkeys(data.batches):
        batch = traffic.batches.get(batch_id)
        line = None if batch is None else _line_of(traffic, batch)
        if batch is None:
            reasons.append(_no("no-batch", "there is no such batch", batch_id))
        elif line is None:
            reasons.append(_no("not-trained", f"the batch is {batch.stage}", batch_id))
        elif batch.used_in is not None:
            where = f"the batch is part of the release {batch.used_in}"
            reasons.append(_no("batch-used", where, batch_id))
        elif batch.ended is not None:
            reasons.append(_no("batch-released", f"the batch is {batch.ended}", batch_id))
        if line is not None:
            lines[line.line_id] = line
    if len(lines) > 1:
        reasons.append(_no("other-line", f"the batches are of {len(lines)} lines", "batches"))
    if not reasons:
        (line,) = lines.values()
        reasons += _line_reasons(state, scenario, line, data)
    return reasons


def trained_to(traffic: Traffic, weights_id: str) -> list[Line]:
    """The lines with a batch that came to these weights, also those that are over."""
    return [traffic.lines[line_id] for line_id in sorted(traffic.trained_to.get(weights_id, ()))]


def _unnamed(traffic: Traffic, data: CandidateSubmitted) -> list[Reason]:
    """Trained weights name their batches: else these would be given free, and trained again."""
    return [
        _no(
            "batches-missing", f"name every batch of the line: {', '.join(line.batches)}", "batches"
        )
        for line in trained_to(traffic, data.candidate_id)
    ]


def _line_reasons(
    state: State, scenario: Scenario, line: Line, data: CandidateSubmitted
) -> list[Reason]:
    reasons = []
    if data.batches != line.batches:
        whole = ", ".join(line.batches)
        message = f"name every batch of the line in the order of training: {whole}"
        reasons.append(_no("batches-missing", message, "batches"))
    if (data.channel, data.base) != (line.channel, line.base):
        message = f"the line began at the release {line.base} of the channel {line.channel}"
        reasons.append(_no("other-base", message, "base"))
    end = line_end(state, scenario, line)
    if end is not None:
        reasons.append(_no("line-over", f"the line is over: {end}"))
    if data.candidate_id != line.weights_id:
        message = f"the line's last batch came to the weights {line.weights_id}"
        reasons.append(_no("other-weights", message))
    return reasons


def _end(state: State, scenario: Scenario, candidate: Candidate) -> str | None:
    """Why the candidate itself can never be promoted; None also if it was."""
    if candidate.status == "refused":
        return "refused"
    release = scenario.releases.get(candidate.candidate_id)
    if release is not None and release.promoted_position is not None:
        return None
    if revocation_reasons(state, scenario, candidate.candidate_id):
        return "revoked"
    outcome = _last_outcome(scenario, candidate)
    if outcome == "failed":
        return "failed"
    if outcome is None and redrawn_policy(scenario, candidate):
        return "not-gated"
    if outcome == "errored":
        policy = scenario.policy
        drawn = scenario.gates[candidate.gates[0]].opened.policy_digest
        if len(candidate.gates) >= policy.policy.most_gates or drawn != policy.digest:
            return "errored"
    return None


def _last_outcome(scenario: Scenario, candidate: Candidate) -> str | None:
    """Of the candidate's last gate; "open" while it runs, None without a gate."""
    if not candidate.gates:
        return None
    return scenario.gates[candidate.gates[-1]].outcome or "open"


def _has_left(scenario: Scenario, line: Line) -> bool:
    serving = scenario.serving(line.channel)
    return serving is None or serving.position != line.pointer_position


def _line_of(traffic: Traffic, batch: Batch) -> Line | None:
    return None if batch.trained is None else traffic.lines[batch.trained.line_id]


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)
