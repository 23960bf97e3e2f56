"""Verifiers over JSON lines: one check in, one verdict out, in input order.

The core of `reef-release verifier run`; it reads no file and knows no terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reef_release.errors import BadRequest
from reef_release.verifiers.check import Check
from reef_release.verifiers.registry import resolve, verdict

__all__ = ["Line", "Result", "run_lines"]

_FORM = 'Each line is a JSON object {"id", "reply", "answer"}; answers are strings such as "3/4".'


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of input; other fields are ignored. A whole number may stand for its digits."""

    id: str | int
    reply: str
    answer: str | int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output; `checks` is keyed by the names as they were given."""

    id: str | int
    passed: bool
    checks: dict[str, Check]


def run_lines(specs: Sequence[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield a JSON line `{id, passed, checks: {name: {passed, found, why}}}` per line of input.

    *specs* may be bare names. Blank lines are skipped. An unknown or repeated spec raises
    `ReefError` before anything is read; a malformed line raises one that names its number (from 1)
    after the results of the lines before it, with nothing written for the line itself.
    """
    names = {resolve(name): name for name in specs}
    if not names or len(names) != len(specs):
        raise BadRequest(
            "The checks need at least one verifier, and each only once.",
            next_step="Give names such as answer, work_steps and style.",
        )
    return (_result(names, number, text) for number, text in enumerate(lines, 1) if text.strip())


def _result(names: dict[str, str], number: int, text: str) -> str:
    try:
        line = msgspec.json.decode(text.encode(), type=Line)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"Line {number} is not a check: {error}.", next_step=_FORM) from error
    try:
        outcome = verdict(list(names), line.reply, str(line.answer))
    except BadRequest as error:
        raise BadRequest(f"Line {number}: {error.detail}", next_step=error.next_step) from error
    checks = {names[spec]: check for spec, check in outcome.checks.items()}
    return msgspec.json.encode(Result(id=line.id, passed=outcome.passed, checks=checks)).decode()
