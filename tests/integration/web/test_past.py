"""Time travel over HTTP: the overview as of p is the overview of a service whose log ends at p."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reef_release.api.service import Service
from reef_release.domain.fold import Fold
from reef_release.projections.replay import ReplayChecks
from reef_release.projections.signal import SignalHealth
from tests.integration.api.story import CHANNEL, Story
from tests.integration.api.traffic import judged_turn
from tests.integration.web.conftest import Browser, pages_of
from tests.web_pages import BodiesLog

pytestmark = pytest.mark.anyio

MAIN = re.compile(r"<main.*</main>", re.DOTALL)


def ended_at(service: Service, anchor: str, bodies: list[bytes]) -> Service:
    """The service as it is when its log holds *bodies* and nothing more."""
    fold, signal = Fold(ReplayChecks(anchor, service.blobs)), SignalHealth()
    for body in bodies:
        event = fold.apply(body)
        if event is not None:
            signal.apply(fold.state, event)
    live = SimpleNamespace(state=fold.state)
    changes: dict[str, Any] = {"live": live, "log": BodiesLog(bodies), "signal": signal}
    return cast("Service", replace(service, **changes))


async def test_the_overview_of_the_past_is_that_of_a_log_that_ended_there(
    browser: Browser, story: Story
) -> None:
    assert story.service is not None
    first = await story.serving()
    await judged_turn(story)
    await story.lever("hold")
    await story.lever("resume")
    await story.run_trials(await story.claim_soon(), "+", "")
    await browser.sign_in("audit")
    bodies = [each.body for each in await story.service.log.read(limit=1000)]
    created = story.service.scenario("homework").created_position
    assert len(bodies) > created + 20
    assert first is not None
    assert CHANNEL in (await browser.get("/s/homework")).text
    for at in range(created, len(bodies), 2):
        whole = await browser.get(f"/s/homework?at={at}")
        service = ended_at(story.service, story.site.anchor, bodies[: at + 1])
        async with pages_of(service, story) as other:
            other.http.cookies = browser.http.cookies
            ended = await other.get(f"/s/homework?at={at}")
        assert main(whole.text) == main(ended.text), at


def main(html: str) -> str:
    found = MAIN.search(html)
    assert found is not None, html
    return found[0]
