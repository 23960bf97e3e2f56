"""Reports of serving nodes: what they loaded, or why they refused."""

from __future__ import annotations

import re
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from reef_release.api.access import commands, require_scenario
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.errors import BadRequest
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import NodeReport, WrittenView

__all__ = ["report_node"]

_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@post(
    "/reef/nodes/{node_id:str}/reports",
    guards=[commands(TokenRole.SERVE)],
    summary="Report what a node serves",
    responses=WRITE_PROBLEMS,
)
async def report_node(
    request: Request[Principal, Any, Any],
    node_id: FromPath[str],
    data: JSONBody[NodeReport],
    service: NamedDependency[Service],
) -> WrittenView:
    """The digest of what was really loaded, or the reasons for refusing."""
    require_scenario(request.user, data.scenario)
    service.scenario(data.scenario)
    event: ev.EventData
    if data.reasons:
        event = ev.NodeRefused(
            node_id=node_id,
            release_id=data.release_id,
            channel=data.channel,
            reasons=data.reasons,
        )
    elif data.release_id is None or data.serial is None or data.canary_difference is None:
        raise BadRequest("A report of a loaded release names it, its serial and canary difference.")
    elif not _DECIMAL.fullmatch(data.canary_difference):
        raise BadRequest('canary_difference is a decimal such as "0.000012".')
    else:
        event = ev.NodeLoaded(
            node_id=node_id,
            release_id=data.release_id,
            channel=data.channel,
            serial=data.serial,
            canary_difference=data.canary_difference,
        )
    appended, event_id = await service.commands.append(request.user.name, data.scenario, event)
    return WrittenView(position=appended.position, event_id=event_id)
