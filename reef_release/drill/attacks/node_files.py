"""Lies to a node about files: what it downloads, what it has on disk, what its engine computes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import httpx

from reef_release.artifacts.collector import collect
from reef_release.drill.attack import Outcome
from reef_release.drill.context import WEIGHTS, Context
from reef_release.drill.lying import (
    attack_on_node,
    outcome,
    refused,
    target,
)
from reef_release.node.engine import Engine, EngineHealth, LoadedFiles, LoadedFoundation, OnDisk

__all__ = ["ATTACKS"]


class _Meddling(Engine):
    """An engine with somebody beside it: `before_load` runs after the node's last look."""

    def __init__(self, inner: Engine, *, overwrites: bool = False, keeps: bool = False) -> None:
        self._inner = inner
        self._overwrites = overwrites
        self._keeps = keeps

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        if self._keeps:
            # It says that it has read the files, and goes on with the weights that it had.
            below = None
            if foundation is not None:
                below = LoadedFoundation(
                    release_id=foundation.release_id, files=dict(foundation.files)
                )
            return LoadedFiles(
                release_id=release.release_id, files=dict(release.files), foundation=below
            )
        if self._overwrites:
            with (release.directory / WEIGHTS).open("r+b") as file:
                file.seek(-1, 2)
                last = file.read(1)
                file.seek(-1, 2)
                file.write(bytes([last[0] ^ 1]))
        return self._inner.load(release, foundation)

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return self._inner.score(prompt_token_ids, token_ids)

    def health(self) -> EngineHealth:
        return self._inner.health()


def _overwritten(context: Context) -> Outcome:
    engine = _Meddling(context.idle_engine(), overwrites=True)
    with target(context, fresh=True, engine=engine) as held:
        seen = refused(held, "digest-mismatch")
    return outcome(context, seen)


def _other_weights(context: Context) -> Outcome:
    inner = context.idle_engine()
    origin = context.stack.model("origin")
    files = {file.path: file.sha256 for file in collect(origin)}
    inner.load(OnDisk(directory=origin, release_id="ab" * 32, files=files))
    with target(context, fresh=True, engine=_Meddling(inner, keeps=True)) as held:
        seen = refused(held, "canary")
    return outcome(context, seen)


def _downloads(context: Context) -> Outcome:
    """A file that does not end, and the rest of another file after a broken connection."""
    path = f"/files/{WEIGHTS}"
    size = len(context.served_files()[WEIGHTS])

    def endless(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=itertools.repeat(bytes(65536)))

    def other_rest(request: httpx.Request) -> httpx.Response:
        if request.headers.get("range") is None:
            return httpx.Response(200, content=context.served_files()[WEIGHTS][:10])
        span = f"bytes 10-{size - 1}/{size}"
        return httpx.Response(206, content=bytes(size - 10), headers={"content-range": span})

    seen = []
    for answer, code in ((endless, "bad-answer"), (other_rest, "digest-mismatch")):
        with target(context, fresh=True) as held:
            held.answers[path] = answer
            seen.append(refused(held, code))
    return outcome(context, *seen)


ATTACKS = (
    attack_on_node(
        "file-overwritten-after-verification",
        (21,),
        "the weights overwritten on the node's disk after they were hashed",
        _overwritten,
        "digest-mismatch",
    ),
    attack_on_node(
        "engine-that-keeps-other-weights",
        (21,),
        "an engine that says it has read the files and computes with others",
        _other_weights,
        "canary",
    ),
    attack_on_node(
        "downloads-of-other-bytes",
        (41,),
        "a file that does not end, and the rest of another file",
        _downloads,
        "bad-answer",
        "digest-mismatch",
    ),
)
