"""Places for live pages: counted from the admission on, so many for each session and token."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reef_release.errors import TooManyRequests, Unavailable
from reef_release.tokens import Principal, TokenRole
from reef_release.web.live import LiveStreams
from reef_release.web.session import Session

pytestmark = pytest.mark.anyio


def session(name: str, number: int = 0) -> Session:
    principal = Principal(name=name, role=TokenRole.AUDIT, scenario=None)
    return Session(principal=principal, session_id=f"{name}-{number}", expires=2**40)


@pytest.fixture
def service() -> Any:
    """A service that stops, so that every stream soon ends."""
    stopping = asyncio.Event()
    stopping.set()
    return SimpleNamespace(state=SimpleNamespace(position=0), stopping=stopping)


async def test_streams_count_before_they_begin(service: Any) -> None:
    streams = LiveStreams()
    kept = [streams.rows(service, session("one"), None, 0) for _ in range(4)]
    with pytest.raises(TooManyRequests):
        streams.rows(service, session("one"), None, 0)
    async for _ in kept[0]:
        pass
    kept.append(streams.rows(service, session("one"), None, 0))


async def test_a_stream_that_never_begins_gives_its_place_back(service: Any) -> None:
    streams = LiveStreams()
    kept = [streams.rows(service, session("one"), None, 0) for _ in range(4)]
    del kept[0]
    kept.append(streams.rows(service, session("one"), None, 0))


async def test_who_signs_in_again_and_again_leaves_places_to_others(service: Any) -> None:
    streams = LiveStreams()
    kept = [streams.rows(service, session("one", n), None, 0) for n in range(16)]
    with pytest.raises(TooManyRequests):
        streams.rows(service, session("one", 16), None, 0)
    kept += [streams.rows(service, session(f"other-{n}"), None, 0) for n in range(48)]
    with pytest.raises(Unavailable, match="Too many pages"):
        streams.rows(service, session("last"), None, 0)
