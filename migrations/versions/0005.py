"""Operations: approvals, which a promotion may wait for, the watch, and roots that say why."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from reef_release.log.statements import load_statements

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision

# type, stream (or its prefix), the data's field that follows the prefix, ruled
_EVENT_TYPES = (
    ("release.approved", "release/", "release_id", True),
    ("gate.claimed", "claim/", "gate_id", True),
    ("watch.trial", "watch/", "pointer_position", True),
    ("watch.fallen", "watch/", "pointer_position", True),
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
    # From now on a root says why it came into force.
    op.execute("update reef.event_types set newest_schema_version = 2 where type = 'root.rotated'")
    connection = op.get_bind()
    for statement in load_statements(_SQL / "operations.sql").values():
        connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
