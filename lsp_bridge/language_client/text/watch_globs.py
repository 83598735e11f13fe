"""Match file changes with a language server's registrations (``workspace/didChangeWatchedFiles``).

The globs come from a server, which the workspace may control: they must not be able to block the event loop, as regular
expressions with several wildcards can.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lsp_bridge.language_client.text.positions import file_of
from tools.errors import ToolError
from tools.json_access import mapping, mappings
from tools.search.glob_pattern import MAX_PATTERN, Glob, compile_glob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.tool import ChangeKind

WIRE_KIND: dict[ChangeKind, int] = {"create": 1, "update": 2, "delete": 3}
"""LSP's FileChangeType."""
_WATCH_BIT: dict[ChangeKind, int] = {"create": 1, "update": 2, "delete": 4}
_ALL_KINDS = 7
_MAX_WATCHERS = 1000


class Watcher(Struct, frozen=True):
    """One registered pattern."""

    base: Path
    glob: str
    kinds: int

    def wants(self, path: Path, kind: ChangeKind) -> bool:
        """Return whether the server asked for this change of this (absolute) path."""
        if not self.kinds & _WATCH_BIT[kind]:
            return False
        if self.glob.startswith("/") or not path.is_relative_to(self.base):
            return covers(self.glob, path.as_posix())
        return covers(self.glob, path.relative_to(self.base).as_posix())


def watchers_of(options: Mapping[str, Any], root: Path) -> list[Watcher]:
    """Return the watchers in the options of a registration; malformed ones are left out."""
    items = mappings(options.get("watchers"))
    if len(items) > _MAX_WATCHERS:
        return [Watcher(root, "**", _ALL_KINDS)]
    watchers: list[Watcher] = []
    for item in items:
        pattern, base, kinds = item.get("globPattern"), root, item.get("kind")
        if relative := mapping(pattern):
            base, pattern = _base(relative.get("baseUri"), root), relative.get("pattern")
        if isinstance(pattern, str):
            watchers.append(Watcher(base, pattern, kinds if type(kinds) is int else _ALL_KINDS))
    return watchers


def covers(glob: str, path: str) -> bool:
    """Return whether LSP's glob (``* ? ** {a,b} [!x]``) covers ``path``: relative to the glob's base, or absolute.

    A malformed one covers nothing, and one that is too long everything: then the server receives some changes too many.
    """
    compiled = _compiled(glob)
    return compiled is not None and compiled.match(path.removeprefix("/"))


@functools.lru_cache(maxsize=512)
def _compiled(glob: str) -> Glob | None:
    try:
        # With the slash, a glob without folders matches only names directly in its base.
        return compile_glob("/" + (glob if len(glob) < MAX_PATTERN else "**"))
    except ToolError:
        return None


def _base(uri: object, fallback: Path) -> Path:
    found = file_of(mapping(uri).get("uri", uri))  # of a WorkspaceFolder, or the URI itself
    return Path(found) if found else fallback
