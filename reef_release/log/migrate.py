"""Bring a database to the newest schema, and check that migrations and tables agree.

`python -m reef_release.log.migrate check` does the latter on a fresh embedded PostgreSQL; it
is a step of `make check`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

import reef_release
from reef_release.errors import LogUnavailable, SettingsError
from reef_release.log.embedded import EmbeddedPostgres

__all__ = ["OWNER_ROLE", "SERVICE_ROLE", "check", "connect", "migrate", "newest_revision"]

OWNER_ROLE = "reef_owner"
SERVICE_ROLE = "reef_service"
_SCRAM_ITERATIONS = 4096
_ALEMBIC_LOCK = threading.Lock()


async def migrate(dsn: str, *, service_password: str | None = None) -> None:
    """Migrate the database at *dsn*, whose user may create roles, to the newest schema.

    With *service_password* the role `reef_service` may log in with it; without, it stays as it
    is (a fresh one cannot log in). Safe to run from several processes at once. Raises
    `LogUnavailable` and `SettingsError`.
    """
    await asyncio.to_thread(_alembic, dsn, lambda config: command.upgrade(config, "head"))
    if service_password is not None:
        await _set_password(dsn, service_password)


async def check(dsn: str) -> list[str]:
    """What is wrong with the migrations, tried on the empty database at *dsn*; best nothing."""
    heads = ScriptDirectory.from_config(_config()).get_heads()
    if len(heads) != 1:
        return [f"There are {len(heads)} newest revisions ({', '.join(heads)}); merge them."]
    await migrate(dsn)
    try:
        await asyncio.to_thread(_alembic, dsn, command.check)
    except CommandError as error:
        return [str(error)]
    return []


def newest_revision() -> str:
    """The schema revision that this version of the service needs."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


@asynccontextmanager
async def connect(dsn: str) -> AsyncIterator[AsyncConnection]:
    """An SQLAlchemy connection to *dsn*, as asyncpg understands it (sockets included)."""
    try:
        # Alembic takes the first schema of the path for the default one, and leaves it out when
        # it compares; for a user named reef that would be the log's own.
        raw = await asyncpg.connect(dsn, timeout=10, server_settings={"search_path": "public"})
    except (ValueError, OverflowError) as error:
        # What it says may quote a piece of the password.
        raise SettingsError(
            "The database's URL cannot be read.",
            next_step="Write postgresql://user:password@host:port/database, with what is special "
            "in the password percent-encoded.",
        ) from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise LogUnavailable(
            f"The database cannot be reached: {error}.",
            next_step="Check REEF_DATABASE_URL, and that PostgreSQL runs.",
        ) from error

    async def creator() -> Any:
        return raw

    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator, poolclass=NullPool)
    try:
        if raw.get_server_version() < (15,):
            raise SettingsError(
                f"PostgreSQL {raw.get_server_version().major} is too old.",
                next_step="Use PostgreSQL 15 or newer.",
            )
        encoding = raw.get_settings().server_encoding
        if encoding != "UTF8":
            raise SettingsError(
                f"The database is encoded in {encoding}, not UTF8.",
                next_step="Make another one: CREATE DATABASE … ENCODING 'UTF8'.",
            )
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()
        await raw.close()


def _migrations() -> Path:
    """The migrations: inside the wheel, or beside the package in a checkout."""
    package = Path(reef_release.__file__).parent
    for place in (package / "_migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise SettingsError(
        "The migrations are missing from this installation.",
        next_step="Install reef-release again.",
    )


def _config() -> Config:
    config = Config(stdout=io.StringIO())  # a library does not print
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    return config


def _alembic(dsn: str, run: Callable[[Config], object]) -> None:
    # Alembic keeps what it works on in module globals, and env.py runs an event loop.
    with _ALEMBIC_LOCK:
        config = _config()
        config.attributes["dsn"] = dsn
        try:
            run(config)
        except DBAPIError as error:
            raise SettingsError(
                f"The migration failed, and nothing was changed: {error.orig}.",
                next_step="Its user must own the database, and either may create roles or belong "
                f"to {OWNER_ROLE}.",
            ) from error


async def _set_password(dsn: str, password: str) -> None:
    """Let the service's role log in. The server sees a verifier, never the password."""
    if not password.isascii() or not password.isprintable() or not password:
        raise SettingsError(
            "The service's database password must be printable ASCII.",
            next_step="Choose another one.",
        )
    verifier = _scram_verifier(password)
    async with connect(dsn) as connection:
        for attempt in range(10):
            try:
                await connection.exec_driver_sql(
                    f"alter role {SERVICE_ROLE} login password '{verifier}'"
                )
                await connection.commit()
                return
            except Exception:
                # Roles are shared by all databases of a cluster, and two sessions that alter
                # the same one at once fail with "tuple concurrently updated".
                await connection.rollback()
                if attempt == 9:
                    raise
                await asyncio.sleep(0.05 * (attempt + 1))


def _scram_verifier(password: str) -> str:
    """What PostgreSQL stores for *password* (RFC 5803), so that no server log can contain it."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{encoded[0]}${encoded[1]}:{encoded[2]}"


def _check_on_embedded() -> int:
    root = Path(tempfile.mkdtemp(prefix="reef-check-"))
    try:
        with EmbeddedPostgres(root, settings={"fsync": "off"}) as server:
            problems = asyncio.run(check(server.dsn))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:] != ["check"]:
        sys.exit("usage: python -m reef_release.log.migrate check")
    sys.exit(_check_on_embedded())
