"""`signal replay TRAFFIC.jsonl`: what of the traffic becomes a training signal, and why not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from reef_release.cli.options import AsJson
from reef_release.cli.output import console, print_table
from reef_release.errors import SettingsError

__all__ = ["app"]

app = typer.Typer(help="From traffic to a training signal.", no_args_is_help=True)

_BAR_WIDTH = 30


@app.callback()
def _group() -> None:
    """From traffic to a training signal."""


@app.command("replay")
def replay(
    traffic: Annotated[
        Path,
        typer.Argument(
            help="JSON lines {at, scenario, tag, request, response}; - is standard input."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Match captured calls to the calls that they continue, offline.

    With --json, writes a line {line, follows, method, reason} per call; `follows` is the number
    (from 1) of the line that it continues, or null. Otherwise prints a summary.
    """
    from reef_release.domain.correlation import REASONS, Correlator, replay_traffic

    correlator = Correlator()
    methods: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with _opened(traffic) as lines:
        for result, binding in replay_traffic(lines, correlator):
            if as_json:
                sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
            if binding.method is not None:
                methods[binding.method] += 1
            if binding.reason is not None:
                reasons[binding.reason] += 1
    if as_json:
        return
    calls = methods.total() + reasons.total()
    console.print(f"{calls} calls, {methods.total()} continue another")
    if methods:
        rows = [[name, str(count), _bar(count, calls)] for name, count in methods.most_common()]
        print_table("Bound", ["method", "calls", "share"], rows)
    if reasons:
        rows = [
            [name, str(count), _bar(count, calls), REASONS[name]]
            for name, count in reasons.most_common()
        ]
        print_table("Not bound", ["reason", "calls", "share", "meaning"], rows)
    for scenario in correlator.scenarios():
        for finding in correlator.findings(scenario):
            console.print(
                f"{scenario}: {finding.code}: {finding.message}", markup=False, soft_wrap=True
            )


def _bar(count: int, total: int) -> str:
    return "█" * max(1, round(_BAR_WIDTH * count / total)) + f" {100 * count / total:.1f} %"


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
