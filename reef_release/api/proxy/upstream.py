"""The server that calls are forwarded to, over one pool of connections.

Nothing of the client but its body gets there; of the upstream's headers the client gets those
that say what the body is, when to come again, and whom to ask.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from reef_release.api.tls import tls_context
from reef_release.errors import Unavailable, UpstreamTimedOut, UpstreamUnreachable
from reef_release.settings import Settings

__all__ = ["Upstream", "passed_headers", "transport_errors"]

_CONNECT_S = 10.0
_KEEPALIVE_S = 4.0
"""Less than the 5 s after which uvicorn, and so vLLM, closes a silent connection itself."""
_PASSED = frozenset(
    {
        "content-type",
        "openai-processing-ms",
        "openai-version",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
        *(
            f"x-ratelimit-{what}-{of}"
            for what in ("limit", "remaining", "reset")
            for of in ("requests", "tokens")
        ),
    }
)
"""Nothing that tells whose account the operator uses."""
_STATUSES = range(200, 600)


class Upstream:
    """The configured upstream; `aclose` it in the end."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.upstream_url
        self._key = settings.upstream_key.encode()
        self.patience_s = settings.upstream_timeout_s
        """For so long an upstream may be silent, and a client take nothing."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "reef-release"}
        if settings.upstream_key:
            headers["Authorization"] = f"Bearer {settings.upstream_key}"
        timeout_s = settings.upstream_timeout_s
        self._client = httpx.AsyncClient(
            verify=tls_context(),
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
            # One client's cookies are not another's.
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=())),
            limits=httpx.Limits(max_keepalive_connections=256, keepalive_expiry=_KEEPALIVE_S),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def without_key(self, answer: bytes) -> bytes:
        """An error's body without the operator's key, which some servers quote in full."""
        return answer.replace(self._key, b"***") if self._key else answer

    def check(self) -> None:
        """Raises `Unavailable` when there is none."""
        if not self._url:
            raise Unavailable(
                "This service forwards to no upstream.",
                next_step="The operator sets REEF_UPSTREAM_URL, "
                "for example to http://127.0.0.1:8000/v1.",
            )

    @asynccontextmanager
    async def chat(self, body: bytes) -> AsyncIterator[httpx.Response]:
        """The answer to a chat call, its body still to be read.

        Leaving the context early ends the call. Raises as `transport_errors` does.
        """
        headers = {"Content-Type": "application/json"}
        request = self._client.build_request(
            "POST", f"{self._url}/chat/completions", content=body, headers=headers
        )
        with transport_errors():
            response = await self._client.send(request, stream=True)
        try:
            _check_status(response)
            yield response
        finally:
            await response.aclose()

    async def models(self) -> httpx.Response:
        """The upstream's own list. Raises as `transport_errors` does."""
        self.check()
        with transport_errors():
            response = await self._client.get(f"{self._url}/models")
        _check_status(response)
        return response


@contextmanager
def transport_errors() -> Iterator[None]:
    """Raises `UpstreamTimedOut` and `UpstreamUnreachable` for what goes wrong on the way."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise UpstreamUnreachable(
            "The upstream does not take the connection.",
            next_step="Look whether it runs, and at REEF_UPSTREAM_URL.",
        ) from error
    except httpx.TimeoutException as error:
        raise UpstreamTimedOut(
            "The upstream was silent for too long.",
            next_step="Call again; the limit is REEF_UPSTREAM_TIMEOUT_S.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UpstreamUnreachable(
            f"The upstream does not answer: {str(error) or type(error).__name__}.",
            next_step="Look whether it runs, and at REEF_UPSTREAM_URL.",
        ) from error


def passed_headers(response: httpx.Response) -> dict[str, str]:
    """Those of the upstream's headers that a client gets, each byte as one character."""
    found = {
        name.lower().decode("latin-1"): value.decode("latin-1")
        for name, value in response.headers.raw
    }
    return {name: value for name, value in found.items() if name in _PASSED}


def _check_status(response: httpx.Response) -> None:
    if response.status_code not in _STATUSES:
        raise UpstreamUnreachable(
            f"The upstream answers with the status {response.status_code}, which is none.",
            next_step="Look at what REEF_UPSTREAM_URL names.",
        )
