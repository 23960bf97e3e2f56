"""The way of a candidate into serving, over HTTP, from the operator's first request on."""

from __future__ import annotations

import pytest

from reef_release.signing.current import verify_current
from reef_release.signing.keys import Role
from tests.integration.api.story import Story

pytestmark = pytest.mark.anyio


async def test_an_origin_and_a_better_candidate_reach_serving(story: Story) -> None:
    await story.create_scenario()
    assert (await story.current()).status_code == 404

    origin = await story.release()
    assert await story.serving() == origin
    better = await story.release()
    assert await story.serving() == better

    response = await story.current(params={"wait": 5})
    document = verify_current(response.json(), [story.site.key(Role.POINTER).public]).document
    assert document.release_id in (origin, better)
