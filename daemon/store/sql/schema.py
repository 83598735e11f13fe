"""The tables of a database of traces. ``migrations`` makes them; a test compares the two.

An event is stored once, as the JSON that a log of files has. What lists, search and statistics need of it stands in
columns beside it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

NAME = Text().with_variant(Text(collation="C"), "postgresql")
"""Ids: they sort by their bytes in every database."""
NUMBER = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

traces = Table(
    "traces",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("parent", NAME, nullable=True),
    Column("meta", LargeBinary, nullable=False),
    Column("goals", LargeBinary, nullable=False),
    Column("last_event", BigInteger, nullable=False),
    Column("title", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=True),
    Index("traces_parent", "parent"),
    Index("traces_created_at", "created_at"),
    Index("traces_owner", "owner", "id"),
)
"""``parent``: of a branch or sub-agent. ``meta`` and ``goals``: the last snapshot. ``owner``: whose daemon wrote it."""


def _owner() -> Column[str]:
    return Column("trace", NAME, ForeignKey("traces.id", ondelete="CASCADE"), primary_key=True)


events = Table(
    "events",
    metadata,
    _owner(),
    Column("id", BigInteger, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

messages = Table(
    "messages",
    metadata,
    _owner(),
    Column("id", NAME, primary_key=True),
    Column("event", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("goal", Text, nullable=True),
    Column("role", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=True),
    Column("model", Text, nullable=True),
    Column("input", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("cache_read", BigInteger, nullable=False),
    Column("cache_write", BigInteger, nullable=False),
    Column("cost", Float, nullable=True),
    Column("duration_ms", BigInteger, nullable=False),
    Index("messages_sequence", "trace", "sequence", "id"),
    Index("messages_created_at", "created_at"),
    sqlite_with_rowid=False,
)
"""``event``: the event that has the message. ``cost`` is null where the price is not known."""

texts = Table(
    "texts",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("trace", NAME, ForeignKey("traces.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("folded", Text, nullable=False),
    Index("texts_key", "trace", "kind", "key", unique=True),
)
"""The texts that search compares: ``kind`` is title, message, goal or file; ``folded`` the text in one case."""

attachments = Table(
    "attachments",
    metadata,
    _owner(),
    Column("path", NAME, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Other files of a trace's folder, such as versions of changed files; ``path`` is relative to the folder."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=True),
)
"""Users of the shared server. ``owner``: the user; ``hash``: SHA-256 of the secret; ``scopes``: by commas."""

deleted = Table(
    "deleted",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("deleted_at", DateTime(timezone=True), nullable=False),
)
"""Main sessions that were deleted here: no daemon copies them again."""
