"""What standard streams may do to a program: be closed early, or know no letter beyond ASCII.

A reader that has enough, such as `head`, ends this program as it ends others: by SIGPIPE, without
a word. The signal itself stays ignored, as Python has it, since a client of the service that
hangs up must not end the service.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

__all__ = ["lenient", "quiet_when_closed"]


def lenient() -> None:
    """Write what the terminal cannot show as `?`; read UTF-8, which JSON is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        # A byte that is no UTF-8 is then told with its line by whoever parses the line.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")


@contextmanager
def quiet_when_closed() -> Iterator[None]:
    """Around all that a program does: end as SIGPIPE would once nobody reads its output."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _end()
    except SystemExit as end:
        # Typer and Rich make an exit status of it before anybody else sees it.
        if isinstance(end.__context__, BrokenPipeError):
            _end()
        raise


def _end() -> NoReturn:
    # The interpreter would flush once more, and complain, if anything kept it alive.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise SystemExit(128 + signal.SIGPIPE)
