"""One machine's stack: what is said of a program that ends, and in which order all of it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reef_release.cli.programs import Learning, Program
from reef_release.cli.stack import LocalStack
from reef_release.errors import Unavailable

_SLEEP = "import time; print('here', flush=True); time.sleep(600)"


def stack_of(home: Path, scripts: dict[str, str]) -> LocalStack:
    stack = LocalStack(
        home,
        scenario="homework",
        learning=Learning(settings=home / "settings.json", batch_size=1),
        service_settings={"REEF_BATCH_SIZE": "3"},
    )
    stack._programs = {
        name: Program(name=name, command=[sys.executable, "-c", script], environment={"A": "1"})
        for name, script in scripts.items()
    }
    return stack


def ended(stack: LocalStack, name: str) -> str:
    """What is said once the program has ended."""
    stack.start(name)
    stack._running[name].wait(60)
    with pytest.raises(Unavailable) as told:
        stack.check()
    return str(told.value)


def test_the_end_of_a_program_is_told_with_status_log_file_and_next_step(tmp_path: Path) -> None:
    with stack_of(tmp_path, {"gate": "import sys; sys.exit('no key')"}) as stack:
        said = ended(stack, "gate")
    assert "The gate ended by itself with exit status 1" in said
    assert f"{tmp_path}/logs/gate.log" in said
    assert "no key" in said
    assert "nothing is restarted" in said


def test_a_program_that_was_killed_is_told_with_the_signal(tmp_path: Path) -> None:
    kill = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    with stack_of(tmp_path, {"node": kill}) as stack:
        assert "The node was ended by signal SIGKILL" in ended(stack, "node")


def test_the_service_ends_before_the_engine_and_after_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("service", "gate", "engine", "node", "judge-model", "judge")
    stopped: list[str] = []
    stop = LocalStack.stop

    def noted(self: LocalStack, name: str) -> None:
        stopped.append(name)
        stop(self, name)

    monkeypatch.setattr(LocalStack, "stop", noted)
    with stack_of(tmp_path, dict.fromkeys(names, _SLEEP)) as stack:
        for name in names:
            stack.start(name)
    assert stopped == ["judge", "judge-model", "node", "gate", "service", "engine"]
    assert not stack._running


@pytest.mark.parametrize(("name", "size"), [("service", "3"), ("gate", "None")])
def test_settings_of_the_service_reach_it_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: str
) -> None:
    monkeypatch.setitem(os.environ, "REEF_BATCH_SIZE", "9")
    script = "import os; print(os.environ.get('REEF_BATCH_SIZE'))"
    with stack_of(tmp_path, {name: script}) as stack:
        ended(stack, name)
    assert lines(tmp_path / "logs" / f"{name}.log") == [size]


def lines(path: Path) -> Sequence[str]:
    return path.read_text().splitlines()
