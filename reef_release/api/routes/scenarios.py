"""Scenarios: creating them, changing their signed policy, and the operator's levers."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from litestar import Controller, Request, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from reef_release.api import levers
from reef_release.api.access import commands, require_scenario, requires
from reef_release.api.admissions import read_schema
from reef_release.api.given import given_reason
from reef_release.api.problems import READ_PROBLEMS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.views import scenario_view
from reef_release.domain import events as ev
from reef_release.domain.policy import parse_new_policy
from reef_release.errors import Refused
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.policy import verify_policy
from reef_release.tokens import Principal, TokenRole
from reef_release.verifiers.registry import is_objective
from reef_release.wire import (
    PolicyRequest,
    ReasonRequest,
    RollbackRequest,
    ScenarioRequest,
    ScenariosView,
    ScenarioView,
    WrittenView,
)

__all__ = ["ScenarioController", "create_scenario", "list_scenarios"]

_READERS = requires(*TokenRole)
_OPERATOR = commands(TokenRole.OPERATE)

Request_ = Request[Principal, Any, Any]


def _policy_digest(service: Service, envelope: dict[str, Any]) -> str:
    keys = [PublicKey(Role.POLICY, key.public_key) for key in service.state.active_keys("policy")]
    verified = verify_policy(envelope, keys)
    # Logs hold policies that are older than some fields; none comes into force without them.
    parse_new_policy(verified.payload, is_objective)
    return verified.digest


@get("/reef/scenarios", guards=[_READERS], summary="List scenarios", responses=READ_PROBLEMS)
async def list_scenarios(request: Request_, service: NamedDependency[Service]) -> ScenariosView:
    """All scenarios that the token may see."""
    only = request.user.scenario
    state = service.state
    return ScenariosView(
        scenarios=[
            scenario_view(state, scenario, request.user.role)
            for scenario in state.scenarios.values()
            if only in (None, scenario.name)
        ]
    )


@post("/reef/scenarios", guards=[_OPERATOR], summary="Create a scenario", responses=WRITE_PROBLEMS)
async def create_scenario(
    request: Request_, data: JSONBody[ScenarioRequest], service: NamedDependency[Service]
) -> ScenarioView:
    """Create a scenario from an uploaded schema and a signed policy.

    The policy must be signed by the policy key, name an uploaded suite, and contain an
    objective verifier in both parts.
    """
    require_scenario(request.user, data.name)
    if not await service.blobs.exists(data.schema):
        raise Refused(
            f"The schema blob {data.schema} is not stored.",
            next_step="Upload it to /reef/blobs first.",
        )
    # A schema that cannot be read would leave every candidate waiting for its admission.
    await to_thread.run_sync(read_schema, service.blobs, data.schema)
    await service.commands.append(
        request.user.name,
        data.name,
        ev.ScenarioCreated(
            schema=data.schema,
            policy_digest=_policy_digest(service, data.policy),
            policy=data.policy,
        ),
    )
    return scenario_view(service.state, service.scenario(data.name))


class ScenarioController(Controller):
    """One scenario."""

    path = "/reef/scenarios/{scenario:str}"

    @get(guards=[_READERS], summary="Show a scenario", responses=READ_PROBLEMS)
    async def show(
        self, request: Request_, scenario: FromPath[str], service: NamedDependency[Service]
    ) -> ScenarioView:
        """What the scenario serves, its policy and its gates."""
        return scenario_view(service.state, service.scenario(scenario), request.user.role)

    @put(
        "/policy",
        guards=[_OPERATOR],
        summary="Put a signed policy into force",
        responses=WRITE_PROBLEMS,
    )
    async def put_policy(
        self,
        request: Request_,
        scenario: FromPath[str],
        data: JSONBody[PolicyRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """For gates that open from now on; gates already open keep theirs."""
        return await levers.append_to_scenario(
            service,
            request.user.name,
            scenario,
            ev.PolicyChanged(
                policy_digest=_policy_digest(service, data.policy),
                policy=data.policy,
                reason=given_reason(data.reason),
            ),
        )

    @post(
        "/rollback",
        guards=[_OPERATOR],
        summary="Serve an earlier release again",
        responses=WRITE_PROBLEMS,
    )
    async def roll_back(
        self,
        request: Request_,
        scenario: FromPath[str],
        data: JSONBody[RollbackRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """To a release that was promoted in this channel and is not revoked."""
        actor, channel = request.user.name, data.channel
        return await levers.roll_back(
            service, actor, scenario, data.release_id, channel, data.reason
        )

    @post("/hold", guards=[_OPERATOR], summary="Block promotions", responses=WRITE_PROBLEMS)
    async def hold(
        self,
        request: Request_,
        scenario: FromPath[str],
        data: JSONBody[ReasonRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """Until resumed; rollback stays possible."""
        return await levers.hold(service, request.user.name, scenario, data.reason)

    @post("/resume", guards=[_OPERATOR], summary="Allow promotions again", responses=WRITE_PROBLEMS)
    async def resume(
        self,
        request: Request_,
        scenario: FromPath[str],
        data: JSONBody[ReasonRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """End a hold."""
        return await levers.resume(service, request.user.name, scenario, data.reason)

    @post(
        "/releases/{release_id:str}/revoke",
        guards=[_OPERATOR],
        summary="Revoke a release",
        responses=WRITE_PROBLEMS,
    )
    async def revoke_release(
        self,
        request: Request_,
        scenario: FromPath[str],
        release_id: FromPath[str],
        data: JSONBody[ReasonRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """It can be neither promoted nor rolled back to from now on."""
        actor = request.user.name
        return await levers.revoke_release(service, actor, scenario, release_id, data.reason)

    @post(
        "/candidates/{candidate_id:str}/revoke",
        guards=[_OPERATOR],
        summary="Revoke a candidate",
        responses=WRITE_PROBLEMS,
    )
    async def revoke_candidate(
        self,
        request: Request_,
        scenario: FromPath[str],
        candidate_id: FromPath[str],
        data: JSONBody[ReasonRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """It can be neither gated, promoted nor rolled back to from now on."""
        actor = request.user.name
        return await levers.revoke_candidate(service, actor, scenario, candidate_id, data.reason)

    @post(
        "/batches/{batch_id:str}/restore",
        guards=[_OPERATOR],
        summary="Let the samples of a batch be trained again",
        responses=WRITE_PROBLEMS,
    )
    async def restore_batch(
        self,
        request: Request_,
        scenario: FromPath[str],
        batch_id: FromPath[str],
        data: JSONBody[ReasonRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """Those that are refused as quarantined or as having come to nothing wait again.

        Of a batch that is trained and waits for a release, the line is given up. For when a
        trainer was at fault, and not the samples.
        """
        return await levers.append_to_scenario(
            service,
            request.user.name,
            scenario,
            ev.BatchRestored(batch_id=batch_id, reason=given_reason(data.reason)),
        )
