"""Traffic: the types of its events, and that a turn is judged once and a batch held by one."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from reef_release.log.statements import load_statements

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision

# type, stream (or its prefix), the data's field that follows the prefix, ruled
_EVENT_TYPES = (
    ("interaction.recorded", "session/", "interaction_id", True),
    ("interaction.failed", "session/", "interaction_id", True),
    ("turn.bound", "session/", "interaction_id", True),
    ("turn.unbound", "session/", "interaction_id", True),
    ("session.expired", "session/", "session_id", True),
    ("signal.alarm_raised", "session/signal", None, False),
    ("signal.alarm_cleared", "session/signal", None, False),
    ("turn.judged", "turn/", "turn_id", True),
    ("turn.judging_failed", "turn/", "turn_id", True),
    ("report.received", "turn/", "turn_id", True),
    ("sample.refused", "turn/", "turn_id", True),
    ("judge.suspended", "judge", None, False),
    ("judge.resumed", "judge", None, False),
    ("batch.formed", "batch/", "batch_id", True),
    ("batch.claimed", "batch/", "batch_id", True),
    ("batch.released", "batch/", "batch_id", True),
)


def upgrade() -> None:
    op.execute("set local role reef_owner")
    types = sa.table(
        "event_types",
        sa.column("type", sa.Text()),
        sa.column("stream", sa.Text()),
        sa.column("subject", sa.Text()),
        sa.column("ruled", sa.Boolean()),
        sa.column("newest_schema_version", sa.Integer()),
        schema="reef",
    )
    fields = ("type", "stream", "subject", "ruled", "newest_schema_version")
    op.bulk_insert(types, [dict(zip(fields, (*row, 1), strict=True)) for row in _EVENT_TYPES])
    connection = op.get_bind()
    for statement in load_statements(_SQL / "traffic.sql").values():
        connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
