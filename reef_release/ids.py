"""Event ids: UUIDv7 (RFC 9562 §5.7), so that ids sort by the time they were made."""

from __future__ import annotations

import secrets
import time
import uuid

__all__ = ["uuid7"]


def uuid7() -> str:
    """A new UUIDv7 in its canonical text form: 48 bits of Unix milliseconds, 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
