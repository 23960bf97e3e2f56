"""Server-sent events: cut anywhere, they say the same and stay the same bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.api.proxy import sse
from reef_release.api.proxy.sse import Event, EventParser, event_of
from reef_release.errors import UpstreamUnreachable


def parsed(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + list(parser.close())


def said(*chunks: bytes) -> list[bytes]:
    return [event.data for event in parsed(*chunks) if event.data is not None]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\r\rdata: b\r\r:", [b"a", b"b"]),
        (b"data: a\ndata: b\ndata\n\n", [b"a\nb\n"]),
        (b": hello\ndata: a\n: in between\nid: 1\nevent: x\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"id: 1\n\n\n\n: nothing\n\n", []),
        (b"data: a\n\ndata: cut", [b"a"]),
        (b"data: a\n\ndata: cut\n", [b"a"]),
        (b"dat: a\n\nDATA: b\n\n", []),
    ],
)
def test_every_way_to_write_an_event(stream: bytes, data: list[bytes]) -> None:
    assert said(stream) == data
    assert said(*(bytes([each]) for each in stream)) == data


@given(
    st.lists(st.sampled_from([b"data: {}", b"\n", b"\r\n", b"\r", b": x", b"a", b" "])),
    st.lists(st.integers(0, 60)),
)
def test_where_a_stream_is_cut_changes_nothing(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:stop] for start, stop in pairwise(edges)]
    assert b"".join(event.raw for event in parsed(*chunks)) == stream
    assert said(*chunks) == said(stream)


def test_an_event_is_there_with_its_last_byte() -> None:
    parser = EventParser()
    assert list(parser.feed(b"data: a\n")) == []
    assert list(parser.feed(b"\n")) == [Event(b"data: a\n\n", b"a")]
    assert list(parser.feed(b": ping\n")) == [Event(b": ping\n", None)]


@given(st.binary().filter(lambda data: b"\r" not in data))
def test_what_is_written_as_an_event_is_read_back(data: bytes) -> None:
    assert said(event_of(data)) == [data]


@pytest.mark.parametrize("piece", [b"x", b"data: x\n"])
def test_an_event_has_a_largest_size(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_MOST_BYTES", 1000)
    parser = EventParser()
    whole = b"data: " + b"x" * 900 + b"\n\n"
    for _ in range(3):
        assert len(list(parser.feed(whole))) == 1
    chunks = [piece] * 2000
    with pytest.raises(UpstreamUnreachable, match="more than 1000 bytes"):
        [list(parser.feed(chunk)) for chunk in chunks]
