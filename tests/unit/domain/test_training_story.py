"""Whatever is done in whatever order: no turn is trained twice, and none is lost."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reef_release.domain import events as ev
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.lines import abandoned_batches
from reef_release.errors import Refused
from tests.training import Trainer
from tests.world import World

SHORT = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 3, "max_failures": 3},
}


class Story:
    """Two trainers and everybody around them; each deed is refused or has its whole effect."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory)
        self.world.create_scenario(standard=SHORT)
        self.origin = self.world.release()
        self.lines = [0, 0]
        self.trainers = [Trainer(self.world, f"line-{number}-0") for number in (0, 1)]

    def do(self, deed: str, which: int) -> None:
        trainer = self.trainers[which]
        with suppress(Refused):
            getattr(self, deed)(trainer, which)

    def form(self, trainer: Trainer, _which: int) -> None:
        waiting = list(self.world.scenario.traffic.samples)
        trainer.form(*(waiting[:2] or (trainer.judged_turn(),)))

    def claim(self, trainer: Trainer, which: int) -> None:
        traffic = self.world.scenario.traffic
        for batch_id in traffic.open_batches:
            if traffic.batches[batch_id].lease_id is None:
                trainer.claim(batch_id, f"lease-{which}.{self.world.head}")
                return

    def _held(self, which: int) -> str | None:
        traffic = self.world.scenario.traffic
        for batch_id, batch in traffic.batches.items():
            if batch.trained is None and (batch.lease_id or "").startswith(f"lease-{which}"):
                return batch_id
        return None

    def start(self, trainer: Trainer, which: int) -> None:
        batch_id = self._held(which)
        if batch_id is not None:
            self.world.append(trainer.started(batch_id))

    def finish(self, trainer: Trainer, which: int) -> None:
        batch_id = self._held(which)
        attempt = trainer.batch_of(batch_id).attempt if batch_id else None
        if batch_id is not None and attempt and attempt.line_id == trainer.line_id:
            self.world.append(trainer.step(batch_id))
            self.world.append(trainer.completed(batch_id))

    def fail(self, trainer: Trainer, which: int) -> None:
        batch_id = self._held(which)
        if batch_id is not None:
            self.world.append(trainer.failed(batch_id))

    def drift(self, trainer: Trainer, which: int) -> None:
        for deed in ("form", "claim", "start"):
            self.do(deed, which)
        batch_id = self._held(which)
        if batch_id is not None:
            self.world.append(trainer.failed(batch_id, "drift"))

    def stop(self, trainer: Trainer, which: int) -> None:
        """A watch stops what is trained, alone or behind another batch."""
        batch_id = self._held(which)
        if batch_id is not None:
            self.world.append(trainer.failed(batch_id, "kl"))

    def restore(self, _trainer: Trainer, _which: int) -> None:
        for batch_id, batch in self.world.scenario.traffic.batches.items():
            if batch.ended == "quarantined" or batch.trained is not None:
                self.world.append(ev.BatchRestored(batch_id=batch_id, reason="try again"))

    def lapse(self, trainer: Trainer, which: int) -> None:
        batch_id = self._held(which)
        if batch_id is not None:
            lease_id = trainer.batch_of(batch_id).lease_id
            self.world.append(
                ev.BatchReleased(batch_id=batch_id, lease_id=lease_id, reason="expired")
            )

    def train(self, trainer: Trainer, which: int) -> None:
        for deed in ("form", "claim", "start", "finish"):
            self.do(deed, which)

    def release(self, trainer: Trainer, which: int) -> None:
        for deed in ("train", "submit", "gate_passes", "promote"):
            self.do(deed, which)

    def new_line(self, _trainer: Trainer, which: int) -> None:
        self.lines[which] += 1
        self.trainers[which] = Trainer(self.world, f"line-{which}-{self.lines[which]}")

    def give_up(self, trainer: Trainer, _which: int) -> None:
        line = self.world.scenario.traffic.lines.get(trainer.line_id)
        if line is not None and line.batches:
            batch_id = line.batches[-1]
            lease_id = trainer.batch_of(batch_id).lease_id
            self.world.append(
                ev.BatchReleased(batch_id=batch_id, lease_id=lease_id, reason="abandoned")
            )

    def submit(self, trainer: Trainer, _which: int) -> None:
        line = self.world.scenario.traffic.lines.get(trainer.line_id)
        if line is not None and line.batches:
            self.world.admit(trainer.submit())
            self.world.checkpoint()

    def gate(self, marks: str) -> None:
        scenario = self.world.scenario
        for candidate in list(scenario.candidates.values()):
            if candidate.admitted_position is not None:
                opening = self.world.opening(candidate.candidate_id)
                if not self.world.reasons(opening):
                    self.world.append(opening)
                    self.world.run_trials(opening.gate_id, marks)
                    self.world.decide(opening.gate_id)
                    return

    def gate_passes(self, _trainer: Trainer, _which: int) -> None:
        self.gate("++")

    def gate_fails(self, _trainer: Trainer, _which: int) -> None:
        self.gate("---")

    def gate_decides_nothing(self, _trainer: Trainer, _which: int) -> None:
        self.gate("-+-")

    def gate_errs(self, _trainer: Trainer, _which: int) -> None:
        self.gate("eee")

    def promote(self, _trainer: Trainer, _which: int) -> None:
        scenario = self.world.scenario
        for gate_id, gate in list(scenario.gates.items()):
            if gate.outcome == "passed":
                if gate.opened.candidate_id not in scenario.releases:
                    self.world.sign(gate_id)
                if not self.world.reasons(self.world.promotion(gate_id)):
                    self.world.promote(gate_id)
                    return

    def roll_back(self, _trainer: Trainer, _which: int) -> None:
        self.world.rollback(self.origin)

    def revoke(self, _trainer: Trainer, _which: int) -> None:
        self.world.revoke_candidate(list(self.world.scenario.candidates)[-1])

    def serve(self, _trainer: Trainer, _which: int) -> None:
        for data in list(abandoned_batches(self.world.state, self.world.scenario)):
            self.world.append(data)


