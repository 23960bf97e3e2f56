"""The event log on Postgres: one function that appends, one sequencer per process, readers."""

from __future__ import annotations

from reef_release.log.entries import (
    Appended,
    IdConflict,
    NewEvent,
    RuleRefused,
    StoredEvent,
    VersionConflict,
)
from reef_release.log.eventlog import EventLog

__all__ = [
    "Appended",
    "EventLog",
    "IdConflict",
    "NewEvent",
    "RuleRefused",
    "StoredEvent",
    "VersionConflict",
]
