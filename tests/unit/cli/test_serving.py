"""`up` waits for the engine itself, not for what a node once said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reef_release.cli.serving import await_engine
from reef_release.cli.stack import LocalStack
from reef_release.client import ReefClient
from reef_release.domain.reasons import Reason
from reef_release.errors import Unavailable
from reef_release.node.engine import EngineHealth, HttpEngine

SERVED = "ab" * 32


class Desk:
    """A stack and its client; the log says that the node has loaded what is served."""

    def __init__(self) -> None:
        self.looks = 0
        self.stack = cast(
            "LocalStack",
            SimpleNamespace(engine_url="http://127.0.0.1:9", scenario="s", check=self._check),
        )
        reason = Reason(code="digest-mismatch", message="other bytes")
        node = SimpleNamespace(release_id=SERVED, reasons=[reason])
        view = SimpleNamespace(
            channels={"stable": SimpleNamespace(release_id=SERVED)}, nodes=[node]
        )
        self.client = cast("ReefClient", SimpleNamespace(scenario=lambda _: view))

    def _check(self) -> None:
        self.looks += 1


def engine_says(monkeypatch: pytest.MonkeyPatch, *answers: str | Exception | None) -> None:
    left = list(answers)

    def health(_: HttpEngine) -> EngineHealth:
        answer: Any = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return EngineHealth(loaded=answer is not None, release_id=answer)

    monkeypatch.setattr(HttpEngine, "health", health)
    monkeypatch.setattr("reef_release.cli.serving._LOOK_S", 0)


def test_it_waits_while_the_engine_has_nothing_or_something_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine_says(monkeypatch, None, Unavailable("away"), "cd" * 32, SERVED)
    desk = Desk()
    assert await_engine(desk.stack, desk.client) == ""
    assert desk.looks == 4


def test_a_node_that_refuses_is_told_with_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_says(monkeypatch, None)
    desk = Desk()
    late = await_engine(desk.stack, desk.client, timeout_s=0)
    assert SERVED[:12] in late
    assert "digest-mismatch: other bytes" in late


def test_it_waits_no_longer_than_somebody_wants_it_to(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_says(monkeypatch, None)
    desk = Desk()
    assert await_engine(desk.stack, desk.client, stopped=lambda: desk.looks == 3) == ""
    assert desk.looks == 3
