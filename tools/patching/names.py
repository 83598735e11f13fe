"""Resolve the files that a patch names: prefixes told from folders, links followed, moves and duplicates checked.

Looks at which files exist, reads no content.
"""

from __future__ import annotations

import itertools
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from tools.patching.headers import has_prefix, without_first
from tools.patching.model import FilePatch, PatchError
from tools.paths import Target, did_you_mean, meant_hint, resolve, without_tilde
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tools.tool import ToolContext


class NamedSection(Struct, frozen=True):
    """A section of the patch with its files. ``old`` is None for an added file, ``new`` for a deleted one."""

    file: FilePatch
    old: Target | None
    new: Target | None

    @property
    def name(self) -> str:
        """How errors call the file."""
        target = self.old or self.new
        return target.rule if target is not None else ""


def name_files(files: Sequence[FilePatch], ctx: ToolContext) -> list[NamedSection]:
    """Return the steps of a patch. Raises ToolError for a file that is missing, or whose name has two readings."""
    return _Namer(ctx, any(file.names.style == "pair" and file.names.old for file in files)).steps(files)


class _Namer(Struct):
    ctx: ToolContext
    prefixed: bool
    """Some name in the patch certainly has a prefix, so the others have one, too."""
    made: set[Path] = field(default_factory=set[Path])
    gone: set[Path] = field(default_factory=set[Path])

    def steps(self, files: Sequence[FilePatch]) -> list[NamedSection]:
        steps: list[NamedSection] = []
        for file in files:
            step = self._step(file)
            self._remember(step)
            steps.append(step)
        return steps

    def _step(self, file: FilePatch) -> NamedSection:
        names = file.names
        if file.action == "add" or names.old is None:
            if (names.new or "").endswith("/"):
                raise PatchError(
                    f"{names.new} names a folder, not a file. Nothing was changed: name the new file."
                )
            return NamedSection(file, None, resolve(self._added_name(file), self.ctx))
        if file.moves or file.action == "copy":
            assert names.new is not None
            given = [names.old, *(_respelled(names.old) if names.style == "exact" else ())]
            chosen = self._first(given)
            old, new = self._existing(chosen), resolve(names.new, self.ctx)
            if file.moves:
                self._no_link(chosen, "moved")
            if old.path == new.path:
                raise PatchError(
                    f"{names.old} would be moved onto itself. Nothing was changed: "
                    "leave the move out, or give another name."
                )
            return NamedSection(file, old, new)
        if file.action == "delete" or names.new is None:
            more = [without_first(names.old)] if names.style == "pair" else []
            if names.style == "exact" and not self._exists(names.old):
                more = [name for name in _respelled(names.old) if self._exists(name)][:1]
            found = self._only([names.old, *more])
            self._no_link(found, "deleted")
            return NamedSection(file, self._existing(found), None)
        chosen = self._updated_name(file)
        if not self._exists(chosen) and _creates(file):
            return NamedSection(replace(file, action="add"), None, resolve(chosen, self.ctx))
        target = self._existing(chosen)
        return NamedSection(file, target, target)

    def _added_name(self, file: FilePatch) -> str:
        name = file.names.new or ""
        if file.names.style != "pair" or self._exists_as(name, Path.is_file):
            return name
        if not self.prefixed and self._exists_as(name.partition("/")[0], Path.is_dir):
            raise PatchError(
                f"+++ {name}: is {name.partition('/')[0]}/ a folder or a prefix? Nothing was changed: "
                f"put a line 'diff --git a/NAME b/NAME' before it, or use *** Add File: {name}."
            )
        return without_first(name)

    def _updated_name(self, file: FilePatch) -> str:
        old, new, style = file.names.old or "", file.names.new or "", file.names.style
        if style == "exact":
            return self._first([old, *_respelled(old)])
        if style == "pair":
            return self._first([without_first(old), new, old])
        if old == new:
            return self._first([old, *_stripped(old)])
        tails = without_first(old), without_first(new)
        more = list(tails) if tails[0] == tails[1] != "" else [*_stripped(new), *_stripped(old)]
        found = list(dict.fromkeys(name for name in [new, old, *more] if self._exists(name)))
        paths = {resolve(name, self.ctx).path for name in found}
        if len(paths) > 1:
            raise PatchError(
                f"--- {old}, +++ {new}: it is unclear which file is meant, as {' and '.join(found)} exist. "
                "Nothing was changed: give the same name on both lines."
            )
        if not found:
            return more[0] if tails[0] == tails[1] != "" else old
        if not _same_name(old, new):
            raise PatchError(
                f"--- {old}, +++ {new}: is {found[0]} to be changed, or renamed as well? Nothing was changed: give "
                "the same name on both lines, or add 'rename from' and 'rename to' lines after a diff --git line."
            )
        return found[0]

    def _first(self, names: Sequence[str]) -> str:
        return next(itertools.chain((n for n in names if self._exists(n)), names))

    def _only(self, names: Sequence[str]) -> str:
        found = [name for name in names if self._exists(name)]
        if len(found) > 1:
            raise PatchError(
                f"It is unclear which file is to be deleted, as {' and '.join(found)} exist. Nothing was changed: "
                f"use *** Delete File: with its name."
            )
        return found[0] if found else names[-1]

    def _exists(self, name: str) -> bool:
        path = resolve(name, self.ctx).path
        return path in self.made or (path not in self.gone and _ask(path, Path.exists))

    def _exists_as(self, name: str, kind: Callable[[Path], bool]) -> bool:
        return _ask(resolve(name, self.ctx).path, kind)

    def _existing(self, name: str) -> Target:
        target = resolve(name, self.ctx)
        if not self._exists(name):
            hint = meant_hint(did_you_mean(target.path))
            moved = " An earlier part of the patch removes it." if target.path in self.gone else ""
            raise PatchError(
                f"{target.rule} does not exist.{moved}{hint} Nothing was changed. "
                "To create it: --- /dev/null or *** Add File:."
            )
        return target

    def _no_link(self, name: str, what: str) -> None:
        lexical = self.ctx.workspace / without_tilde(name)
        if _ask(lexical, Path.is_symlink):
            raise PatchError(
                f"{name} is a symbolic link and cannot be {what} by a patch. Nothing was changed: "
                "name the file it leads to, or use a command."
            )

    def _remember(self, step: NamedSection) -> None:
        if step.old is not None and (step.new is None or step.file.moves):
            self.made.discard(step.old.path)
            self.gone.add(step.old.path)
        if step.new is not None:
            self.gone.discard(step.new.path)
            self.made.add(step.new.path)


