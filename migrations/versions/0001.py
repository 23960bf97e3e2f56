"""The event log: its tables, its guards, and the one function that appends."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from reef_release.log.statements import load_statements

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision

# type, stream (or its prefix), the data's field that follows the prefix, ruled
_EVENT_TYPES = (
    ("root.rotated", "trust", None, False),
    ("key.added", "trust", None, False),
    ("key.revoked", "trust", None, True),
    ("checkpoint.published", "trust/checkpoint", None, False),
    ("scenario.created", "scenario", None, True),
    ("policy.changed", "scenario", None, False),
    ("scenario.held", "scenario", None, False),
    ("scenario.resumed", "scenario", None, False),
    ("candidate.submitted", "candidate/", "candidate_id", True),
    ("candidate.admitted", "candidate/", "candidate_id", True),
    ("candidate.refused", "candidate/", "candidate_id", True),
    ("candidate.revoked", "candidate/", "candidate_id", True),
    ("gate.opened", "gate/", "gate_id", True),
    ("gate.trial", "gate/", "gate_id", True),
    ("gate.passed", "gate/", "gate_id", True),
    ("gate.failed", "gate/", "gate_id", True),
    ("gate.inconclusive", "gate/", "gate_id", True),
    ("gate.errored", "gate/", "gate_id", True),
    ("gate.stale", "gate/", "gate_id", True),
    ("release.signed", "release/", "release_id", True),
    ("release.promoted", "release/", "channel", True),
    ("release.rolled_back", "release/", "channel", True),
    ("release.revoked", "release/", "release_id", True),
    ("node.loaded", "node/", "node_id", True),
    ("node.refused", "node/", "node_id", True),
)


def upgrade() -> None:
    _run("roles")
    op.execute("set local role reef_owner")
    _create_tables()
    for name in ("guards", "rule", "append_events", "grants"):
        _run(name)
    op.execute("reset role")
    op.execute("grant select on reef.alembic_version to reef_service")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")


def _run(name: str) -> None:
    # Past SQLAlchemy's text(), which would read a colon in SQL as the start of a parameter.
    connection = op.get_bind()
    for statement in load_statements(_SQL / f"{name}.sql").values():
        connection.exec_driver_sql(statement)


def _create_tables() -> None:
    text = sa.Text(collation="C")
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("scenario", text, nullable=False),
        sa.Column("stream", text, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("type", text, nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("chain", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("position >= 0", name="events_position_from_zero"),
        sa.CheckConstraint("version >= 1", name="events_version_from_one"),
        sa.CheckConstraint(
            "length(scenario) <= 64 AND scenario ~ '^[A-Za-z0-9_][A-Za-z0-9._-]*$'",
            name="events_scenario_ascii",
        ),
        sa.CheckConstraint(
            "length(stream) <= 200 AND stream ~ '^[a-z]+(/[A-Za-z0-9._:-]+)*$'",
            name="events_stream_ascii",
        ),
        sa.CheckConstraint("octet_length(body) <= 65535", name="events_body_fits_a_tile"),
        sa.CheckConstraint("octet_length(chain) = 32", name="events_chain_is_sha256"),
        sa.PrimaryKeyConstraint("position", name="events_pkey"),
        sa.UniqueConstraint("event_id", name="events_event_id_key"),
        sa.UniqueConstraint("scenario", "stream", "version", name="events_stream_version_key"),
        schema="reef",
    )
    op.create_index("events_by_scenario", "events", ["scenario", "position"], schema="reef")
    op.create_index("events_by_type", "events", ["type", "position"], schema="reef")
    op.create_index(
        "events_scenario_created",
        "events",
        ["scenario"],
        unique=True,
        schema="reef",
        postgresql_where=sa.text("type = 'scenario.created'"),
    )
    op.create_table(
        "head",
        sa.Column("one", sa.Boolean(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("chain", sa.LargeBinary(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("one", name="head_has_one_row"),
        sa.PrimaryKeyConstraint("one", name="head_pkey"),
        schema="reef",
    )
    # Updated once per batch: room on the page keeps those updates out of the index.
    op.execute("alter table reef.head set (fillfactor = 50)")
    op.execute("insert into reef.head values (true, -1, decode(repeat('00', 32), 'hex'), 'epoch')")
    types = op.create_table(
        "event_types",
        sa.Column("type", text, nullable=False),
        sa.Column("stream", text, nullable=False),
        sa.Column("subject", text, nullable=True),
        sa.Column("ruled", sa.Boolean(), nullable=False),
        sa.Column("newest_schema_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("type", name="event_types_pkey"),
        schema="reef",
    )
    fields = ("type", "stream", "subject", "ruled", "newest_schema_version")
    op.bulk_insert(types, [dict(zip(fields, (*row, 1), strict=True)) for row in _EVENT_TYPES])
