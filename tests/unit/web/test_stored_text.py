"""A text is shown only to whoever may read it, and only if it is there and is what it should be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reef_release.domain.state import Erasure
from reef_release.web.session_texts import session_texts
from reef_release.web.session_view import Judgment, TurnView
from reef_release.web.stored_text import LONGEST_TEXT, StoredState, cut, read_stored
from tests.traffic_story import HINT, QUESTION, body_of, votes_of
from tests.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def turn(world: World, body: str, votes: str, hint: str) -> TurnView:
    judgment = Judgment(
        position=2,
        score=-1,
        about=1,
        target="a",
        target_place=1,
        valid=1,
        asked=2,
        judge="m",
        votes=votes,
        hints=(hint,),
    )
    return TurnView(
        place=1,
        turn_id="a",
        position=1,
        at="2026-01-02T03:04:05.000006Z",
        actor="agent",
        tag=None,
        turn_type=None,
        model=None,
        release_id=None,
        body=body,
        error=None,
        error_meaning="",
        finish_reason=None,
        token_count=None,
        token_fault=None,
        token_meaning="",
        judgment=judgment,
    )


async def test_texts_are_read_for_whoever_may_read_them(world: World) -> None:
    hint = world.blobs.put_body_sync(HINT.encode())
    body = body_of(world, "And?", "No.", [QUESTION, "Four."])
    shown = turn(world, body, votes_of(world, -1), hint)
    texts = (await session_texts(world.blobs, [shown], may_read=True, erased={}))["a"]
    said = texts.said.value
    assert said is not None
    assert (said.earlier, [each.text for each in said.messages]) == (2, ["And?"])
    assert said.reply is not None
    assert said.reply.text == "No."
    assert texts.votes is not None
    assert texts.votes.value is not None
    assert [vote.valid for vote in texts.votes.value.votes] == [True, False]
    assert [each.value and each.value.text for each in texts.hints] == [HINT]


async def test_nothing_is_read_for_others(world: World) -> None:
    hidden = turn(world, "aa" * 32, "bb" * 32, "cc" * 32)
    texts = (await session_texts(world.blobs, [hidden], may_read=False, erased={}))["a"]
    for each in (texts.said, texts.votes, *texts.hints):
        assert each is not None
        assert (each.state, each.value) == (StoredState.HIDDEN, None)


async def test_what_is_gone_or_damaged_is_told_apart(world: World) -> None:
    damaged = world.blobs.put_body_sync(b"\xff{")
    other = world.blobs.put_body_sync(msgspec.json.encode({"another": "shape"}))
    texts = (
        await session_texts(
            world.blobs, [turn(world, "aa" * 32, other, damaged)], may_read=True, erased={}
        )
    )["a"]
    assert texts.said.state is StoredState.ABSENT
    assert texts.votes is not None
    assert texts.votes.state is StoredState.UNREADABLE
    assert texts.hints[0].state is StoredState.UNREADABLE
    assert all(state.words for state in StoredState if state is not StoredState.SHOWN)


async def test_what_is_erased_is_told_to_everybody_with_its_event(world: World) -> None:
    digest = world.blobs.put_body_sync(b"never again")
    erasure = Erasure(
        digest=digest,
        kind="call",
        scenario="homework",
        turn_id="a",
        reason="the pupil asked",
        actor="the-operate",
        position=7,
        recorded_at="2026-01-02T03:04:05.000006Z",
        event_id="e",
    )
    for may_read in (True, False):
        stored = await read_stored(
            world.blobs, digest, bytes.decode, may_read=may_read, erased={digest: erasure}
        )
        assert (stored.state, stored.value, stored.erasure) == (StoredState.ERASED, None, erasure)


async def test_a_long_text_is_cut_and_says_so(world: World) -> None:
    digest = world.blobs.put_body_sync(b"x" * (LONGEST_TEXT + 5))
    stored = await read_stored(world.blobs, digest, bytes.decode, may_read=True, erased={})
    assert stored.value is not None
    text, left_out = cut(stored.value)
    assert (len(text), left_out) == (LONGEST_TEXT, 5)
