"""What moved, stopped or loosened the serving of a scenario, as entries of its timeline.

An entry is made of one event of the log and of what the state says of its subject. An event that
broke a rule is shown with what was wrong with it and never as something that happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.web.facts import Row, served_before, violation_at
from reef_release.web.gate_page import headline
from reef_release.web.policy_page import changes_by
from reef_release.web.policy_terms import PolicyChange

__all__ = ["GLOBAL_TYPES", "KINDS", "Entry", "timeline_entries", "types_of"]

KINDS: Mapping[str, tuple[str, ...]] = {
    "promotion": ("release.promoted",),
    "refusal": (
        "candidate.refused",
        "gate.failed",
        "gate.inconclusive",
        "gate.errored",
        "gate.stale",
    ),
    "rollback": ("release.rolled_back",),
    "hold": ("scenario.held",),
    "resume": ("scenario.resumed",),
    "revocation": ("candidate.revoked", "release.revoked", "key.revoked"),
    "approval": ("release.approved",),
    "policy": ("scenario.created", "policy.changed"),
    "root": ("root.rotated",),
    "fall": ("watch.fallen",),
}
"""The kinds of entries, each with the event types that it is made of."""

GLOBAL_TYPES = frozenset({"key.revoked", "root.rotated"})
"""Those that stand in the log's own scenario and concern all others."""

