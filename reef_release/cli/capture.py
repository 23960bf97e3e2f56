"""What is odd about a capture of traffic as a whole: findings beside those of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from reef_release.domain.correlation import MALFORMED, TrafficResult
from reef_release.domain.correlation.captured import read_call
from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest

__all__ = ["Capture"]

_COULD_NOT = frozenset({MALFORMED, "regeneration", "retry", "side-call", "unanswered"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    place: tuple[float, int]
    scenario: str
    answered: bool


@dataclass(kw_only=True)
class Capture:
    """The calls of a capture, and which of its lines were bound, or could have been."""

    _calls: dict[int, _Call] = field(default_factory=dict)
    _unbound: list[int] = field(default_factory=list)
    _bound: int = 0

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines, each looked at on its way."""
        for number, line in enumerate(lines, start=1):
            try:
                call = read_call(number, line)
                self._calls[number] = _Call(
                    place=(call.at_s, number),
                    scenario=call.scenario,
                    answered=call.reply is not None,
                )
            except BadRequest:
                pass  # blank, or told when it is matched
            yield line

    def note(self, result: TrafficResult) -> None:
        """Take the result of a line."""
        self._bound += result.method is not None
        if result.method is None and result.reason not in _COULD_NOT:
            self._unbound.append(result.line)

    @property
    def nothing_binds(self) -> bool:
        """Whether nothing bound although a call came after an answered one of its scenario."""
        first: dict[str, tuple[float, int]] = {}
        for call in self._calls.values():
            if call.answered:
                first[call.scenario] = min(call.place, first.get(call.scenario, call.place))
        unbound = [self._calls[line] for line in self._unbound]
        return not self._bound and any(
            call.scenario in first and first[call.scenario] < call.place for call in unbound
        )

    def findings(self) -> list[Reason]:
        """What to tell a person of the capture."""
        found = []
        calls = list(self._calls.values())
        places = [call.place for call in calls]
        if places != sorted(places):
            count = sum(after < before for before, after in pairwise(places))
            found.append(
                Reason(
                    code="out-of-order",
                    message=f"{count} lines are earlier by `at` than the line before; the calls "
                    "were matched in the order of their times. Check the capturing clock.",
                )
            )
        if calls and not any(call.answered for call in calls):
            found.append(
                Reason(
                    code="no-response",
                    message="No line has a response, so nothing can bind. Capture what was "
                    "answered in `response`.",
                )
            )
        if self.nothing_binds:
            found.append(
                Reason(
                    code="nothing-binds",
                    message="No call continues another, although some came after an answered "
                    "one. Send the conversation so far with every call, or "
                    "one session tag per conversation.",
                )
            )
        return found
