"""What stands against serving a release for ever: revocations, each judged by its position."""

from __future__ import annotations

from reef_release.domain.quorum import passes_with, workers_behind
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State

__all__ = ["key_reasons", "revocation_reasons", "revoked_at"]


def revocation_reasons(
    state: State, scenario: Scenario, release_id: str, at: int | None = None
) -> list[Reason]:
    """Which revocation stands against serving *release_id*; as of position *at*, if given.

    Of the release itself, of a key behind it, or of the foundation under an adapter.
    """
    reasons = []
    candidate = scenario.candidates.get(release_id)
    if candidate is not None and candidate.submitted.foundation is not None:
        reasons += [
            _reason(reason.code, f"its foundation: {reason.message}")
            for reason in revocation_reasons(state, scenario, candidate.submitted.foundation, at)
        ]
    if candidate is not None and _had_happened(candidate.revoked_position, at):
        reasons.append(
            _reason("revoked", f"the candidate was revoked at {candidate.revoked_position}")
        )
    release = scenario.releases.get(release_id)
    if release is None:
        return reasons
    if _had_happened(release.revoked_position, at):
        reasons.append(_reason("revoked", f"the release was revoked at {release.revoked_position}"))
    signers = [("release", release.key_id)]
    gate = scenario.gates.get(release.gate_id)
    if gate is not None and gate.decision_key is not None:
        if workers_behind(state, scenario, gate, at) < gate.policy.gate_quorum:
            passes = passes_with(scenario, gate)
            keys = dict.fromkeys(each.decision_key or "" for each in passes)
            signers += [("gate", key_id) for key_id in keys]
        signers.append(("policy", gate.policy_key))
    for role, key_id in signers:
        reasons += key_reasons(state, role, key_id, at)
    return reasons


def key_reasons(state: State, role: str, key_id: str, at: int | None = None) -> list[Reason]:
    """Whether the key was revoked; as of position *at*, if given."""
    key = state.keys.get(key_id)
    if key is None or not _had_happened(key.revoked_position, at):
        return []
    return [_reason("key-revoked", f"{role} key {key_id} was revoked at {key.revoked_position}")]


def revoked_at(scenario: Scenario, release_id: str) -> int | None:
    """Where *release_id* was first revoked, as a candidate or as a release, or its foundation.

    Keys are left out: what they signed may be signed again.
    """
    candidate, release = scenario.candidates[release_id], scenario.releases.get(release_id)
    found = [candidate.revoked_position, None if release is None else release.revoked_position]
    if candidate.submitted.foundation is not None:
        found.append(revoked_at(scenario, candidate.submitted.foundation))
    return min((position for position in found if position is not None), default=None)


def _had_happened(position: int | None, at: int | None) -> bool:
    return position is not None and (at is None or position <= at)


def _reason(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)
