"""The base of all event data."""

from __future__ import annotations

from typing import ClassVar

import msgspec

__all__ = ["EventData"]


class EventData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all event data; `TYPE` is the wire name, `SCHEMA_VERSION` what is written now."""

    TYPE: ClassVar[str] = ""
    SCHEMA_VERSION: ClassVar[int] = 1
