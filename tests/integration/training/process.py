"""Trainers as processes, each forked from one that has imported all of it already.

A line of JSON on the standard input starts one: {"arguments": [...], "output": FILE,
"kill": POINT}; its exit status is the answer, -9 when it was killed. At POINT it kills itself, as
a power cut would: nothing is flushed, closed or undone. With "processes": N it is one trainer in N
processes, of which the last is killed; the answer is made when all have ended, by themselves.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from trainer.learning.step import RecordedTurnsTrainer
from trainer.worker import __main__ as program
from trainer.worker.candidates import Candidates
from trainer.worker.desk import Desk
from trainer.worker.job import JobRun
from trainer.worker.state import StateDirectory
from trainer.worker.worker import TrainWorker

_POINTS: dict[str, tuple[type[Any], str, str]] = {
    "claimed": (StateDirectory, "keep_batch", "before"),
    "noted": (TrainWorker, "_work", "before"),
    "loss": (RecordedTurnsTrainer, "compute_loss", "second"),
    "second-step": (JobRun, "_on_step", "second"),
    "written": (JobRun, "_completed", "before"),
    "screened": (Candidates, "screening", "after"),
    "completed": (JobRun, "_completed", "after"),
    "stopped": (Desk, "give_up", "before"),
    "decided": (Candidates, "_submit", "before"),
    "submitted": (Candidates, "_submit", "sent"),
}


def main() -> None:
    for line in sys.stdin:
        wanted = json.loads(line)
        processes = wanted.pop("processes")
        port = str(_free_port())
        children = []
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                if processes > 1:
                    # What a launcher gives; it would also end all others when one is gone.
                    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                    os.environ |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
                if rank + 1 < processes:
                    wanted["kill"] = ""
                _become(**wanted)
            children.append(child)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.write(" ".join(map(str, statuses)) + "\n")
        sys.stdout.flush()


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
    return port


def _become(arguments: list[str], output: str, kill: str) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    sys.argv = ["train", *arguments]
    try:
        if kill:
            _arm(kill)
        status = program.main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        status = 70
    os._exit(status)


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
            # The service has the candidate, and this process never notes that.
            self._desk.save = lambda **_changes: _die()
        found = real(self, *given, **named)
        if when == "after":
            _die()
        return found

    setattr(owner, name, doomed)


if __name__ == "__main__":
    main()
