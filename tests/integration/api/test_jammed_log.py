"""A log in which a promotion stands behind the revocation of its key, as older versions left some.

It is told as it came about: the service asked the rule, the revocation landed, and the promotion
was appended all the same, since nobody looked behind the position that the rule was asked at. The
repair is the one of docs/operations.md, beside a server process that goes on running.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.log import Appended, NewEvent
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, open_story, until
from tests.integration.api.test_decisive import revocation, second_gate_key
from tests.integration.log.mirror import new_event

pytestmark = pytest.mark.anyio


class OldLog:
    """The log of a service that appends a promotion wherever it lands; *rival* lands before it."""

    def __init__(self, story: Story, rival: ev.EventData) -> None:
        assert story.service is not None
        self._log = story.service.log
        self._rival = rival

    async def append(self, event: NewEvent) -> Appended:
        if event.type == ev.ReleasePromoted.TYPE:
            await self._log.append(new_event(self._rival))
            event = msgspec.structs.replace(event, validated_position=None)
        return await self._log.append(event)


@pytest.fixture
async def jam(site: Site, monkeypatch: pytest.MonkeyPatch) -> int:
    """The position of a promotion without effect, behind a release that is served."""
    async with open_story(site) as story:
        assert story.service is not None
        await story.create_scenario()
        served = await story.release()
        key = await second_gate_key(story)
        candidate = (await story.submit())["candidate_id"]
        gate = await story.run_trials(await story.claim_soon(), "++")
        await story.decide(gate, key=key)
        monkeypatch.setattr(story.service.commands, "_log", OldLog(story, revocation(key)))
        await story.sign(candidate)
        (violation,) = await until(lambda: violations(story))
        assert violation.type == ev.ReleasePromoted.TYPE
        assert {reason.code for reason in violation.reasons} == {"key-revoked"}
        assert await story.serving() == served
        return int(violation.position)


async def violations(story: Story) -> list[Any]:
    assert story.service is not None
    return list(story.service.state.violations)


async def ready(story: Story) -> Any:
    return (await story.ask(None, "GET", "/readyz")).json()


async def test_a_jammed_channel_is_freed_over_http_by_naming_the_violation(
    site: Site, jam: int
) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            told = await ready(story)
            assert (told["violations"], told["last_violation"]["position"]) == (1, jam)
            served = await story.serving()
            await story.submit()
            # Its gate is due, and the rules in the database hold the channel for moved. The worker
            # finds nothing to do; the service's log says why.

            async def told_why() -> str:
                assert await story.claim() is None
                return server.log

            await until(told_why, lambda log: "gate not opened" in log and "other-base" in log)
            owner = await asyncpg.connect(site.database.owner_dsn)
            try:
                await owner.execute("insert into reef.without_effect values ($1)", jam)
            finally:
                await owner.close()
            gate = await story.run_trials(await story.claim_soon(), "++")
            await story.decide(gate)
            candidate = gate.opened.candidate_id
            await story.sign(candidate)
            await story.promoted(candidate)
            assert await story.serving() == candidate != served
            # And so it goes on; the violation stays one.
            following = await story.release()
            assert await story.serving() == following
            assert (await ready(story))["violations"] == 1
