"""The definitions that the user approved last, kept on disk."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from tools.files.regular_files import write_private
from tools.json_access import mapping

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)


class Approvals:
    """The definitions that the user approved last, by tool: a changed one is pointed out when it asks again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] | None = None

    def changed(self, tool: str, digest: str) -> bool:
        """Return whether another definition of the tool was approved."""
        return self._read().get(tool, digest) != digest

    def add(self, tool: str, digest: str) -> None:
        """Remember an approval."""
        self._known = None  # other calls and daemons have remembered theirs while the user was asked
        known = self._read()
        if known.get(tool) == digest:
            return
        known[tool] = digest
        try:
            write_private(self._path, json.dumps(known, indent=1).encode())
        except OSError as error:  # then the user is not told of a change, but still asked
            log.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> dict[str, str]:
        if self._known is None:
            try:
                value: object = json.loads(self._path.read_text("utf-8"))
            except (OSError, ValueError):
                value = None
            self._known = {name: one for name, one in mapping(value).items() if isinstance(one, str)}
        return self._known
