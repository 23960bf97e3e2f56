"""Reading request bodies that may be long: whole up to a limit, or line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator

from reef_release.errors import PayloadTooLarge

__all__ = ["lines_of", "whole_body"]


async def whole_body(chunks: AsyncIterator[bytes], limit_bytes: int) -> bytes:
    """All of a body. Raises `PayloadTooLarge` as soon as it is longer than the limit."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit_bytes:
            raise PayloadTooLarge(f"The body has more than {limit_bytes} bytes.")
    return bytes(body)


async def lines_of(chunks: AsyncIterator[bytes], limit_bytes: int) -> AsyncIterator[bytes | None]:
    """Each line without its end, None for one that is longer than the limit.

    Never holds more than one line and one chunk.
    """
    pending = bytearray()
    too_long = False
    async for chunk in chunks:
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
