"""Whether a value of the user's settings is probably secret, by its name and by its looks."""

from __future__ import annotations

import re

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PWD|CREDENTIAL|AUTH(?!OR)|BEARER|COOKIE|_PAT$", re.IGNORECASE
)
_ORDINARY = re.compile(r"[A-Za-z]{1,15}(?:[\s,;:/+._-]{1,2}[A-Za-z]{1,15})*|[\d.-]{1,10}")
"""Words and dates, which must not vanish from conversations: ``application/json``, ``database,functions``."""


def may_be_secret(name: str, value: str) -> bool:
    """Return whether the value of a header, or of a part of a query, may be secret."""
    named = SECRET_NAME.search(name) is not None or "authorization" in name.lower()
    return named or _ORDINARY.fullmatch(value.strip()) is None
