"""`python -m trainer.worker`: the trainer as a program; see `reef-release train --help`.

Started by `accelerate launch` it is one trainer in several processes; see `followers`.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import structlog

from reef_release.client import ReefClient
from reef_release.errors import NotFound, ReefError, Unavailable, told
from reef_release.node.config import NodeConfig
from reef_release.node.vault import Vault
from trainer.worker.development import read_development
from trainer.worker.settings import WorkerSettings, read_worker_settings
from trainer.worker.state import StateDirectory

_log = structlog.get_logger(__name__)


def main() -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    given = _parser().parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        if os.environ.get("RANK", "0") == "0":
            _work(given)
        else:
            _follow()
    except ReefError as error:
        sys.stderr.write(f"error: {told(error)}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reef-release train")
    parser.add_argument("--url", required=True)
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--channel", default="stable")
    parser.add_argument("--name", default="trainer-1")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--development", type=Path)
    parser.add_argument("--verifiers", default="answer@1")
    parser.add_argument("--canary-tolerance", type=float, default=1e-2)
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--once", action="store_true")
    return parser


def _follow() -> None:
    from trainer.learning import ranks
    from trainer.worker.followers import follow

    ranks.join()
    follow()
    ranks.leave(0)


def require_scenario(client: ReefClient, scenario: str, channel: str) -> None:
    """Say that the channel serves nothing yet. Raises `NotFound` when there is no such scenario.

    A service that is away is waited for like at any later time, by the worker.
    """
    try:
        channels = sorted(client.scenario(scenario).channels)
    except NotFound as error:
        raise NotFound(
            f"There is no scenario {scenario!r} to train for.",
            next_step="`reef-release status` lists the scenarios; check --scenario and --url.",
        ) from error
    except Unavailable as error:
        _log.warning("service away", why=str(error))
        return
    if channel not in channels:
        _log.warning(
            "nothing to train from",
            why=f"The channel {channel!r} serves nothing yet.",
            channels=channels,
        )


def _work(given: argparse.Namespace) -> None:
    settings = read_worker_settings(given.settings) if given.settings else WorkerSettings()
    threads, screening = settings.training.threads, settings.screening
    development = None
    if given.development is not None:
        development = read_development(
            given.development, given.verifiers.split(","), screening.task_limit
        )
    if given.token_file:
        token = given.token_file.read_text("ascii").strip()
    else:
        token = os.environ.get("REEF_TOKEN")
    with ExitStack() as stack:
        directory = stack.enter_context(StateDirectory(given.state))
        # Twelve seconds, after what can be wrong with the arguments.
        from trainer.learning import ranks
        from trainer.learning.batch import run_batch
        from trainer.worker.desk import TrainWorkerConfig
        from trainer.worker.followers import Leader
        from trainer.worker.releases import ReleaseSource
        from trainer.worker.screening import Screener
        from trainer.worker.worker import TrainWorker

        client = stack.enter_context(ReefClient(given.url, token))
        require_scenario(client, given.scenario, given.channel)
        vault = stack.enter_context(closing(Vault(given.state / "node")))
        vault.lock()
        node = NodeConfig(
            url=given.url,
            scenario=given.scenario,
            channel=given.channel,
            node_id=given.name,
            anchor=given.root,
            origin=given.log,
            state=given.state / "node",
            canary_tolerance=given.canary_tolerance,
            reports=False,
            trials=False,
        )
        source = ReleaseSource(node, client, vault, given.state / "origin", threads)
        screen = None
        if development is not None:
            screen = Screener(development, screening.seed, threads, given.state / "screening")
        config = TrainWorkerConfig(name=given.name, scenario=given.scenario, channel=given.channel)
        ranks.join()
        leader = Leader() if ranks.count() > 1 else None
        worker = TrainWorker(
            config,
            client,
            source,
            directory,
            settings,
            train=run_batch if leader is None else leader.train,
            screen=screen,
        )
        if leader is None:
            _say_done(worker.run(once=given.once), once=given.once)
            return
        stack.callback(leader.dismiss)
        _say_done(worker.run(once=given.once, stop=leader.broken), once=given.once)
        if leader.broken.is_set():
            raise Unavailable(
                "The processes of this trainer are no longer in step.",
                next_step="Start it again; what it recorded says why.",
            )
    ranks.leave(0)


def _say_done(trained: int, *, once: bool) -> None:
    if once and trained:
        sys.stdout.write(f"Trained {trained} batch{'' if trained == 1 else 'es'}.\n")
    elif once:
        sys.stdout.write("No batch was trained: none waits, or the line waits for its gate.\n")


if __name__ == "__main__":
    sys.exit(main())
