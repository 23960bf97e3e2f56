"""Quorum over HTTP: two gate workers with a key and a token each, and one of them alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from reef_release.cli.candidates import waits_line
from reef_release.signing.keys import Role, SigningKey
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import CandidateView
from tests.integration.api.story import Problem, Site, Story, open_story
from tests.integration.api.test_approval import settled
from tests.integration.api.test_decisive import second_gate_key

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
