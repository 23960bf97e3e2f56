"""A network between a service and its database that can be cut in several ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

__all__ = ["Proxy", "proxied"]


class Proxy:
    """Forwards connections to the server of *dsn*; `dsn` is the way through it."""

    def __init__(self, dsn: str) -> None:
        self._target = dsn
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._socket = Path()
        self.answering = asyncio.Event()
        """While cleared, what the server says does not arrive."""
        self.reachable = asyncio.Event()
        """While cleared, what the client says does not arrive: a half-open connection."""
        self.answering.set()
        self.reachable.set()
        self.dsn = ""

    async def start(self, directory: Path) -> None:
        """Listen in *directory*, which must have a short name."""
        self._socket = directory / ".s.PGSQL.5432"
        parts = urlsplit(self._target)
        user = parts.netloc.rpartition("@")[0]
        self.dsn = urlunsplit(
            parts._replace(netloc=f"{user}@", query=urlencode({"host": str(directory)}))
        )
        await self.mend()

    async def cut(self) -> None:
        """Break every connection and accept none; whatever was not forwarded is lost."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._socket.unlink(missing_ok=True)
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def mend(self) -> None:
        """Accept connections again."""
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    @property
    def connected(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        server_writer: asyncio.StreamWriter | None = None
        try:
            server_reader, server_writer = await self._connect()
            there = asyncio.create_task(_pump(reader, server_writer, self.reachable))
            back = asyncio.create_task(_pump(server_reader, writer, self.answering))
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            for each in (writer, server_writer):
                if each is not None:
                    each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._target)
        if directory := parse_qs(parts.query).get("host"):
            return await asyncio.open_unix_connection(f"{directory[0]}/.s.PGSQL.5432")
        return await asyncio.open_connection(parts.hostname, parts.port or 5432)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await passing.wait()
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxied(dsn: str, directory: Path) -> AsyncIterator[Proxy]:
    """A running proxy before the server of *dsn*."""
    proxy = Proxy(dsn)
    await proxy.start(directory)
    try:
        yield proxy
    finally:
        await proxy.cut()
