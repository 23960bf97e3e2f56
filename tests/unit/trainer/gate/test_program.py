"""The gate worker as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reef_release.signing.keyring import PRIVATE_NAME, init_keys


def test_a_worker_that_cannot_reach_the_service_says_so_and_ends_with_status_2(
    tmp_path: Path,
) -> None:
    keys = init_keys(tmp_path / "keys").directory
    options = {
        "--url": "http://127.0.0.1:9",
        "--name": "gate-1",
        "--key": keys / "gate" / PRIVATE_NAME,
        "--models": tmp_path / "models",
        "--trial-timeout": 30,
    }
    given = [str(part) for pair in options.items() for part in pair]
    done = subprocess.run(
        [sys.executable, "-m", "trainer.gate", *given, "--once"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Check that the service runs at this URL" in done.stderr
