"""The judge's two boundaries as fakes: the service with its turns, and the model that answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge.worker import JudgeWorker, JudgeWorkerConfig
from reef_release.client.transport import Retry
from reef_release.errors import Conflict, NotFound
from reef_release.wire import (
    JudgeProbe,
    JudgmentRequest,
    Message,
    NextState,
    TurnAssignment,
)

NO_WAIT = Retry(attempts=3, sleep=lambda _seconds: None)
FAR = "2999-01-01T00:00:00.000000Z"

Step = str | Exception


def said(score: int = 0, about: int = 1, **more: Any) -> str:
    """An answer in the form that is asked for."""
    return json.dumps({"score": score, "about": about, **more})


def turn(
    turn_id: str = "t1",
    reaction: str = "Thanks!",
    *,
    reply: str = "42 eggs.",
    earlier: Sequence[str] = (),
    messages: Sequence[dict[str, Any]] = (),
    role: str = "user",
    lease_id: str = "lease-1",
) -> TurnAssignment:
    return TurnAssignment(
        scenario="homework",
        turn_id=turn_id,
        session_id="s1",
        lease_id=lease_id,
        lease_expires_at=FAR,
        messages=list(messages),
        reply=reply,
        next_state=NextState(
            role="tool" if role == "tool" else "user",
            messages=[{"role": role, "content": reaction}],
        ),
        earlier=[
            Message(index=index, turn_id=f"{turn_id}-{index}", reply=text)
            for index, text in enumerate(earlier, 1)
        ],
    )


class FakeBackend:
    """Answers with *steps* in order, the last of them for ever; an exception is raised."""

    model = "fake"
    settings: Mapping[str, str] = {"temperature": "0.7"}

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.asked: list[tuple[Sequence[Mapping[str, str]], int]] = []
        self.checks: list[Exception] = []

    def complete(self, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        self.asked.append((messages, seed))
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step

    def check(self) -> None:
        if self.checks:
            raise self.checks.pop(0)


@dataclass(kw_only=True)
class FakeTurns:
    """The service's side: a turn is handed out until a judgment, or too many errors, stand.

    `leased` are the turns that somebody holds; `forget` lets all leases run out. `on_post` comes
    before a judgment is recorded, `after_post` when it is, but before the answer.
    """

    turns: list[TurnAssignment] = field(default_factory=list)
    judgments: dict[str, JudgmentRequest] = field(default_factory=dict)
    errors: list[tuple[str, str]] = field(default_factory=list)
    probes: list[tuple[str, JudgeProbe]] = field(default_factory=list)
    leased: set[str] = field(default_factory=set)
    posts: int = 0
    max_errors: int = 3
    on_claim: Callable[[], None] = lambda: None
    on_post: Callable[[], None] = lambda: None
    after_post: Callable[[], None] = lambda: None

    def claim_turn(self, scenario: str, worker: str) -> TurnAssignment | None:
        self.on_claim()
        if scenario != "homework":
            raise NotFound(f"no scenario {scenario!r}")
        for each in self.turns:
            failed = sum(turn_id == each.turn_id for turn_id, _ in self.errors)
            done = each.turn_id in self.judgments or failed >= self.max_errors
            if not done and each.turn_id not in self.leased:
                self.leased.add(each.turn_id)
                return each
        return None

    def post_judgment(self, scenario: str, turn_id: str, judgment: JudgmentRequest) -> None:
        self.posts += 1
        self.on_post()
        if self.judgments.get(turn_id) == judgment:
            return
        if turn_id in self.judgments or turn_id not in self.leased:
            raise Conflict("the turn is judged already, or another worker's")
        self.leased.discard(turn_id)
        if judgment.error is not None:
            self.errors.append((turn_id, judgment.error))
        else:
            self.judgments[turn_id] = judgment
        self.after_post()

    def renew_lease(self, lease_id: str) -> None:
        if not self.leased:
            raise NotFound("no such lease")

    def post_probe(self, scenario: str, probe: JudgeProbe) -> None:
        self.probes.append((scenario, probe))

    def forget(self) -> None:
        self.leased.clear()


def worker(
    service: FakeTurns, backend: FakeBackend, *, known: Sequence[Any] = (), **settings: Any
) -> JudgeWorker:
    config = JudgeWorkerConfig(
        **{
            "name": "judge-1",
            "scenarios": ["homework"],
            "poll_s": 0.001,
            "post_retry": NO_WAIT,
            **settings,
        }
    )
    return JudgeWorker(config, service, backend, known=known)


def raising(*errors: Exception) -> Callable[[], None]:
    """Raises each of *errors* once, then nothing."""
    left = list(errors)

    def step() -> None:
        if left:
            raise left.pop(0)

    return step
