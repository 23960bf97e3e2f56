"""`python -m trainer.gate`: the gate worker as a program; see `reef-release gate --help`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import structlog

from reef_release.client import ReefClient
from reef_release.errors import ReefError, told
from reef_release.ids import short_id
from reef_release.signing.keys import Role, load_key
from trainer.engines.client import HttpEngine
from trainer.gate.remote import http_loader
from trainer.gate.worker import (
    DEFAULT_TRIAL_TIMEOUT_S,
    GateWorker,
    GateWorkerConfig,
    KeyDoesNotCount,
)


def main() -> int:
    """Exit status 0; 1 when the key does not count, else 2, with an error that says what to do."""
    parser = argparse.ArgumentParser(prog="reef-release gate")
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trial-timeout", type=float, default=DEFAULT_TRIAL_TIMEOUT_S)
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        token = (
            given.token_file.read_text("ascii").strip()
            if given.token_file
            else os.environ.get("REEF_TOKEN")
        )
        with ExitStack() as stack:
            client = stack.enter_context(ReefClient(given.url, token))
            engines = [stack.enter_context(HttpEngine(url)) for url in given.engine]
            config = GateWorkerConfig(
                name=given.name,
                models=given.models,
                threads=given.threads,
                trial_timeout_s=given.trial_timeout,
            )
            load = http_loader(engines) if engines else None
            key = load_key(given.key, Role.GATE)
            ended = GateWorker(config, client, key, load=load).run(once=given.once)
            if given.once:
                sys.stdout.write(_done(ended, client))
    except KeyDoesNotCount as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except ReefError as error:
        sys.stderr.write(f"error: {told(error)}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def _done(ended: int, client: ReefClient) -> str:
    """What a worker did that was to run what is due; with nothing due, also whom others wait for.

    A candidate that this worker's key has passed already waits for another worker alone.
    """
    if not ended:
        lines = ["No gate was due: no candidate waits for a gate that this worker may run."]
        for scenario in client.scenarios():
            for each in client.candidates(scenario.name, "passing"):
                why = "; ".join(reason.message for reason in each.reasons)
                lines.append(f"  {scenario.name}: candidate {short_id(each.candidate_id)} is {why}")
        return "\n".join(lines) + "\n"
    return f"Ended {ended} gate{'' if ended == 1 else 's'}.\n"


if __name__ == "__main__":
    sys.exit(main())
