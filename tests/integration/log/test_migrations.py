"""Fresh databases: several processes at once, roles that exist already, tables and migrations."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from alembic import command

from reef_release.domain import events as ev
from reef_release.domain.decisive import DECISIVE
from reef_release.domain.events import EVENT_TYPES
from reef_release.errors import LogUnavailable, SettingsError
from reef_release.log import EventLog
from reef_release.log import migrate as migrations
from reef_release.log.eventlog import SCHEMA_REVISION
from reef_release.log.migrate import SERVICE_ROLE, check, migrate, newest_revision
from reef_release.log.outcomes import arguments
from tests.databases import Database, Server, running_server
from tests.integration.log.mirror import created, new_event, until
from tests.world import SCENARIO

pytestmark = pytest.mark.anyio

LOCK_KEY = int.from_bytes(b"reeflog", "big")


@pytest.fixture
def empty(postgres: Server) -> Iterator[Database]:
    with postgres.database(migrated=False) as database:
        yield database


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


def start_migrating(database: Database, password: str | None) -> subprocess.Popen[bytes]:
    program = (
        "import asyncio, sys; from reef_release.log.migrate import migrate; "
        f"asyncio.run(migrate(sys.argv[1], service_password={password!r}))"
    )
    return subprocess.Popen([sys.executable, "-c", program, database.owner_dsn])


async def three_wait(owner: asyncpg.Connection) -> bool:
    return bool(
        await owner.fetchval(
            """select count(*) = 3 from pg_locks join pg_database d on d.oid = database
               where locktype = 'advisory' and not granted and datname = current_database()"""
        )
    )


async def test_three_services_may_migrate_a_fresh_database_at_once(empty: Database) -> None:
    async with connected(empty.owner_dsn) as owner:
        # Let all three arrive at the lock before one gets it.
        await owner.execute("select pg_advisory_lock($1::bigint)", LOCK_KEY)
        services = [start_migrating(empty, "reef test") for _ in range(3)]
        await until(partial(three_wait, owner))
        assert await owner.fetchval("select to_regclass('reef.events')") is None
        await owner.execute("select pg_advisory_unlock($1::bigint)", LOCK_KEY)
        assert [await asyncio.to_thread(service.wait) for service in services] == [0, 0, 0]
    assert await head_of(empty) == -1


def test_three_databases_of_a_fresh_cluster_may_be_migrated_at_once() -> None:
    # Roles belong to the cluster, and no lock is shared by all of its databases. On a server
    # that is not ours the roles may exist already.
    ours = "REEF_TEST_DATABASE_URL" not in os.environ
    with running_server() as server, ExitStack() as stack:
        databases = [stack.enter_context(server.database(migrated=False)) for _ in range(3)]
        services = [start_migrating(database, None) for database in databases]
        assert [service.wait() for service in services] == [0, 0, 0]
        if ours:
            with pytest.raises(SettingsError, match="does not let this service in"):
                asyncio.run(head_of(databases[0]))
        asyncio.run(migrate(databases[0].owner_dsn, service_password="reef test"))
        assert [asyncio.run(head_of(database)) for database in databases] == [-1, -1, -1]


async def head_of(database: Database) -> int:
    async with EventLog.open(database.service_dsn) as log:
        return await log.head()


async def test_migrating_again_changes_nothing(database: Database) -> None:
    async with connected(database.owner_dsn) as owner:
        before = await owner.fetch("select oid, relname, relacl from pg_class order by oid")
        await migrate(database.owner_dsn)
        assert await owner.fetch("select oid, relname, relacl from pg_class order by oid") == before


async def test_the_migrations_make_the_tables_that_the_code_describes(empty: Database) -> None:
    assert await check(empty.owner_dsn) == []


async def test_an_upgrade_knows_what_was_decided_before(empty: Database) -> None:
    await asyncio.to_thread(
        migrations._alembic, empty.owner_dsn, lambda config: command.upgrade(config, "0006")
    )
    revoked = ev.KeyRevoked(key_id="0" * 64, role="gate", reason="stolen")
    refused = ev.NodeRefused(node_id="n", release_id="0" * 64, channel="stable", reasons=[])
    events = [created(), new_event(revoked), new_event(refused)]
    call = "select * from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    async with connected(empty.owner_dsn) as owner:
        await owner.fetch(call, *arguments(events)[:10])
        await migrate(empty.owner_dsn)
        rows = await owner.fetch('select * from reef.decisions order by scenario collate "C"')
    assert [tuple(row) for row in rows] == [("_", 1), (SCENARIO, 0)]


async def test_a_table_that_the_code_does_not_describe_is_noticed(database: Database) -> None:
    async with connected(database.owner_dsn) as owner:
        await owner.execute("alter table reef.events add column note text")
    (problem,) = await check(database.owner_dsn)
    assert "note" in problem


async def test_the_database_knows_the_event_types_that_the_domain_knows(
    database: Database,
) -> None:
    async with connected(database.owner_dsn) as owner:
        rows = await owner.fetch("select * from reef.event_types")
    assert {row["type"] for row in rows} == set(EVENT_TYPES)
    for row in rows:
        assert row["newest_schema_version"] == EVENT_TYPES[row["type"]].SCHEMA_VERSION
        assert row["decisive"] == (row["type"] in DECISIVE)
        fields = EVENT_TYPES[row["type"]].__struct_fields__
        assert (row["subject"] is None) == (not row["stream"].endswith("/"))
        assert row["subject"] is None or (row["subject"] in fields and row["ruled"])


def test_the_code_asks_for_a_schema_that_the_migrations_lead_to() -> None:
    assert newest_revision() >= SCHEMA_REVISION


def test_revisions_sort_as_text(repository: Path) -> None:
    names = [path.stem for path in (repository / "migrations" / "versions").glob("*.py")]
    assert [name for name in names if not re.fullmatch(r"\d{4}", name)] == []


async def test_an_open_without_a_schema_says_what_to_do(empty: Database) -> None:
    with pytest.raises(SettingsError, match="reef-release migrate"):
        async with EventLog.open(empty.owner_dsn):
            raise AssertionError("opened")


async def test_a_database_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    nowhere = f"postgresql://reef@/reef?host={tmp_path}"
    with pytest.raises(LogUnavailable, match="cannot be reached"):
        async with EventLog.open(nowhere):
            raise AssertionError("opened")
    with pytest.raises(LogUnavailable, match="cannot be reached"):
        await migrate(nowhere)


async def test_a_wrong_password_is_a_matter_of_settings(database: Database) -> None:
    with pytest.raises(SettingsError, match="does not let this service in"):
        async with EventLog.open(database.service_dsn.replace("reef%20test", "guess")):
            raise AssertionError("opened")


async def test_a_database_that_is_not_utf8_is_refused(postgres: Server) -> None:
    async with connected(postgres.admin_dsn) as admin:
        await admin.execute(
            "create database reef_latin1 template template0 encoding 'LATIN1' "
            "locale_provider libc locale 'C'"
        )
        try:
            with pytest.raises(SettingsError, match="encoded in LATIN1"):
                await migrate(postgres.dsn("reef_latin1"))
        finally:
            await admin.execute("drop database reef_latin1")


async def test_a_user_without_the_rights_is_told_which(database: Database, empty: Database) -> None:
    with pytest.raises(SettingsError, match="permission denied"):
        await migrate(empty.service_dsn)


async def test_a_migrated_database_takes_no_rights_to_find_up_to_date(database: Database) -> None:
    await migrate(database.service_dsn)


@pytest.mark.parametrize("password", ["", "zwölf", "line\nbreak"])
async def test_a_password_that_clients_spell_differently_is_refused(
    database: Database, password: str
) -> None:
    with pytest.raises(SettingsError, match="printable ASCII"):
        await migrate(database.owner_dsn, service_password=password)


async def test_a_password_may_hold_quotes(database: Database) -> None:
    password = 'it\'s "so" \\ %s $1 --'
    await migrate(database.owner_dsn, service_password=password)
    try:
        connection = await asyncpg.connect(database.service_dsn, password=password)
        await connection.close()
    finally:
        await migrate(database.owner_dsn, service_password="reef test")


async def test_an_owner_that_is_no_superuser_can_migrate(empty: Database) -> None:
    async with connected(empty.owner_dsn) as owner:
        name = await owner.fetchval("select current_database()")
        await owner.execute("create role reef_migrator login createrole password 'probe'")
        await owner.execute(f"alter database {name} owner to reef_migrator")
        await owner.execute("grant reef_owner, reef_service to reef_migrator with admin option")
    dsn = empty.service_dsn.replace(f"{SERVICE_ROLE}:reef%20test", "reef_migrator:probe")
    try:
        await migrate(dsn)
        assert await head_of(empty) == -1
    finally:
        async with connected(empty.owner_dsn) as owner:
            await owner.execute("reassign owned by reef_migrator to current_user")
            await owner.execute("drop owned by reef_migrator")
            await owner.execute("drop role reef_migrator")
