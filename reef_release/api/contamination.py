"""Gate tasks in training data: a model that trained on its exam proves nothing in it."""

from __future__ import annotations

from collections.abc import Iterable

from reef_release.artifacts.blobs import BlobStore
from reef_release.domain.state import Scenario
from reef_release.domain.suite import holds_question, parse_suite, plain_text

__all__ = ["GateTasks"]

_SUITE_LIMIT_BYTES = 64 * 1024 * 1024


class GateTasks:
    """The questions of every suite that a scenario's policies ever named."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._questions: dict[str, frozenset[str]] = {}

    async def overlap(self, scenario: Scenario, texts: Iterable[str]) -> bool:
        """Whether one of *texts* is a task's question, or contains a long one."""
        given = [plain_text(text) for text in texts]
        for digest in dict.fromkeys(each.policy.suite for each in scenario.policies):
            questions = await self._of(digest)
            if any(holds_question(text, questions) for text in given):
                return True
        return False

    async def _of(self, digest: str) -> frozenset[str]:
        if digest not in self._questions:
            suite = parse_suite(await self._blobs.read(digest, _SUITE_LIMIT_BYTES))
            self._questions[digest] = frozenset(plain_text(task.question) for task in suite.tasks)
        return self._questions[digest]
