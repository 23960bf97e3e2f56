"""Keeping a lease: outages are ridden out, the service's no is final."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from reef_release.client.lease import Heartbeat, LeaseLost
from reef_release.errors import Conflict, NotFound, ReefError, Unavailable

TICK_S = 0.001
LONG_S = 20.0


def beating(answers: list[ReefError | None], done: threading.Event) -> Callable[[], None]:
    left = iter(answers)

    def renew() -> None:
        answer = next(left, None)
        if answer is None:
            done.set()
            return
        raise answer

    return renew


def test_a_service_that_is_away_does_not_end_the_lease() -> None:
    done = threading.Event()
    with Heartbeat(beating([Unavailable("away"), Unavailable("away")], done), TICK_S) as lease:
        assert done.wait(LONG_S)
        lease.check()


@pytest.mark.parametrize("no", [NotFound("no such lease"), Conflict("another worker has it")])
def test_the_word_of_the_service_ends_the_lease(no: ReefError) -> None:
    asked = threading.Event()

    def renew() -> None:
        asked.set()
        raise no

    with Heartbeat(renew, TICK_S) as lease:
        assert asked.wait(LONG_S)
    with pytest.raises(LeaseLost, match=no.detail):
        lease.check()
