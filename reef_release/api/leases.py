"""Leases: who works on which turn or watch now, so that two workers do not do the same work.

A lease saves work; the log alone decides what stands. A service that restarts forgets its leases,
at the cost of work done twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from reef_release.errors import NotFound
from reef_release.ids import uuid7

__all__ = ["Lease", "Leases"]


@dataclass(kw_only=True)
class Lease:
    """`expires` is in seconds of the registry's monotonic clock."""

    lease_id: str
    subject: str
    worker: str
    expires: float


class Leases:
    """The leases of this process. `duration_s` is how long one lasts without renewal."""

    def __init__(self, duration_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.duration_s = duration_s
        self._clock = clock
        self._by_subject: dict[str, Lease] = {}

    def take(self, subject: str, worker: str) -> Lease | None:
        """A lease on *subject*, or None while another worker holds one.

        To the holder it is no renewal: a worker that gets nothing done keeps no other from it.
        """
        self._drop_expired()
        held = self._by_subject.get(subject)
        if held is not None and held.worker != worker:
            return None
        lease = Lease(
            lease_id=uuid7(),
            subject=subject,
            worker=worker,
            expires=self._clock() + self.duration_s if held is None else held.expires,
        )
        self._by_subject[subject] = lease
        return lease

    def take_free(self, subject: str, worker: str) -> Lease | None:
        """Like `take`, but None also while *worker* itself holds one: it may do two at once."""
        self._drop_expired()
        return None if subject in self._by_subject else self.take(subject, worker)

    def holds(self, subject: str, lease_id: str) -> bool:
        """Whether this lease on *subject* was given out and has not ended."""
        self._drop_expired()
        held = self._by_subject.get(subject)
        return held is not None and held.lease_id == lease_id

    def renew(self, lease_id: str) -> Lease:
        """Extend a lease that has not expired. Raises `NotFound`."""
        self._drop_expired()
        for lease in self._by_subject.values():
            if lease.lease_id == lease_id:
                lease.expires = self._clock() + self.duration_s
                return lease
        raise NotFound(
            f"No lease {lease_id} is held; it has expired or the service restarted.",
            next_step="Claim again; what was recorded is kept.",
        )

    def release(self, subject: str) -> None:
        """End the lease on *subject*, if there is one."""
        self._by_subject.pop(subject, None)

    def _drop_expired(self) -> None:
        now = self._clock()
        self._by_subject = {
            subject: lease for subject, lease in self._by_subject.items() if lease.expires > now
        }
