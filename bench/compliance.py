"""How well the tiny origin follows what its prompt says, before anything is trained.

    python bench/compliance.py                                      100 tasks per condition
    python bench/compliance.py --short                              2 tasks per condition
    python bench/compliance.py --page docs/results/compliance.md    and the page of it

It starts an engine with the shipped origin and runs `python -m trainer.stream.compliance` on it,
which takes any other endpoint as well: the student's own reading of replies to fresh tasks of the
stream's kind. The teacher of the distillation is this origin with a hint in its prompt, and the
memory arm is this origin with a note in its prompt, so both can be no better than these rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec

from trainer.stream.compliance import Row, shares
from trainer.tiny.shipped import ORIGIN

_START_S = 120.0
_NOT_ESTABLISHED = (
    "That a larger model follows hints or memories as this one does. The warm start trained it on "
    "hints of the same grammar, in this very form, and never on a system message, a list of notes "
    "or a third reply.",
    "How useful the judge's hints are to a teacher: those here are drawn from the grammar, and a "
    "judge's depend on what was complained about. The stream's judge uses the wordings held out.",
    "Anything about complaints other than those about style.",
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = arguments.add_argument
    add("--short", action="store_true", help="2 tasks per condition")
    add("--count", type=int, default=100, help="tasks per condition")
    add("--seed", type=int, default=0)
    add("--page", type=Path, help="Markdown to write")
    given = arguments.parse_args()
    count = 2 if given.short else given.count
    rows = []
    with _engine() as address:
        for row in _measured(address, count, given.seed):
            print(" | ".join([row.condition, str(row.count), *shares(row)]), flush=True)
            rows.append(row)
    if given.page:
        given.page.write_text("\n".join(_page(rows, count, given.seed)) + "\n")


@contextmanager
def _engine() -> Iterator[str]:
    """The address of an engine that serves the origin, until the end."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    module = [sys.executable, "-m", "trainer.engines.server"]
    engine = subprocess.Popen([*module, "--model", str(ORIGIN), "--port", str(port)])
    try:
        deadline = time.monotonic() + _START_S
        while not _answers(address):
            if engine.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("The engine did not start; see what it said above.")
            time.sleep(0.2)
        yield address
    finally:
        engine.terminate()
        engine.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").is_success
    except httpx.TransportError:
        return False


def _measured(address: str, count: int, seed: int) -> Iterator[Row]:
    command = [sys.executable, "-m", "trainer.stream.compliance", "--json"]
    command += ["--base-url", address, "--count", str(count), "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        for line in asking.stdout:
            yield msgspec.json.decode(line, type=Row)
    if asking.returncode:
        raise SystemExit(asking.returncode)


def _page(rows: Sequence[Row], count: int, seed: int) -> Iterator[str]:
    yield "# Compliance: what the origin does with what its prompt says"
    yield ""
    yield (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `python bench/compliance.py --page "
        "docs/results/compliance.md`, which wrote this page, on "
        f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()}). "
        f"The shipped origin, before any training; {count} fresh tasks (seed {seed}) per "
        "condition, temperature 0.7, at most 128 tokens. With 95 per cent intervals by Wilson."
    )
    yield ""
    yield (
        "*style*: none of the marks that the student minds. *right*: the stated number is the "
        "key's. *accepted*: the student has no complaint. *cut*: ended by the limit. All by the "
        "student's own reading, which neither the gate nor the judge share."
    )
    yield ""
    yield "| the prompt | replies | style | right | accepted | cut |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        yield f"| {' | '.join([row.condition, str(row.count), *shares(row)])} |"
    yield ""
    yield (
        "- A *hint* is what the teacher of the distillation reads, and what the memory arm of the "
        "[study](homework.md) shows (`hint`, one note). `system`, `prefix` and `suffix` are the "
        "memory's Markdown as a message before the conversation, before its first words, or "
        "after its last."
    )
    yield (
        "- *complaints* are the student's words as the memory notes them, *instructions* are hint "
        "wordings that the warm start did not see, in the memory's Markdown."
    )
    yield (
        "- *reply 2 of a session* and later: the sessions that were not accepted before, after "
        "what the student said; *hinted*: the same with a hint in a wording held out, which is "
        "what the teacher sees of that turn."
    )
    yield ""
    yield (
        "Any other endpoint is measured by `python -m trainer.stream.compliance --base-url URL`."
    )
    yield ""
    yield "## What this does not establish"
    yield ""
    for each in _NOT_ESTABLISHED:
        yield f"- {each}"


if __name__ == "__main__":
    main()
