"""The timeline: what moved, stopped or loosened serving, as it stood at any position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reef_release.domain import events as ev
from reef_release.signing.keys import Role
from reef_release.web.timeline import KINDS, Entry, timeline_entries, types_of
from reef_release.web.timeline_picture import picture
from tests.web_story import WebStory, rows_of, tell
from tests.world import World


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> WebStory:
    return tell(Path(tmp_path_factory.mktemp("story")))


def entries(
    story: WebStory,
    *kinds: str,
    at: int | None = None,
    channel: str | None = None,
) -> list[Entry]:
    at = story.world.head if at is None else at
    rows = rows_of(story.world, at, types_of(kinds))
    return timeline_entries(story.state, story.scenario, rows, at, channel)


def one(found: Sequence[Entry]) -> Entry:
    assert len(found) == 1
    return found[0]


def test_every_kind_of_the_story_has_its_entries(story: WebStory) -> None:
    counts = {kind: len(entries(story, kind)) for kind in KINDS}
    assert counts == {
        "promotion": 4,
        "refusal": 4,
        "rollback": 2,
        "hold": 1,
        "resume": 1,
        "revocation": 1,
        "approval": 1,
        "policy": 3,
        "root": 0,
        "fall": 0,
    }


def test_a_promotion_names_what_it_replaced_and_what_its_gate_found(story: WebStory) -> None:
    newest = entries(story, "promotion")[0]
    assert (newest.release_id, newest.before) == (story.paired, story.second)
    assert newest.gate_id == story.paired_gate
    assert newest.reason.startswith("passed ")
    assert ", the incumbent 2; 1 error" in newest.reason
    assert newest.has_effect


def test_a_promotion_against_the_rule_is_shown_as_one_that_did_not_happen(story: WebStory) -> None:
    forged = one([each for each in entries(story, "promotion") if not each.has_effect])
    assert forged.position == story.violation
    assert {reason.code for reason in forged.against_rule} == {"stale-gate", "not-approved"}
    assert forged.reason == ""


def test_a_refusal_at_admission_has_every_reason(story: WebStory) -> None:
    refused = one([each for each in entries(story, "refusal") if each.type == "candidate.refused"])
    assert refused.release_id == story.refused
    assert [reason.code for reason in refused.details] == ["not-finite"]


def test_a_gate_that_let_nothing_through_says_why(story: WebStory) -> None:
    found = {each.type: each.reason for each in entries(story, "refusal")}
    assert found["gate.failed"].startswith("After 3 tasks the rule “consecutive passes” is broken")
    assert found["gate.errored"] == "3 trials could not be carried out; the policy allows 2."
    assert found["gate.stale"].startswith("The pointer moved at ")


def test_a_rollback_says_from_which_release_to_which(story: WebStory) -> None:
    last, first = entries(story, "rollback")
    assert (first.before, first.release_id) == (story.second, story.origin)
    assert (last.before, last.release_id) == (story.origin, story.second)


def test_a_new_policy_says_why_and_what_differs(story: WebStory) -> None:
    third, second, first = entries(story, "policy")
    policies = story.scenario.policies
    assert [each.policy for each in (first, second, third)] == [each.digest for each in policies]
    assert (first.what, first.changes) == ("created with policy version 1", ())
    assert (second.what, second.reason) == ("policy version 2 in force", "a better rule")
    assert [each.term for each in second.changes] == ["approvals"]
    assert [each.term for each in third.changes] == [
        "rule for candidates",
        "checks of a candidate’s reply",
        "error budget",
    ]


def test_a_policy_against_the_rule_is_no_page(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.attack(world.policy_data(version=1, approvals=1))
    rows = rows_of(world, world.head, types_of(["policy"]))
    void, _created = timeline_entries(world.state, world.scenario, rows, world.head)
    assert (void.has_effect, void.policy, void.changes) == (False, None, ())


def test_people_are_named_with_their_reasons(story: WebStory) -> None:
    hold = one(entries(story, "hold"))
    assert (hold.actor, hold.reason, hold.channel) == ("operator", "the answers look odd", None)
    approval = one(entries(story, "approval"))
    assert (approval.actor, approval.reason) == ("alice", "read twenty answers")


def test_a_channel_keeps_what_concerns_all_channels(story: WebStory) -> None:
    assert entries(story, channel="beta") == entries(story, "hold", "resume", "policy")
    assert entries(story, channel="stable") == entries(story)


def test_the_timeline_of_a_position_is_the_one_that_was_shown_then(story: WebStory) -> None:
    for at in range(story.scenario.created_position, story.world.head + 1):
        state = story.state_at(at) if at % 7 == 0 or at == story.violation else None
        if state is None:
            continue
        scenario = state.scenarios[story.scenario.name]
        rows = rows_of(story.world, at, types_of(()))
        then = timeline_entries(state, scenario, rows, at)
        assert entries(story, at=at) == then
        assert picture(story.scenario, then, at) == picture(scenario, then, at)


def test_the_picture_has_a_lane_for_the_channel_and_one_for_what_concerns_all(
    story: WebStory,
) -> None:
    found = picture(story.scenario, entries(story), story.world.head)
    assert found is not None
    assert [lane.channel for lane in found.lanes] == [None, "stable"]
    served = [segment.release_id for segment in found.lanes[1].segments]
    assert served == [story.origin, story.second, story.origin, story.second, story.paired]
    assert len(found.marks) == len(entries(story))
    steps = [
        after.x - before.x for before, after in zip(found.marks, found.marks[1:], strict=False)
    ]
    assert min(steps) >= 24


def test_the_picture_of_a_later_page_begins_with_what_was_served_before_it(
    story: WebStory,
) -> None:
    latest = entries(story)[:2]
    found = picture(story.scenario, latest, story.world.head)
    assert found is not None
    first = found.lanes[-1].segments[0]
    assert first.x == found.left
    assert first.since < found.first


def test_a_hold_is_a_band_from_where_it_began_to_where_it_ended(story: WebStory) -> None:
    rows = entries(story, "hold", "resume")
    holds = [(each.position, each.kind == "hold") for each in rows]
    found = picture(story.scenario, entries(story), story.world.head, holds)
    assert found is not None
    (band,) = found.bands
    marks = {mark.entry.kind: mark.x for mark in found.marks}
    assert (band.x, band.x + band.width) == (marks["hold"], marks["resume"])
    still = picture(story.scenario, entries(story), story.world.head, holds[1:])
    assert still is not None
    assert still.bands[0].x + still.bands[0].width == still.width


def test_without_entries_there_is_no_picture(story: WebStory) -> None:
    assert picture(story.scenario, [], story.world.head) is None


def test_a_new_trust_root_and_a_revoked_key_concern_every_scenario(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.revoke_key(Role.RELEASE)
    world.append(
        ev.RootRotated(
            version=2, metadata=world.root_text(world.keys, version=2), reason="a new ceremony"
        )
    )
    rows = rows_of(world, world.head, types_of(["root", "revocation"]))
    found = timeline_entries(world.state, world.scenario, rows, world.head)
    assert [(each.kind, each.what, each.channel) for each in found] == [
        ("root", "trust root 2 in force", None),
        ("revocation", f"release key {world.keys[Role.RELEASE].key_id[:12]} revoked", None),
    ]
    assert found[0].reason == "a new ceremony"


@pytest.mark.parametrize("kind", [ev.GateFailed, ev.GatePassed])
def test_what_names_a_gate_that_never_was_is_told_all_the_same(
    tmp_path: Path, kind: type[ev.DecisionPosted]
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    release = world.release()
    fields = {"base": None, "channel": "stable", "attestation": {}, "canary": None}
    world.attack(kind(gate_id="none", candidate_id=release, **fields))  # type: ignore[arg-type]
    world.attack(ev.GateStale(gate_id="none", pointer_position=3))
    world.attack(ev.CandidateRevoked(candidate_id="0" * 64, reason="a stranger"))
    world.attack(ev.ReleaseApproved(release_id=release, gate_id="none", reason="why not"))
    rows = rows_of(world, world.head, types_of(()))
    found = timeline_entries(world.state, world.scenario, rows, world.head)
    void = [each for each in found if not each.has_effect]
    expected = {"gate.stale", "candidate.revoked", "release.approved"}
    assert {each.type for each in void} == expected | ({kind.TYPE} - {"gate.passed"})
    assert picture(world.scenario, found, world.head) is not None


def test_an_event_that_is_of_no_form_is_told_as_unreadable(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    whole = world.envelope(ev.ScenarioHeld(reason="x"))
    world.bodies.append(whole.replace(b'{"reason":"x"}', b'{"raison":"x"}'))
    world.rebuild()
    rows = rows_of(world, world.head, types_of(["hold"]))
    entry = one(timeline_entries(world.state, world.scenario, rows, world.head))
    assert (entry.what, entry.has_effect) == ("unreadable data", False)
