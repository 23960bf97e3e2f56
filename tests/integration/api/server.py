"""Real server processes, `reef-release serve`, that can be stopped, killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.integration.api.story import Site, Story

__all__ = ["ServerProcess"]

_START_S = 60.0
_STOP_S = 20.0


class ServerProcess:
    """One service of a site on a port of its own; use it as a context.

    *settings* are further ones, by their names.
    """

    def __init__(self, site: Site, log_file: Path | None = None, **settings: str) -> None:
        self.site = site
        self._settings = {f"REEF_{name.upper()}": value for name, value in settings.items()}
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_file = log_file or site.home / f"server-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.launch()
        self.await_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        assert self._process is None, "it runs already"
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("REEF_", "DATABASE_URL"))}
        settings = {
            "REEF_HOME": str(self.site.home),
            "REEF_DATABASE_URL": self.site.database.service_dsn,
            "REEF_PORT": str(self.port),
            **self._settings,
        }
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reef_release.cli", "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=keep | settings,
            )

    def await_ready(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, f"the server ended:\n{self.log}"
            try:
                if httpx.get(self.url + "/readyz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"the server does not become ready:\n{self.log}")

    @property
    def log(self) -> str:
        """What the process has written."""
        return self._log_file.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(_STOP_S)
        self._process = None
        return status

    def restart(self) -> None:
        """Start it again on the same port."""
        self.launch()
        self.await_ready()

    def story(self) -> Story:
        """The roles' verbs on this server; close its `http` in the end."""
        return Story(site=self.site, http=httpx.AsyncClient(base_url=self.url, timeout=60))
