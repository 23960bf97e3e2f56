"""The current document: tags, waiting, freshness, and one content wherever it is asked for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import anyio
import httpx
import pytest

from reef_release.domain.canonical import canonical_json
from reef_release.signing.current import CurrentDocument, verify_current
from reef_release.signing.keys import Role
from tests.integration.api.story import Site, Story, open_story, until

pytestmark = pytest.mark.anyio

LONG_S = 50
"""Longer than any test: an answer that comes earlier was not waited out."""


def opened(story: Story, response: httpx.Response) -> CurrentDocument:
    assert response.status_code == 200, response.text
    key = story.site.key(Role.POINTER).public
    return verify_current(response.json(), [key]).document


async def served(story: Story, release: str) -> httpx.Response:
    """The answer, once it is over *release*."""
    return await until(
        story.current,
        lambda response: (
            response.status_code == 200 and opened(story, response).release_id == release
        ),
    )


async def test_nothing_is_served_before_a_promotion(story: Story) -> None:
    assert (await story.current()).status_code == 404
    await story.submit()
    assert (await story.current()).status_code == 404
    await story.gate()
    response = await story.current()
    assert response.status_code == 404
    assert "wait" in response.json()["next_step"]


async def test_the_document_is_signed_canonical_and_lives_a_minute(story: Story) -> None:
    release = await story.release()
    response = await served(story, release)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-cache"
    assert canonical_json(response.json()) == response.content
    document = opened(story, response)
    lifetime = datetime.fromisoformat(document.expires_at) - datetime.fromisoformat(
        document.issued_at
    )
    assert lifetime == timedelta(seconds=60)
    checkpoint = next(
        event
        for event in await story.events(type="checkpoint.published")
        if event["position"] == document.serial
    )
    assert checkpoint["recorded_at"] == document.issued_at
    assert checkpoint["data"]["note"] == document.checkpoint
    promoted = (await story.events(type="release.promoted"))[-1]
    assert document.pointer_position == promoted["position"]


async def test_a_known_tag_is_answered_with_304(story: Story) -> None:
    release = await story.release()
    first = await served(story, release)
    etag = first.headers["etag"]
    for known in (etag, f'"other", {etag}', f"{etag},"):
        response = await story.current(headers={"If-None-Match": known})
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == etag
    for unknown in ('"other"', "", etag.strip('"'), "W/" + etag):
        response = await story.current(headers={"If-None-Match": unknown})
        assert response.status_code == 200
        assert response.content == first.content


async def test_waiting_returns_early_on_a_promotion(story: Story) -> None:
    first = await served(story, await story.release())
    answers: list[httpx.Response] = []

    async def wait() -> None:
        headers = {"If-None-Match": first.headers["etag"]}
        answers.append(await story.current(params={"wait": LONG_S}, headers=headers))

    with anyio.fail_after(LONG_S - 20):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(wait)
            release = await story.release()
    serials = {opened(story, answer).serial for answer in answers}
    assert len(answers) == 5
    assert min(serials) > opened(story, first).serial
    assert opened(story, await served(story, release)).serial >= max(serials)


async def test_waiting_for_a_first_document_returns_with_the_origin(story: Story) -> None:
    answers: list[httpx.Response] = []

    async def wait() -> None:
        answers.append(await story.current(params={"wait": LONG_S}))

    with anyio.fail_after(LONG_S - 20):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            release = await story.release()
    assert opened(story, answers[0]).release_id == release


async def test_waiting_ends_with_304_or_404_when_nothing_changes(story: Story) -> None:
    assert (await story.current(params={"wait": 0.05})).status_code == 404
    assert story.service is not None
    release = await story.release()
    etag = (await served(story, release)).headers["etag"]
    response = await story.current(params={"wait": 0.05}, headers={"If-None-Match": etag})
    assert response.status_code == 304


async def test_an_unknown_scenario_is_not_waited_for(story: Story) -> None:
    with anyio.fail_after(LONG_S - 20):
        path = "/reef/scenarios/homewrok/current"
        response = await story.ask("serve", "GET", path, params={"wait": LONG_S})
    assert response.status_code == 404


async def test_documents_are_renewed_and_serials_only_grow(site: Site) -> None:
    async with open_story(site, checkpoint_interval_s=0.05) as story:
        await story.create_scenario()
        release = await story.release()
        documents = [opened(story, await served(story, release))]
        while len(documents) < 3:
            etag = (await story.current()).headers["etag"]
            headers = {"If-None-Match": etag}
            response = await story.current(params={"wait": 20}, headers=headers)
            documents.append(opened(story, response))
    serials = [document.serial for document in documents]
    assert serials == sorted(set(serials))
    assert {document.release_id for document in documents} == {release}
    assert len({document.pointer_position for document in documents}) == 1


async def test_a_clock_that_differs_from_the_databases_neither_floods_nor_starves(
    story: Story,
) -> None:
    assert story.service is not None
    processes = story.service.processes
    release = await story.release()
    await served(story, release)
    moments = [0.0]
    for offset in (timedelta(days=3650), -timedelta(days=3650)):
        processes._clock = lambda offset=offset: datetime.now().astimezone() + offset
        processes._refresh_at = None
        processes._monotonic = lambda: moments[0]
        await story.lever("hold")
        await story.lever("resume")
        settled = len(await story.events(type="checkpoint.published"))
        for _ in range(5):
            await processes.step()
        found = len(await story.events(type="checkpoint.published"))
        assert found <= settled + 1
        moments[0] += 21
        await processes.step()
        await processes.step()
        assert len(await story.events(type="checkpoint.published")) == found + 1


async def test_a_restart_serves_the_same_document_and_goes_on_counting(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        release = await story.release()
        before = await served(story, release)
    async with open_story(site) as restarted:
        after = await restarted.current()
        assert after.content == before.content
        assert after.headers["etag"] == before.headers["etag"]
        better = await restarted.release()
        document = opened(restarted, await served(restarted, better))
        assert document.serial > opened(restarted, before).serial


async def test_two_services_serve_byte_identical_documents(site: Site) -> None:
    async with open_story(site) as one, open_story(site) as two:
        await one.create_scenario()
        release = await one.release()
        first = await served(one, release)
        second = await served(two, release)
        same = {opened(one, answer).serial: answer.content for answer in (first, second)}
        if len(same) == 2:  # a checkpoint came in between
            first = await served(one, release)
        assert first.content == second.content
        assert first.headers["etag"] == second.headers["etag"]


async def test_a_release_that_was_revoked_stays_named_until_the_operator_rolls_back(
    story: Story,
) -> None:
    first = await story.release()
    second = await story.release()
    await story.post("operate", story.path("releases", second, "revoke"), {"reason": "it lies"})
    assert opened(story, await served(story, second)).release_id == second
    await story.lever("rollback", release_id=first)
    assert opened(story, await served(story, first)).release_id == first


async def test_each_channel_has_its_own_document(story: Story) -> None:
    stable = await story.release()
    view: Any = await story.submit(channel="beta")
    await story.gate()
    await story.sign(view["candidate_id"])
    await story.promoted(view["candidate_id"])
    response = await until(
        lambda: story.current(params={"channel": "beta"}),
        lambda response: response.status_code == 200,
    )
    assert opened(story, response).release_id == view["candidate_id"]
    assert opened(story, response).channel == "beta"
    assert opened(story, await served(story, stable)).channel == "stable"
    assert (await story.current(params={"channel": "gamma"})).status_code == 404
