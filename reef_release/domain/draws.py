"""When a candidate's draw becomes known: what it then costs, and what may no longer be chosen.

The draw of a candidate follows from the root of the first published checkpoint that covers its
admission, so from then on anyone can tell what its gate will ask. What the gate's error is
measured by is therefore fixed there: the policy, the incumbent and the level are those of the
events that the checkpoint covers, and the share of the budget is paid there, also for a candidate
that is revoked at once and for one whose gate never opens.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.quorum import passes_so_far
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Draw, PolicyInForce, Scenario

__all__ = ["draw_candidates", "draw_reasons", "redrawn_policy", "share_at_opening"]


def draw_candidates(scenario: Scenario, size: int) -> None:
    """A checkpoint over the first *size* events was published: pay for the draws it makes known."""
    while scenario.undrawn:
        candidate = scenario.candidates[scenario.undrawn[0]]
        if candidate.admitted_position is None or candidate.admitted_position >= size:
            return
        del scenario.undrawn[0]
        candidate.draw = _draw(scenario, candidate.submitted.channel, size)


def share_at_opening(scenario: Scenario, candidate: Candidate) -> BudgetShare | None:
    """What the gate that opens now over *candidate* is held to; a second one pays once more.

    It is never more than the draw was paid for: nobody may wait for promotions with a draw that
    is known. The gate of one more worker has the share of the pass that it comes after and pays
    nothing: both must pass, which is no likelier than that one of them does. That holds for one
    gate after a pass: where that one errored, the next pays, as each second chance does.
    """
    passes = passes_so_far(scenario, candidate)
    if passes and passes[-1].opened.gate_id == candidate.gates[-1]:
        return passes[-1].share
    budget, draw = scenario.policy.policy.budget, candidate.draw
    paid = None if budget is None or draw is None else draw.share
    if not candidate.gates:
        return paid
    share = None
    if budget is not None and paid is not None:
        share = replace(scenario.ledger, promotions=paid.promotions).share(budget)
    scenario.ledger = scenario.ledger.drawn(budget)
    return share


def draw_reasons(scenario: Scenario, candidate: Candidate, base: str | None) -> list[Reason]:
    """Why no gate under a budget may open on *base* with the draw that *candidate* has."""
    draw = candidate.draw
    if scenario.policy.policy.budget is None or draw is None or base is None:
        return []
    if redrawn_policy(scenario, candidate):
        message = (
            "the policy changed after this candidate's draw was known; the error budget covers "
            "no choice made after it: submit other weights"
        )
        return [Reason(code="policy-after-draw", message=message)]
    if draw.base != base:
        message = (
            f"its draw was known while {draw.base or 'nothing'} was served; the error budget "
            "covers no other incumbent: submit other weights"
        )
        return [Reason(code="base-after-draw", message=message)]
    return []


def redrawn_policy(scenario: Scenario, candidate: Candidate) -> bool:
    """Whether the policy in force has a budget and came after the candidate's draw was known."""
    in_force = scenario.policy
    draw = candidate.draw
    return (
        in_force.policy.budget is not None
        and draw is not None
        and draw.base is not None
        and draw.policy_digest != in_force.digest
    )


def _draw(scenario: Scenario, channel: str, size: int) -> Draw:
    policy = _policy_within(scenario, size)
    history = scenario.pointers.get(channel, [])
    before = bisect_left(history, size, key=lambda pointer: pointer.position)
    base, share = history[before - 1].release_id if before else None, None
    if base is not None:
        budget = policy.policy.budget
        ledger = replace(scenario.ledger, promotions=bisect_left(scenario.rewarded, size))
        share = None if budget is None else ledger.share(budget)
        scenario.ledger = scenario.ledger.drawn(budget)
    return Draw(size=size, policy_digest=policy.digest, base=base, share=share)


def _policy_within(scenario: Scenario, size: int) -> PolicyInForce:
    return next(policy for policy in reversed(scenario.policies) if policy.position < size)
