"""Approving of what passed its gate: one more condition of a promotion, never one less."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from reef_release.api import levers
from reef_release.api.access import commands
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
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
    return await levers.approve(service, request.user.name, scenario, release_id, data.reason)
