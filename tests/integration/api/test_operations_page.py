"""The commands of docs/operations.md do what the page says, as they stand there."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from reef_release.domain.canonical import canonical_json
from reef_release.signing.keyring import PUBLIC_NAME
from reef_release.signing.keys import Role, load_public
from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story
from tests.unit.docs import pages

pytestmark = pytest.mark.anyio

PAGE = pages.REPOSITORY / "docs" / "operations.md"
WATCH: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.8",
    "fallen": "0.2",
    "alpha": "0.1",
    "every_s": 60,
    "max_trials": 50,
    "automatic": True,
}


@pytest.fixture
def empty(postgres: Server) -> Iterator[dict[str, str]]:
    """Databases without anything in them, by the names that the page has for them."""
    names = ("EMPTY", "EMPTY_TOO", "EMPTY_THREE", "EMPTY_FOUR")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(postgres.database(migrated=False)).owner_dsn for name in names
        }


@pytest.fixture
def new_home() -> Iterator[str]:
    """A directory with a path that is short and open: a server's socket lies in it."""
    with tempfile.TemporaryDirectory(prefix="reef-") as directory:
        os.chmod(directory, 0o755)
        yield f"{directory}/home"


@pytest.fixture
def server(site: Site) -> Iterator[ServerProcess]:
    with ServerProcess(site) as server:
        yield server


def wrapper(directory: Path) -> Path:
    """A directory for PATH in which `reef-release` is this interpreter's."""
    directory.mkdir()
    program = directory / "reef-release"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m reef_release.cli "$@"\n')
    program.chmod(0o755)
    return directory


async def prepared(story: Story) -> dict[str, str]:
    """Two releases and a candidate that waits for approval; what the page has in variables."""
    await story.create_scenario(approvals=1)
    served = []
    for _ in range(2):
        identity = str((await story.submit())["candidate_id"])
        await story.gate()
        await story.sign(identity)
        path = story.path("releases", identity, "approve")
        await story.post("operate", path, {"reason": "for the test"})
        await story.promoted(identity)
        served.append(identity)
    waiting = str((await story.submit())["candidate_id"])
    await story.gate()
    await story.sign(waiting)
    leaked = str((await story.submit())["candidate_id"])
    keys = story.site.home / "keys"
    return {
        # A key that nothing on the page still needs.
        "STOLEN": load_public(keys / "pointer" / PUBLIC_NAME, Role.POINTER).key_id[:12],
        "LEAKED": leaked[:16],
        "CANDIDATE": waiting[:16],
        "EARLIER": served[0][:16],
        "WAITING": waiting,
        "FIRST": served[0],
    }


async def test_the_page_can_be_followed_from_top_to_bottom(
    server: ServerProcess, empty: dict[str, str], new_home: str, tmp_path: Path
) -> None:
    story = server.story()
    async with story.http:
        known = await prepared(story)
        home = story.site.home
        environment = {
            **os.environ,
            **known,
            **empty,
            "AUDIT_TOKEN": story.site.token("audit"),
            "NEW_HOME": new_home,
            "POSITION": "20",
            "REEF_URL": server.url,
            "REEF_TOKEN": story.site.token("operate"),
            "PATH": f"{wrapper(tmp_path / 'bin')}:{os.environ['PATH']}",
            "PYTHONPATH": str(pages.REPOSITORY),
        }
        policy = story.policy(version=2, approvals=1, watch=WATCH)
        (home / "policy.json").write_bytes(canonical_json(policy))
        scripts = [each.text for each in pages.blocks(PAGE) if each.language == "bash"]
        assert len(scripts) > 7
        for script in scripts:
            if "curl" in script and shutil.which("curl") is None:
                continue
            if "rollback" in script:
                await story.promoted(known["WAITING"])
            done = await anyio.run_process(
                ["bash", "-euo", "pipefail", "-c", script], cwd=home, env=environment, check=False
            )
            assert done.returncode == 0, (script, done.stdout, done.stderr)

        assert await story.serving() == known["FIRST"]
        types = [event["type"] for event in await story.events()]
        assert types.count("root.rotated") == 1
        assert types.count("key.revoked") == 1
        view = await story.get("audit", story.path())
        assert view["held_reason"] is None
        assert view["policy"]["watch"] == WATCH
        for name in ("recovered", "again", "earlier", "drilled"):
            assert any((home / name / "blobs").rglob("*"))
        assert (Path(new_home) / "postgres" / "data").is_dir()
        ready = (await story.ask(None, "GET", "/readyz")).json()
        assert ready["violations"] == 0
