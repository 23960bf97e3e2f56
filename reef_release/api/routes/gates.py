"""Gates over HTTP: a worker claims one, posts raw replies, and signs what they decide.

The worker chooses nothing: tasks, order and sampling seeds follow from the log, verdicts are
computed here, and the decision is accepted only if it equals what the log says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import structlog
from litestar import Controller, Request, Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_204_NO_CONTENT

from reef_release.api.access import commands
from reef_release.api.batches import renew_batch
from reef_release.api.openings import opening_of
from reef_release.api.problems import CLAIM_ANSWERS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.trials import record_trial
from reef_release.api.views import due_view, model_view, task_views
from reef_release.domain import events as ev
from reef_release.domain.decision import summaries_of, summary_of
from reef_release.domain.gate import Gate
from reef_release.domain.gating.rules import measures
from reef_release.domain.quorum import has_passed_it
from reef_release.domain.revocation import revoked_at
from reef_release.domain.rule import gate_opening_reasons, is_decided
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.domain.turns import gates_in_turn
from reef_release.errors import Conflict, NotFound, PayloadTooLarge, Refused
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import (
    DecisionRequest,
    DecisionView,
    GateAssignment,
    GateClaimRequest,
    LeaseView,
    TrialRequest,
    TrialView,
)

__all__ = ["GateController", "release_lease", "renew_lease"]

_GATE = commands(TokenRole.GATE)
_CANARY_LIMIT_BYTES = 4 * 1024 * 1024
_log = structlog.get_logger(__name__)


class _Canaries(msgspec.Struct, frozen=True):
    canaries: list[msgspec.Raw]


_DECISIONS: dict[str, type[ev.DecisionPosted]] = {
    kind.TYPE.removeprefix("gate."): kind
    for kind in (ev.GatePassed, ev.GateFailed, ev.GateInconclusive, ev.GateErrored)
}


class GateController(Controller):
    """Gates of one scenario."""

    path = "/reef/scenarios/{scenario:str}/gates"
    guards = (_GATE,)

    @post("/claim", summary="Claim a gate to run", status_code=HTTP_200_OK, responses=CLAIM_ANSWERS)
    async def claim(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        data: JSONBody[GateClaimRequest],
        service: NamedDependency[Service],
    ) -> Response[GateAssignment | None]:
        """An undecided gate nobody works on, or a new one for the candidate whose turn it is.

        Turns go round the submitters; those of one submitter come in the order submitted. Where
        the policy asks for several workers, none is given a candidate that it passed already, and
        one that others have passed comes before all that nobody has.
        204 when there is nothing to do. The assignment has questions, never answers.
        """
        found = service.scenario(scenario)
        asks = _Asks(actor=request.user.name, key_id=data.key_id)
        for channel in found.channels():
            gate = found.open_gate(channel)
            if gate is None:
                try:
                    gate = await _open_next(service, asks, found, channel)
                except Conflict:
                    gate = found.open_gate(channel)  # another worker was first
                except Refused as refused:
                    # It is of this channel alone: the others must not wait for it.
                    codes = [reason.code for reason in refused.reasons]
                    _log.warning(
                        "gate not opened", channel=channel, codes=codes, why=refused.detail
                    )
            if gate is None or not asks.may_have(service.state, found, gate):
                continue
            lease_id = await service.claims.take(request.user.name, found, gate, data.worker)
            if lease_id is not None:
                return Response(_assignment(service, found, gate, lease_id))
        return Response(None, status_code=HTTP_204_NO_CONTENT)

    @post("/{gate_id:str}/trials", summary="Post one raw reply", responses=WRITE_PROBLEMS)
    async def post_trial(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        gate_id: FromPath[str],
        data: JSONBody[TrialRequest],
        service: NamedDependency[Service],
    ) -> TrialView:
        """The trial that is due, as the candidate or incumbent really answered it.

        The verdict is computed from the raw reply. A reply cut short is recorded as an error. None
        is taken of a candidate that was revoked: end its gate as errored.
        """
        found = service.scenario(scenario)
        gate = _gate(found, gate_id)
        appended, trial = await record_trial(service, request.user.name, found, gate, data)
        tokens = None
        if data.reply is not None and measures(gate.part.rule):
            tokens = len(data.reply.token_ids)
        return TrialView(
            position=appended.position, trial=summary_of(trial, tokens), due=due_view(gate)
        )

    @post("/{gate_id:str}/decision", summary="Post the signed decision", responses=WRITE_PROBLEMS)
    async def post_decision(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        gate_id: FromPath[str],
        data: JSONBody[DecisionRequest],
        service: NamedDependency[Service],
    ) -> DecisionView:
        """The worker's own decision from the same trials, signed with its gate key.

        A worker ends a gate as errored that it cannot stand for, whatever its trials say. While
        another token's claim of the gate holds, none but that one decides it.
        """
        found = service.scenario(scenario)
        gate = _gate(found, gate_id)
        outcome = data.outcome or gate.verdict_due()
        if gate.outcome is not None or outcome is None:
            raise Conflict(
                f"Gate {gate_id} "
                + (f"ended as {gate.outcome}." if gate.outcome else "still waits for trials."),
                next_step="Claim again to see what is due.",
            )
        service.claims.require_free(request.user.name, found, gate)
        if data.canary is not None:
            await _check_canary(service, outcome, data.canary)
        kind = _DECISIONS[outcome]
        appended, _ = await service.commands.append(
            request.user.name,
            scenario,
            kind(
                gate_id=gate_id,
                candidate_id=gate.opened.candidate_id,
                base=gate.opened.base,
                channel=gate.opened.channel,
                attestation=data.attestation,
                canary=data.canary,
            ),
        )
        return DecisionView(position=appended.position, outcome=outcome)


async def _check_canary(service: Service, outcome: str, digest: str) -> None:
    """Raises `Refused` unless it is stored and, of a gate that passed, a record of canaries.

    That of a passed gate everybody who serves may read from then on, and nobody may erase it; so
    no digest of what a person said may stand there.
    """
    if not await service.blobs.exists(digest):
        raise Refused(
            f"The canary blob {digest} is not stored.",
            next_step="Upload it to /reef/blobs first.",
        )
    if outcome != "passed":
        return
    try:
        msgspec.json.decode(await service.blobs.read(digest, _CANARY_LIMIT_BYTES), type=_Canaries)
    except (msgspec.DecodeError, UnicodeDecodeError, PayloadTooLarge) as error:
        raise Refused(
            f"The blob {digest} is no record of canaries: {error}.",
            next_step='Upload {"canaries": [...]} as the gate worker measures them.',
        ) from error


@post(
    "/reef/leases/{lease_id:str}/renew",
    guards=[commands(TokenRole.GATE, TokenRole.JUDGE, TokenRole.TRAIN)],
    summary="Keep a lease",
    responses=WRITE_PROBLEMS,
)
async def renew_lease(
    request: Request[Principal, Any, Any],
    lease_id: FromPath[str],
    service: NamedDependency[Service],
) -> LeaseView:
    """Extend the lease on a gate, a turn or a batch before it expires."""
    trains = request.user.role == TokenRole.TRAIN
    if not (trains and await renew_batch(service, request.user, lease_id)):
        user = request.user
        gates = user.role == TokenRole.GATE
        if not (gates and await service.claims.renew(user.name, lease_id, user.scenario)):
            service.leases.renew(lease_id)
    return LeaseView(lease_id=lease_id, expires_at=_expiry(service))


@post(
    "/reef/leases/{lease_id:str}/release",
    guards=[_GATE],
    summary="Give a gate back",
    status_code=HTTP_204_NO_CONTENT,
    responses=WRITE_PROBLEMS,
)
async def release_lease(
    request: Request[Principal, Any, Any],
    lease_id: FromPath[str],
    service: NamedDependency[Service],
) -> None:
    """End the lease on a gate before it expires: the next worker that asks gets the gate."""
    await service.claims.release(request.user.name, lease_id, request.user.scenario)


def _gate(scenario: Scenario, gate_id: str) -> Gate:
    gate = scenario.gates.get(gate_id)
    if gate is None:
        raise NotFound(f"There is no gate {gate_id!r} in {scenario.name!r}.")
    return gate


def _expiry(service: Service) -> str:
    return (datetime.now(UTC) + timedelta(seconds=service.leases.duration_s)).isoformat()


@dataclass(frozen=True, kw_only=True)
class _Asks:
    """Who asks for a gate: whose token, and which key it says that it signs with."""

    actor: str
    key_id: str | None

    def passed(self, state: State, scenario: Scenario, candidate: Candidate) -> bool:
        return has_passed_it(state, scenario, candidate, actor=self.actor, key_id=self.key_id)

    def may_have(self, state: State, scenario: Scenario, gate: Gate) -> bool:
        """One of a revoked candidate is only to be ended, by whoever comes to it."""
        candidate_id = gate.opened.candidate_id
        if revoked_at(scenario, candidate_id) is not None:
            return True
        return not self.passed(state, scenario, scenario.candidates[candidate_id])


async def _open_next(
    service: Service, asks: _Asks, scenario: Scenario, channel: str
) -> Gate | None:
    state = service.state
    for candidate in gates_in_turn(scenario, channel):
        if is_decided(state, scenario, candidate):
            continue
        opening = opening_of(state, scenario, candidate)
        if opening is None or gate_opening_reasons(state, scenario, opening):
            continue
        if asks.passed(state, scenario, candidate):
            return None  # another worker is to come; a promotion would undo what is begun meanwhile
        await service.commands.append(asks.actor, scenario.name, opening)
        return scenario.gates[opening.gate_id]
    return None


def _assignment(service: Service, scenario: Scenario, gate: Gate, lease_id: str) -> GateAssignment:
    base = gate.opened.base
    return GateAssignment(
        scenario=scenario.name,
        lease_id=lease_id,
        lease_s=service.leases.duration_s,
        opened=gate.opened,
        policy=msgspec.to_builtins(gate.policy),
        candidate=model_view(scenario, gate.opened.candidate_id),
        incumbent=None if base is None else model_view(scenario, base),
        tasks=task_views(gate),
        trials=summaries_of(gate),
        due=due_view(gate),
        share=gate.share,
        revoked_position=revoked_at(scenario, gate.opened.candidate_id),
    )
