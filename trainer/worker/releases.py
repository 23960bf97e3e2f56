"""The releases that a trainer trains from, verified as a node does.

The release served comes from a node of the trainer's own: it follows the signed document, checks
every proof, hashes every file and measures the canaries on a model in this process. The origin is
the channel's first promotion, proven to be the first in the tree that the node has verified. A
release is its files: whatever is downloaded by its id is it, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from reef_release.client import ReefClient
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Refused, Unavailable
from reef_release.node.config import NodeConfig
from reef_release.node.engine import EngineHealth, LoadedFiles, LoadedFoundation, OnDisk
from reef_release.node.node import Node
from reef_release.node.origin import first_release
from reef_release.node.releases import Releases
from reef_release.node.vault import Vault
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles

__all__ = ["Release", "ReleaseSource", "TorchEngine"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A verified release on disk; `foundation` is the release under an adapter."""

    release_id: str
    directory: Path
    files: Mapping[str, str]
    foundation: str | None = None


class TorchEngine:
    """`reef_release.node.engine.Engine` in this process.

    The digests that it reports are those of the bytes that the model was built from. `rest` frees
    the memory; the next `score` builds the model again, of the same digests or not at all.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._engine: TransformersEngine | None = None
        self._loaded: tuple[OnDisk, OnDisk | None] | None = None

    @property
    def loaded(self) -> tuple[OnDisk, OnDisk | None] | None:
        """The release whose model was built last, and what it stands on."""
        return self._loaded

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        """Build the model of *release*. Raises as `trainer.engines.weights.load_model`."""
        self._loaded = None
        engine = self._build(release, foundation)
        self._loaded = (release, foundation)
        below = None
        current = engine.current
        if current is not None and current.foundation is not None:
            below = LoadedFoundation(
                release_id=current.foundation.release_id, files=dict(current.foundation.files or {})
            )
        return LoadedFiles(
            release_id=engine.release_id, files=dict(engine.loaded), foundation=below
        )

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        """Log-probabilities at temperature 1, by one forward pass."""
        if self._engine is None:
            if self._loaded is None:
                raise Unavailable("no model is loaded", next_step="Load a release first.")
            self._build(*self._loaded)
        assert self._engine is not None, "it was built just now"
        return self._engine.score(prompt_token_ids, token_ids, 1.0)

    def health(self) -> EngineHealth:
        """What was loaded last."""
        if self._loaded is None:
            return EngineHealth(loaded=False)
        return EngineHealth(loaded=True, release_id=self._loaded[0].release_id)

    def rest(self) -> None:
        """Free the model's memory."""
        self._engine = None

    def _build(self, release: OnDisk, foundation: OnDisk | None) -> TransformersEngine:
        self._engine = None
        engine = TransformersEngine(threads=self._threads)
        below = None if foundation is None else _files(foundation)
        try:
            engine.load(release.directory, release.files, release.release_id, foundation=below)
        except (MemoryError, RuntimeError) as error:
            raise Unavailable(f"The model cannot be built here: {error}.") from error
        self._engine = engine
        return engine


class ReleaseSource:
    """The release served, the origin, and any release by its id. The vault is locked outside."""

    def __init__(
        self, config: NodeConfig, client: ReefClient, vault: Vault, store: Path, threads: int
    ) -> None:
        """*store* is a directory for what the node does not keep."""
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._config = config
        self._client = client
        self._engine = TorchEngine(threads)
        self._node = Node(config, client, self._engine, vault)
        self._store = Releases(store)
        self._started = False

    def serving(self) -> Release | None:
        """The release served, once it is loaded and its canaries agree; None if none is.

        Raises `Unavailable` when something stands against what the service serves.
        """
        if not self._started:
            self._node.start()
            self._started = True
        standing = self._node.step()
        if standing.reasons:
            raise Unavailable(
                "The release served cannot be verified, so nothing is trained from it.",
                next_step="Look at the reasons; a node would not load it either.",
                reasons=standing.reasons,
            )
        loaded = self._engine.loaded
        if standing.release_id is None or loaded is None:
            return None
        self._engine.rest()
        release, foundation = loaded
        return Release(
            release_id=release.release_id,
            directory=release.directory,
            files=release.files,
            foundation=None if foundation is None else foundation.release_id,
        )

    def origin_id(self) -> str:
        """The id of the channel's first release, proven. Raises `Refused`."""
        return first_release(self._client, self._node.memory)

    def release(self, release_id: str) -> Release:
        """A release by its id, downloaded unless it is there. Raises `Refused` for other files."""
        view = self._client.release(self._config.scenario, release_id)
        files = digests_by_path((file.path, file.sha256) for file in view.files)
        if candidate_id(files) != release_id:
            raise Refused(
                f"The files shown as {release_id[:12]} are another release's.",
                next_step="Audit the log; the service or what stands before it is lying.",
            )
        directory = self._store.fetch(
            self._client,
            self._config.scenario,
            release_id,
            view.files,
            self._config.min_rate_bytes_per_s,
        )
        return Release(release_id=release_id, directory=directory, files=files)


def _files(release: OnDisk) -> ModelFiles:
    return ModelFiles(
        directory=release.directory, files=release.files, release_id=release.release_id
    )
