"""A batch's samples can be restored, and a completed training says how the new weights do."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local role reef_owner")
    op.execute(
        "insert into reef.event_types (type, stream, subject, ruled, newest_schema_version) "
        "values ('batch.restored', 'batch/', 'batch_id', true, 1)"
    )
    op.execute(
        "update reef.event_types set newest_schema_version = 2 where type = 'training.completed'"
    )
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
