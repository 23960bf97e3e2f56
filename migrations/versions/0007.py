"""Privacy: an erased body is an event, which only says what a turn named before."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from reef_release.log.statements import load_statements

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision


def upgrade() -> None:
    op.execute("set local role reef_owner")
    op.execute(
        "insert into reef.event_types (type, stream, subject, ruled, newest_schema_version) "
        "values ('body.erased', 'privacy/', 'digest', true, 1)"
    )
    connection = op.get_bind()
    for statement in load_statements(_SQL / "privacy.sql").values():
        connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
