"""Why an event of a candidate may not stand at this place of the log."""

from __future__ import annotations

from collections.abc import Callable

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.events import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.same_weights import submitted_before
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic.lines import submission_reasons
from reef_release.domain.weights import candidate_id, digests_by_path

__all__ = ["CANDIDATE_VALIDATORS"]


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _candidate_submitted(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.CandidateSubmitted
) -> list[Reason]:
    reasons = []
    files = digests_by_path((file.path, file.sha256) for file in data.files)
    if candidate_id(files) != data.candidate_id:
        reasons.append(_no("candidate-id", "the id does not follow from the files"))
    if data.candidate_id in found.candidates:
        reasons.append(_no("known-candidate", "these very files were submitted before"))
    serving = found.serving(data.channel)
    if serving is not None and not _is_promoted(found, data.base):
        reasons.append(_no("base", "the base must be a release promoted in this scenario"))
    foundation = found.candidates.get(data.foundation or "")
    if data.kind == "lora" and (
        foundation is None
        or not _is_promoted(found, data.foundation)
        or foundation.submitted.kind != "full"
    ):
        reasons.append(_no("foundation", "an adapter names a promoted full release under it"))
    if data.kind == "full" and data.foundation is not None:
        reasons.append(_no("foundation", "full weights have no foundation"))
    reasons += submitted_before(found, data)
    if serving is None and data.base is not None:
        reasons.append(_no("base", "nothing is served yet, so an origin has no base"))
    return reasons + submission_reasons(state, found, data)


def _is_promoted(scenario: Scenario, release_id: str | None) -> bool:
    """Whether it ever was, in any channel; each pointer event goes to such a release."""
    release = scenario.releases.get(release_id or "")
    return release is not None and release.promoted_position is not None


def _admission(
    _state: State,
    _checks: Checks,
    _scenario: str,
    found: Scenario,
    data: ev.CandidateAdmitted | ev.CandidateRefused,
) -> list[Reason]:
    candidate = found.candidates.get(data.candidate_id)
    if candidate is None or candidate.status != "submitted":
        return [_no("not-submitted", "no such candidate waits for admission")]
    if isinstance(data, ev.CandidateAdmitted) and data.schema != found.schema:
        return [_no("schema", "the candidate was checked against another schema")]
    return []


def _candidate_revoked(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.CandidateRevoked
) -> list[Reason]:
    candidate = found.candidates.get(data.candidate_id)
    if candidate is None:
        return [_no("unknown-candidate", "no such candidate")]
    if candidate.revoked_position is not None:
        return [_no("revoked", f"it was revoked at {candidate.revoked_position}")]
    return []


CANDIDATE_VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.CandidateSubmitted: _candidate_submitted,
    ev.CandidateAdmitted: _admission,
    ev.CandidateRefused: _admission,
    ev.CandidateRevoked: _candidate_revoked,
}
