"""Events that may not stand, put into the true story of a promotion without a change to it.

Each breaks one rule, at a place where nothing else is wrong, and so must be without effect for the
reason `code`. Since none of them has an effect, one replay tries all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.gating.default import default_budget
from reef_release.drill.context import CHANNEL
from reef_release.drill.forged_log import Event, Story
from reef_release.ids import uuid7
from reef_release.signing.keys import Role, create_key
from reef_release.signing.policy import sign_policy

__all__ = ["VOID", "Void", "changed_policy", "policy_in_force", "with_void_events"]

_REASON = "an attempt of the drill"
_NOTHING = "0" * 64
_OTHER = "beta"

Make = Callable[[Story], ev.EventData | Event]


@dataclass(frozen=True, kw_only=True)
class Void:
    """*code* is the reason, "" for an event that stands; *beside* what may be found as well."""

    code: str
    make: Make
    beside: frozenset[str] = frozenset()


def with_void_events(story: Story) -> tuple[list[Event], list[tuple[int, Void]]]:
    """The story with all of `VOID`, and where each stands."""
    events, places = list[Event](), list[tuple[int, Void]]()
    anchors = {_place(story, kind): table for kind, table in VOID.items()}
    for position in range(len(story.events) + 1):
        for void in anchors.get(position, ()):
            made = void.make(story)
            places.append((len(events), void))
            time = story.events[min(position, len(story.events) - 1)]["recorded_at"]
            event = made if isinstance(made, dict) else story.made(made)
            events.append({**event, "recorded_at": time})
        events += story.events[position : position + 1]
    return events, places


def _place(story: Story, kind: str) -> int:
    if kind == _END:
        return len(story.events)
    return len(story.events) - 1 if kind == "release.promoted" else story.one(kind)


def policy_in_force(story: Story) -> dict[str, Any]:
    """The policy that the gate of the promotion opened under."""
    digest = story.events[story.one("gate.opened")]["data"]["policy_digest"]
    envelope = next(
        event["data"]["policy"]
        for event in story.events
        if event["data"].get("policy_digest") == digest and "policy" in event["data"]
    )
    document: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return document


def changed_policy(story: Story, *, later: int = 1, **changes: Any) -> ev.PolicyChanged:
    """The policy in force with *changes*, and *later* versions on, by its owner's stolen key."""
    document = policy_in_force(story)
    document = document | {"version": document["version"] + later} | changes
    signed = canonical_json(document)
    return ev.PolicyChanged(
        policy_digest=sha256_hex(signed),
        policy=sign_policy(signed, story.context.key(Role.POLICY)),
        reason=_REASON,
    )


# Copies of what stands in the story


def _like(story: Story, kind: str, **changes: Any) -> ev.EventData:
    """As the first of its kind that belongs to the gate, but for *changes*."""
    return _copy(story.events[_first(story, kind)], **changes)


def _first(story: Story, kind: str) -> int:
    if not kind.startswith("candidate."):
        return _place(story, kind)
    return story.of_candidate(kind)


def _copy(event: Event, **changes: Any) -> ev.EventData:
    return msgspec.convert(event["data"] | changes, ev.EVENT_TYPES[event["type"]])


def _opening(story: Story, **changes: Any) -> ev.EventData:
    return _like(story, "gate.opened", **({"gate_id": uuid7()} | changes))


def _other_suite(story: Story) -> ev.EventData:
    """Any other blob that there is."""
    return _opening(story, suite=story.schema)


def _under_the_next(story: Story) -> ev.EventData:
    """A second gate of the candidate, under the policy that allows one."""
    return _opening(story, policy_digest=_one_attempt(story).policy_digest)


def _one_attempt(story: Story) -> ev.PolicyChanged:
    return changed_policy(story, max_attempts=1)


def _whole(story: Story) -> ev.EventData:
    """A whole reply that is called cut short, so that the trial might run once more."""
    return _like(story, "gate.trial", verdict=None, error="truncated")


def _next_slot(story: Story) -> ev.EventData:
    slot = story.events[story.one("gate.trial")]["data"]["slot"]
    return _like(story, "gate.trial", slot=slot + 1)


def _failed(story: Story) -> ev.EventData:
    passed = story.events[story.one("gate.passed")]
    return _copy({**passed, "type": "gate.failed"})


def _stale(story: Story, position: int | None) -> ev.EventData:
    moved = story.base_promotion[0] if position is None else position
    gate_id = story.promotion["data"]["gate_id"]
    return ev.GateStale(gate_id=gate_id, pointer_position=moved)


