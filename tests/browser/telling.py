"""The story that the pages show: releases, refusals, a rollback, a hold, traffic and training."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import httpx

from reef_release.domain.canonical import canonical_json
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import CHANNEL, SCENARIO, Problem, Site, Story, model_files, until
from tests.integration.api.traffic import (
    HINT,
    Agent,
    claim_batch,
    claim_turn,
    judge,
    vote,
)
from tests.integration.api.trainer import TrainerJob
from tests.world import suite_lines

__all__ = ["Told", "tell"]

_RULE = {
    "kind": "all_of",
    "rules": [
        {"kind": "consecutive_passes", "k": 3, "max_trials": 12, "max_failures": 6},
        {"kind": "improves", "alpha": None, "max_deficit": 4, "max_trials": 12},
    ],
}
_BUDGET = {
    "procedure": "false_discovery_rate",
    "alpha": "0.5",
    "gamma": {"first_block": 4, "decay": 2},
}
_QUESTIONS = (
    ("What is 12 + 30?", "**42.**", "No bold, please. And show me how you got there.", -1),
    ("What is 7 times 8?", "7 · 8 = 56, since 7 · 8 = 7 · 4 · 2.", "Thanks, that helps.", 1),
    ("What is 81 / 9?", "It is 9.", "Why?", -1),
    ("What is 5 - 11?", "It is -6, six steps below zero.", "Good. Next one.", 1),
)


@dataclass(frozen=True, kw_only=True)
class Told:
    """The running service and what the story made, by id.

    `origin` is served again after `second` was rolled back; `refused` was not admitted, `failed`
    failed its gate, `running` stands in an open gate, `trained` came out of training.
    """

    server: ServerProcess
    origin: str
    second: str
    refused: str
    failed: str
    running: str
    running_gate: str
    sessions: list[str]
    batch: str
    promoted_position: int
    rolled_back_position: int

    @property
    def url(self) -> str:
        return self.server.url

    def load(self, node: str) -> None:
        """A node reports that it serves the origin: one more event."""
        body = {
            "scenario": SCENARIO,
            "channel": CHANNEL,
            "release_id": self.origin,
            "serial": 1,
            "canary_difference": "0.001",
        }
        headers = {"Authorization": f"Bearer {self.site.token('serve')}"}
        answer = httpx.post(f"{self.url}/reef/nodes/{node}/reports", json=body, headers=headers)
        assert answer.status_code == 201, answer.text

    @property
    def site(self) -> Site:
        return self.server.site


async def tell(server: ServerProcess) -> Told:
    """Tell the whole story to a fresh service."""
    story = server.story()
    async with story.http:
        return await _tell(server, story)


async def _tell(server: ServerProcess, story: Story) -> Told:
    story.suite = suite_lines(60)
    part = {"verifiers": ["answer@1"], "rule": _RULE}
    bootstrap = {"verifiers": ["answer@1"], "rule": _RULE["rules"][0]}
    await story.create_scenario(standard=part, bootstrap=bootstrap, budget=_BUDGET)
    origin = await _gated(story, "+++")
    await _report(story, "node-berlin", origin)
    sessions = [await _talk(story, origin, number) for number in range(len(_QUESTIONS))]
    second, batch = await _trained(story, origin)
    promoted = await story.promoted(second)
    await _report(story, "node-berlin", second)
    await _report(story, "node-lisbon", origin)
    refused = await _refused(story)
    failed = (await story.submit())["candidate_id"]
    await story.gate("-" * 12, "+" * 12)
    await story.lever("hold", reason="Parents complain about short answers; looking into it.")
    await story.lever("resume", reason="The complaints were about the old release.")
    await story.lever(
        "rollback", release_id=origin, channel=CHANNEL, reason="Worse at fractions in class 5b."
    )
    await _node_refusal(story, "node-lisbon", second)
    await _policy(story, standard=part, bootstrap=bootstrap)
    running = (await story.submit())["candidate_id"]
    assignment = await story.claim_soon()
    await story.run_trials(assignment, "+-++", "--+-")
    await story.lever("hold", reason="The school asks for quiet during exams.")
    rolled_back = (await story.events(type="release.rolled_back"))[-1]["position"]
    return Told(
        server=server,
        origin=origin,
        second=second,
        refused=refused,
        failed=failed,
        running=running,
        running_gate=assignment.opened.gate_id,
        sessions=sessions,
        batch=batch,
        promoted_position=promoted,
        rolled_back_position=rolled_back,
    )


async def _policy(story: Story, **parts: object) -> None:
    """Another policy comes into force: people must look, and the suite wears out sooner."""
    policy = story.signed_policy(**parts, budget=_BUDGET, approvals=1, suite_max_gates=40)
    body = {"policy": policy, "reason": "Two parents asked that a person looks first."}
    answer = await story.ask("operate", "PUT", story.path("policy"), json=body)
    answer.raise_for_status()


async def _gated(story: Story, marks: str) -> str:
    identity = (await story.submit())["candidate_id"]
    await story.gate(marks)
    await story.sign(identity)
    await story.promoted(identity)
    return str(identity)


async def _talk(story: Story, release: str, number: int) -> str:
    """A conversation of two calls whose first one is judged; the session."""
    question, reply, reaction, score = _QUESTIONS[number]
    agent = Agent(story=story, release_id=release, tag=f"pupil-{number}")
    first = await agent.say(question, reply)
    await agent.say(reaction, "All right: step by step, then.")
    turn = await until(lambda: claim_turn(story))
    hints = [HINT] if score < 0 else []
    await judge(story, turn, vote(score, 1, *hints), vote(score, 1, *hints), vote(0, 0))
    return first


async def _trained(story: Story, base: str) -> tuple[str, str]:
    """Train both batches of the judged turns, and bring the result into serving."""
    job = TrainerJob(story=story, base=base)
    for _ in range(2):
        batch = await until(lambda: claim_batch(story))
        await job.start(batch)
        for epoch in (1, 2, 3):
            job.steps += 1
            metrics = {"loss": 0.9 / job.steps, "kl": 0.001 * job.steps, "reward": 0.2 * job.steps}
            await job.step(batch, step=job.steps, epoch=epoch, metrics=metrics)
        job.result()
        await job.complete(batch, steps=3)
        job.parent = job.weights_id
        job.batches.append(batch["batch_id"])
    identity = (await job.submit())["candidate_id"]
    await story.gate("+" * 12, "-" * 12)
    await story.sign(identity)
    await story.promoted(identity)
    return str(identity), job.batches[-1]


async def _refused(story: Story) -> str:
    """Weights with a changed config and an extra file, which admission refuses."""
    files = model_files(next(story.site.numbers))
    files["config.json"] = canonical_json({"architectures": ["Tiny"], "auto_map": {"A": "b.C"}})
    files["tool.py"] = b"import os\n"
    with suppress(Problem):
        await story.submit(files)
    refused = await story.events(type="candidate.refused")
    return str(refused[-1]["data"]["candidate_id"])


async def _report(story: Story, node: str, release: str) -> None:
    await _post_report(story, node, release_id=release, serial=1, canary_difference="0.001")


async def _node_refusal(story: Story, node: str, release: str) -> None:
    reason = {"code": "rolled-back", "message": "the pointer has moved on", "where": ""}
    await _post_report(story, node, release_id=release, reasons=[reason])


async def _post_report(story: Story, node: str, **fields: object) -> None:
    body = {"scenario": story.scenario, "channel": CHANNEL, **fields}
    await story.post("serve", f"/reef/nodes/{node}/reports", body)
