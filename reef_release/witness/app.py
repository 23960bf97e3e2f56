"""The witness as an HTTP service: `POST /add-checkpoint`, one request after the other.

The check against what was seen before and the writing of what is seen now are one step under
a lock; else a request in between could roll the memory back.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from litestar import Litestar, Request, Response, post

from reef_release.errors import SettingsError
from reef_release.signing.keys import PublicKey
from reef_release.signing.witness import WitnessSigner
from reef_release.witness.memory import Memory
from reef_release.witness.rules import REQUEST_LIMIT_BYTES, Rejection, judge

__all__ = ["WitnessConfig", "create_witness_app", "run_witness"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class WitnessConfig:
    """`logs` are the trusted log keys by origin; `state` is a directory of the witness's own."""

    signer: WitnessSigner
    logs: Mapping[str, Sequence[PublicKey]]
    state: Path
    host: str = "127.0.0.1"
    port: int = 8480


def create_witness_app(
    config: WitnessConfig, memory: Memory, clock: Callable[[], float] = time.time
) -> Litestar:
    """The app over *memory*, which the caller has locked."""
    lock = asyncio.Lock()

    @post(
        "/add-checkpoint",
        status_code=200,
        media_type="text/plain",
        request_max_body_size=REQUEST_LIMIT_BYTES,
    )
    async def add_checkpoint(request: Request[Any, Any, Any]) -> Response[str]:
        """Cosign a checkpoint that continues the last one."""
        body = await request.body()
        async with lock:
            return await asyncio.to_thread(_answer, config, memory, body, int(clock()))

    return Litestar([add_checkpoint], openapi_config=None, logging_config=None)


def _answer(config: WitnessConfig, memory: Memory, body: bytes, now_s: int) -> Response[str]:
    judged = judge(body, config.logs, memory.newest())
    if isinstance(judged, Rejection):
        _log.warning("not cosigned", status=judged.status, why=judged.why)
        if judged.evidence:
            note = body.decode("utf-8").partition("\n\n")[2]
            kept = memory.keep_evidence(note.partition("\n")[0], note)
            _log.critical("the log contradicts itself", evidence=str(kept))
        if judged.size is not None:
            return Response(
                f"{judged.size}\n", status_code=judged.status, media_type="text/x.tlog.size"
            )
        return Response(f"{judged.why}\n", status_code=judged.status, media_type="text/plain")
    memory.remember(judged.origin, judged.checkpoint, judged.note)
    return Response(config.signer.cosign(judged.note, now_s), media_type="text/plain")


def run_witness(config: WitnessConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises `SettingsError` at the start."""
    with closing(Memory(config.state)) as memory:
        memory.lock()
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        try:
            listening = socket.create_server((config.host, config.port), family=family)
        except OSError as error:
            raise SettingsError(
                f"The witness cannot listen on {config.host}:{config.port}: {error.strerror}.",
                next_step="Choose another --host or --port, or stop what listens there.",
            ) from error
        with listening:
            host, port = listening.getsockname()[:2]
            _log.info("witness listens", host=host, port=port, logs=sorted(config.logs))
            app = create_witness_app(config, memory)
            settings = uvicorn.Config(app, log_level="warning", server_header=False)
            uvicorn.Server(settings).run(sockets=[listening])
