"""A trainer without torch: the service is a world, and training writes a few bytes.

`FakeClient` answers as the service does, from the rules of the domain; `outages` makes it fail.
`FakeTrain` makes weights that follow from its arguments, and keeps what it was called with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from reef_release import training_wire, wire
from reef_release.api import views
from reef_release.domain import events as ev
from reef_release.domain.canonical import decimalise, sha256_hex
from reef_release.domain.copies import sample_is_erased
from reef_release.domain.traffic.lines import abandoned_batches, line_end
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Conflict, NotFound, Refused, Unavailable
from reef_release.traffic_wire import BatchAssignment
from tests.training import Trainer as Traffic
from tests.world import CHANNEL, World, safetensors
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import Outcome, StepRecord, Stopped, Trained
from trainer.learning.samples import Skipped
from trainer.learning.weights import release_id
from trainer.worker.desk import TrainWorkerConfig
from trainer.worker.releases import Release
from trainer.worker.screening import Score
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import StateDirectory
from trainer.worker.worker import TrainWorker

__all__ = ["Class", "FakeClient", "FakeTrain", "lease", "score_of", "stopped"]

SHORT = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 3, "max_failures": 3},
}
"""`+-+` decides nothing."""

_EVENTS: dict[type[msgspec.Struct], type[ev.EventData]] = {
    training_wire.StartedData: ev.TrainingStarted,
    training_wire.StepData: ev.TrainingStep,
    training_wire.CompletedData: ev.TrainingCompleted,
    training_wire.FailedData: ev.TrainingFailed,
}


@dataclass(kw_only=True)
class FakeClient:
    """The part of `ReefClient` that a trainer uses; `training` is itself."""

    world: World
    before: Callable[[str], None] = lambda _what: None
    """Called with the type of what is about to be posted; it may raise."""
    posts: list[str] = field(default_factory=list)
    leases: int = 0

    @property
    def training(self) -> FakeClient:
        return self

    def claim(self, scenario: str, worker: str, channel: str = "stable") -> BatchAssignment | None:
        traffic = self.world.scenario.traffic
        for batch_id in traffic.open_batches:
            batch = traffic.batches[batch_id]
            if batch.lease_id is not None or batch.formed.release_id != self.world.serving:
                continue
            if batch.formed.channel != channel:
                continue
            self.leases += 1
            lease_id = lease(self.leases)
            claimed = ev.BatchClaimed(
                batch_id=batch_id, lease_id=lease_id, worker=worker, lease_s=60
            )
            self.world.append(claimed, actor="trainer")
            return BatchAssignment(
                scenario=scenario,
                batch_id=batch_id,
                channel=CHANNEL,
                release_id=batch.formed.release_id,
                lease_id=lease_id,
                lease_s=60.0,
                samples=[],
            )
        return None

    def give_back(self, scenario: str, batch_id: str, lease_id: str) -> None:
        batch = self.world.scenario.traffic.batches[batch_id]
        reason: Any = "failed" if batch.trained is None else "abandoned"
        self._append(ev.BatchReleased(batch_id=batch_id, lease_id=lease_id, reason=reason))
        self.settle()

    def post(self, scenario: str, lease_id: str, data: training_wire.TrainingData) -> None:
        fields = decimalise(msgspec.to_builtins(data))
        kind = _EVENTS[type(data)]
        self.before(kind.TYPE)
        event = msgspec.convert({**fields, "lease_id": lease_id}, kind)
        step = event.step if isinstance(event, ev.TrainingStep) else 0
        posted = self.world.scenario.traffic.batches[data.batch_id].posted
        position = posted.get((lease_id, kind.TYPE, step))
        if position is not None:
            if ev.decode(self.world.bodies[position]).data != event:
                raise Conflict("posted with other content")
            return
        self._append(event)
        self.posts.append(kind.TYPE)
        if isinstance(event, ev.TrainingFailed):
            self.settle()

    def batches(self, scenario: str, after: int = -1) -> training_wire.BatchesView:
        found = [self.batch(scenario, each) for each in self.world.scenario.traffic.batches]
        return training_wire.BatchesView(batches=found, lines=[], next_after=None)

    def batch(self, scenario: str, batch_id: str) -> training_wire.BatchView:
        batch = self.world.scenario.traffic.batches[batch_id]
        return training_wire.BatchView(
            batch_id=batch_id,
            position=batch.position,
            channel=CHANNEL,
            release_id=batch.formed.release_id,
            turns=[],
            stage=batch.stage,
            worker=batch.worker,
            lease_id=batch.lease_id,
            line=None,
            steps=0,
            weights_id=None,
            failures=batch.failures,
            used_in=batch.used_in,
            screening=None,
            erased=[
                each.turn_id
                for each in batch.formed.samples
                if sample_is_erased(self.world.state, self.world.scenario.traffic, each.turn_id)
            ],
        )

    def line(self, scenario: str, line_id: str) -> training_wire.LineView:
        line = self.world.scenario.traffic.lines[line_id]
        return training_wire.LineView(
            line=line_id,
            channel=CHANNEL,
            base=line.base,
            weights_id=line.weights_id,
            steps=line.steps,
            batches=line.batches,
            candidates=line.candidates,
            training=line.training,
            screening=None,
            over=line_end(self.world.state, self.world.scenario, line),
        )

    def renew_lease(self, lease_id: str) -> None:
        raise AssertionError("a lease of a minute needs no renewal in a test")

    def scenario(self, name: str) -> wire.ScenarioView:
        return views.scenario_view(self.world.state, self.world.scenario)

    def upload_directory(self, directory: Path) -> None:
        for path in directory.iterdir():
            self.world.blobs.put_bytes_sync(path.read_bytes())

    def submit(
        self, scenario: str, manifest: wire.CandidateManifest, wait_s: int
    ) -> wire.CandidateView:
        self.before("candidate.submitted")
        identity = candidate_id(
            digests_by_path((each.path, each.sha256) for each in manifest.files)
        )
        fields = msgspec.structs.asdict(manifest)
        data = ev.CandidateSubmitted(
            **fields
            | {"candidate_id": identity}
            | {name: decimalise(fields[name]) for name in ("settings", "metrics")}
        )
        known = self.world.scenario.candidates.get(identity)
        if known is None:
            self._append(data)
            self.world.admit(identity)
            self.world.checkpoint()
            self.posts.append("candidate.submitted")
        elif known.submitted != data:
            raise Conflict("submitted before with other details")
        return self.candidate(scenario, identity)

    def candidate(self, scenario: str, identity: str) -> wire.CandidateView:
        found = self.world.scenario.candidates.get(identity)
        if found is None:
            raise NotFound("no such candidate")
        return views.candidate_view(self.world.state, self.world.scenario, found)

    def settle(self) -> None:
        """What the service does by itself about lines that are over."""
        for data in list(abandoned_batches(self.world.state, self.world.scenario)):
            self.world.append(data)

    def _append(self, data: ev.EventData) -> None:
        try:
            self.world.append(data, actor="trainer")
        except Refused as refused:
            raise Conflict(refused.detail, reasons=refused.reasons) from refused


@dataclass(kw_only=True)
class FakeTrain:
    """`run_batch` in two steps; `outcome` replaces what it does after the first."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    outcome: Callable[[], Outcome] | None = None
    skipped: str = ""
    moves_nothing: bool = False
    figures: dict[str, float] = field(default_factory=lambda: {"loss": 0.5})
    """Of the first step."""
    knows_batches: bool = True
    """Whether the weights follow from the batch's name, too."""

    def __call__(self, batch: BatchAssignment, *, out: Path, **given: Any) -> Outcome:
        weights = {path.name: path.read_bytes() for path in sorted(given["weights"].iterdir())}
        state = given["state"] and (given["state"] / "of").read_text()
        call = {"batch_id": batch.batch_id, "before": weights, "state_of": state}
        self.calls.append(call | given)
        record = StepRecord(step=1, epoch=1, metrics=self.figures)
        given["on_step"](record)
        if self.outcome is not None:
            return self.outcome()
        second = StepRecord(step=2, epoch=2, metrics={"loss": 0.25})
        given["on_step"](second)
        (out / "weights").mkdir(parents=True)
        (out / "state").mkdir()
        name = batch.batch_id if self.knows_batches else ""
        digest = sha256_hex(b"".join([*weights.values(), name.encode()]))
        (out / "weights" / "config.json").write_bytes(b"{}")
        number = int(digest[:4], 16)
        (out / "weights" / "model.safetensors").write_bytes(safetensors(number))
        if self.moves_nothing:
            for name, data in weights.items():
                (out / "weights" / name).write_bytes(data)
        found = Trained(
            weights_id=release_id(out / "weights"),
            steps=(record, second),
            skipped=(Skipped(turn_id=self.skipped, reason="too-long", detail="9 tokens"),)
            if self.skipped
            else (),
            batch={"samples": 2.0},
            after={"kl_base": 0.125},
        )
        (out / "state" / "of").write_text(found.weights_id)
        (out / "training.json").write_bytes(msgspec.json.encode(found))
        return found


