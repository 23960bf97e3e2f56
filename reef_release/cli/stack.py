"""Everything on one machine, as it would be on several: one process and one key file each.

Embedded Postgres and the programs of `programs`; each writes its own log file.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from reef_release.cli.programs import Addresses, Learning, Program, local_programs
from reef_release.client import ReefClient
from reef_release.errors import SettingsError, Unavailable
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate
from reef_release.signing.keyring import ROOT_NAME, init_keys
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret

__all__ = ["LocalStack", "free_port"]

_PR_SET_PDEATHSIG = 1
_START_S = 120.0
_STOP_S = 20.0
_PREFIXES = ("REEF_", "DATABASE_URL")
_NEEDED_TO_THE_LAST = "engine"


class LocalStack:
    """The processes of one data directory; use it as a context."""

    def __init__(
        self,
        home: Path,
        *,
        scenario: str,
        learning: Learning,
        port: int = 0,
        service_settings: Mapping[str, str] | None = None,
    ) -> None:
        """*service_settings* are environment variables for the service, over its usual ones."""
        self.home = home.absolute()
        self.scenario = scenario
        self.learning = learning
        self.url = f"http://127.0.0.1:{port or free_port()}"
        self.engine_url = f"http://127.0.0.1:{free_port()}"
        self._judge_url = f"http://127.0.0.1:{free_port()}"
        self.postgres = EmbeddedPostgres(self.home / "postgres")
        self._closing = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._programs: Mapping[str, Program] = {}
        self._service_settings = dict(service_settings or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The engine goes after the service, which answers calls by it until it has ended itself.
        for name in reversed(list(self._running)):
            if name != _NEEDED_TO_THE_LAST:
                self.stop(name)
        self.stop(_NEEDED_TO_THE_LAST)
        self._closing.close()

    @property
    def keys(self) -> Path:
        """Key directories of every role, and root.json."""
        return self.home / "keys"

    @property
    def service_dsn(self) -> str:
        """The database as the service's own restricted role reaches it."""
        return self.postgres.dsn_for(SERVICE_ROLE, self._database_password())

    def prepare(self, say: Callable[[str], None]) -> None:
        """Make whatever is missing: keys, tokens, the database server and its schema."""
        self._refuse_a_port_in_use()
        self.home.mkdir(parents=True, exist_ok=True)
        if not (self.keys / ROOT_NAME).exists():
            say("creating one key per role and the trust root")
            init_keys(self.keys)
        load_secret(self.keys / TOKEN_SECRET, create=True)
        say("starting the embedded PostgreSQL")
        self._closing.enter_context(self.postgres)
        say("migrating the database")
        asyncio.run(migrate(self.postgres.dsn, service_password=self._database_password()))
        self._define()

    def start(self, name: str) -> None:
        """Start one program, by its name in `PROGRAMS`."""
        program = self._programs[name]
        logs = self.home / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **_inherited(),
                    **program.environment,
                    **(self._service_settings if name == "service" else {}),
                },
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        if program.answers_at is not None:
            self._await(name, program.answers_at)

    def stop(self, name: str) -> None:
        """End one program, by force when it does not go."""
        process = self._running.pop(name, None)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run_second_node(self) -> dict[str, Any]:
        """One step of a node without a past; where it stands after it."""
        program = self._programs["node"]
        given = [*program.command, "--name", "node-2", "--once", "--json"]
        given[given.index("--state") + 1] = str(self.home / "node-2")
        done = subprocess.run(
            given,
            env={**_inherited(), **program.environment},
            capture_output=True,
            check=False,
            timeout=_START_S,
        )
        standing: dict[str, Any] = msgspec.json.decode(done.stdout)
        return standing

    def check(self) -> None:
        """Raise `Unavailable` when a program ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise Unavailable(
                    f"The {name} {_ending(process.returncode)} {self._tail(name)}",
                    next_step="All of it stops, since nothing is restarted here. Start it again"
                    " when that is mended; the data stays.",
                )

    def client(self, role: TokenRole) -> ReefClient:
        """A client with a token of *role*."""
        return ReefClient(self.url, self.token_file(role).read_text("ascii").strip())

    def token_file(self, role: TokenRole) -> Path:
        """The file with the token of *role*, made at first use, mode 0600."""
        path = self.home / "tokens" / role.value
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            tokens = Tokens(load_secret(self.keys / TOKEN_SECRET))
            _write_secret(path, tokens.issue(Principal(name=role.value, role=role)))
        return path

    def _refuse_a_port_in_use(self) -> None:
        """Another service there would be taken for this one, and be sent its tokens."""
        port = int(self.url.rpartition(":")[2])
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            raise SettingsError(
                f"Port {port} is in use: {error.strerror}.",
                next_step="Choose another with --port, or stop what listens there.",
            ) from error

    def _define(self) -> None:
        tokens = {role.value: self.token_file(role) for role in TokenRole}
        self._programs = local_programs(
            Addresses(service=self.url, engine=self.engine_url, judge=self._judge_url),
            home=self.home,
            keys=self.keys,
            tokens=tokens,
            database_url=self.service_dsn,
            scenario=self.scenario,
            learning=self.learning,
        )

    def _database_password(self) -> str:
        path = self.home / "database.secret"
        if not path.exists():
            _write_secret(path, secrets.token_urlsafe(24))
        return path.read_text("ascii")

    def _await(self, name: str, url: str) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if (status := self._running[name].poll()) is not None:
                raise SettingsError(
                    f"The {name} {_ending(status)} {self._tail(name)}",
                    next_step="It did not get through its start; mend what it says, then start"
                    " all of it again.",
                )
            try:
                if httpx.get(url, timeout=5).status_code < 500:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise Unavailable(
            f"The {name} does not answer at {url} after {_START_S:.0f} s. {self._tail(name)}",
            next_step="Start all of it again; the data stays.",
        )

    def _tail(self, name: str) -> str:
        path = self.home / "logs" / f"{name}.log"
        return f"Its log file {path} ends with:\n{path.read_text('utf-8', 'replace')[-1500:]}"


def _ending(status: int) -> str:
    """How a process ended, as its returncode says it."""
    if status >= 0:
        return f"ended by itself with exit status {status}."
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"was ended by signal {name}."


def _write_secret(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _inherited() -> dict[str, str]:
    """This process's environment without settings that would reach every program alike."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_PREFIXES)}


def _end_with_parent() -> None:
    """In a new program: ask Linux to end it when this one is killed and cannot do it itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
