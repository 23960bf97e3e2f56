"""`python -m judge`: the worker and the replay as a program; see `reef-release judge --help`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
import structlog

from judge.backend import Backend, HttpBackend, served_model
from judge.probes import shipped_probes
from judge.replay import JudgedLine, read_turns, replay
from judge.scripted.backend import ScriptedBackend
from judge.worker import JudgeWorker, JudgeWorkerConfig
from reef_release.client import ReefClient
from reef_release.client.transport import Retry
from reef_release.errors import ReefError, SettingsError, told

_SIGNS = {1: "+1", 0: " 0", -1: "-1"}
_PATIENT = Retry(attempts=6, first_wait_s=1.0, longest_wait_s=30.0)
"""An endpoint that restarts is away for about so long; then the outage is recorded."""


def main() -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    given = _parser().parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        with contextlib.ExitStack() as stack:
            if given.verb == "replay":
                _replay(given, stack)
            else:
                _work(given, stack)
    except ReefError as error:
        return _failed(error, as_json=given.json)
    except BrokenPipeError:
        # Whoever read the output has left: end by the signal, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except (OSError, UnicodeDecodeError) as error:
        return _failed(SettingsError(f"A file cannot be read: {error}."), as_json=given.json)
    except KeyboardInterrupt:
        return 0
    return 0


def _failed(error: ReefError, *, as_json: bool) -> int:
    if as_json:
        problem = {"error": error.problem, "detail": error.detail, "next_step": error.next_step}
        sys.stdout.write(msgspec.json.encode({**problem, "reasons": []}).decode() + "\n")
    else:
        sys.stderr.write(f"error: {told(error)}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m judge")
    verbs = parser.add_subparsers(dest="verb", required=True)
    work = verbs.add_parser("work")
    work.add_argument("--url", required=True)
    work.add_argument("--token-file", type=Path)
    work.add_argument("--name", required=True)
    work.add_argument("--scenario", action="append", required=True)
    work.add_argument("--probe-every", type=int, default=25)
    work.add_argument("--probe-accuracy", type=float, default=0.8)
    work.add_argument("--once", action="store_true")
    work.set_defaults(json=False)
    offline = verbs.add_parser("replay")
    offline.add_argument("turns", type=Path)
    offline.add_argument("--quorum", type=int, default=1)
    offline.add_argument("--json", action="store_true")
    for each in (work, offline):
        each.add_argument("--endpoint", required=each is work)
        each.add_argument("--endpoint-key-file", type=Path)
        each.add_argument("--model")
        each.add_argument("--votes", type=int, default=3)
        each.add_argument("--temperature", type=float, default=0.7)
        each.add_argument("--max-tokens", type=int, default=768)
        each.add_argument("--timeout", type=float, default=120.0)
    return parser


def _work(given: argparse.Namespace, stack: contextlib.ExitStack) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    token = _secret(given.token_file, "REEF_TOKEN")
    client = stack.enter_context(ReefClient(given.url, token))
    config = JudgeWorkerConfig(
        name=given.name,
        scenarios=given.scenario,
        votes=given.votes,
        probe_every=given.probe_every,
        probe_accuracy=given.probe_accuracy,
    )
    backend = _endpoint(given, stack)
    worker = JudgeWorker(config, client, backend, known=shipped_probes())
    judged = worker.run(once=given.once, stop=stop)
    if given.once:
        turns = "turn" if judged == 1 else "turns"
        done = f"Judged {judged} {turns}." if judged else "No turn waits to be judged."
        sys.stdout.write(done + "\n")


def _replay(given: argparse.Namespace, stack: contextlib.ExitStack) -> None:
    file = stack.enter_context(given.turns.open(encoding="utf-8"))
    backend = _endpoint(given, stack) if given.endpoint else ScriptedBackend()
    for line in replay(read_turns(file), backend, votes=given.votes, quorum=given.quorum):
        text = msgspec.json.encode(line).decode() if given.json else _readable(line)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _endpoint(given: argparse.Namespace, stack: contextlib.ExitStack) -> Backend:
    key = _secret(given.endpoint_key_file, "REEF_JUDGE_KEY")
    return stack.enter_context(
        HttpBackend(
            given.endpoint,
            given.model or served_model(given.endpoint, key),
            key=key,
            temperature=given.temperature,
            max_tokens=given.max_tokens,
            timeout_s=given.timeout,
            retry=_PATIENT,
        )
    )


def _secret(file: Path | None, variable: str) -> str | None:
    return file.read_text("ascii").strip() if file else os.environ.get(variable)


def _readable(line: JudgedLine) -> str:
    said = [
        f"{name}: {text}"
        for name, text in (
            ("rejected", line.rejected),
            ("keep", line.keep),
            ("hints", " | ".join(line.hints)),
        )
        if text
    ]
    about = f"reply {line.about}" if line.about else "no reply"
    head = f"{line.turn_id}  {_SIGNS[line.score]}  {about}  {line.valid}/{len(line.votes)} votes"
    return "\n    ".join([head, *said])


if __name__ == "__main__":
    sys.exit(main())
