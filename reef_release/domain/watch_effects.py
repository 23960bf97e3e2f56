"""Effects of the watch's events, and of the hold that answers one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.events import Envelope, EventData
from reef_release.domain.state import Scenario, State
from reef_release.domain.watch_rules import watch_of

__all__ = ["WATCH_EFFECTS", "answer_watches"]


def _watch_trial(state: State, _checks: Checks, envelope: Envelope, data: ev.WatchTrial) -> None:
    scenario = state.scenarios[envelope.scenario]
    watch = watch_of(state, scenario, data.channel)
    assert watch is not None, "the validator found it"
    scenario.watches[data.pointer_position] = watch
    watch.add(data, envelope.position, envelope.recorded_at)


def _watch_fallen(state: State, _checks: Checks, envelope: Envelope, data: ev.WatchFallen) -> None:
    scenario = state.scenarios[envelope.scenario]
    watch = scenario.watches[data.pointer_position]
    watch.fallen_position = envelope.position
    if scenario.held_reason is not None:
        watch.answered_position = envelope.position


def answer_watches(scenario: Scenario, position: int) -> None:
    """The scenario was held at *position*: that answers whatever has fallen before."""
    for watch in scenario.watches.values():
        if watch.fallen_position is not None and watch.answered_position is None:
            watch.answered_position = position


WATCH_EFFECTS: dict[type[EventData], Callable[[State, Checks, Envelope, Any], None]] = {
    ev.WatchTrial: _watch_trial,
    ev.WatchFallen: _watch_fallen,
}
