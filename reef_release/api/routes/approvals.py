"""Approving of what passed its gate: one more condition of a promotion, never one less."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from reef_release.api.access import commands
from reef_release.api.given import given_reason, passed_gate
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.errors import Conflict
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import ReasonRequest, WrittenView

__all__ = ["approve_release"]


@post(
    "/reef/scenarios/{scenario:str}/releases/{release_id:str}/approve",
    guards=[commands(TokenRole.APPROVE, TokenRole.OPERATE)],
    summary="Approve of a candidate that passed its gate",
    responses=WRITE_PROBLEMS,
)
async def approve_release(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    release_id: FromPath[str],
    data: JSONBody[ReasonRequest],
    service: NamedDependency[Service],
) -> WrittenView:
    """Of its newest gate that passed; the token's name is who approves, and counts once."""
    found = service.scenario(scenario)
    gate_id = passed_gate(found, release_id).opened.gate_id
    given = found.approvals.get(gate_id, {})
    if request.user.name in given:
        raise Conflict(
            f"{request.user.name} approved of this at position {given[request.user.name]}.",
            next_step="Another person must approve, if the policy asks for more.",
            reasons=[Reason(code="approved", message="one person's approval counts once")],
        )
    appended, event_id = await service.commands.append(
        request.user.name,
        scenario,
        ev.ReleaseApproved(
            release_id=release_id, gate_id=gate_id, reason=given_reason(data.reason)
        ),
    )
    return WrittenView(position=appended.position, event_id=event_id)
