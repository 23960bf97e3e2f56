"""What a drill has of a stack that it started itself: everything, so that it can play everybody."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from reef_release.audit.weights import Scorer
from reef_release.node.engine import Engine

__all__ = ["Stack"]


class Stack(Protocol):
    """A stack of the drill's own. Programs are named as in `cli.programs`."""

    @property
    def keys(self) -> Path:
        """The key directories of all roles, the root keys among them."""

    @property
    def blobs(self) -> Path:
        """The directory in which the service keeps its blobs."""

    @property
    def service_dsn(self) -> str:
        """The database as the service reaches it."""

    @property
    def owner_dsn(self) -> str:
        """The database as its superuser reaches it."""

    def served_files(self) -> Mapping[str, str]:
        """Path to SHA-256 of what the engine behind the serving node says it has read."""

    def idle_engine(self) -> Engine:
        """An engine that serves nobody, for nodes under attack."""

    def model(self, name: str) -> Path:
        """The directory of a shipped model: origin, better or flatterer."""

    def policy(self, scenario: str) -> dict[str, Any]:
        """The policy document of a scenario of the drill; its suite is `suite`."""

    def suite(self) -> bytes:
        """The tasks with their answers, as JSON lines."""

    def paused(self, program: str) -> AbstractContextManager[None]:
        """*program* stands still meanwhile."""

    def crash(self, program: str) -> None:
        """Kill *program* as a power cut does, and start it again."""

    def scorer(self) -> AbstractContextManager[Scorer]:
        """What runs weights for an audit."""