def _claim(story: Story) -> ev.EventData:
    gate_id = story.promotion["data"]["gate_id"]
    return ev.GateClaimed(gate_id=gate_id, worker="drill", lease_id=uuid7(), replaces=uuid7())


def _watched(story: Story, position: int | None) -> ev.EventData:
    return ev.WatchTrial(
        pointer_position=story.base_promotion[0] if position is None else position,
        channel=CHANNEL,
        release_id=story.base,
        number=0,
        attempt=0,
        task_id="task",
        body=None,
        error="crashed",
        verdict=None,
        anew=False,
    )


def _back(story: Story, reason: str) -> ev.EventData:
    return ev.ReleaseRolledBack(release_id=story.base, channel=CHANNEL, reason=reason)


def _approval(story: Story, reason: str) -> ev.EventData:
    gate_id = story.promotion["data"]["gate_id"]
    return ev.ReleaseApproved(release_id=story.release, gate_id=gate_id, reason=reason)


def _stood(story: Story, kind: str, **changes: Any) -> ev.EventData:
    """The last of its kind before the gate opened, once more."""
    before = story.events[: story.one("gate.opened")]
    return _copy([event for event in before if event["type"] == kind][-1], **changes)


def _checkpoint(story: Story, **changes: Any) -> ev.EventData:
    """A checkpoint over all before the gate, with the right root and an older note."""
    size = story.one("gate.opened")
    root = story.told(story.events).tree.root(size).hex()
    return _stood(story, "checkpoint.published", **({"size": size, "root": root} | changes))


def _strange_key(story: Story) -> ev.EventData:
    key = create_key(Role.GATE)
    pem = key.public.pem
    return _stood(story, "key.added", key_id=key.key_id, role="gate", public_key=pem)


def _in(story: Story, data: ev.EventData, **envelope: str) -> Event:
    """An event in another stream or scenario than its own."""
    return {**story.made(data), **envelope}


def _nowhere(story: Story, **envelope: str) -> Event:
    return _in(story, ev.ScenarioHeld(reason=_REASON), **envelope)


def _part(story: Story, **changes: Any) -> dict[str, Any]:
    part: dict[str, Any] = policy_in_force(story)["standard"]
    return part | changes


def _parted(story: Story, **changes: Any) -> ev.EventData:
    return changed_policy(story, standard=_part(story, **changes))


def _generating(story: Story, **changes: Any) -> ev.EventData:
    return changed_policy(story, generation=policy_in_force(story)["generation"] | changes)


def _watching(story: Story, **changes: Any) -> ev.EventData:
    rule = {
        "verifiers": ["answer@1"],
        "bar": "0.8",
        "fallen": "0.4",
        "alpha": "0.05",
        "every_s": 60,
        "max_trials": 50,
        "automatic": False,
    }
    return changed_policy(story, watch=rule | changes)


def _misnamed(story: Story) -> ev.EventData:
    return msgspec.structs.replace(changed_policy(story), policy_digest=_NOTHING)


def _void(code: str, make: Callable[..., Any], *beside: str, **given: Any) -> Void:
    return Void(code=code, make=partial(make, **given), beside=frozenset(beside))


_END = "end"
_SUBMITTED = "candidate.submitted"
_FILE = {"path": "model.safetensors", "sha256": "0", "size_bytes": 1}
_NO_KEY = ev.KeyRevoked(key_id=_NOTHING, role="gate", reason=_REASON)
_NO_RELEASE = ev.ReleaseRevoked(release_id=_NOTHING, reason=_REASON)
_NO_CANDIDATE = ev.CandidateRevoked(candidate_id=_NOTHING, reason=_REASON)
_LONG = {"kind": "consecutive_passes", "k": 3, "max_trials": 500, "max_failures": 400}
_PAIRED = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "improves", "alpha": None, "max_deficit": 2, "max_trials": 3},
}

