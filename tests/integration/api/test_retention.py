"""Retention: what is too old and needed by nobody is erased by the service, in bounded rounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reef_release.api import erasing
from tests.erasing import SECRET, holding
from tests.integration.api.story import Site, Story, open_story, until
from tests.integration.api.traffic import REACTION, Agent, claim_turn, correlated, judge, vote

pytestmark = pytest.mark.anyio

OLD = timedelta(days=40)


def old_agent(story: Story, **fields: Any) -> Agent:
    return Agent(story=story, at=datetime.now(UTC) - OLD, **fields)


async def erased(story: Story) -> list[dict[str, Any]]:
    return await story.events(type="body.erased")


async def test_by_default_nothing_is_erased(story: Story) -> None:
    agent = old_agent(story)
    await agent.say(SECRET, "Hello.")
    assert story.service is not None
    await correlated(story, 1)
    await story.service.erasing.step()
    assert await erased(story) == []


async def test_old_sessions_are_erased_by_the_service_and_young_ones_are_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "_RETENTION_S", 0.1)
    async with open_story(site, retention_days=30) as story:
        await story.create_scenario()
        await old_agent(story, tag="old").say(SECRET, "Hello.")
        await Agent(story=story, tag="young").say("What is 2 + 2?", "4")
        [event] = await until(lambda: erased(story))
        assert (event["actor"], event["data"]["reason"]) == ("service", "retention")
        assert holding(site.home, SECRET) == []
        assert holding(site.home, "What is 2 + 2?")


async def test_what_waits_for_a_judge_is_kept_until_it_is_judged(site: Site) -> None:
    async with open_story(site, retention_days=30) as story:
        await story.create_scenario()
        agent = old_agent(story, tag="old")
        await agent.say(SECRET, "Hello.")
        await agent.say(REACTION, "Hello Ada.")
        await correlated(story, 2)
        assert story.service is not None
        story.service.erasing._retention_at = 0.0
        await story.service.erasing.step()
        assert await erased(story) == []
        await judge(story, await claim_turn(story), vote(0, 1))
        story.service.erasing._retention_at = 0.0
        await story.service.erasing.step()
        found = await until(lambda: erased(story), lambda events: len(events) == 3)
        assert sorted(event["data"]["kind"] for event in found) == ["call", "call", "votes"]
        assert holding(site.home, SECRET) == []


async def test_one_round_has_a_bound_and_the_rounds_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "MOST_AT_ONCE", 2)
    async with open_story(site) as story:
        await story.create_scenario()
        for number in range(5):
            await old_agent(story, tag=f"t{number}").say(SECRET, "Hello.")
        await correlated(story, 5)
    async with open_story(site, retention_days=30) as story:
        await until(lambda: erased(story), lambda events: len(events) == 5)
        assert holding(site.home, SECRET) == []
        assert story.service is not None
        assert await story.service.erasing._retain(story.service.scenario("homework"))


async def test_what_would_be_erased_can_be_asked(story: Story) -> None:
    turn = await old_agent(story, tag="old").say(SECRET, "Hello.")
    await Agent(story=story, tag="young").say("Hi.", "Hello.")
    await correlated(story, 2)
    path, wanted = story.path("erasures"), {"reason": "", "older_than_s": 30 * 86_400}
    view = await story.post("operate", path, {**wanted, "dry_run": True})
    assert [each["turn_id"] for each in view["bodies"]] == [turn]
    assert await erased(story) == []
    view = await story.post("operate", path, {**wanted, "reason": "the policy says 30 days"})
    assert [each["turn_id"] for each in view["bodies"]] == [turn]
    assert holding(story.site.home, SECRET) == []


async def test_two_services_retain_without_a_violation(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        for number in range(10):
            await old_agent(story, tag=f"t{number}").say(SECRET, "Hello.")
        await correlated(story, 10)
    async with open_story(site, retention_days=30) as one, open_story(site, retention_days=30):
        await until(lambda: erased(one), lambda events: len(events) == 10)
        assert one.service is not None
        assert one.service.state.violations == []


async def test_old_calls_of_open_sessions_are_counted_and_kept(story: Story) -> None:
    path, wanted = story.path("erasures"), {"reason": "", "older_than_s": 60, "dry_run": True}
    empty = await story.post("operate", path, wanted)
    assert (empty["bodies"], empty["old_calls"]) == ([], 0)
    agent = Agent(story=story, at=datetime.now(UTC) - timedelta(minutes=5), tag="open")
    await agent.say(SECRET, "Hello.")
    await correlated(story, 1)
    view = await story.post("operate", path, wanted)
    assert (view["bodies"], view["old_calls"], view["open_calls"]) == ([], 1, 1)
    assert (view["needed_calls"], view["trained_into"]) == (0, [])
