"""What was said in the calls that a page of a session shows, for whoever may read it.

A call shows what it brought that nobody had answered, and its reply; the messages before that are
those of the calls before. Few bodies are held at once, and of each only what is shown is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from reef_release.api.bodies import decode_body, next_state_of, reply_text
from reef_release.api.judging import VotesBody
from reef_release.artifacts.blobs import BlobStore
from reef_release.domain.roles import role_of
from reef_release.domain.state import Erasure
from reef_release.web.session_view import TurnView
from reef_release.web.stored_text import Stored, cut, read_stored
from reef_release.wire import Vote

__all__ = ["CallTexts", "Said", "Text", "Votes", "session_texts"]

_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text by its speaker; `left_out` characters of it are not shown."""

    role: str
    text: str
    left_out: int


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a call brought, behind `earlier` messages, and the reply to it."""

    earlier: int
    messages: tuple[Text, ...]
    reply: Text | None


@dataclass(frozen=True, kw_only=True)
class Votes:
    """Every vote of a judgment, and what they say together of the reply."""

    votes: tuple[Vote, ...]
    rejected: str
    keep: str


@dataclass(frozen=True, kw_only=True)
class CallTexts:
    """All texts of one call."""

    said: Stored[Said]
    votes: Stored[Votes] | None
    hints: tuple[Stored[Text], ...]
    feedback: tuple[Stored[Text], ...]


async def session_texts(
    blobs: BlobStore,
    turns: Sequence[TurnView],
    *,
    may_read: bool,
    erased: Mapping[str, Erasure],
) -> Mapping[str, CallTexts]:
    """The texts of *turns* by turn id; *erased* are the erasures of the whole log."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def read(turn: TurnView) -> CallTexts:
        async with room:
            return await _texts(blobs, turn, may_read, erased)

    found = await asyncio.gather(*(read(turn) for turn in turns))
    return {turn.turn_id: texts for turn, texts in zip(turns, found, strict=True)}


async def _texts(
    blobs: BlobStore, turn: TurnView, may_read: bool, erased: Mapping[str, Erasure]
) -> CallTexts:
    stored = partial(read_stored, blobs, may_read=may_read, erased=erased)
    judgment = turn.judgment
    hints = () if judgment is None else judgment.hints
    reports = [report.feedback for report in turn.reports if report.feedback is not None]
    return CallTexts(
        said=await stored(turn.body, _said),
        votes=None if judgment is None else await stored(judgment.votes, _votes),
        hints=tuple([await stored(hint, partial(_plain, "hint")) for hint in hints]),
        feedback=tuple([await stored(each, partial(_plain, "feedback")) for each in reports]),
    )


def _text(role: str, text: str) -> Text:
    shown, left_out = cut(text)
    return Text(role=role, text=shown, left_out=left_out)


def _plain(role: str, body: bytes) -> Text:
    return _text(role, body.decode("utf-8"))


def _said(body: bytes) -> Said:
    found = decode_body(body)
    news = next_state_of(found.messages)
    return Said(
        earlier=len(found.messages) - len(news),
        messages=tuple(_text(str(role_of(each)), reply_text(each)) for each in news),
        reply=None if found.reply is None else _text("reply", reply_text(found.reply)),
    )


def _votes(body: bytes) -> Votes:
    found = msgspec.json.decode(body, type=VotesBody)
    return Votes(votes=tuple(found.votes), rejected=found.rejected, keep=found.keep)
