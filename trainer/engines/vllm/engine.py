"""What vLLM serves now, and how that is exchanged for something else.

What always holds:

- a request runs from its first token to its last on one release, and a swap runs alone;
- what is said to be served was read, hashed and copied for this very load, and vLLM was given
  nothing but that copy;
- a load that fails before vLLM is touched changes nothing; one that fails later leaves nothing
  served, and every request is refused until a load succeeds;
- a vLLM that was restarted, or given other weights past this process's loads, is noticed at the
  next request, and nothing counts as served any more.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import structlog

from reef_release.errors import BadRequest, SettingsError, Unavailable
from trainer.engines.vllm.preparing import Prepared, prepare
from trainer.engines.vllm.turnstile import Turnstile
from trainer.engines.vllm.upstream import Started, VllmServer
from trainer.engines.wire import LoadedAnswer, LoadRequest

__all__ = ["Serving", "VllmEngine"]

_COPY = "load-"
_log = structlog.get_logger(__name__)


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What is served."""

    loaded: LoadedAnswer
    model: str
    """Its name in vLLM."""
    version: str
    """What vLLM says of its weights as long as they are these."""
    context_tokens: int


class VllmEngine:
    """One vLLM server, driven by one process. For one event loop."""

    def __init__(self, server: VllmServer, work: Path, *, drain_s: float = 600.0) -> None:
        """``work`` is a directory of this process's own, which vLLM can read.

        Running requests delay a load by ``drain_s`` at most. Raises ``SettingsError``.
        """
        self._server = server
        self._drain_s = drain_s
        try:
            work.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in work.glob(f"{_COPY}*"):
                shutil.rmtree(left)
        except OSError as error:
            raise SettingsError(
                f"{work} cannot be used: {error.strerror}.",
                next_step="Give --work a directory that is this user's.",
            ) from error
        self._work = work.resolve()
        self._turnstile = Turnstile()
        self._loading = anyio.Lock()
        self._serving: Serving | None = None
        self._full: tuple[Path, Mapping[str, str]] | None = None
        """The full model in vLLM: its copy and the digests of its files."""

    @property
    def current(self) -> Serving | None:
        """What is served, as far as this process did it."""
        return self._serving

    async def look(self) -> Serving | None:
        """What is served, after asking vLLM. Raises ``Unavailable`` when that does not answer."""
        before = self._serving
        version = await self._server.version()
        # Unless a load has ended meanwhile, which knows better.
        if before is not None and before is self._serving and before.version != version:
            _log.error("vLLM has lost the release", now=version, served=before.version)
            self._serving = self._full = None
        return self._serving

    @asynccontextmanager
    async def request(self) -> AsyncIterator[Serving]:
        """Run a request inside, to its end, on what is served.

        Raises ``Unavailable`` when nothing is. Asked right before the request: a vLLM that
        ended in between refuses the connection, as it needs longer than that to start.
        """
        async with self._turnstile.request():
            serving = await self.look()
            if serving is None:
                raise Unavailable("no model is loaded", next_step="POST a release to /reef/load.")
            yield serving

    async def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> tuple[list[float], str | None]:
        """See ``protocol.Engine``, for temperatures 0 and 1 alone; also the release's id.

        vLLM gives log-probabilities of tokens it did not sample at temperature 1 only.
        """
        if temperature not in (0.0, 1.0):
            raise BadRequest(
                f"vLLM cannot score at temperature {temperature}",
                next_step="Score at temperature 1, or use the transformers engine.",
            )
        if not prompt_token_ids or not token_ids:
            raise BadRequest(
                "prompt_token_ids or token_ids is empty",
                next_step="Give at least one token of each.",
            )
        async with self.request() as serving:
            scores = await self._server.score(
                serving.model, [*prompt_token_ids, *token_ids], len(prompt_token_ids)
            )
        return scores, serving.loaded.release_id

    async def load(self, asked: LoadRequest) -> Serving:
        """Serve a release, or an adapter on its foundation.

        Raises ``BadRequest`` and ``Refused`` when there is something wrong with the release or
        vLLM was started from another form of model, ``Unavailable`` when vLLM or the disk fails.
        """
        async with self._loading:
            started = await self._server.started()
            place = self._work / f"{_COPY}{secrets.token_hex(8)}"
            try:
                prepared = await anyio.to_thread.run_sync(prepare, asked, place, started)
                async with self._turnstile.swap(self._drain_s):
                    # Whatever happens to the caller: half a swap would be worse.
                    with anyio.CancelScope(shield=True):
                        serving = await self._swap(prepared, started)
            finally:
                await anyio.to_thread.run_sync(self._tidy, place)
            _log.info("release loaded", release=asked.release_id, model=serving.model)
            return serving

    async def _swap(self, prepared: Prepared, started: Started) -> Serving:
        await self.look()
        full, self._full, self._serving = self._full, None, None
        server, name, token = self._server, started.name, secrets.token_hex(8)
        await server.pause()
        for adapter in started.adapters:
            await server.unload_adapter(adapter)
        if full is None or full[1] != prepared.full_files:
            full = (prepared.full, prepared.full_files)
            await server.reload(str(prepared.full))
        if prepared.adapter is not None:
            # Never a name that was used before: prefixes are kept under it.
            name = f"adapter-{token}"
            await server.load_adapter(name, str(prepared.adapter))
        await server.forget_prefixes()
        version = f"{prepared.loaded.release_id}/{token}"
        await server.set_version(version)
        await server.resume()
        self._full = full
        self._serving = Serving(
            loaded=prepared.loaded,
            model=name,
            version=version,
            context_tokens=started.context_tokens,
        )
        return self._serving

    def _tidy(self, place: Path) -> None:
        """Remove every copy but the one that is served, and the full model's in vLLM."""
        keep = set() if self._serving is None else {place}
        if self._full is not None:
            keep.add(self._full[0].parent)
        for directory in self._work.glob(f"{_COPY}*"):
            if directory not in keep:
                shutil.rmtree(directory, ignore_errors=True)
