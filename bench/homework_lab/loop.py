"""The whole homework loop in one process: sessions, judgments, batches, steps, gates, releases.

What always holds: what learns is what production runs (the student, the scripted judge and its
rules, `run_batch`, the verifiers, the gate's rule); only the service between them is left out.
Turns are sampled by the release served, never by the line; the pointer moves only when the
stand-in for the gate passes; a failed candidate ends its line and its samples wait again; a batch
forms only of samples of the release served now. Screening, the gate and the figures on fresh
tasks sample in batches: the same distribution as one by one, other draws.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch
from traffic import MODEL, JudgeSettings, RecordingEndpoint

from reef_release.client.transport import Retry
from reef_release.domain.gating.machine import decide
from reef_release.domain.gating.rules import ConsecutivePasses
from reef_release.domain.gating.slots import Slot
from reef_release.traffic_wire import BatchAssignment, BatchSampleView
from reef_release.verifiers.registry import verdict
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import STATE, WEIGHTS, Stopped, run_batch
from trainer.learning.settings import TrainingSettings
from trainer.learning.weights import release_id
from trainer.stream.endpoint import Endpoint
from trainer.stream.records import RecordFile, Session
from trainer.stream.sessions import Stream
from trainer.stream.student import Student
from trainer.stream.summary import reached
from trainer.stream.tasks import Task, fresh_tasks, stream_tasks
from trainer.stream.taste import load_taste
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import ORIGIN

__all__ = ["LabSettings", "Loop", "Row", "sampled"]

VERIFIERS = ("answer@1", "work_steps@1", "style@1")
RULE = ConsecutivePasses(k=5, max_trials=24, max_failures=8)
SUITE_TASKS = 400
TASTE = "homework"
TOKENS = 128


class Screening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `trainer.worker` has it, and what it has not."""

    submit_pass_rate: float = 0.8
    right_answers_margin: float = 0.05
    task_limit: int = 40
    every: int = 1
    """Screened after every so many batches of a line."""
    give_up_after: int | None = None
    """A line that has come to so many batches and no release is given up."""
    improves: bool = False
    """Not submitted unless more development tasks pass than with the release served."""


class LabSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell of the table."""

    training: TrainingSettings = TrainingSettings()
    screening: Screening = Screening()
    judge: JudgeSettings = JudgeSettings()
    batch_size: int = 8
    sessions: int = 36
    max_replies: int = 4
    temperature: float = 0.7
    """Of the sessions; the gate and the screening are at 0.7 always."""
    accepted_turns: bool = True
    """False: only turns with a complaint make samples."""
    updates: bool = True
    """False: the control."""
    stop_when_reached: bool = False
    """End the run there; for a first look."""
    fresh: int = 200


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    cell: str
    seed: int
    reached: int | None
    sessions: int
    accepted: str
    """First replies: `#` accepted, else the letter of the complaint's kind."""
    promotions: list[tuple[int, int]]
    """Session after which it was promoted, and how many batches its line had."""
    gates: dict[str, int]
    batches: int
    stopped: list[str]
    turns: int
    complaints: dict[str, int]
    misjudged: int
    screens: list[str]
    origin_right: float
    final_right: float
    final_accepted: float
    final_passed: float
    steps: list[dict[str, float]]
    """The last step of each batch."""
    seconds: dict[str, float]

    @property
    def kept(self) -> float:
        return self.final_right / self.origin_right


