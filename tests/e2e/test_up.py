"""`reef-release up`: one command, a served model, and a clean end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

_REEF = [sys.executable, "-m", "reef_release.cli"]
_START_S = 300


class Up:
    """A running `up`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.output = home / "up.log"
        with self.output.open("wb") as log:
            self.process = subprocess.Popen(
                [*_REEF, "up", "--home", str(home), "--port", "0"],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ.copy(),
            )

    def found(self, pattern: str) -> str:
        """What *pattern* captures in the output, once it stands there."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            text = self.output.read_text("utf-8")
            match = re.search(pattern, text)
            if match:
                return match[1]
            assert self.process.poll() is None, text
            time.sleep(0.2)
        raise AssertionError(self.output.read_text("utf-8"))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="reef-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_up_serves_the_origin_stops_cleanly_and_comes_back_where_it_was(home: Path) -> None:
    first = Up(home)
    try:
        url = first.found(r"runs at (http://\S+)")
        engine = first.found(r"at (http://\S+)/v1\.")
        token = (home / "tokens" / "serve").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        current = f"{url}/reef/scenarios/homework/current"
        scenario = httpx.get(
            f"{url}/reef/scenarios/homework", headers=_operator(home), timeout=10
        ).json()
        before = httpx.get(current, headers=headers, timeout=10)
        assert before.status_code == 200
        answer = _ask(engine)
        assert answer["choices"][0]["message"]["content"]
    finally:
        assert first.stop() == 0, first.output.read_text("utf-8")
    assert "Traceback" not in first.output.read_text("utf-8")
    assert not (home / "postgres" / "data" / "postmaster.pid").exists()

    second = Up(home)
    try:
        url = second.found(r"runs at (http://\S+)")
        assert _ask(second.found(r"at (http://\S+)/v1\."))["choices"]
        after = httpx.get(
            f"{url}/reef/scenarios/homework", headers=_operator(home), timeout=10
        ).json()
        assert after["channels"] == scenario["channels"]
        assert len(after["gates"]) == 1
    finally:
        assert second.stop() == 0


def test_what_up_started_ends_when_up_is_killed_and_up_comes_back(home: Path) -> None:
    first = Up(home)
    url = first.found(r"runs at (http://\S+)")
    first.process.kill()
    first.process.wait()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/healthz", timeout=5)
        except httpx.HTTPError:
            break
        time.sleep(0.2)
    else:
        raise AssertionError("the service outlived the program that started it")

    second = Up(home)
    try:
        again = second.found(r"runs at (http://\S+)")
        view = httpx.get(
            f"{again}/reef/scenarios/homework", headers=_operator(home), timeout=10
        ).json()
        assert len(view["gates"]) == 1
    finally:
        assert second.stop() == 0, second.output.read_text("utf-8")


def _ask(engine: str) -> dict[str, list[dict[str, dict[str, str]]]]:
    """One call, at once: whoever has read the address may use it."""
    question = {"role": "user", "content": "How many apples are 3 apples and 4 apples?"}
    answer = httpx.post(
        f"{engine}/v1/chat/completions",
        json={"model": "policy", "messages": [question], "max_tokens": 16},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def _operator(home: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {(home / 'tokens' / 'operate').read_text()}"}
