"""The simulated world's log, told again to Postgres event by event.

What the fold accepts the database must accept, so a test tells an honest story in the world
and lets the database `follow`. A crime is tried on the database alone (`codes_against`): the
world's log never contains it, and both can go on honestly afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from reef_release.domain.canonical import canonical_json
from reef_release.domain.events import (
    GLOBAL,
    Envelope,
    EventData,
    ScenarioCreated,
    encode_data,
)
from reef_release.domain.validation import stream_of
from reef_release.ids import uuid7
from reef_release.log import EventLog, NewEvent, RuleRefused
from tests.world import SCENARIO, World

__all__ = ["Mirror", "created", "new_event", "retold", "until"]

_ENVELOPE = msgspec.json.Decoder(Envelope)


def new_event(data: EventData | dict[str, Any], /, **fields: Any) -> NewEvent:
    """An append of *data* with the envelope that its type usually has, changed by *fields*."""
    if isinstance(data, EventData):
        stream = stream_of(data)
        usual: dict[str, Any] = {
            "type": data.TYPE,
            "stream": stream,
            "scenario": GLOBAL if stream.startswith("trust") else SCENARIO,
            "data": encode_data(data),
        }
    else:
        usual = {"scenario": SCENARIO, "data": canonical_json(data)}
    common: dict[str, Any] = {
        "event_id": uuid7(),
        "schema_version": 1,
        "actor": "test",
        "causation_id": None,
        "correlation_id": None,
        "expected_version": None,
    }
    return NewEvent(**(common | usual | fields))


def created(scenario: str = SCENARIO, **fields: Any) -> NewEvent:
    """A scenario's first event, with an empty policy: enough for the database."""
    data = ScenarioCreated(schema="0" * 64, policy_digest="1" * 64, policy={})
    return new_event(data, scenario=scenario, **fields)


def retold(body: bytes, **fields: Any) -> NewEvent:
    """The append that leads to the stored event *body*."""
    envelope = _ENVELOPE.decode(body)
    taken: dict[str, Any] = {
        name: getattr(envelope, name) for name in NewEvent.__struct_fields__ if name in _TAKEN
    }
    taken |= {"data": bytes(envelope.data), "expected_version": envelope.version - 1}
    return NewEvent(**(taken | fields))


_TAKEN = frozenset(Envelope.__struct_fields__) - {"data"}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return once *condition* holds; another process or the server makes it hold."""
    while not await condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)


class Mirror:
    """A world and the event log that follows it."""

    def __init__(self, world: World, log: EventLog) -> None:
        self.world = world
        self.log = log
        self._told = 0

    async def follow(self) -> None:
        """Append to the database whatever the world has added."""
        bodies = self.world.bodies[self._told :]
        self._told += len(bodies)
        answers = await asyncio.gather(*(self.log.append(retold(body)) for body in bodies))
        for answer, body in zip(answers, bodies, strict=True):
            envelope = _ENVELOPE.decode(body)
            assert (answer.position, answer.version) == (envelope.position, envelope.version)

    async def codes_against(self, data: EventData, **fields: Any) -> set[str]:
        """Follow, then try *data* on the database; the codes it is refused with."""
        await self.follow()
        before = await self.log.head()
        try:
            await self.log.append(new_event(data, **fields))
        except RuleRefused as refused:
            assert await self.log.head() == before
            return {reason.code for reason in refused.reasons}
        return set()

    async def accepts(self, data: EventData) -> None:
        """Append *data* to the world and to the database: the twin of a crime."""
        self.world.append(data)
        await self.follow()
