"""Run one arm of the homework stream against any OpenAI-style endpoint.

    python -m trainer.stream --base-url http://127.0.0.1:8000/v1 --arm control --seed 100 --out FILE

The key is read from OPENAI_API_KEY. What --out has already is not done again. With --settle each
session waits until the service behind the endpoint has learned from the one before.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from reef_release.client import ReefClient
from reef_release.errors import ReefError, SettingsError
from trainer.stream.endpoint import Endpoint
from trainer.stream.evaluation import evaluate
from trainer.stream.memory import PLACEMENTS, Memory
from trainer.stream.records import RecordFile, Run, Session
from trainer.stream.sessions import MAX_REPLIES, Stream
from trainer.stream.settling import Settling
from trainer.stream.tasks import Task, fresh_tasks, read_tasks, stream_tasks
from trainer.stream.taste import load_taste
from trainer.stream.voice import Voice

__all__ = ["main", "parser"]

_SCENARIO = "x-reef-scenario"
ARMS = ("control", "memory", "update")


def main() -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    given = parser().parse_args()
    try:
        with ExitStack() as stack:
            endpoint = stack.enter_context(_endpoint(given))
            settling = _settling(given, endpoint, stack)
            out = stack.enter_context(RecordFile(given.out))
            if settling is not None:
                settling.begin()
            _run(given, endpoint, out, settling, _voice(given, stack))
    except (ReefError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """The options; for whoever checks a command line without running it."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.stream",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--base-url", required=True, help="the endpoint's address, with or without /v1")
    add("--model", help="which model to ask for; by default the only one that is served")
    add("--arm", choices=ARMS, required=True, help="update: who records also learns from it")
    add("--out", type=Path, required=True, help="JSON lines; added to")
    add("--sessions", type=int, default=36)
    add("--seed", type=int, default=0, help="problems, sampling and the student's words")
    add("--tasks", type=Path, help='JSON lines {"question", "answer"} instead of generated ones')
    add("--taste", default="homework", help="a shipped taste or a TOML file")
    add("--student", metavar="URL", help="a model that words what the student says")
    add("--student-model", help="its name there; by default the only one that is served")
    add("--student-extra", default="{}", metavar="JSON", help="more fields of requests to it")
    add("--max-replies", type=int, default=MAX_REPLIES)
    add("--temperature", type=float, default=0.7)
    add("--max-tokens", type=int, default=128)
    add("--key-file", type=Path, help="file with the endpoint's key, instead of OPENAI_API_KEY")
    add("--header", action="append", default=[], metavar="NAME:VALUE", help="of every request")
    add("--extra", default="{}", metavar="JSON", help="more fields of every request")
    add("--timeout-s", type=float, default=120.0)
    add("--evaluate", type=int, default=0, metavar="N", help="N fresh tasks before and after")
    add("--memory", type=Path, help="the Markdown file of arm memory")
    add("--memory-placement", choices=PLACEMENTS, default="system")
    add("--memory-notes", type=int, default=40, help="at most so many; the oldest leave")
    add("--memory-bytes", type=int, default=4000)
    add("--scenario", help="of the recording proxy; sent with every request")
    add("--settle", action="store_true", help="wait after each session for its consequences")
    add("--service", metavar="URL", help="with --settle: whose consequences")
    add("--service-token-file", type=Path, help="with --settle: a token of the role audit")
    add("--settle-timeout-s", type=float, default=300.0)
    return parser


def _endpoint(given: argparse.Namespace) -> Endpoint:
    headers = {} if given.scenario is None else {_SCENARIO: given.scenario}
    for each in given.header:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise SettingsError(
                f"{each!r} is no header.", next_step="Write it as x-reef-scenario:homework."
            )
        headers[name.strip()] = value.strip()
    return Endpoint(
        given.base_url,
        model=given.model,
        key=_secret(given.key_file) or os.environ.get("OPENAI_API_KEY"),
        headers=headers,
        temperature=given.temperature,
        max_tokens=given.max_tokens,
        extra=_extra("--extra", given.extra),
        timeout_s=given.timeout_s,
    )


