"""Tokens of MCP servers that the user signed in to: a file of the user's state folder that only the user can read.

They belong to the URL of a server, not to its name: a server of the same name with another URL never gets them.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from tools.errors import ToolError
from tools.files.regular_files import write_private
from tools.json_access import mapping
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

_LOCK_WAIT_S = 5.0
_SECRETS = (("tokens", "access_token"), ("tokens", "refresh_token"), ("client", "client_secret"))


class TokenStore:
    """Sign-ins by URL, each with ``tokens``, ``client`` and ``metadata`` of OAuth, ``expires_at`` in seconds.

    Shared by all daemons of the user. Blocking.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, url: str) -> dict[str, Any]:
        """Return the entry of a server; an empty one where there is none. Its secrets are known to logs from now on."""
        entry = mapping(self._all().get(url))
        found = [mapping(entry.get(part)).get(name) for part, name in _SECRETS]
        SECRETS.register([secret for secret in found if isinstance(secret, str)])
        return entry

    def write(self, url: str, change: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> None:
        """Replace the entry of a server by what ``change`` makes of it; None removes it. Raises ToolError."""
        import filelock

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = filelock.FileLock(self._path.with_name(f"{self._path.name}.lock"), mode=0o600)
            with lock.acquire(timeout=_LOCK_WAIT_S, poll_interval=0.01):
                servers = self._all()
                entry = change(mapping(servers.pop(url, None)))
                if entry is not None:
                    servers[url] = entry
                data = json.dumps({"format": 1, "servers": servers}, indent=1).encode() + b"\n"
                write_private(self._path, data, durable=True)
        except (OSError, filelock.Timeout) as error:
            raise ToolError(t("{path} cannot be changed: {error}", path=self._path, error=error)) from error

    def _all(self) -> dict[str, Any]:
        try:
            value: object = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read: %s", self._path, error)
            return {}
        return mapping(mapping(value).get("servers"))
