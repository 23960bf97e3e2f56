"""Whether anything is still due, by what the service shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reef_release.domain.traffic.training_events import Screening
from reef_release.errors import Unavailable
from reef_release.traffic_wire import HourView, OpenView, SignalView
from reef_release.training_wire import BatchesView, LineView
from reef_release.wire import CandidateView, ChannelView, GateView, NodeView, ScenarioView
from trainer.stream.settling import Settling

ORIGIN, NEW = "a" * 64, "b" * 64
SCREENING = Screening(tasks=4, passed=3, right=4, base_passed=1, base_right=4, submits=True)
LINE = LineView(
    line="n",
    channel="stable",
    base=ORIGIN,
    weights_id=NEW,
    steps=4,
    batches=["x"],
    candidates=[],
    training=None,
    screening=None,
    over=None,
)
CANDIDATE = CandidateView(
    candidate_id=NEW,
    channel="stable",
    kind="full",
    base=ORIGIN,
    status="admitted",
    reasons=[],
    files=[],
    gates=[],
    revoked=False,
    submitted_position=5,
    position=9,
)
GATE = GateView(
    gate_id="g",
    candidate_id=NEW,
    base=ORIGIN,
    channel="stable",
    phase="standard",
    outcome="errored",
    task_count=0,
    passed_count=0,
    error_count=4,
    opened_position=6,
    decision_position=8,
)
NODE = NodeView(node_id="node-1", channel="stable", release_id=ORIGIN, recorded_at="", reasons=[])


class FakeClient:
    """A service that shows what it is told to, to a client that made so many calls."""

    def __init__(self) -> None:
        self.calls = self.failed = self.made = self.suspended = 0
        self.waiting: dict[str, int] = {}
        self.lines: list[LineView] = []
        self.candidates_shown: list[CandidateView] = []
        self.nodes = [NODE]
        self.position = self.position_then = 9

    @property
    def training(self) -> FakeClient:
        return self

    def signal(self, scenario: str, hours: int) -> SignalView:
        names = ("sessions", "to_correlate", "to_judge", "samples", "batches", "claimed")
        return SignalView(
            scenario=scenario,
            position=self.position,
            alarm=None,
            unbound_run=0,
            suspended_judges=self.suspended,
            total=HourView(hour="", calls=self.calls, failed=self.failed),
            hours=[],
            waiting=OpenView(**(dict.fromkeys(names, 0) | {"batch_size": 4} | self.waiting)),
            findings=[],
        )

    def batches(self, scenario: str, limit: int) -> BatchesView:
        return BatchesView(batches=[], lines=self.lines, next_after=None)

    def candidates(self, scenario: str) -> list[CandidateView]:
        return self.candidates_shown

    def scenario(self, name: str) -> ScenarioView:
        served = ChannelView(release_id=ORIGIN, pointer_position=3, since="", kind="promoted")
        return ScenarioView(
            name=name,
            schema="",
            policy_digest="",
            policy={"max_attempts": 2},
            held_reason=None,
            channels={"stable": served},
            gates=[],
            nodes=self.nodes,
            position=self.position_then,
        )


def changed(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)


def settling(
    client: FakeClient,
    then: Callable[[], None] = lambda: None,
    timeout_s: float = 2.0,
    say: Callable[[str], None] = lambda _text: None,
) -> Settling:
    """One whose clock runs out, by default after three looks; *then* happens between the looks."""
    now = 0.0

    def sleep(_: float) -> None:
        nonlocal now
        now += 1.0
        then()

    return Settling(
        client,  # type: ignore[arg-type]
        "homework",
        lambda: client.made,
        timeout_s=timeout_s,
        say=say,
        clock=lambda: now,
        sleep=sleep,
    )


def submitted(client: FakeClient, **changes: Any) -> None:
    client.waiting = {"completed": 1}
    client.lines = [changed(LINE, screening=SCREENING, candidates=[NEW])]
    client.candidates_shown = [changed(CANDIDATE, **changes)]


DUE: dict[str, Callable[[FakeClient], None]] = {
    "2 calls to correlate": lambda c: c.waiting.update(to_correlate=2),
    "1 turns to judge": lambda c: c.waiting.update(to_judge=1),
    "a batch to form of 4 samples": lambda c: c.waiting.update(samples=4),
    r"1 batches to train \(1 in training\)": lambda c: c.waiting.update(batches=1, training=1),
    "1 trained batches of lines that are over": lambda c: c.waiting.update(completed=1),
    "the weights bbbbbbbbbbbb to be submitted": lambda c: (
        c.waiting.update(completed=1),
        c.lines.append(changed(LINE, screening=SCREENING)),
    )[1],
    r"the candidate bbbbbbbbbbbb to decide on \(admitted\)": submitted,
    r"to decide on \(passed\)": lambda c: submitted(c, status="passed"),
    r"to decide on \(errored\)": lambda c: submitted(c, status="errored", gates=[GATE]),
    "the release aaaaaaaaaaaa to load into the node node-1": lambda c: setattr(
        c, "nodes", [changed(NODE, release_id=NEW)]
    ),
    "moved its log to position 10": lambda c: setattr(c, "position_then", 10),
}


@pytest.mark.parametrize("due", DUE)
def test_what_is_due_is_waited_for_and_named(due: str) -> None:
    client = FakeClient()
    DUE[due](client)
    with pytest.raises(Unavailable, match=due):
        settling(client).wait()


def test_a_wait_says_what_it_is_for_before_it_fails_and_only_once() -> None:
    said: list[str] = []
    client = FakeClient()
    client.waiting = {"to_judge": 1}
    with pytest.raises(Unavailable):
        settling(client, timeout_s=20.0, say=said.append).wait()
    assert said == ["Waiting, since the service still has 1 turns to judge."]


def test_a_node_that_reports_no_more_is_named_once_and_not_waited_for() -> None:
    said: list[str] = []
    client = FakeClient()
    client.nodes = [NODE, changed(NODE, node_id="node-2", release_id=NEW, silent=True)]
    waiting = settling(client, say=said.append)
    waiting.wait()
    waiting.wait()
    assert len(said) == 1
    assert said[0].startswith("Not waiting for the node node-2, which was last seen")


NOTHING_DUE: dict[str, Callable[[FakeClient], None]] = {
    "too few samples for a batch": lambda c: c.waiting.update(samples=3),
    "samples of a judge that is not trusted": lambda c: (
        c.waiting.update(samples=9),
        setattr(c, "suspended", 1),
    )[1],
    "a line that waits for its next batch": lambda c: (
        c.waiting.update(completed=1),
        c.lines.append(changed(LINE, screening=changed(SCREENING, submits=False))),
    )[1],
    "inconclusive": lambda c: submitted(c, status="inconclusive"),
    "another base": lambda c: submitted(c, base=NEW),
    "revoked": lambda c: submitted(c, revoked=True),
    "no further gate": lambda c: submitted(c, status="errored", gates=[GATE, GATE]),
}


@pytest.mark.parametrize("case", NOTHING_DUE)
def test_what_nobody_will_act_on_is_not_waited_for(case: str) -> None:
    client = FakeClient()
    NOTHING_DUE[case](client)
    settling(client).wait()


def test_every_call_that_was_answered_must_be_recorded_and_failed_ones_do_not_count() -> None:
    client = FakeClient()
    client.calls, client.failed = 7, 1
    client.made = 3
    waiting = settling(client)
    waiting.begin()
    client.made = 5
    client.calls, client.failed = 9, 2
    with pytest.raises(Unavailable, match="1 calls to record"):
        waiting.wait()
    client.calls = 10
    waiting.wait()


def test_it_ends_as_soon_as_nothing_is_due() -> None:
    client = FakeClient()
    client.waiting = {"to_judge": 1}
    settling(client, then=client.waiting.clear).wait()
