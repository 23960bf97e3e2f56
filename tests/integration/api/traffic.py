"""An agent that talks to a model and records what it said, for tests of traffic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.api.story import Problem, Story, until

__all__ = [
    "HINT",
    "JUDGE",
    "REACTION",
    "Agent",
    "claim_batch",
    "claim_turn",
    "correlated",
    "interaction",
    "judge",
    "judged_turn",
    "judgment",
    "lines",
    "signal",
    "turns_of",
    "vote",
]


def interaction(question: str = "What is 2 + 2?", /, **changes: Any) -> Any:
    """A call with whole token data."""
    return {
        "messages": [{"role": "user", "content": question}],
        "reply": {"role": "assistant", "content": "It is 4."},
        "finish_reason": "stop",
        "prompt_token_ids": [1, 2, 3],
        "token_ids": [4, 5],
        "logprobs": [-0.25, -1.5],
        **changes,
    }


@dataclass(kw_only=True)
class Agent:
    """One conversation, recorded call by call; each call carries the whole history."""

    story: Story
    release_id: str | None = None
    tag: str | None = None
    system: str = "You help with homework."
    at: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(hours=1))
    messages: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)

    async def say(self, words: str, reply: str, /, **changes: Any) -> str:
        """The user says *words*, the model replies; the receipt."""
        return await self.record([{"role": "user", "content": words}], reply, **changes)

    async def record(
        self, news: Sequence[dict[str, Any]], reply: str | dict[str, Any], /, **changes: Any
    ) -> str:
        self.at += timedelta(seconds=20)
        self.messages += news
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
        body = {
            **interaction(),
            "messages": [{"role": "system", "content": self.system}, *self.messages],
            "reply": message,
            "tag": self.tag,
            "release_id": self.release_id,
            "at": self.at.isoformat(),
            **changes,
        }
        receipt = await self.story.post("ingest", self.story.path("interactions"), body)
        if body["reply"] is not None and not body.get("error"):
            self.messages.append(message)
        self.receipts.append(receipt["interaction_id"])
        return str(receipt["interaction_id"])


async def signal(story: Story) -> Any:
    return await story.get("operate", story.path("signal"))


async def correlated(story: Story, calls: int) -> Any:
    """Wait until so many calls are recorded and none waits; the signal view."""
    return await until(
        lambda: signal(story),
        lambda view: view["total"]["calls"] == calls and not view["waiting"]["to_correlate"],
    )


async def turns_of(story: Story, session_id: str) -> list[Any]:
    try:
        view = await story.get("operate", story.path("sessions", session_id))
    except Problem as problem:
        if problem.status == 404:
            return []
        raise
    return list(view["turns"])


def lines(bodies: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(body).encode() + b"\n" for body in bodies)


HINT = "Write it as a sum."
REACTION = "No. Show me how you got there."
JUDGE: dict[str, Any] = {
    "model": "scripted",
    "prompt_digest": "ab" * 32,
    "settings": {"votes": "3"},
}


def vote(score: int, about: int, *hints: str, **changes: Any) -> dict[str, Any]:
    return {
        "raw": f"{score} about {about}",
        "valid": True,
        "score": score,
        "about": about,
        "rejected": "",
        "keep": "",
        "hints": list(hints),
        **changes,
    }


def judgment(lease_id: str, *votes: Any, **changes: Any) -> dict[str, Any]:
    return {"lease_id": lease_id, "judge": JUDGE, "votes": list(votes), "error": None, **changes}


async def claim_turn(story: Story, worker: str = "judge-1") -> Any:
    """A turn to judge, or None."""
    return await story.post("judge", story.path("turns", "claim"), {"worker": worker})


async def judge(story: Story, turn: Any, *votes: Any, **changes: Any) -> Any:
    path = story.path("turns", turn["turn_id"], "judgment")
    changes = {"next_id": turn.get("next_id", ""), **changes}
    return await story.post("judge", path, judgment(turn["lease_id"], *votes, **changes))


async def judged_turn(story: Story, *, score: int = -1, hint: str = HINT, **call: Any) -> str:
    """A conversation of its own with one judged turn of the release served; the turn's id."""
    number = next(story.site.numbers)
    agent = Agent(story=story, release_id=await story.serving(), tag=f"s-{number}")
    question = call.pop("question", f"Add {number} and two, please.")
    receipt = await agent.say(question, f"It is {number + 2}.", **call)
    await agent.say(REACTION, f"{number} + 2 = {number + 2}, that is how I got there.")
    turn = await until(lambda: claim_turn(story))
    assert turn["turn_id"] == receipt
    await judge(story, turn, vote(score, 1, *([hint] if hint else [])))
    return receipt


async def claim_batch(story: Story, worker: str = "trainer-1", **fields: Any) -> Any:
    """A batch to train on, or None."""
    return await story.post("train", story.path("batches", "claim"), {"worker": worker, **fields})
