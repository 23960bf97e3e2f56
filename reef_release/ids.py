"""Event ids: UUIDv7 (RFC 9562 §5.7), so that ids sort by the time they were made.

And how any id is shortened for people: in one way, in the terminal, on the pages and by workers.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import uuid

__all__ = ["derived_uuid7", "short_id", "uuid7"]


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT = 12
"""Letters of an id that are shown where the whole is not needed."""


def short_id(text: str) -> str:
    """The first 12 letters of an id; of a UUID the last 12.

    UUIDv7s made at about the same time begin alike.
    """
    return text[-_SHORT:] if _UUID.fullmatch(text) else text[:_SHORT]


def uuid7() -> str:
    """A new UUIDv7 in its canonical text form: 48 bits of Unix milliseconds, 74 random bits."""
    return _uuid7(time.time_ns() // 1_000_000, secrets.randbits(80))


def derived_uuid7(of: str, *names: str) -> str:
    """The UUIDv7 that follows from *names*, with the time of the UUIDv7 *of*.

    So that what is sent twice has one id. Raises `ValueError` when *of* is no UUID.
    """
    digest = hashlib.sha256("\0".join((of, *names)).encode()).digest()
    return _uuid7(uuid.UUID(of).int >> 80, int.from_bytes(digest[:10], "big"))


def _uuid7(milliseconds: int, bits: int) -> str:
    value = milliseconds << 80 | bits
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
