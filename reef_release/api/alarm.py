"""The alarm on the call itself, where the person who set the client up sees it."""

from __future__ import annotations

from reef_release.domain.correlation import REASONS
from reef_release.domain.state import Scenario

__all__ = ["ALARM_HEADER", "alarm_headers"]

ALARM_HEADER = "x-reef-signal-alarm"


def alarm_headers(scenario: Scenario) -> dict[str, str]:
    """The header `REASON; unbound=COUNT` of the present run; nothing while all is well."""
    traffic = scenario.traffic
    alarm = traffic.alarm_reason
    if alarm is None:
        return {}
    reason = alarm if alarm in REASONS else "other"
    return {ALARM_HEADER: f"{reason}; unbound={traffic.unbound_run.total()}"}
