"""How long what the service has signed still lasts, and a warning well before it ends.

A current document is signed anew with every checkpoint, long before it ends. When that stops (the
log is away, a key no longer counts), nodes go on with what they have and then refuse to move: a
person must hear of it while there is time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client.core import GaugeMetricFamily

from reef_release.domain.state import State
from reef_release.projections.live import LiveState
from reef_release.signing.root import open_root

__all__ = ["ExpiryWarnings", "expiry_gauges"]

_REPEAT_S = 10.0
_LOOK_S = 1.0
_log = structlog.get_logger(__name__)


class ExpiryWarnings:
    """Writes to the service's own log when a current document is about to end."""

    def __init__(
        self,
        live: LiveState,
        *,
        lifetime_s: float,
        bound_s: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._lifetime_s = lifetime_s
        self._bound_s = bound_s
        self._clock = clock
        self._monotonic = monotonic
        self._silent_until = 0.0

    async def run(self) -> None:
        """Look every second until cancelled, whatever the service's other work waits for."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Warn of every document with less time left than the bound, at most every 10 s."""
        if self._monotonic() < self._silent_until:
            return
        state = self._live.state
        for scenario, channel, left_s in _left(state, self._lifetime_s, self._clock()):
            if left_s < self._bound_s:
                self._silent_until = self._monotonic() + _REPEAT_S
                _log.warning(
                    "a current document is not signed anew",
                    scenario=scenario,
                    channel=channel,
                    left_s=round(left_s, 1),
                    next_step="nodes stop moving when it ends: look whether the database answers "
                    "and whether the log key still counts (keys list)",
                )


def expiry_gauges(state: State, lifetime_s: float, bound_s: float) -> list[GaugeMetricFamily]:
    """Seconds left of every current document, which of them are late, and of the trust root."""
    now = datetime.now(UTC)
    labels = ["scenario", "channel"]
    left = GaugeMetricFamily(
        "reef_document_left_seconds",
        "Seconds until the current document ends; negative when it has ended",
        labels=labels,
    )
    late = GaugeMetricFamily(
        "reef_document_late",
        "1 when the current document should have been signed anew by now",
        labels=labels,
    )
    for scenario, channel, left_s in _left(state, lifetime_s, now):
        left.add_metric([scenario, channel], left_s)
        late.add_metric([scenario, channel], float(left_s < bound_s))
    root = GaugeMetricFamily("reef_root_left_seconds", "Seconds until the trust root ends")
    if state.root is not None:
        ends = datetime.fromisoformat(open_root(state.root.metadata).expires_at)
        root.add_metric([], (ends - now).total_seconds())
    return [left, late, root]


def _left(state: State, lifetime_s: float, now: datetime) -> Iterator[tuple[str, str, float]]:
    lifetime = timedelta(seconds=lifetime_s)
    for (scenario, channel), current in state.current.items():
        ends = datetime.fromisoformat(current.issued_at) + lifetime
        yield scenario, channel, (ends - now).total_seconds()
