"""The commands of docs/privacy.md do what the page says, as they stand there."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from tests.erasing import SECRET, holding
from tests.integration.api.server import ServerProcess
from tests.integration.api.test_operations_page import wrapper
from tests.integration.api.traffic import Agent, correlated
from tests.unit.docs import pages

pytestmark = pytest.mark.anyio

PAGE = pages.REPOSITORY / "docs" / "privacy.md"


async def test_the_page_can_be_followed_from_top_to_bottom(
    server: ServerProcess, tmp_path: Path
) -> None:
    story = server.story()
    async with story.http:
        await story.create_scenario()
        old = datetime.now(UTC) - timedelta(days=40)
        turn, session, tagged, body, aged = (
            Agent(
                story=story,
                tag=f"t{number}",
                at=old if number == 4 else datetime.now(UTC) - timedelta(hours=1),
            )
            for number in range(5)
        )
        for agent in (turn, session, tagged, body, aged):
            await agent.say(f"{SECRET} {agent.tag}", "Hello.")
        await correlated(story, 5)
        events = await story.events(type="interaction.recorded")
        environment = {
            **os.environ,
            "TURN": turn.receipts[0],
            "SESSION": session.receipts[0],
            "TAG": "t2",
            "BODY": events[3]["data"]["body"],
            "REEF_URL": server.url,
            "REEF_TOKEN": story.site.token("operate"),
            "PATH": f"{wrapper(tmp_path / 'bin')}:{os.environ['PATH']}",
            "PYTHONPATH": str(pages.REPOSITORY),
        }
        scripts = [each.text for each in pages.blocks(PAGE) if each.language == "bash"]
        assert len(scripts) == 2
        for script in scripts:
            done = await anyio.run_process(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=tmp_path,
                env=environment,
                check=False,
            )
            assert done.returncode == 0, (script, done.stdout, done.stderr)
        assert holding(story.site.home, SECRET) == []
        reasons = [event["data"]["reason"] for event in await story.events(type="body.erased")]
        assert reasons == [
            *(f"request {number}" for number in (17, 18, 19, 20)),
            "we keep conversations for 30 days",
        ]
