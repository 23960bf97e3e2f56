"""A trainer that is killed, as by a power cut, at the point that REEF_TEST_KILL names."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from trainer.worker import __main__ as program
from trainer.worker.job import JobRun
from trainer.worker.state import StateDirectory
from trainer.worker.worker import TrainWorker

_POINTS: dict[str, tuple[type[Any], str, str]] = {
    "claimed": (StateDirectory, "keep_batch", "before"),
    "noted": (TrainWorker, "_work", "before"),
    "second-step": (JobRun, "_on_step", "second"),
    "written": (JobRun, "_completed", "before"),
    "completed": (JobRun, "_completed", "after"),
    "screened": (TrainWorker, "_submit", "before"),
    "submitted": (TrainWorker, "_submit", "sent"),
}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(point: str) -> None:
    owner, name, when = _POINTS[point]
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def doomed(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if when == "before" or (when == "second" and calls == 2):
            _die()
        if when == "sent":
            # The service has it, and this process never learns that.
            self._directory.write = lambda _kept: _die()
        found = real(self, *given, **named)
        if when == "after":
            _die()
        return found

    setattr(owner, name, doomed)


if __name__ == "__main__":
    if point := os.environ.get("REEF_TEST_KILL"):
        _arm(point)
    sys.exit(program.main())
