"""Many at once: whoever waits for others is not told that something stands against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest

from reef_release.tokens import Principal, TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story

pytestmark = pytest.mark.anyio

SUBMISSIONS = 64


@pytest.fixture
async def pair(site: Site) -> AsyncIterator[tuple[Story, Story]]:
    """Two server processes of one site, and an origin that is served."""
    with ServerProcess(site) as first, ServerProcess(site) as second:
        one, two = first.story(), second.story()
        async with one.http, two.http:
            await one.create_scenario()
            await one.release()
            yield one, two


def trainer(site: Site, number: int) -> dict[str, str]:
    """The headers of one of many trainers."""
    who = Principal(name=f"trainer-{number}", role=TokenRole.TRAIN, scenario=None)
    return {"Authorization": f"Bearer {site.tokens.issue(who)}"}


async def test_submissions_and_levers_at_two_services_at_once_all_get_through(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    manifests = [await one.manifest() for _ in range(SUBMISSIONS)]
    doomed = [(await one.submit())["candidate_id"] for _ in range(4)]
    found: dict[str, list[int]] = {"submit": [], "lever": [], "revoke": []}
    told: list[str] = []

    async def post(what: str, story: Story, path: str, body: Any, **options: Any) -> None:
        answer = await story.ask(
            None if options else "operate",
            "POST",
            path,
            content=msgspec.json.encode(body),
            **options,
        )
        found[what].append(answer.status_code)
        if answer.status_code >= 400:
            told.append(answer.text)

    async def submit(number: int) -> None:
        story = pair[number % 2]
        await post(
            "submit",
            story,
            story.path("candidates") + "?wait=0",
            manifests[number],
            headers=trainer(one.site, number),
        )

    async def levers() -> None:
        for number in range(6):
            story, name = pair[number // 2 % 2], ("hold", "resume")[number % 2]
            await post("lever", story, story.path(name), {"reason": "a look"})

    async def revoke(number: int) -> None:
        story = pair[number % 2]
        path = story.path("candidates", doomed[number], "revoke")
        await post("revoke", story, path, {"reason": "leaked"})

    async with anyio.create_task_group() as group:
        for number in range(SUBMISSIONS):
            group.start_soon(submit, number)
        group.start_soon(levers)
        for number in range(len(doomed)):
            group.start_soon(revoke, number)
    assert told == []
    assert {what: len(each) for what, each in found.items()} == {
        "submit": SUBMISSIONS,
        "lever": 6,
        "revoke": 4,
    }
    submitted = Counter(
        event["data"]["candidate_id"] for event in await one.events(type="candidate.submitted")
    )
    assert len(submitted) == SUBMISSIONS + len(doomed) + 1
    assert set(submitted.values()) == {1}
    revoked = [
        event["data"]["candidate_id"] for event in await two.events(type="candidate.revoked")
    ]
    assert sorted(revoked) == sorted(doomed)
    assert len(await two.events(type="scenario.held")) == 3
    assert len(await two.events(type="scenario.resumed")) == 3
    for story in pair:
        assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 0
