"""What the pages say once the only gate key is revoked."""

from __future__ import annotations

import pytest

from reef_release.signing.keys import Role
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio


async def test_the_overview_says_that_what_is_served_rests_on_a_revoked_key(
    browser: Browser,
) -> None:
    story = browser.story
    await browser.sign_in("operate")
    assert story.service is not None
    (gate_id,) = story.service.scenario("homework").undecided
    before = (await browser.get("/s/homework")).text
    assert "revoked key" not in before
    assert "no gate key counts" not in before

    key = story.site.key(Role.GATE).key_id
    await story.post("operate", f"/reef/trust/keys/{key}/revoke", {"reason": "stolen"})
    page = (await browser.get("/s/homework")).text
    assert "It rests on a revoked key and is still served" in page
    assert "nothing served before can be rolled back to" in page
    assert "no gate key counts" in page
    trials = (await browser.get(f"/s/homework/gates/{gate_id}")).text
    assert "No gate key counts, so every decision on it is refused" in trials
    assert "is awaited" not in trials
    listed = (await browser.get("/s/homework/candidates")).text
    assert "No gate key counts, so every decision on it is refused" in listed
    assert "is awaited" not in listed