@torch.inference_mode()
def sampled(
    engine: TransformersEngine, questions: Sequence[str], temperature: float, seed: int
) -> list[tuple[str, bool]]:
    """A reply to each question, and whether it was cut; sampled together."""
    loaded = engine.current
    assert loaded is not None, "a model is loaded first"
    torch.manual_seed(seed)
    encoded = loaded.tokenizer.apply_chat_template(
        [[{"role": "user", "content": question}] for question in questions],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        padding=True,
    )
    output = loaded.model.generate(
        **encoded,
        do_sample=True,
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        max_new_tokens=TOKENS,
    )
    found = []
    for ids in output[:, encoded["input_ids"].shape[1] :]:
        ended = any(int(end) in loaded.end_token_ids for end in ids)
        found.append((loaded.tokenizer.decode(ids, skip_special_tokens=True), not ended))
    return found


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of tasks asked once each: all verifiers passed, `answer@1` passed."""

    passed: list[bool]
    right: list[bool]

    @property
    def pass_rate(self) -> float:
        return sum(self.passed) / len(self.passed)

    @property
    def right_rate(self) -> float:
        return sum(self.right) / len(self.right)


@dataclass(kw_only=True)
class _Line:
    """Batches trained one after another from one release."""

    result: Path | None = None
    batches: list[list[BatchSampleView]] = field(default_factory=list)


class Loop:
    """One run: a cell's settings and a seed. `home` is a directory that this may fill."""

    def __init__(self, cell: str, settings: LabSettings, seed: int, home: Path) -> None:
        self._cell = cell
        self._settings = settings
        self._seed = seed
        self._home = home
        self._engine = TransformersEngine(threads=1)
        self._scorer = TransformersEngine(threads=1)
        self._serve(ORIGIN)
        self._adam: Path | None = None
        self._line = _Line()
        self._failed: set[str] = set()
        self._again = False
        self._recorder = RecordingEndpoint(engine=self._engine, judge=settings.judge, seed=seed)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gates: Counter[str] = Counter()
        self._promotions: list[tuple[int, int]] = []
        self._screens: list[str] = []
        self._stopped: list[str] = []
        self._steps: list[dict[str, float]] = []
        self._trained = 0
        self._suite = draw_many("gate", SUITE_TASKS, 0)
        self._development = draw_many("development", settings.screening.task_limit, 0)
        self._scored: dict[str, Score] = {}

    def run(self) -> Row:
        """All sessions, and the figures on fresh tasks before and after."""
        start = time.perf_counter()
        settings = self._settings
        tasks = stream_tasks(settings.sessions, self._seed)
        fresh = fresh_tasks(settings.fresh, self._seed, settings.sessions)
        origin = self._fresh(fresh)
        sessions: list[Session] = []
        with (
            Endpoint(
                "http://lab",
                model=MODEL,
                temperature=settings.temperature,
                max_tokens=TOKENS,
                retry=Retry(attempts=1),
                transport=self._recorder,
            ) as endpoint,
            RecordFile(self._home / "sessions.jsonl") as out,
        ):
            stream = Stream(
                endpoint=endpoint,
                taste=load_taste(TASTE),
                arm="update",
                seed=self._seed,
                max_replies=settings.max_replies,
                closing=True,
            )
            for place in range(1, len(tasks) + 1):
                begun = time.perf_counter()
                sessions = stream.run(tasks[:place], out)
                self._seconds["sessions"] += time.perf_counter() - begun
                if settings.updates:
                    self._learn(place)
                done = reached([each.accepted_first for each in sessions])
                if settings.stop_when_reached and done is not None:
                    break
        final = self._fresh(fresh)
        self._seconds["whole"] = time.perf_counter() - start
        firsts = [session.replies[0] for session in sessions]
        replies = [reply for session in sessions for reply in session.replies]
        return Row(
            cell=self._cell,
            seed=self._seed,
            reached=reached([session.accepted_first for session in sessions]),
            sessions=len(sessions),
            accepted="".join((reply.complaint or "#")[0] for reply in firsts),
            promotions=self._promotions,
            gates=dict(self._gates),
            batches=self._trained,
            stopped=self._stopped,
            turns=len(replies),
            complaints=dict(Counter(reply.complaint or "accepted" for reply in replies)),
            misjudged=self._recorder.misjudged,
            screens=self._screens,
            origin_right=origin[0],
            final_right=final[0],
            final_accepted=final[1],
            final_passed=final[2],
            steps=self._steps,
            seconds={name: round(value, 2) for name, value in self._seconds.items()},
        )

    def _serve(self, directory: Path) -> None:
        self._serving = directory
        self._serving_id = release_id(directory)
        foundation = None
        if (directory / "adapter_config.json").exists():
            foundation = ModelFiles(directory=ORIGIN)
        self._engine.load(directory, release_id=self._serving_id, foundation=foundation)

    def _learn(self, session: int) -> None:
        """Train whatever batch is full, until none is, or the pointer moved and they are stale."""
        waiting = self._recorder.waiting
        self._again = False
        # The same samples would come to the same weights: a line that was given up, or whose
        # candidate failed, is not begun again before the next session has brought others.
        while not self._again:
            waiting[:] = [each for each in waiting if each.release_id == self._serving_id]
            if not self._settings.accepted_turns:
                waiting[:] = [each for each in waiting if each.score <= 0]
            if len(waiting) < self._settings.batch_size:
                return
            batch = waiting[: self._settings.batch_size]
            del waiting[: self._settings.batch_size]
            self._train(batch, session)

    def _train(self, samples: list[BatchSampleView], session: int) -> None:
        begun = time.perf_counter()
        line = self._line
        self._trained += 1
        names = ",".join(each.turn_id for each in samples)
        out = self._home / f"result-{self._trained:03}"
        weights, state = self._serving, self._adam
        if line.result is not None:
            weights, state = line.result / WEIGHTS, line.result / STATE
        outcome = run_batch(
            BatchAssignment(
                scenario="homework",
                batch_id=f"{self._trained}",
                channel="stable",
                release_id=self._serving_id,
                lease_id="",
                lease_s=0.0,
                samples=samples,
            ),
            weights=weights,
            origin=ORIGIN,
            out=out,
            settings=self._settings.training,
            seed=int.from_bytes(hashlib.sha256(names.encode()).digest()[:4], "big"),
            state=state,
            serving=self._serving if line.result is not None else None,
        )
        self._seconds["training"] += time.perf_counter() - begun
        if isinstance(outcome, Stopped):
            self._stopped.append(f"{outcome.reason}: {outcome.detail}")
            return
        shown = {"mean_score": outcome.batch["mean_score"], **outcome.after}
        self._steps.append({name: round(value, 4) for name, value in shown.items()})
        self._line = _Line(result=out, batches=[*line.batches, samples])
        if len(self._line.batches) % self._settings.screening.every == 0:
            self._screen(session)

    def _screen(self, session: int) -> None:
        begun = time.perf_counter()
        line, screening = self._line, self._settings.screening
        assert line.result is not None, "a batch was trained"
        candidate = line.result / WEIGHTS
        name = release_id(candidate)
        tasks = [(each.question, each.answer) for each in self._development]
        found = self._score(candidate, tasks, 0)
        if self._serving_id not in self._scored:
            self._scored[self._serving_id] = self._score(self._serving, tasks, 0)
        now = self._scored[self._serving_id]
        self._screens.append(f"{session}:{found.pass_rate:.2f}/{found.right_rate:.2f}")
        self._seconds["screening"] += time.perf_counter() - begun
        worth = (
            found.pass_rate >= screening.submit_pass_rate
            and now.right_rate - found.right_rate <= screening.right_answers_margin
            and (found.pass_rate > now.pass_rate or not screening.improves)
        )
        # The log takes no second gate over weights that failed.
        if worth and name not in self._failed:
            self._gate(candidate, name, session)
        limit = screening.give_up_after
        if limit is not None and len(self._line.batches) >= limit:
            self._gates["given up"] += 1
            self._abandon()

    def _abandon(self) -> None:
        """The line is over; its samples wait again, after those that wait already."""
        again = [sample for batch in self._line.batches for sample in batch]
        self._recorder.waiting.extend(again)
        self._again = True
        self._line = _Line()

    def _gate(self, candidate: Path, name: str, session: int) -> None:
        begun = time.perf_counter()
        seed = int.from_bytes(hashlib.sha256(f"{self._seed}/{name}".encode()).digest()[:4], "big")
        drawn = random.Random(seed).sample(self._suite, RULE.max_trials)
        found = self._score(candidate, [(p.question, p.answer) for p in drawn], seed)
        outcome = decide(RULE, map(Slot, found.passed)) or "open"
        self._gates[outcome] += 1
        self._seconds["gates"] += time.perf_counter() - begun
        if outcome == "passed":
            assert self._line.result is not None, "a candidate was trained"
            self._promotions.append((session, len(self._line.batches)))
            self._adam = self._line.result / STATE
            self._line = _Line()
            self._serve(candidate)
        elif outcome == "failed":
            self._failed.add(name)
            self._abandon()

    def _score(self, directory: Path, tasks: Sequence[tuple[str, int]], seed: int) -> Score:
        adapter = (directory / "adapter_config.json").exists()
        foundation = ModelFiles(directory=ORIGIN) if adapter else None
        self._scorer.load(directory, foundation=foundation)
        replies = sampled(self._scorer, [question for question, _ in tasks], 0.7, seed)
        passed, right = [], []
        for (text, cut), (_, answer) in zip(replies, tasks, strict=True):
            found = verdict(VERIFIERS, text, str(answer))
            passed.append(found.passed and not cut)
            right.append(found.checks["answer@1"].passed and not cut)
        return Score(passed=passed, right=right)

    def _fresh(self, tasks: Sequence[Task]) -> tuple[float, float, float]:
        """Shares of fresh tasks: right and accepted as the student reads, passed as the gate."""
        begun = time.perf_counter()
        right = accepted = passed = 0
        taste = load_taste(TASTE)
        replies: list[tuple[str, bool]] = []
        for start in range(0, len(tasks), 50):
            questions = [task.question for task in tasks[start : start + 50]]
            replies += sampled(self._engine, questions, 0.7, start)
        for task, (text, cut) in zip(tasks, replies, strict=True):
            reaction = Student(taste, task.id, task.key).react(text, cut=cut)
            right += reaction.right
            accepted += reaction.accepted
            passed += verdict(VERIFIERS, text, str(task.key)).passed and not cut
        self._seconds["fresh"] += time.perf_counter() - begun
        count = len(tasks)
        return right / count, accepted / count, passed / count
