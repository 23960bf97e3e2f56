"""One model under several ids: a new card is no new model, so it gets no second draw.

Files that nothing reads (`README.md`, `LICENSE`, `NOTICE`) change the id and not the model. Where
the policy allows candidates to change their configuration, files of that may differ, too: then it
is another model, and pays for its own draw.
"""

from __future__ import annotations

from reef_release.domain.events import CandidateSubmitted
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario

__all__ = ["same_weights_reasons", "submitted_before"]

_UNREAD = ("README", "LICENSE", "NOTICE")


def submitted_before(scenario: Scenario, data: CandidateSubmitted) -> list[Reason]:
    """Why these files may not be submitted: the same model was drawn for under another id."""
    for other in scenario.candidates.values():
        if _known(scenario, other) and _same(scenario, other.submitted, data):
            return _reasons(other)
    return []


def same_weights_reasons(scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """Why no gate may open: another id of the same model was drawn for before, or had a gate.

    Asked only under policies that are young enough to have known of it.
    """
    if not _asked(scenario):
        return []
    for other in scenario.candidates.values():
        if other is candidate or not _known(scenario, other):
            continue
        earlier = (other.admitted_position or 0) < (candidate.admitted_position or 0)
        if (earlier or other.gates) and _same(scenario, other.submitted, candidate.submitted):
            return _reasons(other)
    return []


def _asked(scenario: Scenario) -> bool:
    """Whether the policy is of a version that has budgets; what older ones let pass stays."""
    return scenario.policy.policy.has_budgets


def _known(scenario: Scenario, other: Candidate) -> bool:
    return bool(other.gates) or (other.draw is not None and _asked(scenario))


def _same(scenario: Scenario, one: CandidateSubmitted, other: CandidateSubmitted) -> bool:
    if one.candidate_id == other.candidate_id or one.foundation != other.foundation:
        return False
    if not scenario.policy.policy.allowed_changes:
        return _weights(one) == _weights(other)
    return _asked(scenario) and _read_files(one) == _read_files(other)


def _weights(data: CandidateSubmitted) -> list[str]:
    return sorted(file.sha256 for file in data.files if file.path.endswith(".safetensors"))


def _read_files(data: CandidateSubmitted) -> list[tuple[str, str]]:
    files = ((file.path, file.sha256) for file in data.files)
    return sorted(file for file in files if not file[0].startswith(_UNREAD))


def _reasons(other: Candidate) -> list[Reason]:
    message = f"these weights are the candidate {other.candidate_id}, which had its draw"
    return [Reason(code="same-weights", message=message)]
