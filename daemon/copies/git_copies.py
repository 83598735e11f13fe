"""Working copies of a repository (or, with git's help, of a plain folder). See ``populate`` for how one is made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from daemon.copies import populate, snapshot
from daemon.copies.copy_diff import EMPTY_TREE, CopiedRepository, CopyComparison, small_patch
from daemon.copies.git_program import CancelToken, GitProgram, PrivateIndex
from daemon.copies.managed_copy import ManagedCopies, ManagedCopy
from daemon.copies.repository import Repository
from daemon.copies.working_copy import Base, CopyError, OrphanedCopy
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.copies.copy_folders import CopyFolder
    from daemon.copies.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _GitBase:
    snapshot: Snapshot
    links: tuple[bytes, ...]


def _stays(taken: Snapshot, patch: bytes | None) -> str:
    """Return why only this machine has the files; see ``Base``."""
    if taken.parts or taken.folders:
        return t("other repositories (submodules) are in the workspace")
    if taken.tree != taken.raw_tree:
        return t("git converts files of the workspace (line ends, encodings, filters), or leaves some out")
    if taken.state is not None and "shallow" in taken.state.files:
        return t("the clone is shallow")
    return t("the uncommitted changes are too large") if patch is None else ""


class GitCopies(ManagedCopies[_GitBase]):
    """Makes copies of one workspace with the help of git.

    ``workspace`` and ``folder`` are resolved; ``repository`` is False for a folder that is in none.
    """

    def __init__(
        self, workspace: Path, folder: Path, links: Sequence[str], program: str, repository: bool = True
    ) -> None:
        super().__init__(workspace, folder, links, max(2, os.cpu_count() or 1))
        self._program = program
        self._in_repository = repository

    # -- in threads --

    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, _GitBase]:
        git, repository = GitProgram(self._program, stop), None
        if self._in_repository:
            repository = Repository.of(git, self._workspace)
            if repository is None:
                raise CopyError(f"{self._workspace} is no longer in a git repository; start again.")
        source = repository.top if repository else self._workspace
        exclude = b"" if repository else populate.heavy(self._links)
        taken = snapshot.take(git, repository, source, folder / "base", exclude)
        links = populate.links_of(git, taken, self._links, self._workspace, bool(repository))
        commit = taken.state.commit if taken.state else None
        private = PrivateIndex(git, taken.git_dir, source)
        patch = small_patch(private, commit or EMPTY_TREE[taken.hash_size], taken.tree)
        return Base(commit, taken.tree, patch, _stays(taken, patch)), _GitBase(taken, tuple(links))

    def _filled(self, stop: CancelToken, place: CopyFolder, session_id: str, taken: _GitBase) -> ManagedCopy:
        there = taken.snapshot
        top = place.root(there.source.name or "copy")
        parts = populate.fill(GitProgram(self._program, stop), there, top, place.ours, taken.links)
        inner = self._workspace.relative_to(there.source).as_posix()
        workspace = "" if inner == "." else f"{inner}/"
        (top / workspace).mkdir(parents=True, exist_ok=True)
        comparing = CopyComparison(self._program, top, place.ours, tuple(parts), workspace)
        place.write_record(
            {
                "session": session_id,
                "name": top.name,
                "workspace": workspace,
                "parts": [part.to_json() for part in parts],
            }
        )
        return self._copy(place, there.source, top, taken.links, comparing.outcome)

    def _read(self, stop: CancelToken, place: CopyFolder) -> OrphanedCopy:
        record = cast("dict[str, Any]", json.loads((place.ours / "record.json").read_bytes()))
        parts = tuple(CopiedRepository.from_json(part) for part in record["parts"])
        for stale in place.ours.glob("*/*.git/*.lock"):
            stale.unlink()
        comparing = CopyComparison(
            self._program, place.root(str(record["name"])), place.ours, parts, str(record["workspace"])
        )
        changes, patch = comparing.outcome(stop)
        return OrphanedCopy(str(record["session"]), tuple(changes), patch)
