"""Large files to and from the service: resumable both ways, limited and hashed at this end.

A download appears under its name only when it has the length and the SHA-256 that the caller
knew before; what arrived earlier is kept beside it and continued, and thrown away as soon as
the whole has another digest. An upload begins where the service says that it stopped.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx

from reef_release.artifacts.blob_files import sync_directory, write_all
from reef_release.artifacts.errors import DigestMismatch, OffsetConflict
from reef_release.client.errors import BadAnswer
from reef_release.client.transport import Transport, read_limited
from reef_release.errors import Unavailable

__all__ = ["MIN_RATE_BYTES_PER_S", "download", "upload"]

MIN_RATE_BYTES_PER_S = 256 * 1024
"""A download that is slower on average is given up: it would keep a node from newer releases."""

_GRACE_S = 60.0
_ANSWER_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes ([0-9]{1,16})-([0-9]{1,16})/([0-9]{1,16})")


def upload(
    transport: Transport,
    route: str,
    *,
    size_bytes: int,
    chunks: Callable[[], Iterable[bytes]],
) -> bool:
    """PUT a blob of *size_bytes* to *route*; False when the service had it already.

    *chunks* gives the bytes from the start each time it is called. Raises what the service
    raises, `Unavailable` when it cannot be reached for longer than the retries last.
    """
    attempt = 0
    offset = _stored(transport, route, size_bytes)
    if offset is None:
        return False
    while True:
        attempt += 1
        headers = {"Content-Length": str(size_bytes - offset)}
        if size_bytes:
            headers["Content-Range"] = f"bytes {offset}-{size_bytes - 1}/{size_bytes}"
        body = _skipped(chunks(), offset)
        try:
            with transport.stream("PUT", route, headers=headers, body=body) as response:
                read_limited(response, _ANSWER_BYTES, time.monotonic() + transport.timeout_s)
                if response.status_code != 202:
                    return True
            raise Unavailable(f"Only a part of {route} was taken.", next_step="Continue it.")
        except OffsetConflict as error:
            if not transport.retry.waited(attempt, None):
                raise
            offset = error.offset
        except Unavailable as error:
            if not transport.retry.waited(attempt, error.extra.get("retry_after_s")):
                raise
            again = _stored(transport, route, size_bytes)
            if again is None:
                return True
            # What arrived before the connection broke is progress, so the count starts again.
            attempt = 0 if again > offset else attempt
            offset = again


def _stored(transport: Transport, route: str, size_bytes: int) -> int | None:
    """Where an upload is to begin; None when the blob is there.

    Of a blob that is erased (410) the upload itself tells more than an answer without a body.
    """
    answer = transport.call("HEAD", route, limit_bytes=0, accept=frozenset({404, 410}))
    stated = answer.headers.get("upload-offset")
    if stated is None:
        return None if answer.status < 400 else 0
    if not (stated.isascii() and stated.isdigit()) or int(stated) > size_bytes:
        raise BadAnswer(f"The service says that the upload stands at {stated[:40]!r}.")
    offset = int(stated)
    return None if answer.status < 400 and offset == size_bytes else offset


def _skipped(chunks: Iterable[bytes], offset: int) -> Iterator[bytes]:
    for chunk in chunks:
        if offset < len(chunk):
            yield chunk[offset:]
        offset = max(0, offset - len(chunk))


def download(
    transport: Transport,
    route: str,
    target: Path,
    *,
    sha256: str,
    size_bytes: int,
    min_rate_bytes_per_s: int = MIN_RATE_BYTES_PER_S,
) -> None:
    """GET *route* into *target* (mode 0600), which is exactly *size_bytes* long with *sha256*.

    Raises `DigestMismatch` for other bytes, `BadAnswer` for more or other bytes than announced
    (both leave nothing behind), `Unavailable` when it is too slow or breaks off too often (what
    arrived is kept as `NAME.partial`), and what the service raises. *target*'s directory must
    be private to this process.
    """
    partial = target.with_name(target.name + ".partial")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o600)
    try:
        _Fetch(transport, route, descriptor, size_bytes, min_rate_bytes_per_s).run()
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise DigestMismatch(
                f"{route} came with the SHA-256 {found}, not {sha256}; nothing of it was kept.",
                next_step="Repeat; if it stays so, the service's copy is damaged or forged.",
            )
        os.fsync(descriptor)
        partial.rename(target)
        sync_directory(target.parent)
    except (DigestMismatch, BadAnswer):
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


class _Fetch:
    """One download into an open file, over as many connections as the retries allow."""

    def __init__(
        self, transport: Transport, route: str, descriptor: int, size_bytes: int, min_rate: int
    ) -> None:
        self._transport = transport
        self._route = route
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._deadline = time.monotonic() + _GRACE_S + size_bytes / min_rate

    def run(self) -> None:
        """Return once the file has its length."""
        attempt = 0
        if os.fstat(self._descriptor).st_size > self._size_bytes:
            os.ftruncate(self._descriptor, 0)
        while (offset := os.fstat(self._descriptor).st_size) < self._size_bytes:
            attempt += 1
            try:
                self._once(offset)
            except Unavailable as error:
                if os.fstat(self._descriptor).st_size > offset:
                    attempt = 1
                late = time.monotonic() > self._deadline
                if late or not self._transport.retry.waited(
                    attempt, error.extra.get("retry_after_s")
                ):
                    raise

    def _once(self, offset: int) -> None:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        with self._transport.stream("GET", self._route, headers=headers) as response:
            if response.status_code == 206:
                self._check_range(response, offset)
            elif response.status_code == 200:
                offset = 0
                os.ftruncate(self._descriptor, 0)
            else:
                raise self._bad(f"has status {response.status_code}")
            for piece in response.iter_bytes():
                if offset + len(piece) > self._size_bytes:
                    raise self._bad(f"is longer than {self._size_bytes} bytes")
                write_all(self._descriptor, piece, offset)
                offset += len(piece)
                if time.monotonic() > self._deadline:
                    raise Unavailable(
                        f"{self._route} comes too slowly: {offset} of {self._size_bytes} bytes.",
                        next_step="It is continued at the next attempt; look at the network.",
                    )
        if offset < self._size_bytes:
            raise Unavailable(
                f"{self._route} ended at byte {offset} of {self._size_bytes}.",
                next_step="It is continued at the next attempt.",
            )

    def _check_range(self, response: httpx.Response, offset: int) -> None:
        stated = response.headers.get("content-range", "")
        match = _RANGE.fullmatch(stated)
        wanted = (offset, self._size_bytes - 1, self._size_bytes)
        if match is None or tuple(map(int, match.groups())) != wanted:
            raise self._bad(f"is the range {stated[:80]!r}, not bytes {offset}-")

    def _bad(self, what: str) -> BadAnswer:
        return BadAnswer(
            f"The answer for {self._route} {what}; nothing of it was kept.",
            next_step="Repeat; if it stays so, the service's copy is damaged or forged.",
        )
