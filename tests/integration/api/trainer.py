"""A trainer that talks to the service: it claims batches, says how training goes, and submits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.weights import candidate_id
from reef_release.ids import uuid7
from tests.integration.api.story import Story, model_files, until
from tests.integration.api.traffic import claim_batch, judged_turn

__all__ = ["TrainerJob"]


@dataclass(kw_only=True)
class TrainerJob:
    """One trainer with one line; `files` is what its line has come to."""

    story: Story
    base: str
    line: str = field(default_factory=uuid7)
    batches: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    steps: int = 0
    parent: str = ""

    async def claim(self, turns: int = 1) -> Any:
        """A claimed batch, after so many judged turns."""
        for _ in range(turns):
            await judged_turn(self.story)
        return await until(lambda: claim_batch(self.story))

    async def post(self, batch: Any, name: str, /, *, role: str = "train", **data: Any) -> Any:
        lease_id = data.pop("lease_id", batch["lease_id"])
        more = {"event_id": data.pop("event_id")} if "event_id" in data else {}
        data = {"batch_id": batch["batch_id"], "line": self.line, **data}
        path = self.story.path("batches", batch["batch_id"], "events")
        body = {"lease_id": lease_id, "type": f"training.{name}", "data": data, **more}
        return await self.story.post(role, path, body)

    async def start(self, batch: Any, /, **changes: Any) -> Any:
        fields = {"parent": self.parent or self.base, "settings": {"clip": 0.2}, "seed": 7}
        return await self.post(batch, "started", **(fields | changes))

    async def step(self, batch: Any, /, **changes: Any) -> Any:
        fields = {"step": self.steps + 1, "epoch": 1, "metrics": {"loss": 0.5}}
        return await self.post(batch, "step", **(fields | changes))

    def result(self) -> str:
        """Make the weights that the batch comes to; their id."""
        self.files = model_files(next(self.story.site.numbers))
        return self.weights_id

    @property
    def weights_id(self) -> str:
        return candidate_id({path: sha256_hex(data) for path, data in self.files.items()})

    async def complete(self, batch: Any, /, **changes: Any) -> Any:
        fields = {"weights_id": self.weights_id, "steps": 1, "skipped": []}
        return await self.post(batch, "completed", **(fields | changes))

    async def train(self, batch: Any = None, /, **changes: Any) -> Any:
        """Train a batch, by default a fresh one, in one step."""
        batch = batch or await self.claim()
        await self.start(batch)
        await self.step(batch)
        self.result()
        await self.complete(batch, **changes)
        self.steps += 1
        self.parent = self.weights_id
        self.batches.append(batch["batch_id"])
        return batch

    async def submit(self, **changes: Any) -> Any:
        return await self.story.submit(
            self.files, **({"base": self.base, "batches": list(self.batches)} | changes)
        )

    async def batch(self, batch: Any, role: str = "train") -> Any:
        return await self.story.get(role, self.story.path("batches", batch["batch_id"]))

    async def show_line(self) -> Any:
        return await self.story.get("train", self.story.path("lines", self.line))

    async def give_back(self, batch: Any, role: str = "train") -> Any:
        path = self.story.path("batches", batch["batch_id"], "release")
        return await self.story.post(role, path, {"lease_id": batch["lease_id"]})
