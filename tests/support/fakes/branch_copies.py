"""Working copies by copying all files: what exploring needs of them, without git; and copies that fail on demand."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from daemon.copies.working_copy import Base, BranchChange, CopyError, Keep, WorkingCopies, WorkingCopy


class CopiedTree(WorkingCopy):
    def __init__(self, folder: Path, workspace: Path) -> None:
        super().__init__(folder / "root", {}, (), folder / "private")
        self.folder = folder
        self._workspace = workspace

    def make(self) -> None:
        self.private.mkdir(parents=True)
        for name in ("base", "root"):
            shutil.copytree(
                self._workspace,
                self.folder / name,
                symlinks=True,
                ignore=shutil.ignore_patterns(".trace", ".git"),
            )

    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        changes = await asyncio.to_thread(self._changes)
        return changes, b"patch of " + ", ".join(change.name for change in changes).encode()

    def _changes(self) -> list[BranchChange]:
        before, after = _files(self.folder / "base"), _files(self.root)
        names = sorted({*before, *after})
        return [
            BranchChange(name, before.get(name), after.get(name), 0o100644, 0o100644)
            for name in names
            if before.get(name) != after.get(name)
        ]

    async def close(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


class CopiedTrees(WorkingCopies):
    """``fails``: ids of sessions that get no copy."""

    def __init__(self, workspace: Path, folder: Path, fails: Sequence[str] = ()) -> None:
        self._workspace = workspace
        self._folder = folder.resolve()
        self.fails = fails
        self.opened: list[str] = []
        self.let_go: list[Base] = []

    async def base(self) -> Base:
        return Base(None, None, b"")

    async def open(self, session_id: str, base: Base) -> WorkingCopy:
        self.opened.append(session_id)
        if session_id.rpartition(":")[2] in self.fails:
            raise CopyError("The disk is full: make room.")
        copy = CopiedTree(self._folder / session_id.replace(":", "_"), self._workspace)
        await asyncio.to_thread(copy.make)
        return copy

    async def done(self, base: Base) -> None:
        self.let_go.append(base)

    async def recover(self, keep: Keep) -> None:
        pass


def copied_trees(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
    """An OpenCopies."""
    return CopiedTrees(workspace, folder)


def _files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
