"""A policy as its page tells it: since when it is in force, why, what it changed, what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reef_release.domain import events as ev
from reef_release.domain.gating.rule_words import RuleText, rule_texts
from reef_release.domain.state import PolicyInForce, Scenario
from reef_release.web.facts import reached
from reef_release.web.past import Past
from reef_release.web.policy_terms import (
    PolicyChange,
    policy_changes,
    policy_document,
    policy_terms,
)
from reef_release.web.suites import SuiteLine, suite_line

__all__ = ["PolicyLine", "PolicyPage", "changes_by", "policy_line", "policy_page"]


@dataclass(frozen=True, kw_only=True)
class PolicyLine:
    """A policy in short: from where it was in force, and who put it there and why.

    `reason` is "" for the one that the scenario was created with.
    """

    digest: str
    version: int
    position: int
    recorded_at: str
    actor: str
    reason: str
    rules: tuple[RuleText, ...]
    gate_workers: int
    approvals: int
    suite: SuiteLine


@dataclass(frozen=True, kw_only=True)
class PolicyPage:
    """The page. `until` is where the next policy came into force, None for the one in force.

    `before` and `after` are the digests and versions of its neighbours in time.
    """

    line: PolicyLine
    key_id: str
    key_revoked: int | None
    until: int | None
    before: tuple[str, int] | None
    after: tuple[str, int] | None
    changes: tuple[PolicyChange, ...]
    terms: Mapping[str, tuple[str, ...]]
    document: str


def changes_by(scenario: Scenario, digest: str) -> tuple[PolicyChange, ...]:
    """In what the policy differs from the one before it; nothing for the first, or for none."""
    for before, after in zip(scenario.policies, scenario.policies[1:], strict=False):
        if after.digest == digest:
            return policy_changes(before.policy, after.policy)
    return ()


async def policy_line(past: Past, found: PolicyInForce) -> PolicyLine:
    """*found* in short. Raises `LogUnavailable`."""
    row = await past.history.event(found.position)
    assert row is not None, "the state has folded what is at this position"
    policy = found.policy
    return PolicyLine(
        digest=found.digest,
        version=policy.version,
        position=found.position,
        recorded_at=row.envelope.recorded_at,
        actor=row.envelope.actor,
        reason=row.data.reason if isinstance(row.data, ev.PolicyChanged) else "",
        rules=tuple(rule_texts(policy.standard.rule)),
        gate_workers=policy.gate_quorum,
        approvals=policy.approvals,
        suite=suite_line(past, policy.suite),
    )


async def policy_page(past: Past, digest: str) -> PolicyPage | None:
    """The page of the policy with that digest, None without one. Raises `LogUnavailable`."""
    known = [each for each in past.scenario.policies if past.seen(each.position)]
    index = next((place for place, each in enumerate(known) if each.digest == digest), None)
    if index is None:
        return None
    found = known[index]
    before = known[index - 1] if index else None
    after = known[index + 1] if index + 1 < len(known) else None
    key = past.history.state.keys.get(found.key_id)
    return PolicyPage(
        line=await policy_line(past, found),
        key_id=found.key_id,
        key_revoked=None if key is None else reached(key.revoked_position, past.at),
        until=None if after is None else after.position,
        before=None if before is None else (before.digest, before.policy.version),
        after=None if after is None else (after.digest, after.policy.version),
        changes=changes_by(past.scenario, digest),
        terms=policy_terms(found.policy),
        document=policy_document(found.policy),
    )
