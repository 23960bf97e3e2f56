"""A receipt says at once what keeps a reply from ever being trained on; it is recorded anyway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reef_release.ids import uuid7
from tests.integration.api.story import Story
from tests.integration.api.traffic import interaction, lines

pytestmark = pytest.mark.anyio


async def noted(story: Story, **changes: Any) -> list[tuple[str, str]]:
    receipt = await story.post("ingest", story.path("interactions"), interaction(**changes))
    return [(note["code"], note["where"]) for note in receipt["notes"]]


async def test_a_reply_that_can_never_train_is_recorded_and_noted(story: Story) -> None:
    await story.release()
    served = await story.serving()
    unknown = ("unknown-release", "release_id")
    assert await noted(story, release_id=served) == []
    assert await noted(story) == [unknown]
    assert await noted(story, release_id="ab" * 32) == [unknown]
    assert await noted(story, release_id=served, logprobs=[-0.5]) == [
        ("length-mismatch", "token data")
    ]
    assert await noted(story, release_id=served, temperature=0) == [("temperature", "token data")]
    assert await noted(story, turn_type="side") == []
    assert await noted(story, reply=None, error="timed-out") == []
    assert len(await story.events(type="interaction.recorded")) == 6


async def test_the_same_interaction_again_is_noted_again_and_lines_are_too(story: Story) -> None:
    body = interaction(interaction_id=uuid7(), at="2026-01-02T03:04:05Z")
    first = await noted(story, **body)
    assert first == await noted(story, **body)
    assert first
    response = await story.ask(
        "ingest",
        "POST",
        story.path("interactions"),
        content=lines([interaction(logprobs=None)]),
        headers={"Content-Type": "application/x-ndjson"},
    )
    (outcome,) = map(json.loads, response.text.splitlines())
    assert [note["code"] for note in outcome["receipt"]["notes"]] == ["incomplete-token-data"]
