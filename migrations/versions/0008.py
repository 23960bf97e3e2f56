"""Events of a scenario by type, for pages that show the newest of some types."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local role reef_owner")
    op.create_index(
        "events_by_scenario_and_type", "events", ["scenario", "type", "position"], schema="reef"
    )
    op.execute("reset role")


def downgrade() -> None:
    raise NotImplementedError("No migration drops the log; make another database instead.")
