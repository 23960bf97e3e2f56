"""Engines behind HTTP for a gate's two sides, however many there are.

What always holds: before a model is asked, an engine says that it serves exactly its files, and
each answer names the release that gave it. With two engines each side keeps its own; with one,
the weights are exchanged whenever the side changes, which costs time and nothing else. An engine
belongs to one worker, and reads the files from that worker's disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engines.client import HttpEngine
from trainer.engines.protocol import Engine, Generation, Messages, Sampling
from trainer.engines.weights import ModelFiles
from trainer.engines.wire import FoundationRequest, LoadRequest
from trainer.gate.models import Loader

__all__ = ["http_loader"]


def http_loader(engines: Sequence[HttpEngine]) -> Loader:
    """Models on these engines, at least one."""
    pool = _Pool(engines)

    def load(model: ModelFiles, foundation: ModelFiles | None) -> Engine:
        request = LoadRequest(
            directory=str(model.directory.resolve()),
            release_id=model.release_id,
            files=dict(model.files or {}),
            foundation=None
            if foundation is None
            else FoundationRequest(
                directory=str(foundation.directory.resolve()),
                release_id=foundation.release_id,
                files=dict(foundation.files or {}),
            ),
        )
        pool.engine(request)
        return _Model(pool, request)

    return load


class _Pool:
    def __init__(self, engines: Sequence[HttpEngine]) -> None:
        self._engines = list(engines)

    def engine(self, request: LoadRequest) -> HttpEngine:
        """One that serves *request*; else the one not used for longest, after a load."""
        for engine in self._engines:
            if engine.serves(request):
                break
        else:
            engine = self._engines[0]
            engine.load(request)
        self._engines.remove(engine)
        self._engines.append(engine)
        return engine


class _Model(Engine):
    """One model, on whichever engine has it."""

    def __init__(self, pool: _Pool, request: LoadRequest) -> None:
        self._pool = pool
        self._request = request

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        engine = self._pool.engine(self._request)
        return engine.generate(prompt, sampling, seed, timeout_s=timeout_s)

    def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> list[float]:
        engine = self._pool.engine(self._request)
        return engine.score(prompt_token_ids, token_ids, temperature)
