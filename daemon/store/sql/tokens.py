"""Tokens with which the users of a shared server read the sessions of a database.

A token is shown once. The database has the hash of its secret, which is random and 256 bits long: nobody can guess it
from the hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import sqlalchemy as sa

from daemon.model.choices import Scope
from daemon.store.facts import aware
from daemon.store.sql.schema import tokens
from daemon.store.trace_store import StoreError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from daemon.store.sql.store import SqlTraceStore

DELETE = "delete"
"""Scope of a token whose user may delete the sessions that it shows."""
SCOPES = frozenset((*get_args(Scope), DELETE))
_TOKEN = re.compile(r"gwt_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_LONGEST_NAME = 100


class TokenGrant(NamedTuple):
    """The rights of a token."""

    token_id: str
    """Names the token in lists. It is a part of the token, and no secret."""
    user: str
    """The user's name as sessions have it."""
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None

    @property
    def sees(self) -> str | None:
        """The user whose sessions can be read; None: those of all."""
        return None if "all" in self.scopes else self.user

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


def issue(
    store: SqlTraceStore,
    user: str,
    scopes: Collection[str],
    now: datetime,
    expires_at: datetime | None = None,
) -> str:
    """Return a new token of a user. Blocking. Raises StoreError."""
    if not user.strip() or len(user) > _LONGEST_NAME or not user.isprintable():
        raise StoreError(t("{user!a} is not the name of a user.", user=user[:_LONGEST_NAME]))
    token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    row = {
        "id": token_id,
        "owner": user,
        "hash": _hash(secret),
        "scopes": ",".join(sorted(scopes)),
        "created_at": now,
        "expires_at": expires_at,
    }
    with store.writing() as connection:
        connection.execute(sa.insert(tokens).values(row))
    return f"gwt_{token_id}_{secret}"


def grants(store: SqlTraceStore) -> list[TokenGrant]:
    """Return all tokens by user, the oldest first, expired ones too. Blocking. Raises StoreError."""
    with store.reading() as connection:
        wanted = sa.select(tokens).order_by(tokens.c.owner, tokens.c.created_at, tokens.c.id)
        return [_grant(row) for row in connection.execute(wanted)]


def revoke(store: SqlTraceStore, user: str, token_id: str | None = None) -> int:
    """Remove the tokens of a user, or one of them, and return how many. Blocking. Raises StoreError."""
    wanted = sa.delete(tokens).where(tokens.c.owner == user)
    if token_id is not None:
        wanted = wanted.where(tokens.c.id == token_id)
    with store.writing() as connection:
        return connection.execute(wanted).rowcount


def grant_of(store: SqlTraceStore, token: str, now: datetime) -> TokenGrant | None:
    """Return what a token allows now; None: nothing. Blocking. Raises StoreError."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    with store.reading() as connection:
        row = connection.execute(sa.select(tokens).where(tokens.c.id == match[1])).one_or_none()
    # Compare in any case, so that the time does not tell which ids there are.
    right = hmac.compare_digest(_hash(match[2]), row.hash if row is not None else bytes(32))
    if row is None or not right or (grant := _grant(row)).is_over(now):
        return None
    return grant


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _grant(row: Any) -> TokenGrant:
    """``row``: of ``tokens``."""
    scopes = frozenset(row.scopes.split(",")) & SCOPES
    return TokenGrant(
        row.id, row.owner, scopes, aware(row.created_at), row.expires_at and aware(row.expires_at)
    )
