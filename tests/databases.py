"""Real PostgreSQL for tests: one server per session, a fresh migrated database per test.

The server is the embedded one, without fsync, since no test outlives the machine. Set
REEF_TEST_DATABASE_URL to a superuser's DSN to run on another PostgreSQL 15 or newer.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate

__all__ = ["Database", "Server", "running_server"]

_PASSWORD = "reef test"


@dataclass(frozen=True, kw_only=True)
class Database:
    """A database of its own for one test."""

    owner_dsn: str
    """For migrating and for looking behind the scenes: a superuser's."""
    service_dsn: str
    """What a service gets: the restricted role's."""


@dataclass(kw_only=True)
class Server:
    """A server on which tests make databases."""

    admin_dsn: str
    _template: str = ""

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[Database]:
        """A fresh database, dropped afterwards with whatever is still connected to it."""
        if migrated and not self._template:
            self._template = self._create("template0")
            dsn = self.dsn(self._template)
            asyncio.run(migrate(dsn, service_password=_PASSWORD))
        name = self._create(self._template if migrated else "template0")
        try:
            yield Database(
                owner_dsn=self.dsn(name), service_dsn=self.dsn(name, SERVICE_ROLE, _PASSWORD)
            )
        finally:
            asyncio.run(self._execute(f"drop database if exists {name} with (force)"))

    def drop_template(self) -> None:
        """Leave nothing behind on a server that goes on."""
        if self._template:
            asyncio.run(self._execute(f"drop database if exists {self._template}"))

    def _create(self, template: str) -> str:
        name = f"reef_test_{secrets.token_hex(6)}"
        asyncio.run(self._execute(f"create database {name} template {template}"))
        return name

    def dsn(self, database: str, user: str | None = None, password: str = "") -> str:
        """The DSN of one of the server's databases."""
        parts = urlsplit(self.admin_dsn)
        host = parts.netloc.rpartition("@")[2]
        netloc = parts.netloc if user is None else f"{user}:{quote(password)}@{host}"
        return urlunsplit(parts._replace(netloc=netloc, path=f"/{database}"))

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.admin_dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def running_server() -> Iterator[Server]:
    """The session's server."""
    if given := os.environ.get("REEF_TEST_DATABASE_URL"):
        server = Server(admin_dsn=given)
        try:
            yield server
        finally:
            server.drop_template()
        return
    # Not pytest's own temporary directory: that is closed to the user that root's server runs as.
    root = Path(tempfile.mkdtemp(prefix="reef-test-"))
    try:
        with EmbeddedPostgres(root, settings={"fsync": "off", "max_connections": "200"}) as server:
            yield Server(admin_dsn=server.dsn)
    finally:
        shutil.rmtree(root, ignore_errors=True)
