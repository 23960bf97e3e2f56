"""Weights of the gate's two sides: downloaded as blobs, verified, loaded once."""

from __future__ import annotations

import shutil
from pathlib import Path

from reef_release.client import ReefClient
from reef_release.wire import ModelView
from trainer.engines.protocol import Engine
from trainer.engines.transformers_engine import TransformersEngine

__all__ = ["ModelCache"]


class ModelCache:
    """Engines by release id; at most the models of one gate stay in memory and on disk."""

    def __init__(self, client: ReefClient, root: Path, *, threads: int) -> None:
        self._client = client
        self._root = root
        self._threads = threads
        self._engines: dict[str, TransformersEngine] = {}

    def engine(self, model: ModelView) -> Engine:
        """An engine with exactly these files. Raises what download and loading raise."""
        engine = self._engines.get(model.release_id)
        if engine is None:
            directory = self._download(model)
            engine = TransformersEngine(threads=self._threads)
            engine.load(
                directory, {file.path: file.sha256 for file in model.files}, model.release_id
            )
            self._engines[model.release_id] = engine
        return engine

    def keep_only(self, *models: ModelView | None) -> None:
        """Forget every other model."""
        kept = {model.release_id for model in models if model is not None}
        self._engines = {key: engine for key, engine in self._engines.items() if key in kept}
        for directory in self._root.iterdir() if self._root.exists() else ():
            if directory.name not in kept:
                shutil.rmtree(directory)

    def _download(self, model: ModelView) -> Path:
        directory = self._root / model.release_id
        directory.mkdir(parents=True, exist_ok=True)
        for file in model.files:
            target = directory / file.path
            if not target.exists():
                self._client.download_blob(file.sha256, file.size_bytes, target)
        return directory
