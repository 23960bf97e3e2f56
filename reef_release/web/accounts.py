"""Scenarios and candidates as they give account of themselves to programs and in a terminal.

The words and figures are those that the pages show, made by the same functions over the same
`Past`, so that nobody is told two stories. Who may not learn how the gate's tasks went (without
`figures`) is told which rules held once the gate has ended, and not the reasons of approvers, whose
events it may not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from reef_release.account_wire import (
    AccountView,
    ActView,
    CandidateAccountView,
    ChannelAccountView,
    GateAccountView,
    GroundsView,
    ParameterView,
    PolicyInForceView,
    RefusalView,
    RuleView,
    SignatureView,
)
from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.gating.rule_words import rule_lines
from reef_release.domain.quorum import passes_with
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate
from reef_release.errors import NotFound
from reef_release.signing.keys import Role
from reef_release.web.candidate_page import candidate_page
from reef_release.web.facts import Row, reached, release_at
from reef_release.web.gate_page import NO_KEY, headline
from reef_release.web.next_steps import next_step
from reef_release.web.overview import Refusal, refusals, violations_of
from reef_release.web.past import Past
from reef_release.web.summaries import summary

__all__ = ["account", "candidate_account"]

_LEVERS = 5
_LEVER_TYPES = (
    ev.ScenarioHeld.TYPE,
    ev.ScenarioResumed.TYPE,
    ev.ReleaseRolledBack.TYPE,
    ev.ReleaseRevoked.TYPE,
    ev.CandidateRevoked.TYPE,
)

_OUTCOMES = {
    "passed": "Everything that the policy asks for held.",
    "failed": "A rule of the policy can hold no more.",
    "inconclusive": "The tasks were spent before the rules were decided.",
    "errored": "Too many trials could not be carried out, or the gate worker ended it.",
    "stale": "What is served moved while it was open.",
}
"""For who may not learn how the tasks went."""


async def account(past: Past, *, figures: bool) -> AccountView:
    """The scenario: what is served and why, what was refused and why. Raises `LogUnavailable`."""
    held, end = await past.held(), await past.history.event(past.at)
    assert end is not None, "the state has folded what is at this position"
    levers = await past.history.newest(_LEVERS, past.name, _LEVER_TYPES)
    levers += await past.history.newest(_LEVERS, ev.GLOBAL, (ev.KeyRevoked.TYPE,))
    levers.sort(key=lambda row: -row.position)
    return AccountView(
        scenario=past.name,
        position=past.at,
        at=end.envelope.recorded_at,
        policy=await _policy(past),
        channels=[await _channel(past, name, figures) for name in past.channels()],
        held=None if held is None else _act(past, held, figures),
        refusals=[_refusal(past, each, figures) for each in await refusals(past)],
        levers=[_act(past, row, figures) for row in levers[:_LEVERS]],
        keyless_roles=[
            role.value for role in Role if role is not Role.ROOT and not past.key_counts(role)
        ],
        violations=len(violations_of(past)),
    )


async def candidate_account(
    past: Past, candidate_id: str, waits: Sequence[Reason], *, figures: bool
) -> CandidateAccountView:
    """One candidate: what became of it, why, and what comes next.

    *waits* say why its files are not examined yet. Raises `NotFound` and `LogUnavailable`.
    """
    found = past.candidate(candidate_id)
    if found is None:
        raise NotFound(
            f"There is no candidate {candidate_id!r} in {past.name!r}.",
            next_step="`reef-release candidate list` shows them all.",
        )
    gates = {each: await past.gate(past.scenario.gates[each]) for each in found.gates}
    state = past.history.state
    page = candidate_page(state, past.scenario, found, past.at, gates)
    reasons = [*page.reasons, *waits]
    newest = None if page.gate_id is None else gates[page.gate_id]
    gate = None if newest is None else _gate(past, newest, figures)
    return CandidateAccountView(
        scenario=past.name,
        position=past.at,
        candidate_id=candidate_id,
        channel=found.submitted.channel,
        kind=found.submitted.kind,
        status=page.status,
        headline=page.headline if gate is None else gate.headline,
        next_step=next_step(page, past, is_held=await past.held() is not None),
        reasons=reasons,
        is_serving=page.is_serving,
        serving=None
        if (served := past.serving(found.submitted.channel)) is None
        else served.release_id,
        approvals_wanted=page.approvals_wanted,
        approvals_given=page.approvals_given,
        steps=await _acts(past, sorted({step.position for step in page.steps}), figures),
        gates=[_gate(past, each, figures) for each in gates.values()],
        manifest=_manifest(found),
    )


async def _policy(past: Past) -> PolicyInForceView:
    found = past.policy
    return PolicyInForceView(
        version=found.policy.version,
        digest=found.digest,
        act=await _act_at(past, found.position, figures=True),
        gate_quorum=found.policy.gate_quorum,
        approvals=found.policy.approvals,
    )


async def _channel(past: Past, name: str, figures: bool) -> ChannelAccountView:
    pointer, gate = past.serving(name), past.open_gate(name)
    release_id = None if pointer is None else pointer.release_id
    revoked = [] if release_id is None else sorted(set(_revocations(past, release_id)))
    return ChannelAccountView(
        channel=name,
        release_id=release_id,
        pointer=None if pointer is None else await _act_at(past, pointer.position, figures),
        grounds=None if release_id is None else await _grounds(past, release_id, figures),
        barred=[] if release_id is None else past.revocations(release_id),
        revocations=await _acts(past, revoked, figures),
        gate=None if gate is None else _gate(past, await past.gate(gate), figures),
    )


def _revocations(past: Past, release_id: str) -> Iterator[int]:
    """Where what stands behind the release was revoked: itself, any key, its foundation."""
    candidate = past.scenario.candidates[release_id]
    release = release_at(past.scenario, release_id, past.at)
    positions = [candidate.revoked_position]
    if release is not None:
        gate = past.scenario.gates[release.gate_id]
        keys = past.history.state.keys
        workers = [each.decision_key for each in passes_with(past.scenario, gate)]
        signers = (release.key_id, *workers, gate.policy_key)
        found = [keys[each] for each in signers if each in keys]
        positions += [release.revoked_position, *(key.revoked_position for key in found)]
    for position in positions:
        if position is not None and past.seen(position):
            yield position
    if candidate.submitted.foundation is not None:
        yield from _revocations(past, candidate.submitted.foundation)


async def _grounds(past: Past, release_id: str, figures: bool) -> GroundsView | None:
    release = release_at(past.scenario, release_id, past.at)
    if release is None:
        return None
    gate = past.scenario.gates[release.gate_id]
    digest = gate.opened.policy_digest
    policy = next(each for each in past.scenario.policies if each.digest == digest)
    approvals = sorted(past.approvals(release.gate_id).values())
    return GroundsView(
        gate=_gate(past, gate, figures),
        policy_digest=digest,
        policy_version=gate.policy.version,
        signatures=[
            await _signature(past, "the policy", gate.policy_key, policy.position),
            *[
                await _signature(
                    past, "the gate's decision", each.decision_key or "", each.decision_position
                )
                for each in passes_with(past.scenario, gate)
            ],
            await _signature(past, "the weights", release.key_id, release.signed_position),
        ],
        approvals=await _acts(past, approvals, figures),
    )


async def _signature(past: Past, what: str, key_id: str, position: int | None) -> SignatureView:
    row = None if position is None else await past.history.event(position)
    at = "" if row is None else row.envelope.recorded_at
    return SignatureView(what=what, key_id=key_id, position=position, at=at)


def _gate(past: Past, gate: Gate, figures: bool) -> GateAccountView:
    """The gate as it stood; without *figures*, of each rule no more than how it ended.

    And of a gate that goes on, nothing: asked for after each trial, it would tell the verdicts.
    """
    counts, told = past.key_counts("gate"), figures or gate.outcome is not None
    incumbents = gate.passes("incumbent") if figures and gate.opened.base is not None else None
    return GateAccountView(
        gate_id=gate.opened.gate_id,
        candidate_id=gate.opened.candidate_id,
        phase=gate.opened.phase,
        outcome=gate.outcome,
        headline=headline(past.scenario, gate, past.at, counts)
        if figures
        else _OUTCOMES.get(gate.outcome or "", f"It goes on.{'' if counts else ' ' + NO_KEY}"),
        rules=[
            RuleView(
                depth=each.depth,
                kind=each.kind,
                words=each.words,
                outcome=each.outcome if told else None,
                found=each.found if figures else "",
            )
            for each in rule_lines(gate.part.rule, gate.level, gate.slots())
        ],
        tasks=len(gate.slots()) if told else None,
        passed=sum(gate.passes("candidate")) if told else None,
        incumbent_passed=None if incumbents is None else sum(incumbents),
        errors=gate.errors if told else None,
        opened_position=gate.opened_position,
        decision_position=reached(gate.decision_position, past.at),
    )


def _refusal(past: Past, refusal: Refusal, figures: bool) -> RefusalView:
    gate = None if refusal.gate_id is None else past.scenario.gates[refusal.gate_id]
    told = None if gate is None else _gate(past, gate, figures)
    return RefusalView(
        position=refusal.position,
        at=refusal.recorded_at,
        outcome=refusal.outcome,
        candidate_id=refusal.candidate_id,
        line=refusal.line if told is None else told.headline,
        reasons=list(refusal.reasons),
        gate=told,
    )


def _manifest(candidate: Candidate) -> ParameterView:
    submitted = candidate.submitted
    return ParameterView(
        base=submitted.base,
        parent=submitted.parent,
        foundation=submitted.foundation,
        batches=list(submitted.batches),
        settings=dict(submitted.settings),
        metrics=dict(submitted.metrics),
        seed=submitted.seed,
        files=list(submitted.files),
    )


async def _acts(past: Past, positions: Sequence[int], figures: bool) -> list[ActView]:
    return [await _act_at(past, each, figures) for each in positions]


async def _act_at(past: Past, position: int, figures: bool) -> ActView:
    row = await past.history.event(position)
    assert row is not None, "the state has folded what is at this position"
    return _act(past, row, figures)


def _act(past: Past, row: Row, figures: bool) -> ActView:
    if isinstance(row.data, ev.ReleaseApproved) and not figures:
        # People give their reasons to those who approve and audit.
        row = replace(row, data=msgspec.structs.replace(row.data, reason="not told to trainers"))
    envelope, reason = row.envelope, getattr(row.data, "reason", "")
    return ActView(
        position=envelope.position,
        type=envelope.type,
        at=envelope.recorded_at,
        actor=envelope.actor,
        line=summary(row, past.history.state),
        reason=reason if isinstance(reason, str) else "",
    )
