"""What cannot be appended whatever the log says: malformed data, names and arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import decode_envelope
from reef_release.errors import BadRequest
from reef_release.log import Appended, EventLog, NewEvent, RuleRefused
from reef_release.log.outcomes import arguments
from tests.databases import Database, Server
from tests.integration.log.mirror import created, new_event

pytestmark = pytest.mark.anyio

CALL = "select * from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[Database]:
    with postgres.database() as database:
        yield database


@pytest.fixture(autouse=True)
async def _one_event(log: EventLog) -> None:
    await log.append(created(event_id="01900000-0000-7000-8000-000000000000"))


def held(reason: str = "odd answers", **fields: Any) -> NewEvent:
    return new_event(ev.ScenarioHeld(reason=reason), **fields)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1},"event_id":"x"', "malformed-data"),
        (b'{"a":1},"position":0,"x":{"b":1}', "malformed-data"),
        (b"{}}", "malformed-data"),
        (b'{"reason":"x"', "malformed-data"),
        (b'{"reason":"x"}{}', "malformed-data"),
        (b"", "malformed-data"),
        (b"null", "malformed-data"),
        (b'"text"', "malformed-data"),
        (b"[1]", "malformed-data"),
        (b'{"a":NaN}', "malformed-data"),
        (b"{'a':1}", "malformed-data"),
        (b'{"a":"\\ud800"}', "malformed-data"),
        (b'{"a":"\\\\ \\\\\\udc00"}', "malformed-data"),
        (b'{"a":"\\u0000"}', "malformed-data"),
        (b' {"a":1}', "malformed-data"),
        (b'{"a":1}\n', "malformed-data"),
        (b'\xef\xbb\xbf{"a":1}', "malformed-data"),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "malformed-data"),
        (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "malformed-data"),
        (b'{"a":' + b'[1,{"b":' * 40 + b"1" + b"}]" * 40 + b"}", "malformed-data"),
        (b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "malformed-data"),
    ],
)
async def test_data_cannot_end_its_envelope_early(log: EventLog, data: bytes, code: str) -> None:
    before = await log.head()
    with pytest.raises(RuleRefused) as caught:
        await log.append(held(data=data))
    assert [reason.code for reason in caught.value.reasons] == [code]
    assert await log.head() == before


@pytest.mark.parametrize("data", [b'{"candidate_id":"\\u0000"}', b'{"candidate_id":"\\ud800"}'])
async def test_what_the_rule_cannot_read_is_refused_alone(log: EventLog, data: bytes) -> None:
    revoked = new_event({}, type="candidate.revoked", stream="candidate/x", data=data)
    outcomes = await asyncio.gather(
        log.append(held()), log.append(revoked), log.append(held()), return_exceptions=True
    )
    assert [isinstance(each, Appended) for each in outcomes] == [True, False, True]


@pytest.mark.parametrize(
    "names",
    [
        {"scenario": ""},
        {"scenario": "a/b"},
        {"scenario": ".."},
        {"scenario": "a\n"},
        {"scenario": "x" * 65},
        {"scenario": 'a","type":"release.promoted'},
        {"stream": ""},
        {"stream": "scenario\n"},
        {"stream": "scenario/"},
        {"stream": "node/" + "x" * 200},
        {"actor": ""},
        {"actor": 'a"b'},
        {"actor": "a\\"},
        {"actor": "a\tb"},
        {"actor": "x" * 201},
        {"causation_id": ""},
        {"correlation_id": '"'},
        {"correlation_id": "x" * 201},
    ],
)
async def test_names_that_json_would_have_to_escape_are_refused(
    log: EventLog, names: dict[str, str]
) -> None:
    with pytest.raises(RuleRefused) as caught:
        await log.append(held(**names))
    assert [reason.code for reason in caught.value.reasons] == ["malformed-envelope"]


async def test_the_largest_event_fits_and_a_larger_one_does_not(
    log: EventLog, service: asyncpg.Connection
) -> None:
    frame = len(b'{"reason":""}')
    names = {"actor": "x" * 200, "causation_id": "x" * 200, "correlation_id": "x" * 200}
    await log.append(held("r" * (64_000 - frame), **names))
    with pytest.raises(BadRequest, match="64000 fit"):
        held("r" * (64_001 - frame))
    columns = list(arguments([held("r")]))
    columns[8] = ['{"reason":"' + "r" * (64_001 - frame) + '"}']
    (row,) = await service.fetch(CALL, *columns)
    assert row["reasons"] == ["data-too-large"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"reason":"' + b"[{" * 500 + b'"}',
        b'{"reason":[' + b",".join([b"{}"] * 500) + b"]}",
        b'{"reason":"\\"[\\\\","a":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{ "reason" : "x" }',
        b'{"reason":"x","reason":"y"}',
        b'{"b":1,"a":2}',
        b'{"reason":"\\\\ud800 \\u001f\\/\\u00e9\\ud83d\\udc1a"}',
        '{"reason":"\u2028\x7f\U0001f41a\ufffe"}'.encode(),
        b'{"reason":1e999,"a":-0,"b":1.0,"c":123456789012345678901234567890}',
        b"{}",
    ],
)
async def test_what_is_accepted_stops_no_reader(log: EventLog, data: bytes) -> None:
    # The service never writes such data, but its password is enough to.
    appended = await log.append(held(data=data))
    (stored,) = await log.read(after=appended.position - 1, limit=1)
    envelope = decode_envelope(stored.body)
    assert envelope.position == appended.position
    assert bytes(envelope.data) == data


async def test_a_schema_version_that_readers_do_not_know_is_refused(log: EventLog) -> None:
    with pytest.raises(RuleRefused) as caught:
        await log.append(held(schema_version=2))
    assert [reason.code for reason in caught.value.reasons] == ["unknown-schema-version"]


async def test_null_arguments_by_hand_are_refused(service: asyncpg.Connection) -> None:
    for index in range(9):
        if index in (6, 7):
            continue
        columns = list(arguments([held()]))
        columns[index] = [None]
        (row,) = await service.fetch(CALL, *columns)
        assert row["outcome"] == "refused", index
    columns = list(arguments([held(), held()]))
    columns[3] = columns[3][:1]
    rows = await service.fetch(CALL, *columns)
    assert [row["outcome"] for row in rows] == ["appended", "refused"]
