"""How well weights do on development tasks: free, outside any gate, and decisive for nothing but
whether a candidate is submitted.

What always holds: both models answer the same tasks with the same seeds at the scenario's own
sampling; a reply cut by a limit, or none at all, passes nothing; the tasks are the trainer's own,
and the gate's are never among them as far as a trainer can know.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from reef_release.domain.canonical import sha256_hex
from reef_release.errors import BadRequest, Refused
from reef_release.verifiers.registry import is_objective, verdict
from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.worker.development import Development
from trainer.worker.settings import ScreeningSettings

__all__ = ["Score", "Screener", "is_worth_a_gate"]


class Score(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of `count` tasks: all verifiers passed, the objective ones passed, the reply was cut."""

    count: int
    passed: int
    right: int
    cut: int

    @property
    def pass_rate(self) -> float:
        return self.passed / self.count

    @property
    def right_rate(self) -> float:
        return self.right / self.count


class Screener:
    """Scores models in this process, one after the other; named ones once, kept in a directory."""

    def __init__(self, development: Development, seed: int, threads: int, kept: Path) -> None:
        self._development = development
        self._seed = seed
        self._threads = threads
        self._kept = kept
        kept.mkdir(mode=0o700, exist_ok=True)

    def __call__(
        self, model: ModelFiles, foundation: ModelFiles | None, sampling: Sampling
    ) -> Score:
        """The model, or adapter on a foundation, on every task.

        Raises `Refused` when the files make no model; a reply that cannot be had fails its task.
        """
        asked = [model.release_id, self._development.digest, self._seed, sampling]
        path = self._kept / f"{sha256_hex(msgspec.json.encode(asked))[:32]}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Score)
        except (OSError, msgspec.DecodeError):
            found = self._score(model, foundation, sampling)
        draft = path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(found))
        draft.rename(path)
        return found

    def _score(self, model: ModelFiles, foundation: ModelFiles | None, sampling: Sampling) -> Score:
        engine = TransformersEngine(threads=self._threads)
        engine.load(model.directory, model.files, model.release_id, foundation=foundation)
        passed = right = cut = 0
        for task in self._development.tasks:
            try:
                reply = engine.generate(task.question, sampling, _seed(self._seed, task.id))
            except (BadRequest, Refused):
                continue
            if reply.finish_reason != "stop":
                cut += 1
                continue
            found = verdict(self._development.verifiers, reply.text, task.answer)
            passed += found.passed
            right += all(check.passed for spec, check in found.checks.items() if is_objective(spec))
        return Score(count=len(self._development.tasks), passed=passed, right=right, cut=cut)


def is_worth_a_gate(new: Score, serving: Score, settings: ScreeningSettings) -> bool:
    """Whether the new weights are to be submitted."""
    if settings.submit_pass_rate is None:
        return False
    lost = serving.right_rate - new.right_rate
    return (
        new.pass_rate >= settings.submit_pass_rate
        and (new.passed > serving.passed or not settings.must_improve)
        and lost <= settings.right_answers_margin
    )


def _seed(seed: int, task_id: str) -> int:
    digest = hashlib.sha256(f"{seed}/{task_id}".encode()).digest()
    return int.from_bytes(digest[:6], "big")
