"""The demo as a stranger runs it, and what it leaves behind judged by other tools."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_REEF = [sys.executable, "-m", "reef_release.cli"]


def _run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[Path, dict[str, Any]]]:
    # Short and open to PostgreSQL's own user: its socket lives below.
    home = Path(tempfile.mkdtemp(prefix="reef-"))
    home.chmod(0o755)
    try:
        done = _run(*_REEF, "demo", "--quick", "--json", "--home", str(home))
        assert done.returncode == 0, done.stdout + done.stderr
        yield home / "demo", json.loads(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_every_attempt_comes_to_what_it_must(demo: tuple[Path, dict[str, Any]]) -> None:
    _, result = demo
    outcomes = {row["attempt"]: row["outcome"] for row in result["rows"]}
    assert result["ok"]
    assert outcomes["the warm-started policy, as origin"] == "promoted"
    assert outcomes["a really better candidate"] == "promoted"
    assert outcomes["the wanted style, wrong answers"] == "gate failed"
    assert outcomes["random weights of the right shape"] in ("gate errored", "gate failed")
    assert outcomes["one tensor with a NaN"] == "refused"
    assert (
        outcomes["weights altered on the service's disk after their promotion"]
        == "not loaded by a new node"
    )
    assert result["rows"][1]["attempt"] == "6 sessions of homework"
    assert outcomes["a rollback to the origin"] == "served again"
    assert result["rows"][2]["serving"] == result["rows"][0]["serving"]
    assert {row["serving"] for row in result["rows"][3:]} == {result["rows"][3]["serving"]}


def test_the_export_stands_on_its_own_and_a_changed_byte_is_found(
    demo: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    home, _ = demo
    root = str(home / "keys" / "root.json")
    export = tmp_path / "export"
    shutil.copytree(home / "export", export)
    good = _run(*_REEF, "audit", "replay", str(export), "--root", root)
    assert good.returncode == 0, good.stdout
    events = max((export / "events").iterdir())
    data = events.read_bytes()
    events.chmod(0o600)
    events.write_bytes(data.replace(b'"actor":"service"', b'"actor":"serviec"', 1))
    bad = _run(*_REEF, "audit", "verify", str(export), "--root", root)
    assert bad.returncode == 1
    assert "root" in bad.stdout


def test_the_stock_tool_accepts_the_signature_of_the_promoted_release(
    demo: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    home, result = demo
    release_id = result["rows"][2]["serving"]
    served = home / "node" / "releases" / release_id
    signature = _bundle_of(home, release_id)
    (tmp_path / "model.sig").write_bytes(signature)
    command = [
        str(Path(sys.executable).with_name("model_signing")),
        "verify",
        "key",
        str(served),
        "--signature",
        str(tmp_path / "model.sig"),
        "--public_key",
        str(home / "keys" / "release" / "public.pem"),
    ]
    accepted = _run(*command)
    assert accepted.returncode == 0, accepted.stderr
    copy = tmp_path / "copy"
    shutil.copytree(served, copy)
    (copy / "config.json").write_text("{}")
    command[3] = str(copy)
    assert _run(*command).returncode != 0


def _bundle_of(home: Path, release_id: str) -> bytes:
    for path in (home / "export" / "blobs").iterdir():
        data = path.read_bytes()
        if data.startswith(b'{"dsseEnvelope"') or b'"dsseEnvelope"' in data[:4096]:
            payload = base64.b64decode(json.loads(data)["dsseEnvelope"]["payload"])
            if hashlib.sha256(payload).hexdigest() == release_id:
                return data
    raise AssertionError("the export has no bundle of the promoted release")
