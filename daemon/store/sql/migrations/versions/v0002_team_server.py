"""Tables of a shared server: tokens of users, and sessions that were deleted; an index of sessions by user."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables and the index."""
    op.create_table(
        "tokens",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_table(
        "deleted",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("traces_owner", "traces", ["owner", "id"])
