"""SQL by hand, with the service's password and as the owner of the tables: it changes nothing.

That is why one database serves all of these tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.log import EventLog
from reef_release.log.migrate import SERVICE_ROLE
from tests.databases import Database, Server
from tests.integration.log.mirror import created, new_event

pytestmark = pytest.mark.anyio

INSERT = """insert into reef.events
    select 1, gen_random_uuid(), scenario, 'release/stable', 1, 'release.promoted', recorded_at,
           body, chain
    from reef.events where position = 0"""

CHANGES = [
    INSERT,
    "update reef.events set body = '{}' where position = 0",
    "update reef.events set body = '{}' where false",
    "delete from reef.events where position = 0",
    "truncate reef.events",
    "insert into reef.head values (false, 5, decode(repeat('00', 32), 'hex'), now())",
    "update reef.head set position = -1",
    "delete from reef.head",
    "truncate reef.head",
    "insert into reef.decisions values ('physics', 5)",
    "update reef.decisions set position = -1",
    "delete from reef.decisions",
    "truncate reef.decisions",
    "merge into reef.events e using reef.head h on e.position = h.position "
    "when matched then update set body = '{}'",
    "insert into reef.events select * from reef.events "
    "on conflict (position) do update set body = '{}'",
]

DEFINITIONS = [
    "alter table reef.events disable trigger all",
    "alter table reef.events disable trigger events_never_change",
    "drop trigger events_never_change on reef.events",
    "alter table reef.events drop constraint events_pkey",
    "alter table reef.events owner to reef_service",
    "create or replace function reef.refuse_change() returns trigger language plpgsql "
    "as $$ begin return new; end $$",
    "create function reef.mine() returns int language sql as 'select 1'",
    "create table reef.mine (a int)",
    "insert into reef.event_types values ('a.b', 'scenario', null, false, 1)",
    "update reef.event_types set ruled = false",
    "update reef.event_types set decisive = false",
    "insert into reef.without_effect values (0)",
    "update reef.alembic_version set version_num = '9'",
    "drop table reef.events",
    "drop schema reef cascade",
    "set session_replication_role = replica",
    "set role reef_owner",
    "grant reef_owner to reef_service",
    "alter role reef_service superuser",
]


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[Database]:
    with postgres.database() as database:
        yield database


@pytest.fixture(autouse=True)
async def _one_event(log: EventLog) -> None:
    await log.append(created(event_id="01900000-0000-7000-8000-000000000000"))


async def contents(owner: asyncpg.Connection) -> tuple[object, ...]:
    return (
        await owner.fetch("select * from reef.events order by position"),
        await owner.fetch("select * from reef.head"),
        await owner.fetch("select * from reef.decisions order by scenario"),
        await owner.fetch("select * from reef.without_effect"),
        await owner.fetch("select * from reef.event_types order by type"),
    )


@pytest.mark.parametrize("statement", [*CHANGES, *DEFINITIONS])
async def test_the_services_password_changes_nothing(
    service: asyncpg.Connection, owner: asyncpg.Connection, statement: str
) -> None:
    before = await contents(owner)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(statement)
    assert await contents(owner) == before


async def test_the_services_role_reads_and_appends(
    log: EventLog, service: asyncpg.Connection
) -> None:
    held = await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
    assert not held.duplicate
    assert await service.fetchval("select count(*) from reef.events") == held.position + 1


@pytest.mark.parametrize(
    "call",
    [
        "reef.rule_reasons('gate.trial', 'homework', 'gate/x', 1, 'gate_id', '{}')",
        "reef.last_pointer('homework', 'stable')",
        "reef.event_data('{}')",
        "reef.as_object('{}')",
        "reef.all_objects('{}')",
        "reef.too_deep('{}')",
    ],
)
async def test_the_services_role_calls_one_function_only(
    service: asyncpg.Connection, call: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(f"select {call}")


async def test_append_events_is_the_only_function_that_others_may_call(
    owner: asyncpg.Connection,
) -> None:
    callable_by_service = await owner.fetch(
        """select proname from pg_proc
           where pronamespace = 'reef'::regnamespace
             and has_function_privilege('reef_service', oid, 'execute')"""
    )
    assert [row["proname"] for row in callable_by_service] == ["append_events"]
    public = await owner.fetch(
        """select proname from pg_proc, aclexplode(proacl)
           where pronamespace = 'reef'::regnamespace and grantee = 0"""
    )
    assert public == []


async def test_the_append_function_looks_only_where_it_says(owner: asyncpg.Connection) -> None:
    row = await owner.fetchrow(
        """select prosecdef, proconfig, proowner::regrole::text as owner
           from pg_proc where proname = 'append_events'"""
    )
    assert row["prosecdef"]
    assert row["owner"] == "reef_owner"
    assert "search_path=pg_catalog, reef, pg_temp" in row["proconfig"]


async def test_objects_in_the_callers_temporary_schema_are_not_looked_at(
    service: asyncpg.Connection,
) -> None:
    # Whoever may connect may make temporary tables, and they come first in a default path.
    await service.execute("create temporary table events (like reef.events)")
    await service.execute("create temporary table head (like reef.head)")
    await service.execute("insert into head values (true, 99, '', now())")
    await service.execute("set search_path = pg_temp, reef")
    row = await service.fetchrow(
        """select * from reef.append_events(
            array[gen_random_uuid()], '{homework}', '{scenario}', '{scenario.held}', '{1}',
            '{me}', array[null], array[null], array['{"reason":"x"}'], array[null]::int[])"""
    )
    assert row["outcome"] == "appended"
    assert row["at_position"] < 99


@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize("replica", [False, True], ids=["", "as a replica"])
async def test_triggers_refuse_the_owner_too(
    owner: asyncpg.Connection, statement: str, replica: bool
) -> None:
    before = await contents(owner)
    async with owner.transaction():
        if replica:
            # Ordinary triggers do not fire then.
            await owner.execute("set local session_replication_role = replica")
        await owner.execute("set local role reef_owner")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="reef"):
            async with owner.transaction():
                await owner.execute(statement)
    assert await contents(owner) == before


async def test_the_owner_role_cannot_log_in(owner: asyncpg.Connection) -> None:
    logins = dict(
        await owner.fetch("select rolname, rolcanlogin from pg_roles where rolname like 'reef\\_%'")
    )
    assert logins["reef_owner"] is False
    assert logins[SERVICE_ROLE] is True
    member = await owner.fetchval("select pg_has_role('reef_service', 'reef_owner', 'member')")
    assert member is False
