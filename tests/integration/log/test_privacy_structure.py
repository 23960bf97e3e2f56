"""The structure of erasures in Postgres: once each, with a reason, and of what a turn names."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain import events as ev
from tests.calls import bound, judged, recorded, unbound
from tests.integration.log.mirror import Mirror
from tests.world import World

pytestmark = pytest.mark.anyio

BODY, VOTES, HINT, FEEDBACK = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)


def erased(digest: str, kind: Any, turn: str = "a", reason: str = "asked for") -> ev.BodyErased:
    return ev.BodyErased(digest=digest, kind=kind, turn_id=turn, reason=reason)


@pytest.fixture
async def told(world: World, mirror: Mirror) -> Mirror:
    """A judged turn with a report."""
    world.append(recorded("a", body=BODY))
    world.append(unbound("a"))
    world.append(recorded("b", body="5" * 64))
    world.append(bound("b", "a"))
    world.append(judged("a", votes=VOTES, hints=[HINT]))
    world.append(ev.ReportReceived(turn_id="a", score="1", feedback=FEEDBACK))
    await mirror.follow()
    return mirror


async def test_whatever_the_fold_lets_erase_the_database_lets(world: World, told: Mirror) -> None:
    kinds = {"call": BODY, "votes": VOTES, "hint": HINT, "feedback": FEEDBACK}
    for kind, digest in kinds.items():
        world.append(erased(digest, kind))
    await told.follow()
    assert world.state.violations == []
    assert await told.log.head() == world.head


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (erased(BODY, "call", turn="x"), "unknown-turn"),
        (erased(BODY, "votes"), "other-body"),
        (erased("6" * 64, "call"), "other-body"),
        (erased("6" * 64, "hint"), "other-body"),
        (erased("5" * 64, "feedback"), "other-body"),
        (erased(BODY, "call", reason=" "), "no-reason"),
        (erased("z" * 64, "call"), "digest"),
    ],
    ids=str,
)
async def test_an_erasure_without_a_ground_is_refused(
    told: Mirror, data: ev.BodyErased, code: str
) -> None:
    assert await told.codes_against(data) == {code}


async def test_a_body_is_erased_once(world: World, told: Mirror) -> None:
    world.append(erased(BODY, "call"))
    await told.follow()
    assert await told.codes_against(erased(BODY, "call", reason="again")) == {"erased"}
