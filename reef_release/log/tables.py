"""The log's tables, described for Alembic and for reads that are not hot.

What a table cannot say here (triggers, functions, grants) stands as named SQL beside the
migration that makes it. Text is compared byte by byte (collation "C"): names are ASCII, and
no index may change its order when the operating system's locales do.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlmodel import Field, SQLModel

__all__ = ["SCHEMA", "DecisionRow", "EventRow", "EventTypeRow", "HeadRow", "WithoutEffectRow"]

SCHEMA = "reef"


def _name(name: str, *, primary_key: bool = False) -> Column[str]:
    return Column(name, Text(collation="C"), primary_key=primary_key, nullable=False)


class EventRow(SQLModel, table=True):
    """One event: `body` is its envelope's RFC 8785 bytes, the other columns repeat parts of it.

    `chain` is sha256(chain of the event before || body); before the first it is 32 zero bytes.
    """

    __tablename__ = "events"
    __table_args__: ClassVar[object] = (
        CheckConstraint("position >= 0", name="events_position_from_zero"),
        CheckConstraint("version >= 1", name="events_version_from_one"),
        CheckConstraint(
            "length(scenario) <= 64 AND scenario ~ '^[A-Za-z0-9_][A-Za-z0-9._-]*$'",
            name="events_scenario_ascii",
        ),
        CheckConstraint(
            "length(stream) <= 200 AND stream ~ '^[a-z]+(/[A-Za-z0-9._:-]+)*$'",
            name="events_stream_ascii",
        ),
        # An entry of a tlog-tiles bundle has a 16-bit length.
        CheckConstraint("octet_length(body) <= 65535", name="events_body_fits_a_tile"),
        CheckConstraint("octet_length(chain) = 32", name="events_chain_is_sha256"),
        UniqueConstraint("event_id", name="events_event_id_key"),
        UniqueConstraint("scenario", "stream", "version", name="events_stream_version_key"),
        Index("events_by_scenario", "scenario", "position"),
        Index("events_by_type", "type", "position"),
        # A page shows the newest events of some types: none may cost a scan of the scenario.
        Index("events_by_scenario_and_type", "scenario", "type", "position"),
        # Asked once per append batch; small, and it allows one creation per scenario only.
        Index(
            "events_scenario_created",
            "scenario",
            unique=True,
            postgresql_where=text("type = 'scenario.created'"),
        ),
        {"schema": SCHEMA},
    )

    position: int = Field(
        sa_column=Column("position", BigInteger, primary_key=True, autoincrement=False)
    )
    event_id: UUID = Field(sa_column=Column("event_id", Uuid, nullable=False))
    scenario: str = Field(sa_column=_name("scenario"))
    stream: str = Field(sa_column=_name("stream"))
    version: int = Field(sa_column=Column("version", Integer, nullable=False))
    type: str = Field(sa_column=_name("type"))
    recorded_at: datetime = Field(
        sa_column=Column("recorded_at", DateTime(timezone=True), nullable=False)
    )
    body: bytes = Field(sa_column=Column("body", LargeBinary, nullable=False))
    chain: bytes = Field(sa_column=Column("chain", LargeBinary, nullable=False))


class HeadRow(SQLModel, table=True):
    """The end of the log, in one row; whoever holds its lock may append."""

    __tablename__ = "head"
    __table_args__: ClassVar[object] = (
        CheckConstraint("one", name="head_has_one_row"),
        {"schema": SCHEMA},
    )

    one: bool = Field(sa_column=Column("one", Boolean, primary_key=True))
    position: int = Field(sa_column=Column("position", BigInteger, nullable=False))
    chain: bytes = Field(sa_column=Column("chain", LargeBinary, nullable=False))
    recorded_at: datetime = Field(
        sa_column=Column("recorded_at", DateTime(timezone=True), nullable=False)
    )


class EventTypeRow(SQLModel, table=True):
    """An event type that may be appended.

    `stream` is the stream's name, or a prefix ending in "/"; `subject` the field of the data
    that stands behind the prefix; `ruled` whether the structure of the rule is checked; `decisive`
    whether events of other streams of the scenario rest on such an event. A newer
    schema version than `newest_schema_version` would stop every reader that does not know it.
    """

    __tablename__ = "event_types"
    __table_args__: ClassVar[object] = ({"schema": SCHEMA},)

    type: str = Field(sa_column=_name("type", primary_key=True))
    stream: str = Field(sa_column=_name("stream"))
    subject: str | None = Field(sa_column=Column("subject", Text(collation="C"), nullable=True))
    ruled: bool = Field(sa_column=Column("ruled", Boolean, nullable=False))
    decisive: bool = Field(sa_column=Column("decisive", Boolean, nullable=False))
    newest_schema_version: int = Field(
        sa_column=Column("newest_schema_version", Integer, nullable=False)
    )


class DecisionRow(SQLModel, table=True):
    """Where the last decisive event of a scenario stands; of no scenario: `_`."""

    __tablename__ = "decisions"
    __table_args__: ClassVar[object] = ({"schema": SCHEMA},)

    scenario: str = Field(sa_column=_name("scenario", primary_key=True))
    position: int = Field(sa_column=Column("position", BigInteger, nullable=False))


class WithoutEffectRow(SQLModel, table=True):
    """A violation that the rule's structure passes over; only the database's owner says so."""

    __tablename__ = "without_effect"
    __table_args__: ClassVar[object] = ({"schema": SCHEMA},)

    position: int = Field(
        sa_column=Column("position", BigInteger, primary_key=True, autoincrement=False)
    )
