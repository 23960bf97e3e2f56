"""A request as the correlator reads it: normal forms, and one rolling hash over its transcript.

The transcript is the conversation without its system prompts, which clients change at will.
Reading costs time in the length of the request and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from reef_release.domain.correlation.calls import Call, Message
from reef_release.domain.correlation.normal import (
    MOST_CALLS,
    Normal,
    concatenated,
    digest,
    normalise,
    text_of,
)
from reef_release.domain.correlation.system import System, read_system
from reef_release.domain.roles import role_of

__all__ = ["EMPTY", "Request", "chained", "read_reply", "read_request"]

EMPTY = digest(b"transcript")
"""The rolling hash of a transcript without a message."""

_REACTION = ("user", "tool")


@dataclass(kw_only=True, eq=False)
class Request:
    """The transcript `body`, with `chain[i]` the rolling hash of its first i messages.

    `last` is the index of the newest assistant message (-1: none). A trailing assistant message
    is a `prefill`: it is no part of the body.
    """

    body: list[Normal]
    chain: list[bytes]
    last: int
    prefill: Message | None
    system: System
    system_text: str

    @cached_property
    def echo(self) -> Normal | None:
        """The newest assistant message, if it says anything."""
        if self.last < 0 or self.body[self.last].empty:
            return None
        return self.body[self.last]

    @cached_property
    def stem(self) -> bytes:
        """The rolling hash up to and including the newest assistant message."""
        return self.chain[self.last + 1]

    @cached_property
    def news(self) -> list[Normal]:
        """What came after the newest assistant message: the next state of a reply."""
        return self.body[self.last + 1 :]

    @cached_property
    def answered_ids(self) -> tuple[str, ...]:
        """The ids of the tool calls that the news answer, as many as are made at once."""
        ids = (each for message in self.news if message.role == "tool" for each in message.ids)
        return tuple(islice(ids, MOST_CALLS))

    @cached_property
    def trail(self) -> bytes:
        """A digest of the ids of the newest tool messages of the body; empty for none."""
        return self._trail(len(self.body))

    @cached_property
    def trail_before(self) -> bytes:
        """The trail of what stands before the newest assistant message."""
        return self._trail(self.last)

    def _trail(self, end: int) -> bytes:
        for index in range(end - 1, -1, -1):
            if ids := self.body[index].ids:
                return digest("\0".join(ids).encode("utf-8", "replace"))[:8]
        return b""

    def brings_more_than(self, news: bytes) -> bool:
        """Whether its news begin with those of this rolling hash and do not end there."""
        chain = EMPTY
        for message in self.news[:-1]:
            chain = chained(chain, message)
            if chain == news:
                return True
        return False

    @cached_property
    def news_chain(self) -> bytes:
        """The rolling hash of the news alone."""
        chain = EMPTY
        for message in self.news:
            chain = chained(chain, message)
        return chain

    @cached_property
    def identity(self) -> bytes:
        """Equal for requests that ask the same; ids tell equal results of two calls apart."""
        return digest(self.chain[-1], "\0".join(self.answered_ids).encode("utf-8", "replace"))

    @property
    def has_reaction(self) -> bool:
        """Whether a user or a tool says something in it that nobody has answered."""
        return self.prefill is None and any(each.role in _REACTION for each in self.news)


def chained(chain: bytes, message: Normal) -> bytes:
    """The rolling hash of a transcript, one message further."""
    return digest(chain, message.digest)


def read_request(messages: Sequence[Message]) -> Request:
    """Read a request's messages; what is not an object, or an empty one, is skipped."""
    prompts: list[str] = []
    body: list[Normal] = []
    newest: Message = {}
    for message in messages:
        if not isinstance(message, Mapping) or not message:
            continue
        if role_of(message) == "system":
            # Reminders in the middle of a conversation come and go; they say nothing of its agent.
            if not body:
                prompts.append(text_of(message.get("content")))
            continue
        body.append(normalise(message))
        newest = message
    prefill = None
    if body and body[-1].role == "assistant":
        prefill = newest
        body.pop()
    chain = [EMPTY]
    last = -1
    for index, each in enumerate(body):
        chain.append(chained(chain[-1], each))
        if each.role == "assistant":
            last = index
    system, text = read_system("\n".join(prompts))
    return Request(
        body=body, chain=chain, last=last, prefill=prefill, system=system, system_text=text
    )


def read_reply(call: Call, request: Request) -> Normal | None:
    """The reply as the client will keep it; None when nothing was served that could be echoed."""
    if call.reply is None:
        return None
    reply: Message = {**call.reply, "role": "assistant"}
    if request.prefill is not None:
        reply = concatenated(request.prefill, reply)
    normal = normalise(reply)
    return None if normal.empty else normal