def _extra(option: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise SettingsError(
            f"{option} is no JSON object: {error}.", next_step='Write it as {"top_p": 0.9}.'
        ) from error


def _voice(given: argparse.Namespace, stack: ExitStack) -> Voice | None:
    if given.student is None:
        return None
    endpoint = Endpoint(
        given.student,
        model=given.student_model,
        extra=_extra("--student-extra", given.student_extra),
        timeout_s=given.timeout_s,
    )
    return Voice(endpoint=stack.enter_context(endpoint))


def _settling(given: argparse.Namespace, endpoint: Endpoint, stack: ExitStack) -> Settling | None:
    if not given.settle:
        return None
    if given.service is None or given.scenario is None:
        raise SettingsError(
            "--settle waits for a scenario of a service.",
            next_step="Give --service URL and --scenario NAME.",
        )
    client = stack.enter_context(ReefClient(given.service, _secret(given.service_token_file)))
    return Settling(
        client,
        given.scenario,
        lambda: endpoint.answered,
        timeout_s=given.settle_timeout_s,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )


def _secret(file: Path | None) -> str | None:
    return None if file is None else file.read_text("ascii").strip()


def _run(
    given: argparse.Namespace,
    endpoint: Endpoint,
    out: RecordFile,
    settling: Settling | None,
    voice: Voice | None,
) -> None:
    if (given.memory is not None) != (given.arm == "memory"):
        raise SettingsError(
            f"Arm {given.arm!r} {'takes no' if given.memory else 'needs a'} memory file.",
            next_step="Give --memory FILE with --arm memory, and with no other.",
        )
    if given.max_replies < 1 or given.sessions < 0:
        raise SettingsError(
            f"{given.sessions} sessions of {given.max_replies} replies cannot be held.",
            next_step="Allow at least one reply.",
        )
    memory = None
    if given.memory is not None:
        memory = Memory(given.memory, max_notes=given.memory_notes, max_bytes=given.memory_bytes)
    stream = Stream(
        endpoint=endpoint,
        taste=load_taste(given.taste),
        arm=given.arm,
        seed=given.seed,
        max_replies=given.max_replies,
        closing=given.arm == "update",
        memory=memory,
        placement=given.memory_placement,
        voice=voice,
    )
    tasks, fresh = _tasks(given)
    out.begin(Run(arm=given.arm, seed=given.seed, settings=_settings(given, endpoint)))

    def after_session(session: Session) -> None:
        _say(session)
        if settling is not None:
            settling.wait()

    for after in (0, given.sessions):
        stream.run(tasks[:after], out, after_session)
        if fresh and after not in out.evaluations(given.arm, given.seed):
            found = evaluate(stream, fresh, after)
            out.add(found)
            print(
                f"after {after} sessions: {found.right} of {found.count} fresh tasks right, "
                f"{found.accepted} accepted"
            )


def _tasks(given: argparse.Namespace) -> tuple[list[Task], list[Task]]:
    """The tasks of the sessions, and as many others as are to be evaluated on."""
    if given.tasks is None:
        fresh = fresh_tasks(given.evaluate, given.seed, given.sessions)
        return stream_tasks(given.sessions, given.seed), fresh
    tasks = read_tasks(given.tasks)
    if len(tasks) < given.sessions + given.evaluate:
        raise SettingsError(
            f"{given.tasks} has {len(tasks)} tasks; {given.sessions} sessions and "
            f"{given.evaluate} fresh ones need more.",
            next_step="Give more tasks, or ask for fewer sessions with --sessions.",
        )
    return tasks[: given.sessions], tasks[given.sessions :][: given.evaluate]


def _settings(given: argparse.Namespace, endpoint: Endpoint) -> dict[str, str]:
    """What makes two runs of an arm and a seed the same run."""
    names = ["extra", "max_replies", "max_tokens", "taste", "tasks", "temperature"]
    if given.arm == "memory":
        names += ["memory_bytes", "memory_notes", "memory_placement"]
    if given.student is not None:
        names += ["student_extra", "student_model"]
    return {"model": endpoint.model, **{name: str(getattr(given, name)) for name in names}}


def _say(session: Session) -> None:
    first = session.replies[0]
    outcome = "accepted" if session.accepted_first else f"complaint about {first.complaint}"
    ended = "" if session.accepted_first else f", {'ended well' if session.accepted else 'gave up'}"
    marks = ", ".join(f"{kind} {count}" for kind, count in first.marks.items()) or "no marks"
    print(
        f"session {session.session:3}: {outcome}; {'right' if first.right else 'wrong'}, {marks}; "
        f"{len(session.replies)} replies{ended}; release {(first.release or '-')[:12]}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
