"""Keeping claimed work: its lease is renewed on time, however long the work takes.

What always holds: a service that does not answer is asked again at the next beat, since what was
recorded counts with a lease or without; only the service's own word ends the lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

import structlog

from reef_release.errors import Conflict, NotFound, ReefError

__all__ = ["Heartbeat", "LeaseLost"]

_JOIN_S = 5.0
_log = structlog.get_logger(__name__)


class LeaseLost(Conflict):
    """The lease expired, or the service restarted and forgot it."""


class Heartbeat:
    """Calls *renew* every *every_s* seconds within the context, in a thread of its own."""

    def __init__(self, renew: Callable[[], object], every_s: float) -> None:
        self._renew = renew
        self._every_s = every_s
        self._stopped = threading.Event()
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        # A beat may be waiting for a service that is away; one more renewal does no harm.
        self._thread.join(_JOIN_S)

    def check(self) -> None:
        """Raise `LeaseLost` once the service has said that the lease is gone."""
        if self._lost is not None:
            raise LeaseLost(self._lost, next_step="Claim again; what was recorded is kept.")

    def _beat(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self._renew()
            except (Conflict, NotFound) as error:
                self._lost = error.detail
                return
            except ReefError as error:
                _log.warning("lease not renewed", why=error.detail)
