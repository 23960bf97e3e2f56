"""Correlation of captured traffic: JSON lines in, one result per call out, in the lines' order.

A call is named by the number of its line, from 1; blank lines are skipped and counted. A line
that is no call gets a result that says so, and the others are matched without it. Calls are
matched in the order of their times, whatever the order of the lines; equal times keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from reef_release.domain.correlation.calls import Method
from reef_release.domain.correlation.captured import read_call, read_time
from reef_release.domain.correlation.correlator import Correlator
from reef_release.errors import BadRequest

__all__ = ["MALFORMED", "TrafficResult", "replay_traffic"]

MALFORMED = "malformed"
"""The reason of a line that cannot be read as a call."""


class TrafficResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the call of a line belongs; `follows` is the line of the call that it continues."""

    line: int
    follows: int | None
    method: Method | None
    reason: str | None


def replay_traffic(
    lines: Iterable[str | bytes], correlator: Correlator
) -> Iterator[tuple[TrafficResult, BadRequest | None]]:
    """Feed every line to *correlator*; the result of each, and what is wrong with the line.

    All lines are read first, for their times.
    """
    numbered = [(number, text) for number, text in enumerate(lines, start=1) if text.strip()]
    times = [read_time(text) for _, text in numbered]
    known = [at_s for at_s in times if at_s is not None]
    if known == sorted(known):
        for number, text in numbered:
            yield _result(number, text, correlator)
        return
    order = sorted(range(len(numbered)), key=lambda each: times[each] or 0.0)
    results = {each: _result(*numbered[each], correlator) for each in order}
    yield from (results[each] for each in range(len(numbered)))


def _result(
    number: int, text: str | bytes, correlator: Correlator
) -> tuple[TrafficResult, BadRequest | None]:
    try:
        binding = correlator.feed(read_call(number, text))
    except BadRequest as fault:
        return TrafficResult(line=number, follows=None, method=None, reason=MALFORMED), fault
    follows = None if binding.follows is None else int(binding.follows)
    result = TrafficResult(
        line=number, follows=follows, method=binding.method, reason=binding.reason
    )
    return result, None