_POLICIES = (
    _void("policy-digest", _misnamed),
    _void("old-policy", changed_policy, later=0),
    _void("other-scenario", changed_policy, name=_OTHER),
    _void("version", changed_policy, version=0),
    _void("suite", changed_policy, suite="of my own"),
    _void("no-canaries", changed_policy, canaries=[]),
    _void("limits", changed_policy, max_errors=-1),
    _void("allowed-changes", changed_policy, allowed_changes=["everything"]),
    _void("approvals", changed_policy, approvals=-1),
    _void("gate-quorum", changed_policy, gate_quorum=0),
    _void("temperature", _generating, temperature="hot"),
    _void("max-new-tokens", _generating, max_new_tokens=0),
    _void("unknown-verifier", _parted, verifiers=["answer@1", "kindness@1"]),
    _void("duplicate-verifier", _parted, verifiers=["answer@1", "answer@1"]),
    _void("rule", _parted, rule={**_LONG, "max_trials": 5000}),
    _void("short-suite", _parted, rule=_LONG),
    _void("paired-rule", changed_policy, bootstrap=_PAIRED),
    _void("budget", changed_policy, budget={**default_budget(), "alpha": "2"}),
    _void("hopeless", changed_policy, standard=_PAIRED, budget=default_budget()),
    _void("watch-rates", _watching, bar="0.3"),
    _void("watch-alpha", _watching, alpha="1"),
    _void("watch-every", _watching, every_s=0),
    _void("watch-trials", _watching, max_trials=0),
)

VOID: dict[str, tuple[Void, ...]] = {
    "gate.opened": (
        _void("not-admitted", _opening, candidate_id=_NOTHING),
        _void("other-channel", _opening, channel=_OTHER, base=None, phase="bootstrap"),
        _void("other-base", _opening, base=_NOTHING),
        _void("other-policy", _other_suite),
        _void("other-policy", _opening, policy_digest=_NOTHING),
        _void("known-candidate", _like, "same-weights", kind=_SUBMITTED),
        _void("base", _like, "known-candidate", kind=_SUBMITTED, base=_NOTHING),
        _void("foundation", _like, "known-candidate", kind=_SUBMITTED, foundation=_NOTHING),
        _void("candidate-id", _like, "same-weights", kind=_SUBMITTED, candidate_id=_NOTHING),
        _void("no-files", _like, kind=_SUBMITTED, files=[]),
        _void("bad-digest", _like, kind=_SUBMITTED, files=[_FILE]),
        _void("not-submitted", _like, kind="candidate.admitted"),
        Void(code="unknown-candidate", make=lambda _: _NO_CANDIDATE),
        Void(code="unknown-release", make=lambda _: _NO_RELEASE),
        Void(code="unknown-key", make=lambda _: _NO_KEY),
        _void("known-key", _stood, kind="key.added"),
        _void("untrusted-key", _strange_key),
        _void("order", _stood, kind="checkpoint.published"),
        _void("order", _checkpoint, size=1),
        _void("size", _checkpoint, size=10**9),
        _void("root", _checkpoint, root=_NOTHING),
        _void("note", _checkpoint),
        Void(code="not-held", make=lambda _: ev.ScenarioResumed(reason=_REASON)),
        _void("already-serving", _back, reason=_REASON),
        _void("no-reason", _back, "already-serving", reason=" "),
        _void("not-watched", _watched, position=None),
        _void("pointer", _watched, position=0),
        _void("stream", _nowhere, stream="release/stable"),
        _void("known-scenario", _stood, kind="scenario.created"),
        _void("unknown-scenario", _nowhere, scenario="nowhere"),
        _void("scenario", _nowhere, scenario=ev.GLOBAL),
        *_POLICIES,
    ),
    "gate.trial": (
        _void("not-truncated", _whole),
        _void("trial-not-due", _next_slot),
        _void("task-not-drawn", _like, kind="gate.trial", task_id="task"),
        _void("gate-open", _opening, "already-gated"),
    ),
    "gate.passed": (
        _void("known-gate", _like, kind="gate.opened"),
        _void("already-gated", _opening, "gate-open"),
        _void("gate-decided", _like, kind="gate.trial"),
        _void("no-canary", _like, kind="gate.passed", canary=None),
        _void("outcome", _failed),
        _void("not-stale", _stale, position=None),
        _void("pointer", _stale, position=0),
        _void("claimed", _claim),
    ),
    "release.signed": (
        _void("gate-closed", _like, kind="gate.trial"),
        _void("not-signed", _like, kind="release.promoted"),
        _void("key", _like, kind="release.signed", key_id=_NOTHING),
    ),
    "release.promoted": (
        _void("signed", _like, kind="release.signed"),
        _void("no-reason", _approval, reason=" "),
        _void("", _one_attempt),
        _void("attempts", _under_the_next, "already-gated", "other-draw", "seed"),
        _void("other-draw", _under_the_next, "already-gated", "attempts", "seed"),
    ),
    _END: (_void("used", _approval, reason=_REASON),),
}
"""By the event before which they stand."""
