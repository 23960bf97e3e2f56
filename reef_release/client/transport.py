"""Requests that end: every answer has a limit in bytes and in time, every retry is bounded.

What always holds: a request is repeated only if it is idempotent, or if no connection came
about at all; only after a lost connection or a status that says "later"; and never before the
time that the service asked for. Answers are taken unencoded, so a small one cannot unpack into
a large one. What escapes is a `ReefError`: `Unavailable` when nobody answered, `BadAnswer`
when the answer breaks the protocol, else the error that the service raised.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType

import httpx

from reef_release.client.errors import BadAnswer, error_from
from reef_release.errors import ReefError, SettingsError, Unavailable

__all__ = ["Answer", "Retry", "Transport", "read_limited"]

Params = Mapping[str, str | int]

_ERROR_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer below 400; header names are lowercase."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how long to wait before an idempotent request is repeated.

    Waits double from `first_wait_s` up to `longest_wait_s`, each shortened by up to half at
    random so that nodes do not come back in step. A service that asks for more than
    `longest_wait_s` gets no repetition: the caller has better things to do than to sleep.
    """

    attempts: int = 4
    first_wait_s: float = 0.25
    longest_wait_s: float = 8.0
    sleep: Callable[[float], object] = time.sleep

    def waited(self, attempt: int, asked_s: float | None) -> bool:
        """Wait before attempt number *attempt* + 1 (from 1); False when there is none."""
        if attempt >= self.attempts or (asked_s or 0.0) > self.longest_wait_s:
            return False
        backoff_s = min(self.first_wait_s * 2 ** (attempt - 1), self.longest_wait_s)
        jitter = 0.5 + secrets.randbelow(1001) / 2000
        self.sleep(max(backoff_s * jitter, asked_s or 0.0))
        return True


class Transport:
    """One service, one token, one connection pool."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """*transport* replaces the network, for tests. Raises `SettingsError` for a bad URL."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "reef-release"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.timeout_s = timeout_s
        self.retry = retry or Retry()
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise SettingsError(
                "The address of the service is no URL.",  # which it is may be a secret
                next_step="Give one such as http://127.0.0.1:8470.",
            ) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise SettingsError(
                f"{str(_public(url))!r} is not the URL of a service.",
                next_step="Give one such as http://127.0.0.1:8470.",
            )
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport
        )

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        limit_bytes: int,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        idempotent: bool | None = None,
        wait_s: float = 0.0,
        accept: frozenset[int] = frozenset(),
    ) -> Answer:
        """A whole request and its whole answer, repeated as `Retry` says.

        *wait_s* is how much longer than usual the service may take (a long poll). GET, HEAD
        and PUT are *idempotent* unless said otherwise. A status in *accept* is no error.
        """
        if idempotent is None:
            idempotent = method in ("GET", "HEAD", "PUT")
        attempt = 0
        while True:
            attempt += 1
            try:
                with self.stream(
                    method,
                    path,
                    params=params,
                    headers=headers,
                    body=body,
                    wait_s=wait_s,
                    accept=accept,
                ) as response:
                    deadline = time.monotonic() + self.timeout_s
                    read = read_limited(response, limit_bytes, deadline)
                    return Answer(
                        status=response.status_code, headers=dict(response.headers), body=read
                    )
            except Unavailable as error:
                safe = idempotent or error.extra.get("unsent", False)
                if not safe or not self.retry.waited(attempt, error.extra.get("retry_after_s")):
                    raise

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        wait_s: float = 0.0,
        accept: frozenset[int] = frozenset(),
    ) -> Iterator[httpx.Response]:
        """One attempt, with the answer's body still to be read; raises for status >= 400."""
        timeout = httpx.Timeout(self.timeout_s, read=self.timeout_s + wait_s)
        try:
            with self._http.stream(
                method, path, params=params, headers=headers, content=body, timeout=timeout
            ) as response:
                encoding = response.headers.get("content-encoding", "identity")
                if encoding != "identity":
                    raise BadAnswer(
                        f"{method} {path} came encoded as {encoding!r}, which nobody asked for.",
                        next_step="Switch compression off between client and service.",
                    )
                status = response.status_code
                if status >= 400 and status not in accept:
                    raise _raised(response, time.monotonic() + self.timeout_s)
                if 300 <= status < 400 and status != 304:
                    # Followed, it would carry the token to whoever the answer names.
                    raise BadAnswer(
                        f"{method} {path} is redirected to "
                        f"{response.headers.get('location', '')[:200]!r}.",
                        next_step="Give the URL that the service really has.",
                    )
                yield response
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise self._unanswered(method, path, error, unsent=True) from error
        except httpx.HTTPError as error:
            raise self._unanswered(method, path, error, unsent=False) from error

    def _unanswered(self, method: str, path: str, error: Exception, *, unsent: bool) -> Unavailable:
        return Unavailable(
            f"{method} {path} got no answer from {_public(self._http.base_url)}: "
            f"{str(error) or type(error).__name__}.",
            next_step="Check that the service runs at this URL, then repeat.",
            unsent=unsent,
        )


def _public(url: httpx.URL) -> httpx.URL:
    """The URL without a name and a password."""
    return url.copy_with(username=None, password=None) if url.userinfo else url


def read_limited(response: httpx.Response, limit_bytes: int, deadline: float) -> bytes:
    """The body, at most *limit_bytes* of it until *deadline* (of the monotonic clock).

    Raises `BadAnswer` for a longer body, `Unavailable` for a slower one.
    """
    pieces = bytearray()
    for piece in response.iter_bytes():
        pieces += piece
        if len(pieces) > limit_bytes:
            raise BadAnswer(
                f"The answer of {response.request.url.path} is longer than {limit_bytes} bytes.",
                next_step="Check that this URL is the service's.",
            )
        if time.monotonic() > deadline:
            raise Unavailable(
                f"The answer of {response.request.url.path} did not end in time.",
                next_step="Repeat; if it stays so, look at the network and the service's load.",
            )
    return bytes(pieces)


def _raised(response: httpx.Response, deadline: float) -> ReefError:
    return error_from(
        response.status_code,
        read_limited(response, _ERROR_LIMIT_BYTES, deadline),
        _seconds(response.headers.get("retry-after")),
    )


def _seconds(value: str | None) -> float | None:
    """Retry-After (RFC 9110 §10.2.3) in seconds from now; None if it is absent or no such value."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
