"""Approval: a passed gate that waits for people, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from reef_release.tokens import Principal, TokenRole
from tests.integration.api.story import Problem, Site, Story, open_story, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def careful(site: Site) -> AsyncIterator[Story]:
    """A scenario whose policy asks for two people."""
    async with open_story(site) as story:
        await story.create_scenario(approvals=2)
        yield story


async def approve(
    story: Story, identity: str, name: str, role: TokenRole = TokenRole.APPROVE
) -> Any:
    """What *name* gets for approving. Raises `Problem`."""
    token = story.site.tokens.issue(Principal(name=name, role=role))
    return await story.post(
        None,  # type: ignore[arg-type]
        story.path("releases", identity, "approve"),
        {"reason": "I read twenty of its answers"},
        headers={"Authorization": f"Bearer {token}"},
    )


async def passed(story: Story) -> str:
    """A candidate that only people stand in the way of."""
    identity = str((await story.submit())["candidate_id"])
    await story.gate()
    await story.sign(identity)
    return identity


async def settled(story: Story) -> None:
    """The service has looked at everything so far once more."""
    published = len(await story.events(type="checkpoint.published"))
    await story.submit()
    await until(
        lambda: story.events(type="checkpoint.published"), lambda found: len(found) > published
    )


async def test_a_passed_gate_waits_for_two_people(careful: Story) -> None:
    identity = await passed(careful)
    await settled(careful)
    assert await careful.serving() is None
    await approve(careful, identity, "alice")
    await settled(careful)
    assert await careful.serving() is None
    view = await careful.candidate(identity)
    assert (view["status"], view["approvals_wanted"]) == ("passed", 2)
    assert view["approved_by"] == ["alice"]
    await approve(careful, identity, "bob", TokenRole.OPERATE)
    await careful.promoted(identity)
    assert await careful.serving() == identity
    events = await careful.events(type="release.approved")
    assert [event["actor"] for event in events] == ["alice", "bob"]
    assert events[0]["data"]["reason"] == "I read twenty of its answers"


async def test_one_person_counts_once(careful: Story) -> None:
    identity = await passed(careful)
    await approve(careful, identity, "alice")
    with pytest.raises(Problem) as again:
        await approve(careful, identity, "alice", TokenRole.OPERATE)
    assert (again.value.status, again.value.codes) == (409, ["approved"])
    await settled(careful)
    assert await careful.serving() is None


async def test_people_may_approve_before_the_weights_are_signed(careful: Story) -> None:
    identity = str((await careful.submit())["candidate_id"])
    await careful.gate()
    await approve(careful, identity, "alice")
    await approve(careful, identity, "bob")
    await careful.sign(identity)
    await careful.promoted(identity)


async def test_what_did_not_pass_cannot_be_approved_of(careful: Story) -> None:
    waiting = str((await careful.submit())["candidate_id"])
    for identity, status in ((waiting, 409), ("0" * 64, 404)):
        with pytest.raises(Problem) as caught:
            await approve(careful, identity, "alice")
        assert caught.value.status == status
    gate = await careful.gate("---")
    assert gate.opened.candidate_id == waiting
    with pytest.raises(Problem) as caught:
        await approve(careful, waiting, "alice")
    assert caught.value.status == 409
    assert await careful.events(type="release.approved") == []


async def test_an_approval_ends_neither_a_hold_nor_a_revocation(careful: Story) -> None:
    held = await passed(careful)
    await careful.lever("hold")
    await approve(careful, held, "alice")
    await approve(careful, held, "bob")
    await settled(careful)
    assert await careful.serving() is None
    await careful.post(
        "operate", careful.path("candidates", held, "revoke"), {"reason": "it leaks"}
    )
    await careful.lever("resume")
    await settled(careful)
    assert await careful.serving() is None
    with pytest.raises(Problem) as caught:
        await approve(careful, held, "carol")
    assert caught.value.codes == ["revoked"]


@pytest.mark.parametrize("role", ["ingest", "judge", "train", "gate", "sign", "serve", "audit"])
async def test_other_roles_cannot_approve(careful: Story, role: str) -> None:
    identity = await passed(careful)
    with pytest.raises(Problem) as caught:
        await approve(careful, identity, "mallory", TokenRole(role))
    assert caught.value.status == 403
    assert await careful.events(type="release.approved") == []


async def test_the_policy_when_the_gate_opened_says_how_many(careful: Story) -> None:
    """A policy without approvals that comes into force later lets nothing through that waited."""
    identity = await passed(careful)
    body = {"policy": careful.signed_policy(approvals=0), "reason": "we are in a hurry"}
    response = await careful.ask("operate", "PUT", careful.path("policy"), json=body)
    assert response.status_code == 200, response.text
    await settled(careful)
    assert await careful.serving() is None
    await approve(careful, identity, "alice")
    await approve(careful, identity, "bob")
    await careful.promoted(identity)
