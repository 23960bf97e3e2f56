"""What rests on other streams is appended only where nothing decisive came in between."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from reef_release.log.statements import load_statements

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SQL = Path(__file__).parents[1] / "sql" / revision

_DECISIVE = (
    "root.rotated",
    "key.added",
    "key.revoked",
    "checkpoint.published",
    "scenario.created",
    "scenario.held",
    "scenario.resumed",
    "policy.changed",
    "candidate.submitted",
    "candidate.admitted",
    "candidate.refused",
    "candidate.revoked",
    "gate.opened",
    "gate.passed",
    "gate.failed",
    "gate.inconclusive",
    "gate.errored",
    "gate.stale",
    "release.signed",
    "release.approved",
    "release.promoted",
    "release.rolled_back",
    "release.revoked",
    "watch.fallen",
    "batch.formed",
    "batch.released",
    "batch.restored",
    "training.started",
    "training.completed",
    "training.failed",
)


def upgrade() -> None:
    op.execute("set local role reef_owner")
    _create_tables()
    op.execute("update reef.event_types set newest_schema_version = 2 where type = 'watch.trial'")
    for name in ("append_events", "without_effect"):
        # Past SQLAlchemy's text(), which would read a colon in SQL as the start of a parameter.
        connection = op.get_bind()
        for statement in load_statements(_SQL / f"{name}.sql").values():
            connection.exec_driver_sql(statement)
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")


def _create_tables() -> None:
    text = sa.Text(collation="C")
    types = ", ".join(f"'{name}'" for name in _DECISIVE)
    op.add_column(
        "event_types",
        sa.Column("decisive", sa.Boolean(), nullable=False, server_default=sa.false()),
        schema="reef",
    )
    op.alter_column("event_types", "decisive", server_default=None, schema="reef")
    op.execute(f"update reef.event_types set decisive = true where type in ({types})")  # noqa: S608
    op.create_table(
        "decisions",
        sa.Column("scenario", text, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scenario", name="decisions_pkey"),
        schema="reef",
    )
    op.execute("alter table reef.decisions set (fillfactor = 50)")
    # Under the head's lock, so that nothing is appended between the count and the new function.
    op.execute("select from reef.head for update")
    op.execute(
        "insert into reef.decisions select scenario, max(position) from reef.events "  # noqa: S608
        f"where type in ({types}) group by scenario"
    )
    op.create_table(
        "without_effect",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("position", name="without_effect_pkey"),
        schema="reef",
    )
