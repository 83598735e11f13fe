"""The messages of a language server, as far as they are kept."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_LINES = 200
_MAX_CHARACTERS = 500
_KINDS = {1: "error", 2: "warning", 3: "info", 4: "log", 5: "debug"}


class ServerLog:
    """A bounded log. Adding to it costs next to nothing, however much a server writes."""

    def __init__(self) -> None:
        self._entries: deque[tuple[str, str]] = deque(maxlen=_MAX_LINES)

    def add(self, params: Mapping[str, Any]) -> None:
        """The params of such a notification."""
        message, kind = params.get("message"), params.get("type")
        if isinstance(message, str):
            name = _KINDS.get(kind, "log") if isinstance(kind, int) else "log"
            self._entries.append((name, head(message, _MAX_CHARACTERS)))

    def lines(self) -> list[str]:
        """Return the latest messages, oldest first, as ``error: …``; what looks like a secret is taken out."""
        from tools.redaction.redactor import SECRETS

        return [f"{kind}: {SECRETS.text(text)}" for kind, text in self._entries]
