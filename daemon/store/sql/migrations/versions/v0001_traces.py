"""The first tables: traces, events, messages, texts to search, and attachments."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables, and what makes a search for a part of a word fast in each database."""
    op.create_table(
        "traces",
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("parent", _NAME, nullable=True),
        sa.Column("meta", sa.LargeBinary, nullable=False),
        sa.Column("goals", sa.LargeBinary, nullable=False),
        sa.Column("last_event", sa.BigInteger, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_index("traces_parent", "traces", ["parent"])
    op.create_index("traces_created_at", "traces", ["created_at"])
    op.create_table(
        "events",
        _trace(),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        _trace(),
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("event", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("goal", sa.Text, nullable=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("model", sa.Text, nullable=True),
        sa.Column("input", sa.BigInteger, nullable=False),
        sa.Column("output", sa.BigInteger, nullable=False),
        sa.Column("cache_read", sa.BigInteger, nullable=False),
        sa.Column("cache_write", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Float, nullable=True),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("messages_sequence", "messages", ["trace", "sequence", "id"])
    op.create_index("messages_created_at", "messages", ["created_at"])
    op.create_table(
        "texts",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("trace", _NAME, sa.ForeignKey("traces.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
    )
    op.create_index("texts_key", "texts", ["trace", "kind", "key"], unique=True)
    op.create_table(
        "attachments",
        _trace(),
        sa.Column("path", _NAME, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    for statement in _POSTGRESQL if op.get_bind().dialect.name == "postgresql" else _SQLITE:
        op.execute(statement)


def _trace() -> sa.Column[str]:
    return sa.Column("trace", _NAME, sa.ForeignKey("traces.id", ondelete="CASCADE"), primary_key=True)


_POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX texts_folded ON texts USING gin (folded gin_trgm_ops)",
)
_SQLITE = (
    "CREATE VIRTUAL TABLE texts_words USING fts5"
    " (folded, content='texts', content_rowid='id', tokenize='trigram case_sensitive 1')",
    "CREATE TRIGGER texts_in AFTER INSERT ON texts BEGIN"
    " INSERT INTO texts_words (rowid, folded) VALUES (new.id, new.folded); END",
    "CREATE TRIGGER texts_out AFTER DELETE ON texts BEGIN"
    " INSERT INTO texts_words (texts_words, rowid, folded) VALUES ('delete', old.id, old.folded); END",
    "CREATE TRIGGER texts_changed AFTER UPDATE ON texts BEGIN"
    " INSERT INTO texts_words (texts_words, rowid, folded) VALUES ('delete', old.id, old.folded);"
    " INSERT INTO texts_words (rowid, folded) VALUES (new.id, new.folded); END",
)