def stopped(reason: Any, detail: str = "too far") -> Stopped:
    return Stopped(reason=reason, detail=detail, steps=(), skipped=(), batch={})


def score_of(passed: int, right: int, count: int = 10) -> Score:
    return Score(count=count, passed=passed, right=right, cut=0)


def lease(number: int) -> str:
    """The id of the fake service's lease of that number."""
    return f"00000000-0000-7000-8000-{number:012d}"


class Formed(Traffic):
    """With ids of batches as the service makes them."""

    def form(self, *turns: str, batch_id: str | None = None) -> str:
        number = len(self.world.scenario.traffic.batches)
        return super().form(*turns, batch_id=batch_id or f"{number:032x}")


class Class:
    """A world with one release served, a trainer, and what is needed to start it anew."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        self.world = World(directory / "world")
        self.world.create_scenario(standard=SHORT)
        self.world.release()
        self.traffic = Formed(self.world)
        self.client = FakeClient(world=self.world)
        self.train = FakeTrain()
        self.score: Callable[[str], Score] = lambda weights: score_of(
            5 if weights == self.world.serving else 10, 10
        )
        """How weights do, by their id."""
        self.screens = True
        self.settings: dict[str, Any] = {"screening": {"submit_pass_rate": 0.5}}

    def serving(self) -> Release | None:
        serving = self.world.serving
        return None if serving is None else self.release(serving)

    def origin_id(self) -> str:
        return self.world.scenario.pointers[CHANNEL][0].release_id

    def release(self, identity: str) -> Release:
        directory = self.root / "releases" / identity
        directory.mkdir(parents=True, exist_ok=True)
        files = self.world.scenario.candidates[identity].submitted.files
        for file in files:
            data = self.world.blobs.read_sync(file.sha256, 1 << 20)
            (directory / file.path).write_bytes(data)
        return Release(
            release_id=identity,
            directory=directory,
            files={file.path: file.sha256 for file in files},
        )

    def run(self, rounds: int = 1) -> TrainWorker:
        """A new process that does what is due, so often; the worker, after it ended."""
        settings = msgspec.convert(self.settings, WorkerSettings)
        with StateDirectory(self.root / "state") as directory:
            worker = TrainWorker(
                TrainWorkerConfig(name="t", scenario=self.world.scenario_name),
                self.client,  # type: ignore[arg-type]
                self,
                directory,
                settings,
                train=self.train,
                screen=self._screen if self.screens else None,
            )
            for _ in range(rounds):
                worker.run(once=True)
        return worker

    def _screen(self, model: ModelFiles, *_: Any) -> Score:
        return self.score(model.release_id or "")

    def kept(self) -> Any:
        with StateDirectory(self.root / "state") as directory:
            return directory.read()

    @property
    def candidate(self) -> str:
        """The newest one."""
        return list(self.world.scenario.candidates)[-1]

    def ends(self, *names: str) -> list[Any]:
        """The data of all events of these types."""
        events = [ev.decode(body) for body in self.world.bodies]
        return [event.data for event in events if event.envelope.type in names]

    def unavailable(self, *types: str) -> Callable[[str], None]:
        """A service that goes away when these are posted."""

        def fail(what: str) -> None:
            if what in types:
                raise Unavailable(f"away at {what}")

        return fail
