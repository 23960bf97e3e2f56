"""Leases by a clock that the test turns."""

from __future__ import annotations

import pytest

from reef_release.api.leases import Leases
from reef_release.errors import NotFound


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(10.0, clock)


def test_one_worker_holds_a_subject_at_a_time(leases: Leases) -> None:
    assert leases.take("gate", "a") is not None
    assert leases.take("gate", "b") is None
    assert leases.take("other", "b") is not None


def test_the_holder_may_take_it_again_and_the_old_lease_ends(leases: Leases) -> None:
    first = leases.take("gate", "a")
    second = leases.take("gate", "a")
    assert first is not None
    assert second is not None
    with pytest.raises(NotFound):
        leases.renew(first.lease_id)
    assert leases.renew(second.lease_id) is second


def test_taking_it_again_does_not_renew_it(leases: Leases, clock: Clock) -> None:
    leases.take("watch", "a")
    clock.now = 9.9
    leases.take("watch", "a")
    clock.now = 10.0
    assert leases.take("watch", "b") is not None


def test_a_lease_ends_when_nobody_renews_it(leases: Leases, clock: Clock) -> None:
    held = leases.take("gate", "a")
    assert held is not None
    clock.now = 9.9
    leases.renew(held.lease_id)
    clock.now = 19.8
    assert leases.take("gate", "b") is None
    clock.now = 19.9
    assert leases.take("gate", "b") is not None
    with pytest.raises(NotFound, match="expired"):
        leases.renew(held.lease_id)


def test_a_released_subject_is_free(leases: Leases) -> None:
    leases.take("gate", "a")
    leases.release("gate")
    leases.release("gate")
    assert leases.take("gate", "b") is not None
