"""Which process is the server of a data directory, and how it is ended.

What always holds: no signal is sent to a process unless its command line proves that it is
the postmaster of that directory, or it is a child of our own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

__all__ = ["command_line", "end_child", "end_orphan", "is_postmaster"]

_POLL_S = 0.02


def is_postmaster(pid: int, data: Path) -> bool:
    """Whether *pid* runs a postgres on *data*: pids are reused, command lines are not."""
    program, *options = command_line(pid) or [""]
    return Path(program).name == "postgres" and options[:2] == ["-D", str(data)]


def command_line(pid: int) -> list[str]:
    """The arguments of a process; none if it has ended."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
        except OSError:
            return []
    argv = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()


def end_child(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Shut a server down that this process started: fast, then immediately, then by force."""
    for number, patience_s in ((signal.SIGINT, timeout_s), (signal.SIGQUIT, 10.0)):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return
    process.kill()
    process.wait()


def end_orphan(pid: int, data: Path, timeout_s: float) -> None:
    """The same for a server that somebody else started; never by force."""
    for number, patience_s in ((signal.SIGINT, timeout_s), (signal.SIGQUIT, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not is_postmaster(pid, data):
                return
            time.sleep(_POLL_S)
