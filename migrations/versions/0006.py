"""Training, read from the events alone: only who holds a batch says what comes of it."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from reef_release.log.statements import load_statements

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision


def upgrade() -> None:
    op.execute("set local role reef_owner")
    connection = op.get_bind()
    for statement in load_statements(_SQL / "training.sql").values():
        connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
