"""The engine that a node drives: a small protocol, and its form over HTTP.

The node believes an engine's word about nothing but what it checks itself: the digests that
the engine read, and the log-probabilities of the canaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from reef_release.client.errors import decoded
from reef_release.client.transport import Retry, Transport
from reef_release.errors import Unavailable

__all__ = ["Engine", "EngineHealth", "HttpEngine", "LoadedFiles", "LoadedFoundation", "OnDisk"]

_T = TypeVar("_T")
_ANSWER_BYTES = 16 * 1024 * 1024
_LOAD_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class OnDisk:
    """A release in a directory of the node's: path to SHA-256 of its files."""

    directory: Path
    release_id: str
    files: Mapping[str, str]


class LoadedFoundation(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says it read as the foundation of an adapter; fields as below."""

    release_id: str | None
    files: dict[str, str]


class LoadedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says it read: path to SHA-256."""

    release_id: str | None
    files: dict[str, str]
    foundation: LoadedFoundation | None = None


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether weights are loaded, and the name they were given."""

    loaded: bool
    release_id: str | None = None


class _Scores(msgspec.Struct):
    logprobs: list[float]


class Engine(Protocol):
    """Every method raises `Unavailable` when the engine cannot be reached, other `ReefError`s
    when it refuses, and nothing else."""

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        """Put *release*, with a *foundation* an adapter on it, in place of what is loaded."""

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        """Log-probability of each token after the prompt, in nats at temperature 1."""

    def health(self) -> EngineHealth:
        """What is loaded now."""


class HttpEngine:
    """`Engine` over `POST /reef/load`, `POST /v1/score` and `GET /health`.

    The engine reads the files from the node's own disk, so it must run on the same machine
    under the same user.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 60.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """*transport* replaces the network, for tests. Raises `SettingsError` for a bad URL."""
        self._url = base_url
        self._http = Transport(base_url, timeout_s=timeout_s, retry=retry, transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        """See `Engine.load`; large weights may take half an hour."""
        body = _request(release)
        if foundation is not None:
            body["foundation"] = _request(foundation)
        return self._post("/reef/load", body, LoadedFiles, wait_s=_LOAD_S)

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        """See `Engine.score`."""
        body = {
            "prompt_token_ids": list(prompt_token_ids),
            "token_ids": list(token_ids),
            "temperature": 1.0,
        }
        return self._post("/v1/score", body, _Scores).logprobs

    def health(self) -> EngineHealth:
        """See `Engine.health`."""
        with self._named():
            answer = self._http.call("GET", "/health", limit_bytes=_ANSWER_BYTES)
        return decoded(answer.body, EngineHealth)

    def _post(self, path: str, body: dict[str, Any], kind: type[_T], wait_s: float = 0.0) -> _T:
        with self._named():
            answer = self._http.call(
                "POST",
                path,
                limit_bytes=_ANSWER_BYTES,
                headers={"Content-Type": "application/json"},
                body=msgspec.json.encode(body),
                # Scoring may be repeated at once; a load that got no answer is the node's to judge.
                idempotent=kind is _Scores,
                wait_s=wait_s,
            )
        return decoded(answer.body, kind)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of an outage that it is the engine's, since a node waits for a service as well."""
        try:
            yield
        except Unavailable as error:
            raise Unavailable(
                f"The engine at {self._url} is away: {error.detail}",
                next_step="Start the engine (python -m trainer.engines.server), or give the node "
                "its address with --engine. The node tries again by itself.",
                reasons=error.reasons,
                **error.extra,
            ) from error


def _request(release: OnDisk) -> dict[str, Any]:
    return {
        "directory": str(release.directory),
        "release_id": release.release_id,
        "files": dict(release.files),
    }
