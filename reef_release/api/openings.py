"""The one gate that may open for a candidate, and why none may: all of it follows from the log."""

from __future__ import annotations

import hashlib
import itertools

from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.domain.rule import gate_opening_reasons
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.domain.suite import draw_seed

__all__ = ["closed_reasons", "opening_of"]


def opening_of(state: State, scenario: Scenario, candidate: Candidate) -> ev.GateOpened | None:
    """The gate that may open for *candidate* now; None until a checkpoint covers it."""
    checkpoint = state.first_checkpoint_covering(candidate.admitted_position or 0)
    if checkpoint is None:
        return None
    policy = scenario.policy
    channel = candidate.submitted.channel
    serving = scenario.serving(channel)
    return ev.GateOpened(
        gate_id=_free_gate_id(state, scenario, candidate),
        candidate_id=candidate.candidate_id,
        base=serving.release_id if serving else None,
        channel=channel,
        phase="standard" if serving else "bootstrap",
        policy_digest=policy.digest,
        suite=policy.policy.suite,
        checkpoint_position=checkpoint.position,
        seed=draw_seed(
            checkpoint_root=bytes.fromhex(checkpoint.root),
            candidate_id=candidate.candidate_id,
            policy_digest=policy.digest,
        ).hex(),
    )


def closed_reasons(state: State, scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """Why no gate will open over an admitted *candidate*, also when its channel's gate has ended.

    Empty before a checkpoint covers it: there is nothing to open yet.
    """
    opening = opening_of(state, scenario, candidate)
    if opening is None:
        return []
    reasons = gate_opening_reasons(state, scenario, opening)
    return [reason for reason in reasons if reason.code != "gate-open"]


def _free_gate_id(state: State, scenario: Scenario, candidate: Candidate) -> str:
    """Derived, not random: of two services that open a gate at once, one finds it taken.

    A stream that somebody else wrote into by hand is passed over.
    """
    for attempt in itertools.count(len(candidate.gates)):
        name = f"{scenario.name}/{candidate.submitted.channel}/{candidate.candidate_id}/{attempt}"
        gate_id = hashlib.sha256(name.encode()).hexdigest()[:32]
        if (scenario.name, f"gate/{gate_id}") not in state.versions:
            return gate_id
    raise AssertionError("counting does not end")