_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry. `channel` is None for what concerns all channels.

    `release_id` is a candidate or release, `before` what it replaced or was compared with;
    `policy` the digest of a policy that came into force, `changes` what differs in it.
    `against_rule` says why the event had no effect, and is empty for one that had.
    """

    position: int
    recorded_at: str
    type: str
    kind: str
    actor: str
    what: str
    channel: str | None = None
    release_id: str | None = None
    before: str | None = None
    gate_id: str | None = None
    policy: str | None = None
    changes: tuple[PolicyChange, ...] = ()
    reason: str = ""
    details: tuple[Reason, ...] = ()
    against_rule: tuple[Reason, ...] = ()

    @property
    def has_effect(self) -> bool:
        """Whether the event was valid where it stands."""
        return not self.against_rule


def types_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """The event types of *kinds*, of all kinds if there are none."""
    return tuple(name for kind in list(kinds) or KINDS for name in KINDS[kind])


def timeline_entries(
    state: State, scenario: Scenario, rows: Iterable[Row], at: int, channel: str | None = None
) -> list[Entry]:
    """The entries of *rows* by *at*; of *channel* and of all channels, if one is given.

    What concerns all scenarios counts from this one's creation on.
    """
    found = (
        _entry(state, scenario, row)
        for row in rows
        if scenario.created_position <= row.position <= at
    )
    return [each for each in found if channel is None or each.channel in (None, channel)]


def _entry(state: State, scenario: Scenario, row: Row) -> Entry:
    envelope, data = row.envelope, row.data
    violation = violation_at(state, row.position)
    own = {}
    if data is not None:
        own = _fields(scenario, data, row.position, is_valid=violation is None)
    return Entry(
        position=envelope.position,
        recorded_at=envelope.recorded_at,
        type=envelope.type,
        kind=_KIND_OF[envelope.type],
        actor=envelope.actor,
        against_rule=() if violation is None else violation.reasons,
        **({"what": "unreadable data"} | own),
    )


def _fields(
    scenario: Scenario, data: ev.EventData, position: int, *, is_valid: bool
) -> dict[str, Any]:
    match data:
        case ev.ReleasePromoted():
            return {
                "what": "promoted" if data.base is not None else "promoted as the origin",
                "channel": data.channel,
                "release_id": data.release_id,
                "before": data.base,
                "gate_id": data.gate_id,
                "reason": _tally(scenario, data.gate_id) if is_valid else "",
            }
        case ev.ReleaseRolledBack():
            return {
                "what": "rolled back to",
                "channel": data.channel,
                "release_id": data.release_id,
                "before": served_before(scenario, data.channel, position),
                "reason": data.reason,
            }
        case ev.CandidateRefused():
            return {
                "what": "refused at admission",
                "channel": _channel_of(scenario, data.candidate_id),
                "release_id": data.candidate_id,
                "details": tuple(data.reasons),
            }
        case ev.DecisionPosted() | ev.GateStale():
            return _gate_fields(scenario, data, position, is_valid=is_valid)
        case ev.CandidateRevoked():
            return {
                "what": "candidate revoked",
                "channel": _channel_of(scenario, data.candidate_id),
                "release_id": data.candidate_id,
                "reason": data.reason,
            }
        case ev.ReleaseRevoked():
            return {
                "what": "release revoked",
                "channel": _channel_of(scenario, data.release_id),
                "release_id": data.release_id,
                "reason": data.reason,
            }
        case ev.ReleaseApproved():
            return {
                "what": "approved",
                "channel": _channel_of(scenario, data.release_id),
                "release_id": data.release_id,
                "gate_id": data.gate_id,
                "reason": data.reason,
            }
        case ev.WatchFallen():
            return {
                "what": "fell under its bar",
                "channel": data.channel,
                "release_id": data.release_id,
                "reason": f"found by the watch of the pointer event at {data.pointer_position}",
            }
        case _:
            return _scenario_fields(scenario, data, is_valid=is_valid)


def _scenario_fields(scenario: Scenario, data: ev.EventData, *, is_valid: bool) -> dict[str, Any]:
    match data:
        case ev.ScenarioHeld():
            return {"what": "held: no promotions", "reason": data.reason}
        case ev.ScenarioResumed():
            return {"what": "resumed", "reason": data.reason}
        case ev.KeyRevoked():
            return {"what": f"{data.role} key {data.key_id[:12]} revoked", "reason": data.reason}
        case ev.RootRotated():
            return {"what": f"trust root {data.version} in force", "reason": data.reason}
        case ev.PolicyChanged() | ev.ScenarioCreated() if not is_valid:
            return {"what": f"policy {data.policy_digest[:12]} in force"}
        case ev.PolicyChanged():
            version = _version(scenario, data.policy_digest)
            return {
                "what": f"policy version {version} in force",
                "policy": data.policy_digest,
                "changes": changes_by(scenario, data.policy_digest),
                "reason": data.reason,
            }
        case ev.ScenarioCreated():
            version = _version(scenario, data.policy_digest)
            return {
                "what": f"created with policy version {version}",
                "policy": data.policy_digest,
            }
        case _:
            raise AssertionError(f"{data.TYPE} is no event of a timeline")


def _gate_fields(
    scenario: Scenario, data: ev.DecisionPosted | ev.GateStale, position: int, *, is_valid: bool
) -> dict[str, Any]:
    outcome = data.TYPE.removeprefix("gate.")
    gate = scenario.gates.get(data.gate_id)
    fields: dict[str, Any] = {
        "what": f"gate {'went stale' if outcome == 'stale' else outcome}",
        "gate_id": data.gate_id,
        "reason": headline(scenario, scenario.gates[data.gate_id], position) if is_valid else "",
    }
    if gate is not None:
        fields |= {
            "channel": gate.opened.channel,
            "release_id": gate.opened.candidate_id,
            "before": gate.opened.base,
        }
    return fields


def _tally(scenario: Scenario, gate_id: str) -> str:
    """What the trials of a decided gate came to."""
    gate = scenario.gates[gate_id]
    candidate, incumbent = gate.passes("candidate"), gate.passes("incumbent")
    words = f"passed {sum(candidate)} of {len(candidate)} tasks" if candidate else "no task done"
    if candidate and gate.opened.base is not None:
        words += f", the incumbent {sum(incumbent)}"
    if gate.errors:
        words += f"; {gate.errors} error{'s' if gate.errors > 1 else ''}"
    return words


def _version(scenario: Scenario, digest: str) -> int:
    return next(each.policy.version for each in scenario.policies if each.digest == digest)


def _channel_of(scenario: Scenario, candidate_id: str) -> str | None:
    candidate = scenario.candidates.get(candidate_id)
    return None if candidate is None else candidate.submitted.channel
