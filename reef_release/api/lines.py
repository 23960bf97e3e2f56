"""Reading request bodies that may be long: whole up to a limit, or line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from reef_release.errors import PayloadTooLarge, RequestTimedOut, Unavailable

__all__ = ["BodyRoom", "lines_of", "whole_body"]

_PATIENCE_S = 60.0
_ROOM_BYTES = 512 * 1024 * 1024


@dataclass(eq=False)
class BodyRoom:
    """The memory that bodies on their way may take together."""

    free_bytes: int = _ROOM_BYTES


async def whole_body(chunks: AsyncIterator[bytes], limit_bytes: int, room: BodyRoom) -> bytes:
    """All of a body.

    Raises `PayloadTooLarge` as soon as it is longer than the limit, `RequestTimedOut` when
    nothing of it comes for a while, and `Unavailable` when others leave no room for it.
    """
    body = bytearray()
    try:
        async for chunk in _in_time(chunks):
            body += chunk
            room.free_bytes -= len(chunk)
            if len(body) > limit_bytes:
                raise PayloadTooLarge(f"The body has more than {limit_bytes} bytes.")
            if room.free_bytes < 0:
                raise Unavailable(
                    "Too many long requests are on their way at once.",
                    next_step="Send it again in a moment.",
                )
        return bytes(body)
    finally:
        room.free_bytes += len(body)


async def lines_of(chunks: AsyncIterator[bytes], limit_bytes: int) -> AsyncIterator[bytes | None]:
    """Each line without its end, None for one that is longer than the limit.

    Never holds more than one line and one chunk. Raises `RequestTimedOut` when nothing comes for
    a while.
    """
    pending = bytearray()
    too_long = False
    async for chunk in _in_time(chunks):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            pending += part
            yield None if too_long or len(pending) > limit_bytes else bytes(pending)
            pending.clear()
            too_long = False
        pending += rest
        if len(pending) > limit_bytes:
            too_long = True
            pending.clear()
    if pending or too_long:
        yield None if too_long else bytes(pending)


async def _in_time(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                chunk = await anext(chunks, None)
        except TimeoutError as error:
            raise RequestTimedOut(
                f"Nothing of the body came for {_PATIENCE_S:.0f} s.", next_step="Send it again."
            ) from error
        if chunk is None:
            return
        yield chunk
