"""The tiny policy on the local transformers engine as upstream, end to end."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.api.story import Site
from tests.integration.proxy.desk import open_desk
from trainer.tiny.shipped import ORIGIN

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The base URL of an engine that serves the origin."""
    command = [
        sys.executable,
        "-m",
        "trainer.engines.server",
        "--model",
        str(ORIGIN),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found.group() + "/v1"
        finally:
            process.terminate()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_of_the_tiny_policy_is_recorded_with_tokens_that_can_be_trained_on(
    site: Site, engine: str, stream: bool
) -> None:
    question = {"role": "user", "content": "What is 12 + 30?"}
    async with open_desk(site, upstream_url=engine) as desk:
        await desk.story.create_scenario()
        async with desk.openai() as client:
            asked = {
                "model": "policy",
                "messages": [question],
                "temperature": 0.7,
                "max_tokens": 48,
            }
            if stream:
                chunks = await client.chat.completions.create(**asked, stream=True)
                words = [each.choices[0].delta.content or "" async for each in chunks]
                text = "".join(words)
            else:
                answer = await client.chat.completions.create(**asked)
                text = answer.choices[0].message.content
        (recorded,) = await desk.recorded()
        assert recorded.type == "interaction.recorded"
        assert recorded.data["token_fault"] is None
        assert recorded.data["finish_reason"] in ("stop", "length")
        assert recorded.text == text
        assert recorded.body.temperature == 0.7
        ids, logprobs = recorded.body.token_ids or [], recorded.body.logprobs or []
        assert len(ids) == len(logprobs) == recorded.data["token_count"] > 0
        assert (recorded.body.prompt_token_ids or [])[0] >= 0
        async with desk.openai(base_url=engine) as direct:
            scored = await direct.post(
                "/score",
                cast_to=dict,
                body={
                    "prompt_token_ids": recorded.body.prompt_token_ids,
                    "token_ids": ids,
                    "temperature": 0.7,
                },
            )
        for said, again in zip(logprobs, scored["logprobs"], strict=True):
            assert said is not None
            assert math.isclose(said, again, abs_tol=1e-3)
