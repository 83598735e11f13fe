"""What a server tells the person (``window/showMessage``, ``window/logMessage``): the latest, without secrets."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from tools.cutting import head

_MAX_LINES = 200
_MAX_CHARACTERS = 500
_KINDS = {1: "error", 2: "warning", 3: "info", 4: "log", 5: "debug"}


class ServerLog:
    """A bounded log. Taking something in costs next to nothing, however much a server says."""

    def __init__(self) -> None:
        self._entries: deque[tuple[str, str]] = deque(maxlen=_MAX_LINES)

    def add(self, params: Mapping[str, Any]) -> None:
        """The params of such a notification."""
        message, kind = params.get("message"), params.get("type")
        if isinstance(message, str):
            name = _KINDS.get(kind, "log") if isinstance(kind, int) else "log"
            self._entries.append((name, head(message, _MAX_CHARACTERS)))

    def lines(self) -> list[str]:
        """The latest messages, oldest first, as ``error: …``; what looks like a secret is taken out."""
        from daemon.redaction import SECRETS

        return [f"{kind}: {SECRETS.text(text)}" for kind, text in self._entries]
