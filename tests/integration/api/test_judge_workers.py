"""Judges as processes that are killed, race and lose their endpoint: every turn is judged once."""

from __future__ import annotations

import json
from collections import Counter
from threading import Event
from typing import Literal

import anyio
import pytest

from judge.backend import HttpBackend
from judge.worker import JudgeWorker, JudgeWorkerConfig
from reef_release.client import ReefClient
from reef_release.client.transport import Retry
from tests.integration.api.judges import MODEL, Endpoint, Gateway, JudgeProcess
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Site, Story, until
from tests.integration.api.traffic import Agent, correlated, signal

pytestmark = pytest.mark.anyio


async def conversations(story: Story, *, count: int = 1, turns: int = 4) -> list[str]:
    """Conversations in turn; the receipts of the turns that have a next state."""
    agents = [Agent(story=story, system=f"You are helper {number}.") for number in range(count)]
    for step in range(turns):
        for number, agent in enumerate(agents):
            words = "No, with the steps, please." if step % 2 else f"{number}: what is 2 + {step}?"
            await agent.say(words, f"{number}: it is {2 + step}, by counting on.")
    await correlated(story, count * turns)
    return [receipt for agent in agents for receipt in agent.receipts[:-1]]


async def judged_once(story: Story, receipts: list[str]) -> None:
    """Wait until every turn is judged; fail if one is judged twice."""
    wanted = len(receipts)
    await until(lambda: signal(story), lambda view: view["total"]["judged"] == wanted)
    events = await story.events(type="turn.judged")
    assert Counter(event["data"]["turn_id"] for event in events) == Counter(receipts)
    assert all(event["data"]["valid"] == 3 for event in events)


async def reached(held: Endpoint | Gateway) -> None:
    assert await anyio.to_thread.run_sync(held.reached.wait, 60)


@pytest.mark.parametrize("answer", [1, 2, 5])
async def test_a_judge_killed_between_its_votes_leaves_the_turn_to_another(
    site: Site, answer: int
) -> None:
    with ServerProcess(site, lease_s="2") as server, Endpoint(hold_at=answer) as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story)
            with JudgeProcess(site, server.url, endpoint, "killed") as judge:
                await reached(endpoint)
                judge.kill()
            with JudgeProcess(site, server.url, endpoint, "other"):
                await judged_once(story, receipts)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_judge_killed_while_it_posts_is_not_judged_after_twice(
    site: Site, when: Literal["before", "after"]
) -> None:
    with ServerProcess(site, lease_s="2") as server, Endpoint() as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story)
            with (
                Gateway(server.url, when) as gateway,
                JudgeProcess(site, gateway.url, endpoint, "killed") as judge,
            ):
                await reached(gateway)
                judge.kill()
            assert len(await story.events(type="turn.judged")) == (when == "after")
            with JudgeProcess(site, server.url, endpoint, "other"):
                await judged_once(story, receipts)


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_judgment_whose_way_is_cut_is_posted_again_and_counts_once(
    site: Site, lost: Literal["before", "after"]
) -> None:
    with ServerProcess(site) as server, Endpoint() as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story)
            with Gateway(server.url, lost) as gateway:
                gateway.go_on.set()
                with JudgeProcess(site, gateway.url, endpoint, "patient", "--once") as judge:
                    await judged_once(story, receipts)
                    assert await anyio.to_thread.run_sync(judge.wait) == 0, judge.log
            assert endpoint.asked == 3 * len(receipts)


async def test_two_judges_on_two_services_of_one_log_judge_every_turn_once(site: Site) -> None:
    """Their leases know nothing of each other; the log decides."""
    with ServerProcess(site) as one, ServerProcess(site) as two, Endpoint() as endpoint:
        story = one.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story, count=3, turns=5)
            with (
                JudgeProcess(site, one.url, endpoint, "judge-1"),
                JudgeProcess(site, two.url, endpoint, "judge-2"),
            ):
                await judged_once(story, receipts)
            assert not await story.events(type="turn.judging_failed")


async def test_a_service_killed_while_a_judge_thinks_loses_no_turn(site: Site) -> None:
    with ServerProcess(site, lease_s="5") as server, Endpoint(hold_at=2) as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story)
        with JudgeProcess(site, server.url, endpoint, "patient") as judge:
            await reached(endpoint)
            server.kill()
            endpoint.go_on.set()
            server.restart()
            story = server.story()
            async with story.http:
                await judged_once(story, receipts)
            judge.kill()


async def test_an_endpoint_that_is_away_is_seen_on_the_page_of_the_signal_and_loses_no_turn(
    site: Site,
) -> None:
    with ServerProcess(site, judging_retry_s="0") as server, Endpoint() as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            receipts = await conversations(story)
            endpoint.away = True

            def work() -> None:
                retry = Retry(attempts=2, sleep=lambda _seconds: None)
                with (
                    ReefClient(server.url, site.token("judge")) as client,
                    HttpBackend(endpoint.url, MODEL, retry=retry) as backend,
                ):
                    config = JudgeWorkerConfig(name="judge", scenarios=[SCENARIO], poll_s=0.05)
                    worker = JudgeWorker(config, client, backend)
                    worker.run(stop=stop)

            stop = Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, work)
                view = await until(
                    lambda: signal(story), lambda view: view["total"]["judging_failed"] > 0
                )
                assert view["total"]["judged"] == 0
                assert view["waiting"]["to_judge"] == len(receipts)
                endpoint.away = False
                await judged_once(story, receipts)
                stop.set()
            assert len(await story.events(type="turn.judging_failed")) == 1


async def test_a_judge_that_praises_everything_is_suspended_before_it_feeds_a_batch(
    site: Site,
) -> None:
    praise = json.dumps({"score": 1, "about": 1, "rejected": "", "keep": "", "hints": []})
    with ServerProcess(site) as server, Endpoint(reply=lambda *_: praise) as endpoint:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            await story.release()
            receipts = await conversations(story)
            with JudgeProcess(site, server.url, endpoint, "liar", "--once", probes=25) as judge:
                assert await anyio.to_thread.run_sync(judge.wait) == 0, judge.log
            (suspended,) = await story.events(type="judge.suspended")
            judged = await story.events(type="turn.judged")
            assert len(judged) == len(receipts)
            assert all(event["position"] > suspended["position"] for event in judged)
            refused = await until(
                lambda: story.events(type="sample.refused"), lambda found: len(found) == len(judged)
            )
            assert {event["data"]["reason"] for event in refused} == {"judge-suspended"}
