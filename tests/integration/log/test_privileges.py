"""SQL by hand: with the service's password, as the owner of the tables, and as a superuser."""

from __future__ import annotations

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.errors import InvalidEvent
from reef_release.log import EventLog
from reef_release.log.migrate import SERVICE_ROLE
from tests.databases import Database
from tests.integration.log.mirror import new_event

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
    "insert into reef.event_types values ('a.b', 'scenario', null, false)",
    "update reef.event_types set ruled = false",
    "update reef.alembic_version set version_num = '9'",
    "drop table reef.events",
    "drop schema reef cascade",
    "set session_replication_role = replica",
    "set role reef_owner",
    "grant reef_owner to reef_service",
    "alter role reef_service superuser",
]


@pytest.fixture(autouse=True)
async def _one_event(log: EventLog) -> None:
    await log.append(
        new_event(ev.ScenarioCreated(schema="0" * 64, policy_digest="1" * 64, policy={}))
    )


async def contents(owner: asyncpg.Connection) -> tuple[object, ...]:
    return (
        await owner.fetch("select * from reef.events order by position"),
        await owner.fetch("select * from reef.head"),
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
    assert await service.fetchval("select count(*) from reef.events") == held.position + 1


@pytest.mark.parametrize(
    "call",
    [
        "reef.rule_reasons('gate.trial', 'homework', 'gate/x', 1, 'gate_id', '{}')",
        "reef.last_pointer('homework', 'stable')",
        "reef.event_data('{}')",
        "reef.as_object('{}')",
        "reef.all_objects('{}')",
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
    database: Database, service: asyncpg.Connection
) -> None:
    # Whoever may connect may make temporary tables, and they come first in a default path.
    await service.execute("create temporary table events (like reef.events)")
    await service.execute("create temporary table head (like reef.head)")
    await service.execute("insert into head values (true, 99, '', now())")
    await service.execute("set search_path = pg_temp, reef")
    row = await service.fetchrow(
        """select * from reef.append_events(
            array[gen_random_uuid()], '{homework}', '{scenario}', '{scenario.held}', '{1}',
            '{me}', array[null], array[null], array['{"reason":"x"}'], '{1}')"""
    )
    assert (row["outcome"], row["at_position"]) == ("appended", 1)


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


@pytest.mark.parametrize(
    "crime",
    [
        "update reef.events set body = replace(body, 'odd', 'bad') where position = 1",
        "delete from reef.events where position = 1",
        "update reef.events set chain = decode(repeat('11', 32), 'hex') where position = 1",
        "update reef.head set position = 0",
        "update reef.head set chain = decode(repeat('11', 32), 'hex')",
    ],
)
async def test_a_change_of_the_very_last_event_is_tampering_and_not_a_torn_write(
    database: Database, log: EventLog, owner: asyncpg.Connection, crime: str
) -> None:
    await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
    async with EventLog.open(database.service_dsn) as again:
        assert await again.verify_chain() == 1
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute("alter table reef.head disable trigger all")
    await owner.execute(
        "create function pg_temp.replace(bytea, text, text) returns bytea language sql as "
        "$$ select convert_to(replace(convert_from($1, 'UTF8'), $2, $3), 'UTF8') $$"
    )
    await owner.execute(crime.replace("replace(", "pg_temp.replace("))
    with pytest.raises(InvalidEvent, match="by hand"):
        async with EventLog.open(database.service_dsn):
            raise AssertionError("opened")


async def test_the_hash_chain_finds_a_superusers_change_in_the_middle(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
    await log.append(new_event(ev.ScenarioResumed(reason="fine")))
    assert await log.verify_chain() == 2
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute("update reef.events set body = body || ' '::bytea where position = 1")
    with pytest.raises(InvalidEvent, match="after position 0"):
        await log.verify_chain()


async def test_a_row_that_the_owner_smuggled_in_is_not_appended_over(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute(INSERT)
    with pytest.raises(InvalidEvent, match="does not link"):
        await log.verify_chain()
    with pytest.raises(asyncpg.UniqueViolationError):
        await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