DEEDS = [
    name
    for name, each in vars(Story).items()
    if callable(each) and name not in ("__init__", "do", "_held", "gate")
]


def ancestry(scenario: Scenario, release: str | None) -> Any:
    while release is not None:
        submitted = scenario.candidates[release].submitted
        yield submitted
        release = submitted.base


def check(story: Story) -> None:
    scenario = story.world.scenario
    traffic = scenario.traffic
    for pointers in scenario.pointers.values():
        for pointer in pointers:
            turns = Counter(
                sample.target
                for submitted in ancestry(scenario, pointer.release_id)
                for batch_id in submitted.batches
                for sample in traffic.batches[batch_id].formed.samples
            )
            assert set(turns.values()) <= {1}, "a turn was trained twice"
    # Every judged turn waits, or stands in exactly one batch that is not dissolved.
    batched = Counter(
        sample.turn_id
        for batch in traffic.batches.values()
        if batch.ended is None
        for sample in batch.formed.samples
    )
    judged = [turn.turn_id for turn in traffic.turns.values() if turn.judged is not None]
    for turn_id in judged:
        assert batched[turn_id] + (turn_id in traffic.samples) == 1, "a turn was lost, or doubled"


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    deeds=st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 1)), min_size=20, max_size=60)
)
def test_in_any_order_a_turn_is_trained_at_most_once_and_never_lost(
    deeds: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with tempfile.TemporaryDirectory() as directory:
        story = Story(Path(directory))
        for deed, which in deeds:
            story.do(deed, which)
            check(story)
        assert story.world.state.violations == []
        assert story.world.replayed().scenarios == story.world.state.scenarios
