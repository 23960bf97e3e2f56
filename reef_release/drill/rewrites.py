"""Single changes to the true story of a promotion, each against one rule and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from reef_release.domain import events as ev
from reef_release.drill.context import CHANNEL
from reef_release.drill.errors import GotThrough
from reef_release.drill.forged_log import Event, Story

__all__ = [
    "GROUNDS",
    "MOVES",
    "OPENINGS",
    "REVOCATIONS",
    "SIGNERS",
    "TRIALS",
    "Rewrite",
    "Rewritten",
    "key_revoked_before",
]

_REASON = "an attempt of the drill"
_NOTHING = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """The events as the thief tells them, and where the rule is broken."""

    events: list[Event]
    position: int


Rewrite = Callable[[Story], Rewritten]


def _altered(story: Story, kind: str, **changes: object) -> Rewritten:
    position = story.one(kind)
    return Rewritten(events=story.altered(position, **changes), position=position)


def _other_checkpoint(story: Story) -> Rewritten:
    used = story.events[story.one("gate.opened")]["data"]["checkpoint_position"]
    other = next(
        event["position"]
        for event in story.events
        if event["type"] == "checkpoint.published" and event["position"] != used
    )
    return _altered(story, "gate.opened", checkpoint_position=other)


def _flipped(story: Story) -> Rewritten:
    """A verdict that says the opposite of what the reply deserves."""
    verdict = story.events[story.one("gate.trial")]["data"]["verdict"]
    return _altered(story, "gate.trial", verdict={**verdict, "passed": not verdict["passed"]})


def _other_body(story: Story) -> Rewritten:
    other = story.events[story.all("gate.trial")[1]]["data"]["body"]
    return _altered(story, "gate.trial", body=other)


def _fewer_files(story: Story) -> Rewritten:
    place = story.of_candidate("candidate.submitted")
    files = story.events[place]["data"]["files"]
    return Rewritten(events=story.altered(place, files=files[1:]), position=place)


def _before(story: Story, kind: str, make: Callable[[Story], ev.EventData]) -> Rewritten:
    """Something put before an event of the gate, against which that cannot stand."""
    position = story.promotion["position"] if kind == "release.promoted" else story.one(kind)
    return Rewritten(events=story.inserted(position, make(story)), position=position + 1)


def _held(_story: Story) -> ev.EventData:
    return ev.ScenarioHeld(reason=_REASON)


def _revoked(story: Story) -> ev.EventData:
    return ev.ReleaseRevoked(release_id=story.release, reason=_REASON)


def _withdrawn(story: Story) -> ev.EventData:
    return ev.CandidateRevoked(candidate_id=story.release, reason=_REASON)


def _key_revoked(story: Story, role: str) -> ev.EventData:
    for event in story.events:
        if event["type"] == "key.added" and event["data"]["role"] == role:
            key_id = event["data"]["key_id"]
            return ev.KeyRevoked(key_id=key_id, role=role, reason=_REASON)
    raise GotThrough(f"The log has no {role} key.")


def key_revoked_before(story: Story, kind: str, role: str) -> Rewritten:
    """A key of *role* revoked before an event that rests on it."""
    return _before(story, kind, partial(_key_revoked, role=role))


def _promoted(story: Story) -> ev.EventData:
    return msgspec.convert(story.promotion["data"], ev.ReleasePromoted)


def _back(_story: Story, release: str) -> ev.EventData:
    return ev.ReleaseRolledBack(release_id=release, channel=CHANNEL, reason=_REASON)


def _never(story: Story) -> Rewritten:
    """A rollback to the release, signed as it is, before it was ever promoted."""
    told = _before(story, "release.promoted", partial(_back, release=story.release))
    return Rewritten(events=told.events, position=told.position - 1)


def _stale(story: Story) -> Rewritten:
    """The pointer moved, to the very release that is served, while the gate was open."""
    return _before(story, "gate.passed", partial(_back, release=story.base))


def _other_base(story: Story) -> Rewritten:
    """Another release served when the gate opened than the one it compared with."""
    return _before(story, "gate.opened", partial(_back, release=_NOTHING))


OPENINGS: tuple[tuple[str, Rewrite], ...] = (
    ("seed", partial(_altered, kind="gate.opened", seed=_NOTHING)),
    ("checkpoint", _other_checkpoint),
    ("phase", partial(_altered, kind="gate.opened", phase="bootstrap")),
)
TRIALS: tuple[tuple[str, Rewrite], ...] = (("verdict", _flipped), ("other-body", _other_body))
REVOCATIONS: tuple[tuple[str, Rewrite], ...] = (
    ("revoked", partial(_before, kind="release.promoted", make=_revoked)),
    ("revoked", partial(_before, kind="release.promoted", make=_withdrawn)),
    *(
        ("key-revoked", partial(key_revoked_before, kind="release.promoted", role=role))
        for role in ("release", "gate", "policy")
    ),
)
"""A release or a key behind it revoked before the promotion; node and audit judge alike."""
SIGNERS: tuple[tuple[str, Rewrite], ...] = tuple(
    ("no-trusted-key", partial(key_revoked_before, kind=kind, role=role))
    for kind, role in (("gate.passed", "gate"), ("release.signed", "release"))
)
"""A key revoked before it signed."""
GROUNDS: tuple[tuple[str, Rewrite], ...] = (
    ("other-gate", partial(_altered, kind="gate.opened", suite=_NOTHING)),
    ("other-gate", partial(_altered, kind="gate.opened", seed=_NOTHING)),
    ("no-canary", partial(_altered, kind="gate.passed", canary=None)),
    ("not-signed", partial(_altered, kind="release.signed", bundle=_NOTHING)),
    ("other-files", _fewer_files),
)
"""What a node asks of the gate and the weights behind a promotion."""
MOVES: dict[str, tuple[tuple[str, Rewrite], ...]] = {
    "audit": (
        ("never-promoted", _never),
        ("held", partial(_before, kind="release.promoted", make=_held)),
        ("stale-gate", partial(_before, kind="release.promoted", make=_promoted)),
    ),
    "node": (
        ("held", partial(_before, kind="release.promoted", make=_held)),
        ("stale-gate", _stale),
        ("other-base", _other_base),
    ),
}
"""By who must see it: a node has no whole log, and an audit needs no base beside the pointer."""
