"""Training: the types of its events, in the streams of the batches that are trained."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from reef_release.log.statements import load_statements

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision
_EVENT_TYPES = (
    "training.started",
    "training.step",
    "training.completed",
    "training.failed",
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
    row = {"stream": "batch/", "subject": "batch_id", "ruled": True, "newest_schema_version": 1}
    op.bulk_insert(types, [{"type": name, **row} for name in _EVENT_TYPES])
    connection = op.get_bind()
    for statement in load_statements(_SQL / "training.sql").values():
        connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
