"""Waiting until a service has drawn every consequence of what it was told.

What always holds: calls are counted by whoever makes them, and all of them must be in the log
before anything else counts; what is looked at last is of the same place in the log as what is
looked at first, so that nothing slips through between two looks; a wait ends, and an error names
what it was for. It is meant for a scenario whose only client is the stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain

from reef_release.client import ReefClient
from reef_release.errors import Unavailable
from reef_release.traffic_wire import SignalView
from reef_release.training_wire import LineView
from reef_release.wire import CandidateView, ScenarioView

__all__ = ["Settling"]

_TELL_S = 5.0
"""So long a wait says nothing, and as long at least between two words of it."""
_UNDECIDED = frozenset({"submitted", "admitted", "passing", "passed"})


class Settling:
    """The consequences of one client's calls in one scenario."""

    def __init__(
        self,
        client: ReefClient,
        scenario: str,
        answered: Callable[[], int],
        *,
        channel: str = "stable",
        timeout_s: float = 300.0,
        say: Callable[[str], None] = lambda _text: None,
        look_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """*answered* says how many calls the client made that were answered, so far.

        *say* is told what is waited for, and what is not.
        """
        self._client = client
        self._scenario = scenario
        self._answered = answered
        self._channel = channel
        self._timeout_s = timeout_s
        self._say = say
        self._look_s = look_s
        self._clock = clock
        self._sleep = sleep
        self._before: int | None = None
        self._left_out: set[str] = set()

    def begin(self) -> None:
        """Let what an earlier client left come to its end, and count calls from here on."""
        self.wait()
        signal = self._client.signal(self._scenario, hours=0)
        self._before = signal.total.calls - signal.total.failed - self._answered()

    def wait(self) -> None:
        """Wait until nothing is due. Raises `Unavailable` with what was, when that takes long."""
        told, told_at = "", self._clock()
        deadline = told_at + self._timeout_s
        while (due := self._due()) is not None:
            if due != told and self._clock() - told_at >= _TELL_S:
                told, told_at = due, self._clock()
                self._say(f"Waiting, since the service still has {due}.")
            if self._clock() > deadline:
                raise Unavailable(
                    f"After {self._timeout_s:.0f} s the service still has {due}.",
                    next_step="See whether the judge, the trainer, the gate, the signer and the "
                    "node run and what their logs say; the stream goes on where it stopped.",
                )
            self._sleep(self._look_s)

    def _due(self) -> str | None:
        signal = self._client.signal(self._scenario, hours=0)
        for due in self._of_traffic(signal):
            return due
        # A page has all lines that go on; the batches themselves are of no interest.
        lines = self._client.training.batches(self._scenario, limit=1).lines
        candidates = self._client.candidates(self._scenario)
        scenario = self._client.scenario(self._scenario)
        if scenario.position != signal.position:
            return f"moved its log to position {scenario.position}"
        left = signal.waiting.completed - sum(len(line.batches) for line in lines)
        if left:
            return f"{left} trained batches of lines that are over to let go"
        return next(chain(_of_lines(lines), self._of_candidates(scenario, candidates)), None)

    def _of_traffic(self, signal: SignalView) -> Iterator[str]:
        if self._before is not None:
            recorded = signal.total.calls - signal.total.failed
            missing = self._before + self._answered() - recorded
            if missing > 0:
                yield f"{missing} calls to record"
        waiting = signal.waiting
        if waiting.to_correlate:
            yield f"{waiting.to_correlate} calls to correlate"
        if waiting.to_judge:
            yield f"{waiting.to_judge} turns to judge"
        # While a judge is suspended, its samples may wait for ever.
        if waiting.samples >= waiting.batch_size and not signal.suspended_judges:
            yield f"a batch to form of {waiting.samples} samples"
        if waiting.batches:
            yield f"{waiting.batches} batches to train ({waiting.training} in training)"

    def _of_candidates(
        self, scenario: ScenarioView, candidates: list[CandidateView]
    ) -> Iterator[str]:
        served = scenario.channels.get(self._channel)
        if served is None:
            return
        attempts = scenario.policy["max_attempts"] + scenario.policy.get("gate_quorum", 1) - 1
        for each in candidates:
            if each.channel != self._channel or each.base != served.release_id or each.revoked:
                continue  # no gate opens over it any more
            gated_again = each.status == "errored" and len(each.gates) < attempts
            if each.status in _UNDECIDED or gated_again:
                yield f"the candidate {each.candidate_id[:12]} to decide on ({each.status})"
        for node in scenario.nodes:
            if node.channel != self._channel or node.release_id == served.release_id:
                continue
            if not node.silent:
                yield f"the release {served.release_id[:12]} to load into the node {node.node_id}"
            elif node.node_id not in self._left_out:
                self._left_out.add(node.node_id)
                self._say(
                    f"Not waiting for the node {node.node_id}, which was last seen "
                    f"{node.recorded_at} and has answered no move of its channel since."
                )


def _of_lines(lines: list[LineView]) -> Iterator[str]:
    for line in lines:
        submits = line.screening is not None and line.screening.submits
        if submits and line.weights_id not in line.candidates:
            yield f"the weights {line.weights_id[:12]} to be submitted"
