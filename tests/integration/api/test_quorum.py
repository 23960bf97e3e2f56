"""Quorum over HTTP: two gate workers with a key and a token each, and one of them alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from reef_release.cli.candidates import waits_line
from reef_release.domain import events as ev
from reef_release.signing.keys import Role, SigningKey, create_key
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import CandidateView
from tests.integration.api.story import Problem, Site, Story, known_gate, open_story, until
from tests.integration.api.test_approval import settled
from tests.integration.api.test_decisive import second_gate_key
from tests.integration.api.test_trust import key_ids, put, root_keys, signed_root
from tests.integration.log.mirror import new_event

pytestmark = pytest.mark.anyio


class SecondWorker(Story):
    """The same service, as somebody sees it who has a gate token of his own."""

    async def ask(
        self, role: TokenRole | str | None, method: str, path: str, **options: Any
    ) -> httpx.Response:
        if role == "gate":
            token = self.site.tokens.issue(Principal(name="gate-2", role=TokenRole.GATE))
            headers = {**options.pop("headers", {}), "Authorization": f"Bearer {token}"}
            return await super().ask(None, method, path, headers=headers, **options)
        return await super().ask(role, method, path, **options)


@pytest.fixture
async def asking_two(site: Site) -> AsyncIterator[Story]:
    """A scenario whose policy asks for two gate workers."""
    async with open_story(site) as story:
        await story.create_scenario(gate_quorum=2)
        yield story


def second(story: Story) -> SecondWorker:
    return SecondWorker(site=story.site, http=story.http, service=story.service)


async def passed_by_second(story: Story, key: SigningKey) -> None:
    other = second(story)
    gate = await other.run_trials(await other.claim_soon("gate-2"), "++")
    assert await other.decide(gate, key=key) == "passed"


async def view_of(story: Story, identity: str) -> CandidateView:
    return msgspec.convert(await story.candidate(identity), CandidateView)


async def test_two_workers_with_two_keys_bring_a_candidate_into_serving(asking_two: Story) -> None:
    story = asking_two
    key = await second_gate_key(story)
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    with pytest.raises(Problem) as early:
        await story.sign(identity)
    assert (early.value.status, early.value.codes) == (422, ["too-few-workers"])
    await passed_by_second(story, key)
    await story.sign(identity)
    await story.promoted(identity)
    assert await story.serving() == identity
    view = await view_of(story, identity)
    assert [gate.outcome for gate in view.gates] == ["passed", "passed"]
    assert {event["actor"] for event in await story.events(type="gate.passed")} == {
        "the-gate",
        "gate-2",
    }


async def test_with_one_worker_alone_it_waits_and_says_for_what(asking_two: Story) -> None:
    story = asking_two
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    assert await story.claim() is None, "it passed that already"
    await settled(story)
    assert await story.serving() is None
    view = await view_of(story, identity)
    assert view.status == "passing"
    assert [reason.code for reason in view.reasons] == ["too-few-workers"]
    assert waits_line(view) == (
        f"Candidate {identity[:12]} is passed by 1 of 2 gate workers whose keys count; awaits "
        "another gate worker, with a gate key and a token of its own"
    )
    listed = await story.get("sign", story.path("candidates") + "?status=passed")
    assert listed["candidates"] == [], "so that no signer looks at it"


async def test_another_token_with_the_same_key_is_not_given_it_and_does_not_count(
    asking_two: Story,
) -> None:
    story = asking_two
    identity = (await story.submit())["candidate_id"]
    gate = await story.gate()
    other = second(story)
    own = story.site.key(Role.GATE).key_id
    told = await other.ask(
        "gate",
        "POST",
        story.path("gates", "claim"),
        json={"worker": "gate-2", "key_id": own},
    )
    assert told.status_code == 204
    again = await other.run_trials(await other.claim_soon("gate-2"), "++")
    assert again.opened.gate_id != gate.opened.gate_id
    assert again.opened.seed == gate.opened.seed, "the same draw"
    assert await other.decide(again) == "passed"
    assert (await view_of(story, identity)).status == "passing"
    with pytest.raises(Problem) as refused:
        await story.sign(identity)
    assert refused.value.codes == ["too-few-workers"]


async def test_a_worker_that_may_not_have_the_open_gate_goes_on_to_another_channel(
    asking_two: Story,
) -> None:
    story = asking_two
    await story.submit()
    await story.gate()
    other = second(story)
    assert await other.claim_soon("gate-2")
    assert await story.claim() is None, "the open gate is of the candidate that it passed"
    await story.submit(channel="canary")
    assignment = await story.claim_soon()
    assert assignment.opened.channel == "canary"


async def test_one_worker_that_fails_it_refuses_the_candidate(asking_two: Story) -> None:
    story = asking_two
    key = await second_gate_key(story)
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    other = second(story)
    gate = await other.run_trials(await other.claim_soon("gate-2"), "---")
    assert await other.decide(gate, key=key) == "failed"
    assert (await view_of(story, identity)).status == "failed"
    assert await other.claim("gate-2") is None
    with pytest.raises(Problem):
        await story.sign(identity)


async def test_only_the_worker_that_holds_a_gate_posts_to_it_until_it_gives_it_back(
    asking_two: Story,
) -> None:
    """Else whoever has a gate key ends the gates of others that do not go as he likes."""
    story = asking_two
    key = await second_gate_key(story)
    await story.submit()
    await story.gate()
    other = second(story)
    held = await other.claim_soon("gate-2")
    gate = await other.run_trials(held, "-")
    with pytest.raises(Problem) as refused:
        await story.decide(gate, outcome="errored")
    assert (refused.value.status, refused.value.codes) == (409, ["claimed"])
    assert await story.claim("gate-2") is None, "nor by the name that the other goes by"
    for act in ("renew", "release"):
        with pytest.raises(Problem) as unknown:
            await story.post("gate", f"/reef/leases/{held.lease_id}/{act}", b"")
        assert unknown.value.status == 404
    await other.ask("gate", "POST", f"/reef/leases/{held.lease_id}/release")
    assert await story.decide(gate, outcome="errored") == "errored"
    again = await other.run_trials(await other.claim_soon("gate-2"), "++")
    assert await other.decide(again, key=key) == "passed"


async def test_no_trial_is_taken_from_another_than_who_holds_the_gate(asking_two: Story) -> None:
    story = asking_two
    await story.submit()
    await story.gate()
    other = second(story)
    held = await other.claim_soon("gate-2")
    with pytest.raises(Problem) as refused:
        await story.run_trials(held, "-")
    assert refused.value.codes == ["claimed"]
    await other.run_trials(held, "+")


async def test_a_worker_with_a_new_key_is_given_again_what_its_revoked_key_passed(
    asking_two: Story,
) -> None:
    story = asking_two
    other_key = await second_gate_key(story)
    new = create_key(Role.GATE)
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    old = story.site.key(Role.GATE)
    before = (await story.events(type="root.rotated"))[-1]["data"]["metadata"]
    text = signed_root(
        story, root_keys(story)[1:], before=before, add=[new.public], drop=[old.key_id]
    )
    assert (await put(story, text)).status_code == 200
    await until(lambda: key_ids(story), lambda known: new.key_id in known)
    gate = await story.run_trials(await story.claim_soon(), "++")
    assert await story.decide(gate, key=new) == "passed"
    assert (await view_of(story, identity)).status == "passing"
    await passed_by_second(story, other_key)
    assert (await view_of(story, identity)).status == "passed"
    await story.sign(identity)
    await story.promoted(identity)


async def test_the_open_gate_of_a_revoked_candidate_is_ended_also_by_who_passed_it(
    asking_two: Story,
) -> None:
    story = asking_two
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    other = second(story)
    held = await other.claim_soon("gate-2")
    await other.ask("gate", "POST", f"/reef/leases/{held.lease_id}/release")
    assert await story.claim() is None
    revoked = ev.CandidateRevoked(candidate_id=identity, reason="the worker was not to be trusted")
    assert story.service is not None
    await story.service.log.append(new_event(revoked))
    assignment = await story.claim_soon()
    assert assignment.opened.gate_id == held.opened.gate_id
    assert assignment.revoked_position is not None
    assert await story.decide(known_gate(assignment), outcome="errored") == "errored"


async def test_one_draw_is_finished_before_the_next_begins(asking_two: Story) -> None:
    """Else workers take different candidates, and each promotion makes other passes stale."""
    story = asking_two
    key = await second_gate_key(story)
    first = (await story.submit())["candidate_id"]
    await story.gate()
    await story.submit()
    assert await story.claim() is None, "another worker is awaited, and nothing else begun"
    other = second(story)
    assignment = await other.claim_soon("gate-2")
    assert assignment.opened.candidate_id == first
    assert await other.decide(await other.run_trials(assignment, "++"), key=key) == "passed"
    await story.sign(first)
    await story.promoted(first)
    assert await story.serving() == first
