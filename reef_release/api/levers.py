"""The operator's levers, as the API and the pages pull them: one command each, with its reason.

Whoever calls these has checked the role, the scenario of the token, and that this process has
folded all that the log had (see `access.commands`).
"""

from __future__ import annotations

from reef_release.api.given import given_reason, passed_gate
from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.errors import Conflict
from reef_release.wire import WrittenView

__all__ = [
    "append_to_scenario",
    "approve",
    "hold",
    "resume",
    "revoke_candidate",
    "revoke_release",
    "roll_back",
]


async def append_to_scenario(
    service: Service, actor: str, scenario: str, data: ev.EventData
) -> WrittenView:
    """Append to a scenario that exists. Raises what `Commands.append` does, and `NotFound`."""
    service.scenario(scenario)
    appended, event_id = await service.commands.append(actor, scenario, data)
    return WrittenView(position=appended.position, event_id=event_id)


async def hold(service: Service, actor: str, scenario: str, reason: str) -> WrittenView:
    """Block promotions until resumed; rollback stays possible."""
    data = ev.ScenarioHeld(reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)


async def resume(service: Service, actor: str, scenario: str, reason: str) -> WrittenView:
    """End a hold."""
    data = ev.ScenarioResumed(reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)


async def roll_back(
    service: Service, actor: str, scenario: str, release_id: str, channel: str, reason: str
) -> WrittenView:
    """To a release that was promoted in this channel and is not revoked."""
    data = ev.ReleaseRolledBack(release_id=release_id, channel=channel, reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)


async def revoke_release(
    service: Service, actor: str, scenario: str, release_id: str, reason: str
) -> WrittenView:
    """It can be neither promoted nor rolled back to from now on."""
    data = ev.ReleaseRevoked(release_id=release_id, reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)


async def revoke_candidate(
    service: Service, actor: str, scenario: str, candidate_id: str, reason: str
) -> WrittenView:
    """It can be neither gated, promoted nor rolled back to from now on."""
    data = ev.CandidateRevoked(candidate_id=candidate_id, reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)


async def approve(
    service: Service, actor: str, scenario: str, release_id: str, reason: str
) -> WrittenView:
    """Of its newest gate that passed; *actor* is who approves, and counts once."""
    found = service.scenario(scenario)
    gate_id = passed_gate(found, release_id).opened.gate_id
    given = found.approvals.get(gate_id, {})
    if actor in given:
        raise Conflict(
            f"{actor} approved of this at position {given[actor]}.",
            next_step="Another person must approve, if the policy asks for more.",
            reasons=[Reason(code="approved", message="one person's approval counts once")],
        )
    data = ev.ReleaseApproved(release_id=release_id, gate_id=gate_id, reason=given_reason(reason))
    return await append_to_scenario(service, actor, scenario, data)
