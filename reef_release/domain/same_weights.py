"""One model under several ids: a new card is no new model, so it gets no second draw.

Files that nothing reads (`README.md`, `LICENSE`, `NOTICE`) change the id and not the model. Where
the policy allows candidates to change their configuration, files of that may differ, too: then it
is another model, and pays for its own draw.
"""

from __future__ import annotations

from collections.abc import Iterator

from reef_release.domain.events import CandidateSubmitted
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario

__all__ = ["same_weights_reasons", "submitted_before", "twin_keys"]

_UNREAD = ("README", "LICENSE", "NOTICE")


def submitted_before(scenario: Scenario, data: CandidateSubmitted) -> list[Reason]:
    """Why these files may not be submitted: the same model was drawn for under another id."""
    for other in _twins(scenario, data):
        if _known(scenario, other):
            return _reasons(other)
    return []


def same_weights_reasons(scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """Why no gate may open: another id of the same model was drawn for before, or had a gate.

    Asked only under policies that are young enough to have known of it.
    """
    if not _asked(scenario):
        return []
    for other in _twins(scenario, candidate.submitted):
        if not _known(scenario, other):
            continue
        earlier = (other.admitted_position or 0) < (candidate.admitted_position or 0)
        if earlier or other.gates:
            return _reasons(other)
    return []


def _asked(scenario: Scenario) -> bool:
    """Whether the policy is of a version that has budgets; what older ones let pass stays."""
    return scenario.policy.policy.has_budgets


def _known(scenario: Scenario, other: Candidate) -> bool:
    return bool(other.gates) or (other.draw is not None and _asked(scenario))


def twin_keys(data: CandidateSubmitted) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """What the same model has in common: its weights; where more may differ, all that is read."""
    weights = sorted(file.sha256 for file in data.files if file.path.endswith(".safetensors"))
    read = sorted(
        (file.path, file.sha256) for file in data.files if not file.path.startswith(_UNREAD)
    )
    return ("weights", data.foundation, *weights), ("read", data.foundation, *read)


def _twins(scenario: Scenario, data: CandidateSubmitted) -> Iterator[Candidate]:
    """The same model under other ids, in the order submitted."""
    by_weights, by_files = twin_keys(data)
    key = by_weights
    if scenario.policy.policy.allowed_changes:
        if not _asked(scenario):
            return
        key = by_files
    for candidate_id in scenario.twins.get(key, ()):
        if candidate_id != data.candidate_id:
            yield scenario.candidates[candidate_id]


def _reasons(other: Candidate) -> list[Reason]:
    message = f"these weights are the candidate {other.candidate_id}, which had its draw"
    return [Reason(code="same-weights", message=message)]
