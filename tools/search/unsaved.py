"""Search the user's unsaved text: it hides the files on disk.

The same program searches buffers and files, so that a pattern means the same in both.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tools.search import ripgrep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.search.glob_pattern import Glob
    from tools.tool import ToolContext


def below(root: Path, ctx: ToolContext) -> dict[str, Path]:
    """Return the files below ``root`` with unsaved changes, by their names relative to it as a search shows them; those
    never searched left out."""
    found: dict[str, Path] = {}
    for path in ctx.files.editors.unsaved_paths():
        try:
            name = path.relative_to(root)
        except ValueError:
            continue
        if not set(name.parts).intersection(ripgrep.EXCLUDED):
            found[os.fsencode(name.as_posix()).decode("utf-8", "replace")] = path
    return found


def unknown(path: Path, ctx: ToolContext) -> bool:
    """Return whether the file is open in an editor and may have unsaved changes there that are unknown."""
    opened = ctx.files.editors.opened(path)
    return (
        opened is not None
        and opened.unsaved
        and bool(opened.refusal)
        and ctx.files.editors.unsaved(path) is None
    )


async def overlaid(
    found: ripgrep.SearchResult,
    root: Path,
    pattern: str,
    include: Glob | None,
    ctx: ToolContext,
    only: str | None,
) -> ripgrep.SearchResult:
    """``found``, a search on disk, with the lines of buffers in the place of those of their files.

    ``only``: the single file that was searched. Raises ToolError like ``search.find_lines``.
    """
    paths = {name: path for name, path in below(root, ctx).items() if only is None or name == only}
    paths = {name: path for name, path in paths.items() if include is None or include.match(name)}
    if not paths:
        return found
    rg = ripgrep.ripgrep(ctx.workspace)
    if only is None and rg is not None:
        paths = await _not_ignored(paths, root, rg)
    texts = {
        name: text for name, path in paths.items() if (text := ctx.files.editors.unsaved(path)) is not None
    }
    lines = [line for line in found.lines if line[0] not in texts]
    hits, cut = await _search(texts, pattern, rg)
    return replace(found, lines=(*lines, *hits), cut=found.cut or cut)


async def _not_ignored(paths: Mapping[str, Path], root: Path, rg: str) -> dict[str, Path]:
    """Without the files that ripgrep passes by because git ignores them. A new file is not there to be asked about."""
    listed = set((await ripgrep.list_files(root, rg)).files)
    return {name: path for name, path in paths.items() if name in listed or not path.exists()}


async def _search(
    texts: Mapping[str, str], pattern: str, rg: str | None
) -> tuple[Sequence[tuple[str, int, str]], bool]:
    numbers = {str(number): name for number, name in enumerate(texts)}
    with tempfile.TemporaryDirectory(prefix="goalwright-", ignore_cleanup_errors=True) as folder:
        await asyncio.to_thread(_lay_out, Path(os.path.realpath(folder)), list(texts.values()))
        found = await ripgrep.find_lines(Path(os.path.realpath(folder)), pattern, None, rg)
    return [
        (numbers[number], line, text) for number, line, text in found.lines if number in numbers
    ], found.cut


def _lay_out(folder: Path, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        # Write it unchanged, so that patterns for line ends see those of the buffer.
        (folder / str(number)).write_bytes(text.encode("utf-8", "replace"))
