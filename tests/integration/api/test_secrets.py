"""Nothing secret reaches the event log, the service's log, an answer, or the console.

Service, proxy and command line run with secrets that stand nowhere else, through success and every
kind of failure; then everything that was written is searched for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from reef_release.log.migrate import SERVICE_ROLE
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.tokens import TOKEN_SECRET, TokenRole
from tests.databases import Database, Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site
from tests.integration.proxy.desk import Desk, hello
from tests.integration.proxy.upstream import Call, completion, scripted

pytestmark = pytest.mark.anyio

DATABASE_PASSWORD = "Dq7-database-Zk3"
UPSTREAM_KEY = "sk-Uq8upstreamKeyVw4"
CLIENT_KEY = "Bearer-of-a-stranger-Xc5"
WRONG_TOKEN = "reef_Wm6wrongTokenPn9.Wm6wrongTokenPn9"


def private_lines(site: Site) -> Iterator[str]:
    """The lines of every private key, without head and foot."""
    for path in site.home.rglob(PRIVATE_NAME):
        yield from (line for line in path.read_text("ascii").splitlines() if "-----" not in line)


def secrets_of(site: Site) -> dict[str, str]:
    found = {
        "database password": DATABASE_PASSWORD,
        "upstream key": UPSTREAM_KEY,
        "a client's key": CLIENT_KEY,
        "a wrong token": "Wm6wrongTokenPn9",
        "token secret": (site.home / "keys" / TOKEN_SECRET).read_bytes().hex(),
    }
    for role in TokenRole:
        claims, _, signature = site.token(role).partition(".")
        found[f"token {role}"] = f"{claims}.{signature}"
        found[f"signature of token {role}"] = signature
    for number, line in enumerate(private_lines(site)):
        found[f"private key line {number}"] = line
    return found


def leaks(site: Site, *texts: str) -> list[str]:
    return [
        f"{name} in text {number}"
        for name, secret in secrets_of(site).items()
        for number, text in enumerate(texts)
        if secret in text
    ]


@pytest.fixture
def guarded(tmp_path: Path, postgres: Server) -> Iterator[Site]:
    """An installation whose service logs in with the distinctive password."""
    with postgres.database() as database:
        role = f"{SERVICE_ROLE}_guarded"

        async def prepare() -> None:
            connection = await asyncpg.connect(database.owner_dsn)
            await connection.execute(
                f"do $$ begin create role {role} login; exception when duplicate_object then null;"
                f" end $$; alter role {role} password '{DATABASE_PASSWORD}';"
                f" grant {SERVICE_ROLE} to {role}"
            )
            await connection.close()

        asyncio.run(prepare())
        name = urlsplit(database.owner_dsn).path.removeprefix("/")
        dsn = postgres.dsn(name, role, DATABASE_PASSWORD)
        yield Site(
            home=tmp_path / "home",
            database=Database(owner_dsn=database.owner_dsn, service_dsn=dsn),
        )


def run(*words: str, **environment: str) -> str:
    """The command line in a process of its own: everything that it prints."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("REEF_", "DATABASE_URL"))}
    done = subprocess.run(
        [sys.executable, "-m", "reef_release.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=keep | environment,
        check=False,
    )
    return f"{done.stdout}\n{done.stderr}"


async def test_a_service_and_its_proxy_tell_no_secret_whatever_happens(guarded: Site) -> None:
    seen: list[str] = []

    async def script(call: Call) -> None:
        seen.append(str(call.headers))
        words = call.json["messages"][-1]["content"]
        if words == "quote":
            await call.whole({"error": {"message": f"bad key {UPSTREAM_KEY}"}}, status=401)
        else:
            await call.whole(completion("It is 4."))

    async with scripted(script) as upstream:
        server = ServerProcess(guarded, upstream_url=upstream.url, upstream_key=UPSTREAM_KEY)
        server.launch()
        try:
            await asyncio.to_thread(server.await_ready)
            story = server.story()
            async with story.http:
                await story.create_scenario()
                desk = Desk(story=story, upstream=upstream)
                answers = [await desk.ask(hello("fine")), await desk.ask(hello("quote"))]
                for headers in (
                    {"Authorization": f"Bearer {WRONG_TOKEN}"},
                    {"Authorization": f"Bearer {CLIENT_KEY}"},
                    {"Authorization": f"Basic {CLIENT_KEY}"},
                    {"Authorization": f"Bearer {guarded.token('ingest')} x"},
                    {"Authorization": f"Bearer {guarded.token('ingest')[:-2]}"},
                    {"Authorization": f"Bearer {guarded.token('serve')}"},
                    {"X-Api-Key": CLIENT_KEY, "Cookie": f"key={CLIENT_KEY}"},
                ):
                    for method, path in (
                        ("GET", "/reef/events"),
                        ("POST", "/v1/chat/completions"),
                        ("POST", "/reef/report"),
                        ("PUT", f"/reef/blobs/{'0' * 64}"),
                        ("POST", story.path("hold")),
                    ):
                        answers.append(
                            await story.http.request(method, path, headers=headers, content=b"{}")
                        )
                await asyncio.sleep(0.5)
                events = await story.events()
        finally:
            await asyncio.to_thread(server.stop)
    assert UPSTREAM_KEY in "".join(seen)
    assert CLIENT_KEY not in "".join(seen)
    told = [f"{each.headers} {each.text}" for each in answers if "quote" not in str(each.request)]
    quoted = [text for text in told if UPSTREAM_KEY in text]
    assert quoted == []
    assert leaks(guarded, json.dumps(events), server.log, *told) == []


@pytest.mark.parametrize("command", ["serve", "migrate"])
@pytest.mark.parametrize(
    "broken",
    [
        "postgresql://reef:{0}@127.0.0.1:1/reef",
        "postgresql://reef:{0}@127.0.0.1:port/reef",
        "postgresql://reef:1/{0}@127.0.0.1:5432/reef",
        "postgresql://reef:x:{0}@/reef",
        "postgres//reef:{0}@127.0.0.1/reef",
        "host=127.0.0.1 port=1 user=reef password={0}",
        "postgresql://127.0.0.1:1/reef?password={0}&user=x",
        "postgresql://[{0}/reef",
    ],
)
async def test_a_wrong_database_url_is_not_quoted_with_its_password(
    tmp_path: Path, command: str, broken: str
) -> None:
    site = Site(home=tmp_path, database=Database(owner_dsn="", service_dsn=""))
    url = broken.format(quote(DATABASE_PASSWORD))
    said = run(command, REEF_HOME=str(tmp_path), DATABASE_URL=url, REEF_PORT="0")
    assert said.strip()
    assert "Traceback" not in said
    assert leaks(site, said) == []
    shown = run("status", "--settings", REEF_HOME=str(tmp_path), DATABASE_URL=url)
    assert leaks(site, shown) == []


def mangled(path: Path, how: str) -> None:
    lines = path.read_text("ascii").splitlines()
    if how == "no-head":
        lines = lines[1:]
    elif how == "cut":
        lines = lines[:-2]
    elif how == "doubled":
        lines = [*lines, *lines[1:-1]]
    path.write_text("\n".join(lines) + "\n", "ascii")


@pytest.mark.parametrize("how", ["no-head", "cut", "doubled", "loose"])
async def test_a_broken_key_file_is_not_quoted(tmp_path: Path, how: str) -> None:
    site = Site(home=tmp_path, database=Database(owner_dsn="", service_dsn=""))
    secrets = dict(enumerate(private_lines(site)))
    policy = tmp_path / "policy.json"
    policy.write_text("{}")
    for role in ("policy", "log", "pointer"):
        path = tmp_path / "keys" / role / PRIVATE_NAME
        path.chmod(0o600)
        if how == "loose":
            path.chmod(0o644)
        else:
            mangled(path, how)
    key = str(tmp_path / "keys" / "policy" / PRIVATE_NAME)
    said = [
        run("policy", "sign", str(policy), "--key", key, "--out", str(tmp_path / "signed.json")),
        run(
            "serve",
            REEF_HOME=str(tmp_path),
            DATABASE_URL="postgresql://127.0.0.1:1/x",
            REEF_PORT="0",
        ),
        run("keys", "show", "--home", str(tmp_path)),
    ]
    for text in said:
        assert [line for line in secrets.values() if line in text] == []
        assert "Traceback" not in text


async def test_the_command_line_tells_no_token(guarded: Site) -> None:
    with ServerProcess(guarded) as server:
        token = guarded.token("operate")
        for environment in (
            {"REEF_TOKEN": token},
            {"REEF_TOKEN": WRONG_TOKEN},
            {"REEF_TOKEN": f"{token}\nx"},
            {"REEF_TOKEN": f"{token}é"},
            {"REEF_TOKEN": guarded.token("serve")},
        ):
            for words in (
                ("status", "--json"),
                ("erase", "--tag", "t", "-s", "nobody", "--reason", "x"),
            ):
                said = run(*words, REEF_URL=server.url, **environment)
                assert leaks(guarded, said) == [], words
                assert "Traceback" not in said
        said = run("status", REEF_URL=f"http://ada:{CLIENT_KEY}@127.0.0.1:1", REEF_TOKEN=token)
        assert leaks(guarded, said) == []
        said = run("status", REEF_URL=f"ftp://ada:{CLIENT_KEY}@127.0.0.1:1", REEF_TOKEN=token)
        assert leaks(guarded, said) == []


async def test_settings_are_shown_without_their_secrets(guarded: Site) -> None:
    said = run(
        "status",
        "--settings",
        REEF_HOME=str(guarded.home),
        DATABASE_URL=guarded.database.service_dsn,
        REEF_UPSTREAM_KEY=UPSTREAM_KEY,
        REEF_UPSTREAM_URL=f"http://ada:{CLIENT_KEY}@127.0.0.1:1/v1",
        REEF_PORT="4711",
    )
    assert "4711" in said
    assert leaks(guarded, said) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REEF_PORT", CLIENT_KEY),
        ("REEF_UPSTREAM_URL", f"no-url-{CLIENT_KEY}"),
        ("REEF_LEASE_S", CLIENT_KEY),
        ("REEF_ORIGIN", "x"),
    ],
)
async def test_a_setting_that_is_wrong_is_named_and_not_quoted(
    guarded: Site, name: str, value: str
) -> None:
    environment: dict[str, Any] = {
        "REEF_HOME": str(guarded.home),
        "DATABASE_URL": guarded.database.service_dsn,
        "REEF_UPSTREAM_KEY": UPSTREAM_KEY,
        name: value,
    }
    said = run("status", "--settings", **environment)
    assert leaks(guarded, said) == []


def test_a_defect_of_the_service_leaves_no_values_in_its_log() -> None:
    """The traceback is there, the local variables are not."""
    script = (
        "import structlog, sys\n"
        "from reef_release.api.server import configure_logging\n"
        "configure_logging()\n"
        "def inner(token):\n    raise RuntimeError('a defect')\n"
        "try:\n    inner(sys.argv[1])\n"
        "except RuntimeError:\n    structlog.get_logger().exception('found')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, CLIENT_KEY], capture_output=True, text=True, check=True
    )
    assert "RuntimeError: a defect" in done.stdout
    assert CLIENT_KEY not in done.stdout + done.stderr
