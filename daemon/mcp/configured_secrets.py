"""Values of a server's settings that are probably secret, in each form in which the server may repeat them. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.mcp.configuration import ServerSpec

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|PWD|CREDENTIAL|AUTH(?!OR)|BEARER|COOKIE|_PAT$", re.IGNORECASE)
_MOST_SECRETS = 20
"""Values of one server; each has up to five forms."""


def secrets_of(spec: ServerSpec) -> list[str]:
    """Return the secret values, and their forms in URLs and in base64, as headers have them."""
    values = list(dict.fromkeys(filter(None, _values(spec))))[:_MOST_SECRETS]
    return list(dict.fromkeys(form for value in values for form in _forms(value)))


def _values(spec: ServerSpec) -> Iterator[str]:
    for url in (spec.url, *spec.command, *(value for _, value in spec.env)):
        yield from _of_url(url)
    for _, value in spec.headers:
        scheme, _, rest = value.strip().rpartition(" ")
        yield from (value, rest)
        if scheme.lower() == "basic":
            yield from _of_pair(_decoded(rest))
    yield from (value for name, value in spec.env if _SECRET.search(name))
    for before, argument in pairwise(("", *spec.command)):
        name, equals, value = argument.partition("=")
        if equals and _SECRET.search(name):
            yield value
        elif before.startswith("-") and "=" not in before and _SECRET.search(before):
            yield argument


def _of_url(text: str) -> Iterator[str]:
    """Yield what a URL has in front of its host, which is sent as a header, and the values of its query."""
    try:
        parts = urlsplit(text if "://" in text else "")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return
    if user or password:
        yield from _of_pair(f"{user}:{password}")
    yield parts.password or ""
    yield from (value for _, value in parse_qsl(parts.query))


def _of_pair(pair: str) -> Iterator[str]:
    """Yield ``user:password`` and its secret part: a user without a password is a token."""
    user, _, password = pair.partition(":")
    yield from (pair, password or user)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _forms(value: str) -> Iterator[str]:
    data = value.encode(errors="replace")
    yield from (value, quote(value, safe=""), quote_plus(value))
    # Without the padding, which not everyone writes.
    yield from (coded(data).decode().rstrip("=") for coded in (base64.b64encode, base64.urlsafe_b64encode))
