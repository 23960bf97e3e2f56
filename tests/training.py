"""A trainer in a world: batches of judged turns, lines of training, and the candidates of them.

Builders (`started`, `step`, `completed`, `failed`) return the data of the next honest event of a
batch, for a test to falsify; `train` does all of it.
"""

from __future__ import annotations

from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.traffic.batch_records import Batch, Line
from tests.calls import bound, judged, recorded, unbound
from tests.world import CHANNEL, World, safetensors

__all__ = ["Trainer"]


class Trainer:
    """One trainer that works in one line at a time."""

    def __init__(self, world: World, line: str = "line-1") -> None:
        self.world = world
        self.line_id = line
        self._numbers = 0

    @property
    def line(self) -> Line:
        return self.world.scenario.traffic.lines[self.line_id]

    def batch_of(self, batch_id: str) -> Batch:
        return self.world.scenario.traffic.batches[batch_id]

    def judged_turn(self) -> str:
        """A judged turn of the release served, in a conversation of its own."""
        turn = f"t{len(self.world.scenario.traffic.order)}"
        self.world.append(recorded(turn, release_id=self.world.serving))
        self.world.append(unbound(turn))
        self.world.append(recorded(f"{turn}.next"))
        self.world.append(bound(f"{turn}.next", turn, session=turn))
        self.world.append(judged(turn, target=turn))
        return turn

    def form(self, *turns: str, batch_id: str | None = None) -> str:
        """A batch of judged turns, by default of two new ones; its id."""
        turns = turns or (self.judged_turn(), self.judged_turn())
        batch_id = batch_id or f"b{len(self.world.scenario.traffic.batches)}"
        found = self.world.scenario.traffic.turns
        samples = [
            ev.BatchSample(turn_id=each, target=each, release_id=found[each].release_id or "")
            for each in turns
        ]
        self.world.append(
            ev.BatchFormed(
                batch_id=batch_id,
                channel=CHANNEL,
                release_id=self.world.serving or "",
                samples=samples,
            )
        )
        return batch_id

    def claim(self, batch_id: str, lease_id: str | None = None) -> str:
        """The lease."""
        self._numbers += 1
        lease_id = lease_id or f"{self.line_id}.{batch_id}.{self._numbers}"
        self.world.append(
            ev.BatchClaimed(batch_id=batch_id, lease_id=lease_id, worker="w", lease_s=60),
            actor="trainer",
        )
        return lease_id

    def claimed(self) -> str:
        """A new batch that is claimed."""
        batch_id = self.form()
        self.claim(batch_id)
        return batch_id

    def _place(self, batch_id: str) -> dict[str, Any]:
        lease_id = self.batch_of(batch_id).lease_id or "none"
        return {"batch_id": batch_id, "lease_id": lease_id, "line": self.line_id}

    def started(self, batch_id: str, **changes: Any) -> ev.TrainingStarted:
        line = self.world.scenario.traffic.lines.get(self.line_id)
        fields = {
            **self._place(batch_id),
            "parent": line.weights_id if line else self.world.serving,
            "settings": {"learning_rate": "1e-06"},
            "seed": 7,
        }
        return ev.TrainingStarted(**(fields | changes))

    def step(self, batch_id: str, **changes: Any) -> ev.TrainingStep:
        attempt = self.batch_of(batch_id).attempt
        made = self.line.steps + (attempt.steps if attempt else 0)
        fields = {
            **self._place(batch_id),
            "step": made + 1,
            "epoch": 1,
            "metrics": {"loss": "0.5", "kl": "-1e-05"},
        }
        return ev.TrainingStep(**(fields | changes))

    def completed(self, batch_id: str, **changes: Any) -> ev.TrainingCompleted:
        attempt = self.batch_of(batch_id).attempt
        fields = {
            **self._place(batch_id),
            "weights_id": self.weights(len(self.line.batches) + 1),
            "steps": attempt.steps if attempt else 0,
            "metrics": {"kl_base": "0.001"},
            "skipped": [],
            "screening": None,
        }
        return ev.TrainingCompleted(**(fields | changes))

    def failed(self, batch_id: str, reason: Any = "error", **changes: Any) -> ev.TrainingFailed:
        fields = {**self._place(batch_id), "reason": reason, "detail": "out of memory"}
        return ev.TrainingFailed(**(fields | changes))

    def train(self, batch_id: str | None = None, steps: int = 1) -> str:
        """Train a batch, by default a new one; its id."""
        batch_id = batch_id or self.form()
        self.claim(batch_id)
        self.world.append(self.started(batch_id))
        for _ in range(steps):
            self.world.append(self.step(batch_id))
        self.world.append(self.completed(batch_id))
        return batch_id

    def files(self, count: int) -> dict[str, bytes]:
        """What the line's first *count* batches come to."""
        name = f'{{"line":"{self.line_id}"}}'.encode()
        return {"config.json": name, "model.safetensors": safetensors(1000 * count + hash_of(name))}

    def weights(self, count: int) -> str:
        return self.world.submission(self.files(count)).candidate_id

    def submission(self, **changes: Any) -> ev.CandidateSubmitted:
        """The candidate of all that the line has trained."""
        batches = list(self.line.batches)
        fields = {"base": self.line.base, "batches": batches}
        return self.world.submission(self.files(len(batches)), **(fields | changes))

    def submit(self) -> str:
        """The candidate's id."""
        data = self.submission()
        self.world.append(data, actor="trainer")
        return data.candidate_id

    def admitted(self) -> str:
        candidate = self.submit()
        self.world.admit(candidate)
        self.world.checkpoint()
        return candidate

    def promoted(self) -> str:
        """What the line has come to is served; the release."""
        candidate = self.admitted()
        gate_id = self.world.gate(candidate)
        self.world.sign(gate_id)
        self.world.promote(gate_id)
        return candidate


def hash_of(name: bytes) -> int:
    return sum(name)
