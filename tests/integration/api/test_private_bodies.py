"""What a person said stays the auditor's, and can be erased, whoever names its digest elsewhere."""

from __future__ import annotations

import msgspec
import pytest

from tests.erasing import SECRET, WHY
from tests.integration.api.story import Problem, Story
from tests.integration.api.traffic import Agent

pytestmark = pytest.mark.anyio

_OTHERS = ("train", "serve", "gate", "operate", "sign")


async def said(story: Story) -> str:
    """The digest of the body of a call."""
    turn = await Agent(story=story).say(SECRET, "Hello.")
    events = await story.events(scenario=story.scenario)
    return str(next(e["data"]["body"] for e in events if e["data"].get("interaction_id") == turn))


async def assert_private(story: Story, digest: str) -> None:
    for role in _OTHERS:
        answer = await story.ask(role, "GET", f"/reef/blobs/{digest}")
        assert (answer.status_code, SECRET.encode() in answer.content) == (403, False), role
    erased = await story.post("operate", f"/reef/blobs/{digest}/erase", WHY)
    assert erased["digest"] == digest


async def test_as_a_file_of_a_candidate(story: Story) -> None:
    await story.release()
    digest = await said(story)
    size = (await story.ask("train", "HEAD", f"/reef/blobs/{digest}")).headers["content-length"]
    manifest = await story.manifest()
    manifest["files"].append({"path": "notes.bin", "sha256": digest, "size_bytes": int(size)})
    with pytest.raises(Problem) as caught:
        await story.post("train", story.path("candidates"), manifest, params={"wait": 10})
    assert caught.value.status == 422
    await assert_private(story, digest)


async def test_as_the_canary_of_a_gate_that_passes(story: Story) -> None:
    digest = await said(story)
    await story.submit()
    gate = await story.run_trials(await story.claim_soon(), "++")
    decision = msgspec.to_builtins(story.signed_decision(gate, "passed", digest))
    with pytest.raises(Problem) as caught:
        await story.post("gate", story.path("gates", gate.opened.gate_id, "decision"), decision)
    assert caught.value.status == 422
    assert "no record of canaries" in caught.value.body["detail"]
    await assert_private(story, digest)


async def test_as_the_canary_of_a_gate_that_fails(story: Story) -> None:
    digest = await said(story)
    await story.submit()
    gate = await story.run_trials(await story.claim_soon(), "---")
    decision = msgspec.to_builtins(story.signed_decision(gate, "failed", digest))
    await story.post("gate", story.path("gates", gate.opened.gate_id, "decision"), decision)
    await assert_private(story, digest)
