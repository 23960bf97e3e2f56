"""A turn: what is remembered of a recorded call so that a later one can be matched with it.

Digests only; no text of a person or a model is kept.
"""

from __future__ import annotations

import msgspec

from reef_release.domain.correlation.calls import Call
from reef_release.domain.correlation.normal import Normal, digest
from reef_release.domain.correlation.request import EMPTY, Request, chained
from reef_release.domain.correlation.system import System

__all__ = [
    "DIGEST_BYTES",
    "NEIGHBOURS",
    "SUFFIXES",
    "Turn",
    "id_key",
    "reworded_keys",
    "suffix_keys",
    "turn_of",
]

DIGEST_BYTES = 16
NEIGHBOURS = 16
"""How many messages before the reply are remembered, to decide between equal echoes."""
SUFFIXES = (4, 2, 1)
"""Lengths of the transcript's end, reply included, under which a turn is found; longest first."""
_ID_BYTES = 8


class Turn(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """One recorded main call.

    `roles` and `context` hold the last of the `length` messages of its request, oldest first: a
    letter and 16 bytes each. `transcript` is the rolling hash with the reply, None when nothing
    was answered. `echoed`: its request was matched by a reply that it carried. `trail` stands for
    the ids of the newest tool messages in its request. `next_call` is the call that followed it,
    `next_news` the rolling hash of what that one brought, None when it was not answered.
    `superseded`: the same request was answered otherwise later. `doubted`: a repetition of it was
    taken for a retry, but may have been another conversation that began alike.
    """

    call_id: str
    session_id: str
    at_s: float
    tag: str | None
    system: System
    identity: bytes
    stem: bytes
    but_newest: bytes
    trail: bytes
    length: int
    roles: str
    context: bytes
    reply: Normal | None
    transcript: bytes | None
    follows: str | None
    echoed: bool
    next_call: str | None = None
    next_news: bytes | None = None
    superseded: bool = False
    doubted: bool = False

    @property
    def open(self) -> bool:
        """Whether nothing follows it that was answered."""
        return self.next_call is None or self.next_news is None

    def neighbour(self, back: int) -> tuple[str, bytes] | None:
        """The message *back* places before the reply (1: the newest of the request)."""
        if back > len(self.roles):
            return None
        end = len(self.context) - DIGEST_BYTES * (back - 1)
        return self.roles[-back], self.context[end - DIGEST_BYTES : end]

    def place(self, back: int) -> int:
        """The index in its request of the message *back* places before the reply."""
        return self.length - back

    def says(self, message: Normal) -> bool:
        """Whether its reply is this message."""
        return self.reply is not None and self.reply.digest == message.digest

    def index_keys(self) -> list[bytes]:
        """Everything under which the index finds this turn."""
        found = [b"r" + self.identity]
        if self.reply is None or self.transcript is None:
            return found
        found.append(b"t" + self.transcript)
        tail = self.context + self.reply.digest
        for length in SUFFIXES:
            if len(self.roles) + 1 >= length:
                found.append(_suffix_key(length, tail[-DIGEST_BYTES * length :]))
        if self.length > 1:
            found.append(b"w" + chained(self.but_newest, self.reply))
        found += (id_key(each) for each in self.reply.ids)
        return list(dict.fromkeys(found))


def turn_of(
    call: Call,
    request: Request,
    reply: Normal | None,
    *,
    session_id: str,
    follows: str | None,
    echoed: bool,
) -> Turn:
    """The turn to remember of *call*."""
    kept = request.body[-NEIGHBOURS:]
    return Turn(
        call_id=call.call_id,
        session_id=session_id,
        at_s=call.at_s,
        tag=call.tag,
        system=request.system,
        identity=request.identity,
        stem=request.stem,
        but_newest=request.chain[-2] if request.body else EMPTY,
        trail=request.trail,
        length=len(request.body),
        roles="".join(each.role[:1] for each in kept),
        context=b"".join(each.digest for each in kept),
        reply=reply,
        transcript=None if reply is None else chained(request.chain[-1], reply),
        follows=follows,
        echoed=echoed,
    )


def reworded_keys(request: Request) -> list[bytes]:
    """The index keys of a turn whose newest message was resent in other words, or left out."""
    if request.echo is None or request.last < 1:
        return []
    ends = (request.chain[request.last - 1], request.chain[request.last])
    return [b"w" + chained(each, request.echo) for each in ends]


def suffix_keys(request: Request) -> list[bytes]:
    """The index keys of the ends of the transcript up to the echo, longest first."""
    through = request.body[: request.last + 1]
    return [
        _suffix_key(length, b"".join(each.digest for each in through[-length:]))
        for length in SUFFIXES
        if len(through) >= length
    ]


def id_key(identifier: str) -> bytes:
    """The index key of a tool call's id."""
    return b"i" + digest(identifier.encode("utf-8", "replace"))[:_ID_BYTES]


def _suffix_key(length: int, tail: bytes) -> bytes:
    return b"%d" % length + digest(tail)
