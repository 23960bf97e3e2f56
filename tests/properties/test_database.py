"""The rule in SQL beside the rule in Python, on the same stories.

The log holds what both let through. Each step is tried on the database inside a transaction:
whatever the fold accepts, the database accepts; and where the database's part of the rule decides
(whether the pointer may move), both give the same reasons.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.validation import stream_of
from reef_release.log import NewEvent
from reef_release.log.outcomes import arguments
from tests.databases import Database
from tests.integration.log.mirror import new_event, retold
from tests.properties.machine import WORDS
from tests.properties.machines import CheapMachine, run

EXAMPLES = 5
MOVES = (ev.ReleasePromoted, ev.ReleaseRolledBack)
SHARED = frozenset(
    {
        "already-serving",
        "held",
        "never-promoted",
        "no-passed-gate",
        "no-reason",
        "not-signed",
        "other-gate",
        "revoked",
        "stale-gate",
    }
)
"""Reasons that both know by these names. (The database leaves gate and policy keys to the fold.)"""

_APPEND = "select * from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


class _Undo(Exception):
    """Ends a transaction that only asks."""


def machine_on(runner: asyncio.Runner, connection: asyncpg.Connection) -> type[CheapMachine]:
    """Machines that tell their story to an emptied database as well."""

    class DatabaseMachine(CheapMachine):
        def __init__(self) -> None:
            self.transaction = connection.transaction()
            runner.run(self.transaction.start())
            super().__init__()

        def teardown(self) -> None:
            runner.run(self.transaction.rollback())

        def offer(self, data: EventData, **envelope: Any) -> bool:
            world = self.world
            scenario = envelope.get("scenario") or world._scenario_of(data, None)
            stream = envelope.get("stream") or stream_of(data)
            reasons = world.fold.reasons(scenario, stream, data)
            asked = new_event(data, scenario=scenario, stream=stream)
            if reasons:
                self.remember(data)
                if self.begun:
                    WORDS["steps"] += 1
                    WORDS[f"{data.TYPE} violates"] += 1
                told = runner.run(self._would_refuse(asked))
                if isinstance(data, MOVES) and stream == stream_of(data):
                    codes = {reason.code for reason in reasons}
                    assert codes & SHARED == told & SHARED, (data, codes, told)
                return False
            stands = super().offer(data, **envelope)
            (row,) = runner.run(connection.fetch(_APPEND, *arguments([retold(world.bodies[-1])])))
            assert row["outcome"] == "appended", (data, row["reasons"])
            assert row["at_position"] == world.head
            return stands

        async def _would_refuse(self, asked: NewEvent) -> set[str]:
            try:
                async with connection.transaction():
                    (row,) = await connection.fetch(_APPEND, *arguments([asked]))
                    raise _Undo
            except _Undo:
                return {reason.partition(" ")[0] for reason in row["reasons"] or ()}

    return DatabaseMachine


@pytest.fixture
def runner() -> Any:
    with asyncio.Runner() as runner:
        yield runner


def test_the_database_and_the_fold_agree_on_when_the_pointer_moves(
    database: Database, runner: asyncio.Runner
) -> None:
    WORDS.clear()
    connection = runner.run(asyncpg.connect(database.service_dsn))
    try:
        run(machine_on(runner, connection), examples=EXAMPLES)
    finally:
        runner.run(connection.close())
    for fate in ("stands", "violates"):
        assert WORDS[f"release.promoted {fate}"]
        assert WORDS[f"release.rolled_back {fate}"]


def test_a_rule_that_sql_forgets_is_missed(database: Database, runner: asyncio.Runner) -> None:
    owner = runner.run(asyncpg.connect(database.owner_dsn))
    forgetful = "create or replace function reef.release_revoked(of_scenario text, of_release text)"
    forgetful += " returns boolean language sql as 'select false'"
    runner.run(owner.execute(forgetful))
    runner.run(owner.close())
    connection = runner.run(asyncpg.connect(database.service_dsn))
    try:
        with pytest.raises(AssertionError):
            run(machine_on(runner, connection), examples=EXAMPLES)
    finally:
        runner.run(connection.close())
