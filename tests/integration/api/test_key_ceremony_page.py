"""The commands of docs/key-ceremony.md do what the page says, as they stand there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from reef_release.client import ReefClient
from reef_release.signing.keyring import PUBLIC_NAME
from reef_release.signing.keys import Role, load_public
from reef_release.signing.root import open_root
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site
from tests.integration.api.test_operations_page import wrapper
from tests.unit.docs import pages

pytestmark = pytest.mark.anyio

PAGE = pages.REPOSITORY / "docs" / "key-ceremony.md"


@pytest.fixture
def server(site: Site) -> Iterator[ServerProcess]:
    with ServerProcess(site) as server:
        yield server


async def test_the_page_can_be_followed_from_top_to_bottom(
    server: ServerProcess, tmp_path: Path
) -> None:
    story = server.story()
    async with story.http:
        await story.create_scenario()
        home = story.site.home
        keys = home / "keys"
        lost = load_public(keys / "root" / "3" / PUBLIC_NAME, Role.ROOT).key_id
        stolen = load_public(keys / "gate" / PUBLIC_NAME, Role.GATE).key_id
        environment = {
            **os.environ,
            "LOST": lost,
            "STOLEN": stolen,
            "REEF_URL": server.url,
            "REEF_TOKEN": story.site.token("operate"),
            "PATH": f"{wrapper(tmp_path / 'bin')}:{os.environ['PATH']}",
            "PYTHONPATH": str(pages.REPOSITORY),
        }
        scripts = [each.text for each in pages.blocks(PAGE) if each.language == "bash"]
        done = await anyio.run_process(
            ["bash", "-euo", "pipefail", "-c", "".join(scripts)],
            cwd=home,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)

        first = (home / "ceremony" / "root.json").read_text("utf-8")
        of_holders = open_root((home / "root-of-holders.json").read_text("utf-8"), first)
        assert of_holders.version == 2
        types = [event["type"] for event in await story.events()]
        assert types.count("root.rotated") == 3
        assert types.count("key.revoked") == 1
        with ReefClient(server.url, story.site.token("audit")) as client:
            gates = [key for key in client.trust_keys() if key.role == "gate"]
        assert [key.revoked_position is None for key in gates] == [False, True]
        assert gates[0].key_id == stolen
        ready = (await story.ask(None, "GET", "/readyz")).json()
        assert ready["violations"] == 0
