"""What one append does: where it lands, which bytes it leaves, and what repeating it means."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.ids import uuid7
from reef_release.log import EventLog, IdConflict, NewEvent, RuleRefused, VersionConflict
from reef_release.log.outcomes import arguments
from tests.databases import Database
from tests.integration.log.mirror import created, new_event

pytestmark = pytest.mark.anyio

CALL = "select * from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


def held(reason: str = "odd answers", **fields: Any) -> NewEvent:
    return new_event(ev.ScenarioHeld(reason=reason), **fields)


async def batch(service: asyncpg.Connection, *events: NewEvent) -> list[tuple[Any, ...]]:
    """Append in one call: outcome, position and version of each."""
    rows = await service.fetch(CALL, *arguments(events))
    return [(row["outcome"], row["at_position"], row["at_version"]) for row in rows]


# Place and bytes


async def test_positions_start_at_zero_and_versions_at_one(log: EventLog) -> None:
    assert await log.head() == -1
    first = await log.append(created())
    second = await log.append(held())
    other = await log.append(created("physics"))
    assert [(each.position, each.version) for each in (first, second, other)] == [
        (0, 1),
        (1, 2),
        (2, 1),
    ]
    assert await log.head() == 2


async def test_the_stored_bytes_are_the_canonical_envelope(log: EventLog) -> None:
    event = new_event(
        {"é": '"quoted" \\ \u2028 \x1f 🐚', "nested": [{"b": None, "a": -1}], "reason": "x"},
        type="scenario.held",
        stream="scenario",
        actor="operate:a b+c@d",
        causation_id=uuid7(),
        correlation_id="request-7",
    )
    await log.append(created())
    appended = await log.append(event)
    (stored,) = await log.read(after=0)
    envelope = parse_json(stored.body)
    assert stored.body == canonical_json(envelope)
    assert envelope == {
        "actor": event.actor,
        "causation_id": event.causation_id,
        "correlation_id": event.correlation_id,
        "data": parse_json(event.data),
        "event_id": event.event_id,
        "position": 1,
        "recorded_at": appended.recorded_at,
        "scenario": "homework",
        "schema_version": 1,
        "stream": "scenario",
        "type": "scenario.held",
        "version": 2,
    }


async def test_the_columns_repeat_the_envelope(log: EventLog, owner: asyncpg.Connection) -> None:
    await asyncio.gather(log.append(created()), *(log.append(held(str(n))) for n in range(20)))
    for row in await owner.fetch("select * from reef.events"):
        envelope = json.loads(row["body"])
        for column in ("position", "scenario", "stream", "version", "type"):
            assert row[column] == envelope[column]
        assert str(row["event_id"]) == envelope["event_id"]
        assert row["recorded_at"] == datetime.fromisoformat(envelope["recorded_at"])


async def test_time_never_runs_backwards(log: EventLog, owner: asyncpg.Connection) -> None:
    await log.append(created())
    # As after a clock that stood in the future was set right.
    await owner.execute("alter table reef.head disable trigger all")
    await owner.execute("update reef.head set recorded_at = '2999-01-01T00:00:00Z'")
    later = await log.append(held())
    assert later.recorded_at == "2999-01-01T00:00:00.000000Z"


async def test_the_hash_chain_covers_every_event(log: EventLog) -> None:
    assert await log.verify_chain() == -1
    await asyncio.gather(log.append(created()), *(log.append(held(str(n))) for n in range(1500)))
    assert await log.verify_chain() == 1500


# Repeating


async def test_a_repeated_append_gets_its_first_result(log: EventLog) -> None:
    await log.append(created())
    event = held(expected_version=1)
    first = await log.append(event)
    await log.append(held())
    again = await log.append(event)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.position, again.version, again.recorded_at) == (1, 2, first.recorded_at)
    assert await log.head() == 2


async def test_a_divergent_retry_is_refused_and_does_not_poison_the_record(log: EventLog) -> None:
    await log.append(created())
    report = held("A")
    first = await log.append(report)
    divergent = held("B", event_id=report.event_id)
    for _ in range(2):
        with pytest.raises(IdConflict) as caught:
            await log.append(divergent)
        assert caught.value.extra["position"] == first.position
        assert (await log.append(report)).position == first.position
    assert await log.head() == first.position


@pytest.mark.parametrize(
    "change",
    [
        {"data": b'{"reason":"other"}'},
        {"actor": "somebody"},
        {"causation_id": "b7d5e1f0-0000-7000-8000-000000000000"},
        {"correlation_id": "other"},
        {"type": "scenario.resumed"},
        {"scenario": "physics"},
    ],
)
async def test_any_other_content_under_a_known_id_is_a_conflict(
    log: EventLog, change: dict[str, Any]
) -> None:
    await log.append(created())
    await log.append(created("physics"))
    event = held()
    await log.append(event)
    changed = {name: getattr(event, name) for name in NewEvent.__struct_fields__} | change
    with pytest.raises(IdConflict):
        await log.append(NewEvent(**changed))
    assert (await log.append(event)).duplicate


async def test_a_retry_may_expect_another_version(log: EventLog) -> None:
    await log.append(created())
    event = held(expected_version=1)
    await log.append(event)
    assert (await log.append(held(event_id=event.event_id, expected_version=7))).duplicate


async def test_a_refused_append_may_be_tried_again_with_the_same_id(log: EventLog) -> None:
    event = held()
    with pytest.raises(RuleRefused):
        await log.append(event)
    await log.append(created())
    assert not (await log.append(event)).duplicate


# Many in one call


async def test_duplicates_within_one_call_are_resolved(service: asyncpg.Connection) -> None:
    start, event = created(), held()
    divergent = held("other", event_id=event.event_id)
    assert await batch(service, start, event, event, divergent, event, held()) == [
        ("appended", 0, 1),
        ("appended", 1, 2),
        ("duplicate", 1, 2),
        ("id-conflict", 1, None),
        ("duplicate", 1, 2),
        ("appended", 2, 3),
    ]


async def test_the_second_of_two_equal_ids_counts_when_the_first_was_refused(
    service: asyncpg.Connection,
) -> None:
    early, start = held(), created()
    assert await batch(service, early, start, early) == [
        ("refused", None, None),
        ("appended", 0, 1),
        ("appended", 1, 2),
    ]


async def test_a_refused_append_does_not_touch_its_neighbours(service: asyncpg.Connection) -> None:
    bad = [
        held(scenario="nobody"),
        held(type="scenario.invented"),
        held(stream="trust"),
        held(data=b"[]"),
        held(data=b'{"a":'),
        held(actor='"'),
        held(expected_version=9),
        created(),
    ]
    outcomes = await batch(service, created(), *(each for one in bad for each in (one, held())))
    assert [outcome for outcome, _, _ in outcomes[1::2]] == [
        *["refused"] * 6,
        "version-conflict",
        "refused",
    ]
    assert outcomes[0::2] == [("appended", n, n + 1) for n in range(9)]


async def test_versions_are_checked_within_one_call(service: asyncpg.Connection) -> None:
    events = [held(expected_version=version) for version in (1, 1, 2, 2, 3)]
    assert await batch(service, created(), *events) == [
        ("appended", 0, 1),
        ("appended", 1, 2),
        ("version-conflict", None, 2),
        ("appended", 2, 3),
        ("version-conflict", None, 3),
        ("appended", 3, 4),
    ]


async def test_no_event_at_all_is_no_change(
    service: asyncpg.Connection, owner: asyncpg.Connection
) -> None:
    before = await owner.fetchrow("select * from reef.head")
    assert await batch(service) == []
    assert await owner.fetchrow("select * from reef.head") == before


async def test_a_call_that_appended_notifies_once(
    service: asyncpg.Connection, owner: asyncpg.Connection
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await owner.add_listener("reef_events", lambda _c, _p, _n, payload: heard.put_nowait(payload))
    await batch(service, created(), held(), held())
    await batch(service, created())
    await batch(service, held())
    assert [await heard.get(), await heard.get()] == ["2", "3"]
    assert heard.empty()


async def test_nobody_keeps_the_head_locked_while_thinking(service: asyncpg.Connection) -> None:
    async with service.transaction():
        await batch(service, created())
        assert await service.fetchval("show idle_in_transaction_session_timeout") == "10s"
    assert await service.fetchval("show idle_in_transaction_session_timeout") == "0"


# Versions


async def test_a_stream_that_moved_on_is_a_conflict(log: EventLog) -> None:
    with pytest.raises(VersionConflict) as caught:
        await log.append(
            new_event(ev.KeyRevoked(key_id="1", role="gate", reason="lost"), expected_version=1)
        )
    assert caught.value.extra["version"] == 0
    await log.append(created())
    await log.append(held(expected_version=1))
    with pytest.raises(VersionConflict) as caught:
        await log.append(held(expected_version=1))
    assert caught.value.extra["version"] == 2
    assert (await log.append(held(expected_version=2))).version == 3


async def test_of_two_writers_with_one_expectation_one_wins(database: Database) -> None:
    async with (
        EventLog.open(database.service_dsn) as one,
        EventLog.open(database.service_dsn) as two,
    ):
        await one.append(created())
        for version in range(1, 20):
            outcomes = await asyncio.gather(
                one.append(held(expected_version=version)),
                two.append(held(expected_version=version)),
                return_exceptions=True,
            )
            assert sorted(type(each).__name__ for each in outcomes) == [
                "Appended",
                "VersionConflict",
            ]


# Speed that lasts


async def test_appending_reads_only_what_it_asks_for(
    database: Database, owner: asyncpg.Connection
) -> None:
    # A session that began on an empty, never analysed table must not keep a plan that reads
    # the table, or all of a scenario, for every batch.
    async with EventLog.open(database.service_dsn) as log:
        await log.append(created())
        for _ in range(20):
            await asyncio.gather(*(log.append(held()) for _ in range(50)))
    read: dict[str, int] = {}
    while not read.get("events_stream_version_key"):  # counted when the session has ended
        rows = await owner.fetch(
            """select indexrelname, idx_tup_read from pg_stat_user_indexes
               where schemaname = 'reef' and relname = 'events'"""
        )
        read = {row["indexrelname"]: row["idx_tup_read"] for row in rows}
    scanned = await owner.fetchval(
        "select seq_tup_read from pg_stat_user_tables where relname = 'events'"
    )
    assert read["events_by_scenario"] == read["events_by_type"] == scanned == 0
    assert sum(read.values()) < 1000


# What other streams decide


async def test_nothing_stands_behind_a_decision_that_its_appender_had_not_seen(
    log: EventLog,
) -> None:
    await log.append(created())
    await log.append(created("physics"))
    decided = await log.append(held())
    for seen in (-1, 0, decided.position - 1):
        with pytest.raises(VersionConflict) as conflict:
            await log.append(held(validated_position=seen))
        assert conflict.value.extra == {"version": 2, "position": decided.position}
    assert await log.head() == decided.position
    assert (await log.append(held(validated_position=decided.position))).version == 3


async def test_a_decision_of_another_scenario_is_none_and_one_of_no_scenario_is_everybodys(
    log: EventLog,
) -> None:
    start = await log.append(created())
    await log.append(created("physics"))
    await log.append(held(scenario="physics"))
    first = await log.append(held(validated_position=start.position))
    key = ev.KeyRevoked(key_id="0" * 64, role="gate", reason="stolen")
    revoked = await log.append(new_event(key))
    with pytest.raises(VersionConflict) as conflict:
        await log.append(held(validated_position=first.position))
    assert conflict.value.extra["position"] == revoked.position
    await log.append(held(validated_position=revoked.position))


async def test_a_trial_decides_nothing_for_others(log: EventLog) -> None:
    start = await log.append(created())
    refusal = ev.NodeRefused(node_id="n", release_id="0" * 64, channel="stable", reasons=[])
    await log.append(new_event(refusal))
    await log.append(held(validated_position=start.position))


async def test_a_decision_in_the_same_call_counts(service: asyncpg.Connection) -> None:
    events = created(), held(validated_position=0), held("other", validated_position=0)
    assert await batch(service, *events) == [
        ("appended", 0, 1),
        ("appended", 1, 2),
        ("version-conflict", 1, 2),
    ]


async def test_a_repeated_append_gets_its_first_result_whatever_was_decided_since(
    log: EventLog,
) -> None:
    start = await log.append(created())
    event = held(validated_position=start.position)
    first = await log.append(event)
    await log.append(held())
    again = await log.append(event)
    assert (again.position, again.duplicate) == (first.position, True)


async def test_a_service_of_the_revision_before_still_appends(service: asyncpg.Connection) -> None:
    call = CALL.replace(", $11", "")
    rows = await service.fetch(call, *arguments([created()])[:-1])
    assert [row["outcome"] for row in rows] == ["appended"]
