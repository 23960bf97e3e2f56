"""A service that serves the tiny origin, conversations that were judged, and trainers as processes.

Replies are what the origin really said; judgments are written by hand: a hint that asks for
another style, and a rejection.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from reef_release import wire
from reef_release.client import ReefClient
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import InteractionRequest
from tests.integration.gate.conftest import School
from trainer.engines.protocol import Generation, Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.phrases import hints
from trainer.tiny.problems import Problem, draw_many
from trainer.tiny.shipped import ORIGIN

__all__ = ["BATCH_SIZE", "Classroom", "Trainer", "until"]

BATCH_SIZE = 4
_PATIENCE_S = 60.0
_HINT = hints("style", "held_out")[0]
_JUDGE = wire.JudgeIdentity(model="by hand", prompt_digest="ab" * 32)
_T = TypeVar("_T")


def until(look: Callable[[], _T], wanted: Callable[[_T], object] = bool) -> _T:
    """Look again and again until what is seen is *wanted*."""
    deadline = time.monotonic() + _PATIENCE_S
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, f"not what was wanted: {seen}"
        time.sleep(0.02)
    return seen


@cache
def _answered(first: int, count: int) -> tuple[tuple[Problem, Generation], ...]:
    engine = TransformersEngine()
    engine.load(ORIGIN)
    sampling = Sampling(temperature=1.0, max_new_tokens=96)
    problems = draw_many("stream", first + count, seed=1)[first:]
    return tuple(
        (problem, engine.generate(problem.question, sampling, place))
        for place, problem in enumerate(problems, first)
    )


@dataclass(kw_only=True)
class Trainer:
    """One trainer's directory and settings; each `start` is a process."""

    url: str
    scenario: str
    token_file: Path
    root: Path
    log: str
    state: Path
    settings: Path
    development: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """A trainer that does what is due and ends."""
        command = [
            sys.executable,
            "-m",
            "tests.integration.training.process",
            *("--url", self.url),
            *("--scenario", self.scenario),
            *("--root", str(self.root)),
            *("--log", self.log),
            *("--state", str(self.state)),
            *("--settings", str(self.settings)),
            *("--development", str(self.development)),
            *("--verifiers", "answer@1,work_steps@1,style@1"),
            *("--token-file", str(self.token_file)),
            "--once",
        ]
        with self.output.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | environment,
            )

    def run(self, **environment: str) -> int:
        """The exit status of a trainer that does what is due."""
        return self.start(**environment).wait(120)

    @property
    def output(self) -> Path:
        return self.state.with_suffix(".log")

    def kept(self) -> Any:
        """What its directory says."""
        return json.loads((self.state / "state.json").read_bytes())["kept"]


@dataclass(kw_only=True)
class Classroom:
    """A school whose pupils were answered by the origin, and were judged."""

    school: School
    root: Path
    answered: int = 0

    def trainer(self, name: str, **settings: Any) -> Trainer:
        """A trainer with a directory of its own."""
        directory = self.root / name
        directory.mkdir()
        token = directory / "token"
        token.write_text(self.school.site.token(TokenRole.TRAIN, self.school.scenario))
        document = {
            "training": {
                "epochs": 2,
                "adam": {"learning_rate": 1e-5},
                "bounds": {"truncated": 1.0},
            },
            "screening": {"submit_pass_rate": 0.0, "right_answers_margin": 1.0, "task_limit": 2},
        }
        for part, values in settings.items():
            document[part] |= values
        (directory / "settings.json").write_text(json.dumps(document))
        development = directory / "development.jsonl"
        development.write_text(
            "".join(
                json.dumps({"id": each.id, "question": each.question, "answer": str(each.answer)})
                + "\n"
                for each in draw_many("development", 4, seed=0)
            )
        )
        return Trainer(
            url=self.school.url,
            scenario=self.school.scenario,
            token_file=token,
            root=self.school.site.home / "keys" / ROOT_NAME,
            log=self.school.site.settings().origin,
            state=directory / "state",
            settings=directory / "settings.json",
            development=development,
        )

    def batch(self, count: int = BATCH_SIZE) -> None:
        """Record and judge so many conversations of the release served, and wait for the batch."""
        before = len(self.school.events("batch.formed"))
        for problem, reply in _answered(self.answered, count):
            self._converse(problem, reply)
        self.answered += count
        until(lambda: len(self.school.events("batch.formed")), lambda found: found > before)

    def _converse(self, problem: Problem, reply: Generation) -> None:
        scenario = self.school.scenario
        request = {"role": "user", "content": problem.question}
        answer = {"role": "assistant", "content": reply.text}
        reaction = {"role": "user", "content": "Please, without any bold."}
        with self.school.client(TokenRole.INGEST) as client:
            receipt = client.record(
                scenario,
                InteractionRequest(
                    messages=[request],
                    reply=answer,
                    tag=problem.id,
                    release_id=self.school.serving,
                    finish_reason=reply.finish_reason,
                    prompt_token_ids=list(reply.prompt_token_ids),
                    token_ids=list(reply.token_ids),
                    # A probability of exactly 1 may round to a logarithm just above 0.
                    logprobs=[min(each, 0.0) for each in reply.logprobs],
                ),
            )
            client.record(
                scenario,
                InteractionRequest(
                    messages=[request, answer, reaction],
                    reply={"role": "assistant", "content": "Sorry."},
                    tag=problem.id,
                ),
            )
        with self.school.client(TokenRole.JUDGE) as client:
            turn = until(lambda: client.claim_turn(scenario, "by-hand"))
            assert turn is not None
            assert turn.turn_id == receipt.interaction_id
            vote = wire.Vote(raw="-1", valid=True, score=-1, about=1, hints=[_HINT])
            client.post_judgment(
                scenario,
                turn.turn_id,
                wire.JudgmentRequest(lease_id=turn.lease_id, judge=_JUDGE, votes=[vote]),
            )

    def candidates(self) -> list[wire.CandidateView]:
        """All but the origin."""
        with self.school.client(TokenRole.AUDIT) as client:
            return client.candidates(self.school.scenario)[1:]


@contextmanager
def killed_at(trainer: Trainer, point: str) -> Iterator[int]:
    """A trainer that is killed at *point*; its exit status."""
    process = trainer.start(REEF_TEST_KILL=point)
    yield process.wait(120)


def client_of(school: School, role: TokenRole) -> ReefClient:
    return school.client(role)
