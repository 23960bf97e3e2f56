"""`signal SCENARIO` and `signal replay TRAFFIC.jsonl`: what of the traffic becomes a training
signal, and why the rest does not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from typer.core import TyperGroup

from reef_release.cli.options import DEFAULT_URL, AsJson, TokenFile, Url, connect
from reef_release.cli.output import complain, console, emit, errors, print_table, write_json
from reef_release.cli.signal_page import bar, show_signal
from reef_release.errors import SettingsError

if TYPE_CHECKING:
    from reef_release.domain.correlation import Correlator

__all__ = ["app"]


class _ScenarioOrVerb(TyperGroup):
    """`signal SCENARIO` is short for `signal show SCENARIO`."""

    default_verb = "show"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [self.default_verb, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    help="From traffic to a training signal.", no_args_is_help=True, cls=_ScenarioOrVerb
)


@app.callback()
def _group() -> None:
    """From traffic to a training signal."""


@app.command("show")
def show(
    scenario: Annotated[str, typer.Argument(help="The scenario.")],
    hours: Annotated[int, typer.Option("--hours", min=0, max=744, help="Hours to show.")] = 24,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """How much of a running scenario's traffic became training data, and why not the rest.

    `signal SCENARIO` does the same. The exit status is 1 while the alarm is raised.
    """
    with connect(url, token_file) as client:
        view = client.signal(scenario, hours)
    if as_json:
        emit(view, as_json=True)
    else:
        show_signal(view)
    if view.alarm is not None:
        raise typer.Exit(1)


@app.command("replay")
def replay(
    traffic: Annotated[
        Path,
        typer.Argument(help="The captured calls, JSON lines; - is standard input."),
    ],
    as_json: AsJson = False,
) -> None:
    """Match captured calls to the calls that they continue, offline.

    Each line is an object with `at`, when the call was made: seconds, or RFC 3339; `request`, its
    body (or just its messages); `response`, what was answered: the assistant message, the whole
    chat.completion, the list of a stream's chunks, the text, or null if nothing was; and, if they
    have one, `scenario`, `tag` (the session tag) and `turn_type` (main or side). Calls are matched
    in the order of `at`, whatever the order of the lines.

    With --json, writes a line {line, follows, method, reason} per call; `follows` is the number
    (from 1) of the line that it continues, or null. Otherwise prints a summary. What is odd about
    the capture as a whole is a finding of the summary, or with --json on standard error.

    The exit status is 1 when a line is no call (it is told, and left out), and when nothing binds
    although some calls came after an answered one of their scenario and could have; otherwise 0.
    """
    from reef_release.cli.capture import Capture
    from reef_release.domain.correlation import MALFORMED, Correlator, replay_traffic

    correlator = Correlator()
    methods: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    capture = Capture()
    with _opened(traffic) as lines:
        for result, fault in replay_traffic(capture.watch(lines), correlator):
            if as_json:
                write_json(result)
            if fault is not None:
                complain(fault)
            capture.note(result)
            if result.method is not None:
                methods[result.method] += 1
            if result.reason is not None:
                reasons[result.reason] += 1
    if not as_json:
        _summarise(correlator, methods, reasons)
    for finding in capture.findings():
        say = errors if as_json else console
        say.print(f"{finding.code}: {finding.message}", markup=False, soft_wrap=True)
    if MALFORMED in reasons or capture.nothing_binds:
        raise typer.Exit(1)


def _summarise(correlator: Correlator, methods: Counter[str], reasons: Counter[str]) -> None:
    from reef_release.domain.correlation import REASONS

    calls = methods.total() + reasons.total()
    console.print(f"{calls} calls, {methods.total()} continue another")
    if methods:
        rows = [[name, str(count), bar(count, calls)] for name, count in methods.most_common()]
        print_table("Bound", ["method", "calls", "share"], rows)
    if reasons:
        rows = [
            [name, str(count), bar(count, calls), REASONS[name]]
            for name, count in reasons.most_common()
        ]
        print_table("Not bound", ["reason", "calls", "share", "meaning"], rows)
    for scenario in correlator.scenarios():
        for finding in correlator.findings(scenario):
            console.print(
                f"{scenario}: {finding.code}: {finding.message}", markup=False, soft_wrap=True
            )


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise SettingsError(
            f"The traffic {path} cannot be read: {error.strerror}.",
            next_step="Name a file of JSON lines, or - for standard input.",
        ) from error
    with file:
        yield file
