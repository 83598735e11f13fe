"""The ``ls`` tool, and the indented tree of a folder that ``read`` shows too."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from pathlib import Path

from msgspec import Struct
from pydantic import Field

from tools.paths import ask_read, explain_os_error, resolve
from tools.search.ripgrep import EXCLUDED
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult


class LsInput(ToolInput):
    """Arguments of ``ls``."""

    path: str = Field(default=".", description="Folder.")
    depth: int = Field(default=2, ge=1, le=6, description="Levels to show.")


class LsTool(Tool[LsInput], name="ls"):
    """An indented tree; .git, node_modules and the like are named but not opened."""

    async def run(self, args: LsInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.path, ctx)
        await ask_read(target, ctx, self.permission)
        try:
            listing = await asyncio.to_thread(tree, target.path, args.depth)
        except OSError as error:
            raise ToolError(explain_os_error(error, f"{target.rule} cannot be listed")) from error
        text = f"{target.path.as_posix()}/\n{listing.text}"
        if listing.cut:
            text += f"\n(Only the first {listing.shown} entries are shown: list a sub-folder.)"
        return ToolResult(text, title=target.rule, metadata={"path": target.rule, "count": listing.shown})


MAX_ENTRIES = 300


class FolderTree(Struct, frozen=True):
    """The tree as text, and how many entries it shows."""

    text: str
    shown: int
    cut: bool


def tree(root: Path, depth: int, limit: int = MAX_ENTRIES) -> FolderTree:
    """Return the tree below a folder, down to ``depth`` levels, folders with ``/``; blocking.

    Read breadth first, so that a limit cuts the deepest entries. Raises OSError when the folder cannot be read.
    """
    children: dict[Path, list[tuple[str, Path | None]]] = {}
    queue: deque[tuple[Path, int]] = deque([(root, 1)])
    shown, cut = 0, False
    while queue:
        folder, level = queue.popleft()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda e: (not e.is_dir(follow_symlinks=False), e.name))
        except OSError:
            if folder == root:
                raise
            continue
        rows: list[tuple[str, Path | None]] = []
        for index, entry in enumerate(entries):
            if shown >= limit:
                rows.append((f"… {len(entries) - index} more", None))
                cut = True
                break
            shown += 1
            is_dir = entry.is_dir(follow_symlinks=False)
            suffix = "/" if is_dir else "@" if entry.is_symlink() else ""
            below = Path(entry.path) if is_dir and entry.name not in EXCLUDED and level < depth else None
            rows.append((entry.name + suffix, below))
            if below is not None:
                queue.append((below, level + 1))
        children[folder] = rows
    return FolderTree("\n".join(_render(root, children, 0)) or "(empty)", shown, cut)


def _render(folder: Path, children: dict[Path, list[tuple[str, Path | None]]], indent: int) -> list[str]:
    lines: list[str] = []
    for name, below in children.get(folder, ()):
        lines.append("  " * indent + name)
        if below is not None:
            lines += _render(below, children, indent + 1)
    return lines
