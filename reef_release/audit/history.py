"""What a replay tells of people and of refusals: who did what and why, and what was turned away.

Only events that had an effect are told here, in the order of the log; those that had none are
problems of the report. A promotion is no action of a person, so it stands with the pointer events;
so do erasures with the erasures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import Event, EventData
from reef_release.domain.reasons import Reason

__all__ = ["Action", "History", "Refusal"]


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One lever that somebody pulled; `subject` is what it was pulled on."""

    position: int
    recorded_at: str
    scenario: str
    type: str
    subject: str
    actor: str
    reason: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that admission refused, or a release that a node refused, with every reason.

    `submitted_by` is who submitted the candidate, "" for a node's refusal. What gates refused
    stands with the gates.
    """

    position: int
    recorded_at: str
    scenario: str
    type: str
    subject: str
    actor: str
    submitted_by: str
    reasons: list[Reason]


_SUBJECTS: Mapping[type[EventData], Callable[[Any], str]] = {
    ev.RootRotated: lambda d: f"root version {d.version}",
    ev.KeyAdded: lambda d: f"{d.role} key {d.key_id}",
    ev.KeyRevoked: lambda d: f"{d.role} key {d.key_id}",
    ev.ScenarioCreated: lambda d: f"policy {d.policy_digest}",
    ev.PolicyChanged: lambda d: f"policy {d.policy_digest}",
    ev.ScenarioHeld: lambda d: "all promotions",
    ev.ScenarioResumed: lambda d: "all promotions",
    ev.CandidateRevoked: lambda d: f"candidate {d.candidate_id}",
    ev.ReleaseApproved: lambda d: f"release {d.release_id}",
    ev.ReleaseRolledBack: lambda d: f"{d.channel}, to release {d.release_id}",
    ev.ReleaseRevoked: lambda d: f"release {d.release_id}",
    ev.WatchFallen: lambda d: f"release {d.release_id}",
}


class History:
    """Follows the events that had an effect."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.refusals: list[Refusal] = []
        self._submitters: dict[tuple[str, str], str] = {}

    def follow(self, event: Event) -> None:
        """Take in the next event."""
        envelope, data = event.envelope, event.data
        place: dict[str, Any] = {
            "position": envelope.position,
            "recorded_at": envelope.recorded_at,
            "scenario": envelope.scenario,
            "type": data.TYPE,
            "actor": envelope.actor,
        }
        match data:
            case ev.CandidateSubmitted():
                self._submitters[envelope.scenario, data.candidate_id] = envelope.actor
            case ev.CandidateRefused():
                refusal = Refusal(
                    **place,
                    subject=f"candidate {data.candidate_id}",
                    submitted_by=self._submitters.pop((envelope.scenario, data.candidate_id), ""),
                    reasons=data.reasons,
                )
                self.refusals.append(refusal)
            case ev.NodeRefused():
                subject = f"release {data.release_id or 'unknown'}, at node {data.node_id}"
                refusal = Refusal(**place, subject=subject, submitted_by="", reasons=data.reasons)
                self.refusals.append(refusal)
            case _ if type(data) in _SUBJECTS:
                subject, reason = _SUBJECTS[type(data)](data), getattr(data, "reason", "")
                self.actions.append(Action(**place, subject=subject, reason=reason))
            case _:
                pass
