"""The homework stream's traffic without a service: an endpoint in this process, and its judge.

What always holds: the student speaks to it as to any endpoint, over the same client; a turn is
judged when its next state has come, by the scripted judge's own votes; a sample is built on the
reply that the reaction is about, and no reply makes two; calls of type `side` are never recorded.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from judge.scripted.backend import ScriptedBackend
from judge.voting import ask
from reef_release.domain.judging import judge_votes, sample_terms
from reef_release.traffic_wire import BatchSampleView
from reef_release.wire import Message, NextState, TurnAssignment, Vote
from trainer.engines.protocol import Generation
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.wire import ChatRequest, Envelope, decode

__all__ = ["JudgeSettings", "RecordingEndpoint", "Turn"]

MODEL = "policy"


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the judge is asked, and how it is made worse than it is."""

    votes: int = 3
    flip_votes: float = 0.0
    """The share of votes whose score has the other sign."""
    flip_turns: float = 0.0
    """The share of turns all of whose votes are flipped: what more votes do not mend."""
    miss_hints: float = 0.0
    """The share of turns whose hints are all left out."""
    teach_unhinted: bool = True
    """False: a turn without a hint feeds the policy term alone. The design has True."""


@dataclass(kw_only=True)
class Turn:
    """One recorded call."""

    turn_id: str
    index: int
    messages: list[dict[str, Any]]
    found: Generation
    release_id: str
    temperature: float
    used: bool = False


@dataclass(kw_only=True)
class RecordingEndpoint(httpx.BaseTransport):
    """Answers chat completions with *engine*; every judged turn becomes a waiting sample."""

    engine: TransformersEngine
    judge: JudgeSettings
    seed: int
    waiting: list[BatchSampleView] = field(default_factory=list)
    judged: int = 0
    misjudged: int = 0

    def __post_init__(self) -> None:
        self._sessions: dict[str, list[Turn]] = {}
        self._backend = ScriptedBackend()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        asked = decode(request.read(), ChatRequest)
        messages: list[dict[str, Any]] = list(asked.conversation())
        tag = request.headers.get("x-reef-tag-session", "")
        recorded = tag and request.headers.get("x-reef-tag-turn-type", "main") == "main"
        turns = self._sessions.setdefault(tag, []) if recorded else []
        if turns:
            self._judge(tag, turns, messages[-1])
        found = self.engine.generate(messages, asked.sampling(), asked.seed or 0)
        release_id = self.engine.release_id or ""
        if recorded:
            index = len(turns) + 1
            turns.append(
                Turn(
                    turn_id=f"{self.seed}-{len(self._sessions)}-{index}",
                    index=index,
                    messages=messages,
                    found=found,
                    release_id=release_id,
                    temperature=asked.sampling().temperature,
                )
            )
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": found.text},
            "finish_reason": found.finish_reason,
        }
        body = Envelope(MODEL, release_id).whole(
            choice, len(found.prompt_token_ids), len(found.token_ids)
        )
        return httpx.Response(200, content=body)

    def _judge(self, tag: str, turns: list[Turn], reaction: dict[str, Any]) -> None:
        last = turns[-1]
        assignment = TurnAssignment(
            scenario="homework",
            turn_id=last.turn_id,
            session_id=tag,
            lease_id="",
            lease_expires_at="",
            messages=last.messages,
            reply=last.found.text,
            next_state=NextState(role="user", messages=[reaction]),
            earlier=[
                Message(index=each.index, turn_id=each.turn_id, reply=each.found.text)
                for each in turns[:-1]
            ],
            index=last.index,
        )
        votes = ask(self._backend, assignment, self.judge.votes)
        honest = judge_votes(votes, last=last.index)
        judged = judge_votes(self._worse(last.turn_id, votes), last=last.index)
        self.judged += 1
        self.misjudged += honest.score != judged.score
        terms = sample_terms(judged)
        if terms is None:
            return
        target = turns[judged.about - 1]
        if target.used:
            return
        target.used = True
        self.waiting.append(
            BatchSampleView(
                turn_id=last.turn_id,
                target=target.turn_id,
                release_id=target.release_id,
                messages=target.messages,
                reply={"role": "assistant", "content": target.found.text},
                prompt_token_ids=list(target.found.prompt_token_ids),
                token_ids=list(target.found.token_ids),
                logprobs=list(target.found.logprobs),
                temperature=target.temperature,
                score=judged.score,
                hints=list(judged.hints),
                policy=terms.policy,
                distillation=terms.distillation and (terms.hinted or self.judge.teach_unhinted),
                hinted=terms.hinted,
                next_state=[reaction],
            )
        )

    def _worse(self, turn_id: str, votes: list[Vote]) -> list[Vote]:
        rng = random.Random(f"judge/{turn_id}")
        whole = rng.random() < self.judge.flip_turns
        silent = rng.random() < self.judge.miss_hints
        found = []
        for vote in votes:
            flipped = whole != (rng.random() < self.judge.flip_votes)
            score = -vote.score if flipped else vote.score
            # Who says that a reply was accepted has nothing to say about how it should have been.
            hints = [] if silent or score > 0 else vote.hints
            found.append(msgspec.structs.replace(vote, score=score, hints=hints))
        return found
