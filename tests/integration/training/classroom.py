"""A service that serves the tiny origin, conversations that were judged, and trainers as processes.

Replies are what the origin really said; judgments are written by hand: a hint that asks for
another style, and a rejection.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from reef_release import wire
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import InteractionRequest
from tests.integration.gate.conftest import School
from trainer.engines.protocol import Generation, Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.phrases import hints
from trainer.tiny.problems import Problem, draw_many
from trainer.tiny.shipped import ORIGIN

__all__ = ["BATCH_SIZE", "Classroom", "Forker", "Trainer", "reply_tokens", "until"]

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


def reply_tokens(first: int, count: int) -> float:
    """The mean length of so many replies, the first of which is the number *first*."""
    return sum(len(reply.token_ids) for _, reply in _answered(first, count)) / count


class Forker:
    """Starts trainers quickly: see `process`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.training.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], output: Path, kill: str, processes: int) -> list[int]:
        """The exit status of a trainer's processes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wanted = {"arguments": arguments, "output": str(output), "kill": kill}
        wanted["processes"] = processes
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return [int(each) for each in self._process.stdout.readline().split()]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@dataclass(kw_only=True)
class Trainer:
    """One trainer's directory and settings; each `run` is a process."""

    forker: Forker
    arguments: list[str]
    state: Path

    def run(self, kill: str = "") -> int:
        """Do what is due; the exit status, -9 when it was killed at the point *kill*."""
        return self.run_in(1, kill)[0]

    def run_in(self, processes: int, kill: str = "") -> list[int]:
        """The same by so many processes, of which the last is killed."""
        return self.forker.run(self.arguments, self.state.with_suffix(".log"), kill, processes)

    @property
    def said(self) -> str:
        """What all its processes wrote."""
        return self.state.with_suffix(".log").read_text()

    def kept(self) -> Any:
        """Where it stands."""
        return json.loads((self.state / "state.json").read_bytes())["kept"]


@dataclass(kw_only=True)
class Classroom:
    """A school whose pupils were answered by the origin, and were judged."""

    school: School
    root: Path
    forker: Forker
    answered: int = 0

    def trainer(self, name: str, **settings: Any) -> Trainer:
        """A trainer with a directory of its own."""
        directory = self.root / name
        directory.mkdir()
        token = directory / "token"
        token.write_text(self.school.site.token(TokenRole.TRAIN, self.school.scenario))
        document: dict[str, dict[str, Any]] = {
            "training": {
                "epochs": 2,
                "adam": {"learning_rate": 1e-5},
                "bounds": {"truncated": 1.0},
            },
            "screening": {
                "submit_pass_rate": 0.0,
                "must_improve": False,
                "right_answers_margin": 1.0,
                "task_limit": 2,
            },
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
        state = directory / "state"
        options = {
            "--url": self.school.url,
            "--scenario": self.school.scenario,
            "--root": self.school.site.home / "keys" / ROOT_NAME,
            "--log": self.school.site.settings().origin,
            "--state": state,
            "--settings": directory / "settings.json",
            "--development": development,
            "--verifiers": "answer@1,work_steps@1,style@1",
            "--token-file": token,
        }
        arguments = [str(part) for option in options.items() for part in option]
        return Trainer(forker=self.forker, arguments=[*arguments, "--once"], state=state)

    def batch(self, count: int = BATCH_SIZE) -> None:
        """Record and judge so many conversations of the release served, and wait for the batch."""
        before = len(self.school.events("batch.formed"))
        self.converse(count)
        until(lambda: len(self.school.events("batch.formed")), lambda found: found > before)

    def converse(self, count: int) -> None:
        """Record and judge so many conversations of the release served."""
        for problem, reply in _answered(self.answered, count):
            self._converse(problem, reply)
        self.answered += count

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
                wire.JudgmentRequest(
                    lease_id=turn.lease_id, next_id=turn.next_id, judge=_JUDGE, votes=[vote]
                ),
            )

    def candidates(self) -> list[wire.CandidateView]:
        """All but the origin."""
        with self.school.client(TokenRole.AUDIT) as client:
            return client.candidates(self.school.scenario)[1:]

    def gate(self) -> None:
        """Let the gate worker decide on the candidate that waits."""
        with self.school.client(TokenRole.GATE) as client:
            until(lambda: self.school.worker(client).run(once=True))