def _respelled(name: str) -> Iterator[str]:
    """Return names in other spellings of models: quoted, with backslashes, with git's prefix. For existing files
    only."""
    plain = name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in "`'\"" else name
    plain = plain.replace("\\", "/").removeprefix("./")
    if plain != name:
        yield plain
    if has_prefix(plain):
        yield without_first(plain)


def _ask(path: Path, question: Callable[[Path], bool]) -> bool:
    """Ask the file system. Raises ToolError where it refuses the name, e.g. as too long."""
    try:
        return question(path)
    except (OSError, ValueError) as error:
        name = tail(str(path), 80)
        raise PatchError(
            f"Not a usable file name: {name!r} ({getattr(error, 'strerror', error)}). Nothing was changed."
        ) from error


def _stripped(name: str) -> Iterator[str]:
    if has_prefix(name):
        yield without_first(name)


def _creates(file: FilePatch) -> bool:
    """Return whether the one hunk declares that the file was empty or did not exist (``@@ -0,0 +1,3 @@``)."""
    if len(file.hunks) != 1:
        return False
    numbers, old = file.hunks[0].numbers, file.hunks[0].old
    return not old and numbers is not None and numbers.old_start == 0 and numbers.old_count == 0


def _same_name(old: str, new: str) -> bool:
    """Return whether the names of both sides are of one file, as in ``--- a.py.orig`` or ``--- old/a.py``."""
    one, other = PurePosixPath(old).name, PurePosixPath(new).name
    return one.startswith(other) or other.startswith(one)
