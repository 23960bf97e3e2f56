"""``python -m trainer.engines.vllm``: ``serve`` in front of vLLM, ``export`` what it starts from.

``export DIR OUT`` copies the full model in DIR to OUT with an output head of its own; ``serve``
is then an engine like ``trainer.engines.server``, beside a vLLM that was started from OUT.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from pathlib import Path

import uvicorn

from reef_release.errors import ReefError
from trainer.engines.vllm.app import create_app
from trainer.engines.vllm.engine import VllmEngine
from trainer.engines.vllm.serving_copy import copy_release, untie
from trainer.engines.vllm.upstream import VllmServer
from trainer.engines.wire import LoadRequest

__all__ = ["main", "parser", "serve"]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(prog="python -m trainer.engines.vllm")
    verbs = whole.add_subparsers(dest="verb", required=True)
    served = verbs.add_parser("serve", help="an engine in front of a running vLLM")
    served.add_argument("--vllm", required=True, metavar="URL", help="address of vLLM, without /v1")
    served.add_argument("--work", required=True, type=Path, help="directory for private copies")
    served.add_argument("--host", default="127.0.0.1")
    served.add_argument("--port", type=int, default=8000)
    served.add_argument("--name", default="policy", help="the model's name for clients")
    served.add_argument(
        "--drain-timeout", type=float, default=600.0, help="seconds a load waits for requests"
    )
    exported = verbs.add_parser("export", help="copy a model in the form vLLM is started from")
    exported.add_argument("directory", type=Path)
    exported.add_argument("out", type=Path)
    return whole


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal ends the process; prints one line with the address first."""
    async with VllmServer(options.vllm) as server:
        engine = VllmEngine(server, options.work, drain_s=options.drain_timeout)
        # Bound here and not by uvicorn, so that with port 0 the address can be told.
        with socket.create_server((options.host, options.port)) as listening:
            address = f"http://{options.host}:{listening.getsockname()[1]}"
            print(f"serving {options.name} at {address}", flush=True)
            app = create_app(engine, server, options.name)
            config = uvicorn.Config(app, log_level="warning", ws="none")
            await uvicorn.Server(config).serve(sockets=[listening])


def main() -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    options = parser().parse_args()
    try:
        if options.verb == "export":
            options.out.mkdir(parents=True)
            copy_release(LoadRequest(directory=str(options.directory)), options.out)
            untie(options.out)
        else:
            asyncio.run(serve(options))
    except (ReefError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
