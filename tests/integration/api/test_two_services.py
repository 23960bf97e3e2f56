"""Two services on one database: one truth, whoever is asked, and races with one winner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from reef_release.api.service import open_service
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Problem, Site, Story, open_story, until
from tests.world import facts

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(site: Site) -> AsyncIterator[tuple[Story, Story]]:
    async with open_story(site) as one, open_story(site) as two:
        await one.create_scenario()
        await same_position(one, two)
        yield one, two


async def same_position(*stories: Story) -> None:
    """Wait until all services have folded the same events."""

    async def positions() -> list[int]:
        return [story.service.state.position for story in stories if story.service is not None]

    await until(positions, lambda seen: len(set(seen)) == 1)


async def count(story: Story, type_name: str) -> int:
    return len(await story.events(type=type_name))


async def test_both_services_hold_the_same_state(pair: tuple[Story, Story]) -> None:
    one, two = pair
    for story in (one, two, one):
        await story.release()
        await same_position(one, two)
    assert one.service is not None
    assert two.service is not None
    assert facts(one.service.state) == facts(two.service.state)
    assert one.service.state.tree.root() == two.service.state.tree.root()
    assert one.service.state.violations == []


async def test_each_step_of_a_promotion_may_go_to_another_service(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    await one.release()
    manifest = await one.manifest()
    await same_position(one, two)
    identity = (await two.post("train", two.path("candidates"), manifest))["candidate_id"]
    assignment = await one.claim_soon("gate-1")
    await same_position(one, two)
    gate = await two.run_trials(assignment, "+")
    await same_position(one, two)
    other = await one.claim_soon("gate-1")
    gate = await one.run_trials(other, "+")
    await same_position(one, two)
    await two.decide(gate)
    await same_position(one, two)
    path = one.path("releases", identity, "bundle")
    await one.post("sign", path, await two.bundle(identity))
    await one.promoted(identity)
    await two.promoted(identity)
    assert await count(one, "release.promoted") == 2


async def test_two_promoters_make_one_promotion(pair: tuple[Story, Story]) -> None:
    """Attack 40: both see the signed release, both try; one event stands."""
    one, two = pair
    for _ in range(5):
        identity = await one.release()
        await same_position(one, two)
        await two.promoted(identity)
    await same_position(one, two)
    assert await count(one, "release.promoted") == 5
    assert await count(one, "candidate.admitted") == 5
    assert one.service is not None
    assert one.service.state.violations == []


async def test_of_two_conflicting_operators_one_wins_and_the_other_is_told(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    await one.release()
    await same_position(one, two)
    outcomes: list[int] = []

    async def hold(story: Story) -> None:
        try:
            await story.lever("hold")
            outcomes.append(201)
        except Problem as problem:
            outcomes.append(problem.status)

    async with anyio.create_task_group() as group:
        for story in (one, two, one, two):
            group.start_soon(hold, story)
    assert sorted(outcomes) == [201, 409, 409, 409]
    assert await count(one, "scenario.held") == 1


async def test_the_same_submission_to_both_at_once_is_one_candidate(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    manifest = await one.manifest()
    answers: list[Any] = []

    async def submit(story: Story) -> None:
        answers.append(await story.post("operate", story.path("candidates"), manifest))

    await same_position(one, two)
    async with anyio.create_task_group() as group:
        for story in (one, two, one, two):
            group.start_soon(submit, story)
    assert len({answer["submitted_position"] for answer in answers}) == 1
    assert await count(one, "candidate.submitted") == 1


async def test_the_same_trial_to_both_at_once_is_recorded_once(pair: tuple[Story, Story]) -> None:
    one, two = pair
    await one.submit()
    assignment = await one.claim_soon()
    await same_position(one, two)
    outcomes: list[int] = []

    async def post(story: Story) -> None:
        assert assignment.due is not None
        try:
            await story.post_trial(assignment, assignment.due, "+")
            outcomes.append(201)
        except Problem as problem:
            outcomes.append(problem.status)

    async with anyio.create_task_group() as group:
        for story in (one, two, one, two):
            group.start_soon(post, story)
    assert sorted(outcomes) == [201, 409, 409, 409]
    assert await count(one, "gate.trial") == 1
    await same_position(one, two)
    assert one.service is not None
    assert one.service.state.violations == []


async def test_writers_of_both_services_lose_no_write(pair: tuple[Story, Story]) -> None:
    one, two = pair
    release = await one.release()
    await same_position(one, two)
    seen: list[int] = []

    async def report(story: Story, number: int) -> None:
        body = {
            "scenario": story.scenario,
            "channel": "stable",
            "release_id": release,
            "serial": number,
            "canary_difference": "0",
        }
        written = await story.post("serve", f"/reef/nodes/node-{number}/reports", body)
        seen.append(written["position"])

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(report, (one, two)[number % 2], number)
    assert len(set(seen)) == 40
    assert await count(one, "node.loaded") == 40


async def test_three_services_start_on_an_empty_log_at_once(site: Site) -> None:
    found: list[tuple[int, int, int]] = []

    async def start() -> None:
        async with open_service(site.settings()) as service:
            await service.live.catch_up()
            state = service.state
            found.append((len(state.keys), len(state.roots), len(state.violations)))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(start)
    assert found == [(5, 1, 0)] * 3
    async with open_story(site) as story:
        types = [event["type"] for event in await story.events()]
    assert types == ["root.rotated", *["key.added"] * 5]


async def test_two_server_processes_promote_together_and_agree(site: Site) -> None:
    with ServerProcess(site) as first, ServerProcess(site) as second:
        one, two = first.story(), second.story()
        async with one.http, two.http:
            await one.create_scenario()
            for story in (one, two, one):
                await until(
                    lambda story=story: story.ask("audit", "GET", story.path()),
                    lambda answer: answer.status_code == 200,
                )
                identity = await story.release()
                await one.promoted(identity)
                await two.promoted(identity)
            assert await count(one, "release.promoted") == 3

            async def documents() -> list[httpx.Response]:
                return [await one.current(), await two.current()]

            same = await until(documents, lambda pair: pair[0].content == pair[1].content)
            assert same[0].status_code == 200
            for story in (one, two):
                ready = (await story.ask(None, "GET", "/readyz")).json()
                assert ready["violations"] == 0
