"""A vLLM of its own on the CPU, started as docs/vllm.md says, and the adapter in front of one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

__all__ = ["OPTIONS", "adapter", "free_port", "process", "vllm"]

START_S = 900.0
OPTIONS = (
    "--served-model-name",
    "policy",
    "--logprobs-mode",
    "processed_logprobs",
    "--enable-lora",
    "--max-lora-rank",
    "16",
    "--dtype",
    "float32",
    "--max-model-len",
    "512",
    "--max-num-seqs",
    "16",
    "--enforce-eager",
)
_ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all its children, ended at the end."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(60)


def _wait(url: str, running: subprocess.Popen[bytes], log: Path, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while running.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(f"nothing serves {url}: {log.read_text('utf-8', 'replace')[-4000:]}")


@contextmanager
def vllm(directory: Path, log: Path) -> Iterator[str]:
    """A vLLM that was started from *directory*; its address."""
    port = free_port()
    command = [
        os.environ["REEF_VLLM"],
        *("serve", str(directory), "--host", "127.0.0.1", "--port", str(port)),
        *OPTIONS,
    ]
    url = f"http://127.0.0.1:{port}"
    with process(command, log) as running:
        _wait(f"{url}/health", running, log, START_S)
        yield url


@contextmanager
def adapter(url: str, directory: Path) -> Iterator[str]:
    """The adapter in front of the vLLM at *url*; its address."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "trainer.engines.vllm", "serve"),
        *("--vllm", url, "--work", str(directory / "work"), "--port", str(port)),
    ]
    log = directory / "adapter.log"
    address = f"http://127.0.0.1:{port}"
    with process(command, log) as running:
        _wait(f"{address}/health", running, log, 60.0)
        yield address
