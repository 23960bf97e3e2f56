"""Forwarded calls that are erased: nothing of them is left in the spool, nor comes back from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reef_release.api.proxy.draining import Note
from reef_release.api.proxy.journal import Journal
from reef_release.ids import uuid7
from reef_release.traffic_wire import InteractionRequest
from tests.erasing import SECRET, WHY, holding
from tests.integration.api.story import SCENARIO, Site, until
from tests.integration.proxy.desk import Desk, hello, open_desk

pytestmark = pytest.mark.anyio


async def erase(desk: Desk, **wanted: Any) -> Any:
    return await desk.story.post("operate", desk.story.path("erasures"), {**WHY, **wanted})


async def test_an_erased_call_leaves_the_spool_also_while_an_open_one_keeps_its_file(
    site: Site,
) -> None:
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        service = desk.story.service
        assert service is not None
        # A call under way, so that the file of the spool stays.
        await service.spool.begin(uuid7(), b"{}")
        answer = await desk.ask(hello(SECRET))
        await desk.recorded()
        assert any(name.startswith("spool/") for name in holding(site.home, SECRET))
        await erase(desk, turn_id=answer.headers["x-reef-agent-record-id"])
        assert holding(site.home, SECRET) == []


async def test_a_line_of_the_spool_that_was_logged_and_then_erased_is_not_recorded_again(
    site: Site,
) -> None:
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        answer = await desk.ask(hello(SECRET))
        [call] = await desk.recorded()
        turn = answer.headers["x-reef-agent-record-id"]
        await erase(desk, turn_id=turn)
    # What a process leaves that was killed after the append and before it tidied up.
    directory = site.home / "spool" / f"process-{uuid7()}"
    directory.mkdir(parents=True)
    (directory / "lock").touch()
    journal = Journal(directory)

    note = Note(
        scenario=SCENARIO,
        actor="the-ingest",
        salt=bytes(32),
        request=InteractionRequest(
            interaction_id=turn,
            messages=[{"role": "user", "content": SECRET}],
            reply={"role": "assistant", "content": "It is 4."},
            finish_reason="stop",
        ),
    )
    journal.write("ended", turn, msgspec.json.encode(note))
    assert holding(site.home, SECRET)
    async with open_desk(site) as desk:
        await until(lambda: _nothing(site))
        assert list((site.home / "spool" / "set-aside").iterdir()) == []
        events = await desk.story.events(type="interaction.recorded")
        assert [event["data"]["body"] for event in events] == [call.data["body"]]


async def _nothing(site: Site) -> bool:
    return not holding(site.home, SECRET)
