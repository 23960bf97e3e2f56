"""The story of a promotion with another draw: a checkpoint of its own, and the seed that follows.

What is put before a draw changes all roots after it. The thief of the log key leaves out the
checkpoints after that place, signs one, and draws by it, so that again only the rules are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.gating.default import default_budget
from reef_release.domain.suite import draw_seed
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.drill.forged_log import Event, Story
from reef_release.drill.rewrites import Rewrite, Rewritten, key_revoked_before
from reef_release.drill.void_events import changed_policy, policy_in_force
from reef_release.signing.keys import Role
from reef_release.signing.note import sign_checkpoint

__all__ = ["DRAWS"]

_OTHER = "f" * 64
_BETTER = {"kind": "improves", "alpha": None, "max_deficit": 6, "max_trials": 24}


def _redrawn(
    story: Story, before: Sequence[Event], after: Sequence[Event], policy: ev.PolicyChanged | None
) -> Rewritten:
    """The opening after *before*, a checkpoint that draws by it, and *after*; under *policy*."""
    tree = story.told(before).tree
    size, root = len(before), tree.root()
    origin, key = story.context.log_origin, story.context.key(Role.LOG)
    checkpoint = ev.CheckpointPublished(
        origin=origin, size=size, root=root.hex(), note=sign_checkpoint(origin, size, root, key)
    )
    opened = story.events[story.one("gate.opened")]
    digest = policy.policy_digest if policy else opened["data"]["policy_digest"]
    seed = draw_seed(checkpoint_root=root, candidate_id=story.release, policy_digest=digest)
    changes = {"policy_digest": digest, "checkpoint_position": size, "seed": seed.hex()}
    events = [
        *before,
        _at(before[-1], story.made(checkpoint)),
        *after,
        {**opened, "data": opened["data"] | changes},
    ]
    return Rewritten(events=events, position=len(events) - 1)


def _policy_after(story: Story) -> Rewritten:
    """Under a budget the policy changed between the draw and the opening."""
    first, second = (_budgeted(story, later) for later in (1, 2))
    place = story.of_candidate("candidate.submitted")
    before = _inserted(story, place, first)
    after = [_at(before[-1], story.made(second))]
    return _redrawn(story, before, after, second)


def _base_after(story: Story) -> Rewritten:
    """Under a budget the draw was known before the base of the gate was served."""
    policy = _budgeted(story, 1)
    own = [story.of_candidate(kind) for kind in ("candidate.submitted", "candidate.admitted")]
    promoted, served = story.base_promotion
    submitted, admitted = (story.events[position] for position in own)
    submitted = {**submitted, "data": submitted["data"] | {"base": served}}
    before = list(story.events[:promoted])
    moved = [story.made(policy), submitted, admitted]
    before += [_at(before[-1], each) for each in moved]
    rest = [
        event
        for event in story.events[promoted : story.one("gate.opened")]
        if event["position"] not in own and event["type"] != "checkpoint.published"
    ]
    return _redrawn(story, before, rest, policy)


def _second_card(story: Story) -> Rewritten:
    """The same weights under two ids, both submitted before either has its draw."""
    place = story.of_candidate("candidate.submitted")
    data = story.events[place]["data"]
    card = {"path": "README.md", "sha256": _OTHER, "size_bytes": 1}
    files = [file for file in data["files"] if file["path"] != "README.md"] + [card]
    name = candidate_id(digests_by_path((file["path"], file["sha256"]) for file in files))
    twin = msgspec.convert(data | {"candidate_id": name, "files": files}, ev.CandidateSubmitted)
    admission = story.events[story.of_candidate("candidate.admitted")]["data"]
    admitted = msgspec.convert(admission | {"candidate_id": name}, ev.CandidateAdmitted)
    return _redrawn(story, _inserted(story, place, twin, admitted), [], None)


def _other_schema(story: Story) -> Rewritten:
    place = story.of_candidate("candidate.admitted")
    return Rewritten(events=story.altered(place, schema=_OTHER), position=place)


def _inserted(story: Story, place: int, *data: ev.EventData) -> list[Event]:
    """The events before the gate, with *data* before *place* and no checkpoint after that."""
    made = [_at(story.events[place - 1], story.made(each)) for each in data]
    rest = story.events[place : story.one("gate.opened")]
    kept = [event for event in rest if event["type"] != "checkpoint.published"]
    return [*story.events[:place], *made, *kept]


def _at(other: Event, event: Event) -> Event:
    """*event* at the time of *other*."""
    return {**event, "recorded_at": other["recorded_at"]}


def _budgeted(story: Story, later: int) -> ev.PolicyChanged:
    """The policy in force under an error budget, with a rule that fits into any suite."""
    standard: dict[str, Any] = policy_in_force(story)["standard"] | {"rule": _BETTER}
    return changed_policy(story, later=later, standard=standard, budget=default_budget())


DRAWS: tuple[tuple[str, Rewrite], ...] = (
    ("policy-after-draw", _policy_after),
    ("base-after-draw", _base_after),
    ("same-weights", _second_card),
    ("key-revoked", partial(key_revoked_before, kind="gate.opened", role="policy")),
    ("schema", _other_schema),
)
"""What may not be chosen once the draw is known, and who may not have signed its policy."""
