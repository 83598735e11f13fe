"""Score a branch's result by facts.

Problems are those that language servers report for the changed files in the branch's copy, compared with those in the
workspace as long as the files there are still unchanged. Line numbers are not compared, so shifted lines do not count.
Problems of a deleted file do not count as fixed.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.model.branches import CheckRun, Score
from tools.diff.unified_diff import of_change
from tools.language_ports import CurrentProblems, Problem, Severity
from tools.tool import Diagnostics, FileChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemon.copies.working_copy import BranchChange, WorkingCopy
    from daemon.loop.session import Session
    from tools.ports import Editors

MAX_LOOKED_AT = 200
"""Most changed files for which new problems are counted: opening more would take minutes."""
_ASKED = 40
"""Most queries of servers that have not answered: a starting one takes a second each time, and several may start at
once. One that has crashed fails immediately."""
_LOOKED_AT_ONCE = 2
"""Branches to score at once. The servers of all copies share one limit, so more of them would stop each other's
servers."""
_LINK = 0o120000

_Key = tuple[str, str, str, str]


async def score_branch(
    child: Session,
    copy: WorkingCopy,
    changes: Sequence[BranchChange] | None,
    *,
    test: CheckRun | None,
    duration_ms: int,
) -> Score:
    """Return the facts about an ended branch, while its copy still exists. Unknown facts raise nothing.

    ``changes``: None: its changes are unknown.
    """
    known, problems = await asyncio.gather(
        measured(child, changes, test=test, duration_ms=duration_ms), _compared(child, copy, changes)
    )
    if problems is None:
        return known
    return known.model_copy(update={"new_problems": problems[0], "fixed_problems": problems[1]})


async def measured(
    child: Session, changes: Sequence[BranchChange] | None, *, test: CheckRun | None, duration_ms: int
) -> Score:
    """Return the facts that need no language server and no command: the size of the change, and what it cost."""
    size = (None, None, None) if changes is None else await asyncio.to_thread(diff_size, changes)
    files, added, removed = size
    trace = child.state.trace
    return Score(
        test=test,
        files=files,
        added=added,
        removed=removed,
        tokens=trace.usage.total,
        cost=trace.total_cost,
        unpriced_tokens=trace.usage.unpriced,
        duration_ms=max(0, duration_ms),
    )


def diff_size(changes: Sequence[BranchChange]) -> tuple[int, int, int]:
    """Files, lines added, lines removed. A file that only moved is one file; binary contents have no lines. Pure."""
    moved = renames(changes)
    files = added = removed = 0
    for change in changes:
        if change.name in moved.values():
            continue  # counted at its new path
        files += 1
        if change.name in moved or change.before == change.after:
            continue
        diff = of_change(FileChange(Path(change.name), change.before, change.after), change.name)
        added, removed = added + diff.added, removed + diff.removed
    return files, added, removed


def renames(changes: Sequence[BranchChange]) -> dict[str, str]:
    """Return files that were only moved: old names by new ones. Pure."""
    gone: dict[bytes, list[str]] = {}
    for change in changes:
        if change.kind == "delete" and change.before:
            gone.setdefault(change.before, []).append(change.name)
    found: dict[str, str] = {}
    for change in changes:
        if change.kind == "create" and change.after and (names := gone.get(change.after)):
            found[change.name] = names.pop(0)
    return found


def new_and_fixed(before: Iterable[_Key], after: Iterable[_Key]) -> tuple[int, int]:
    """Return how many problems there are that were not there before, and how many are gone. Pure."""
    old, new = Counter(before), Counter(after)
    return (new - old).total(), (old - new).total()


async def _compared(
    child: Session, copy: WorkingCopy, changes: Sequence[BranchChange] | None
) -> tuple[int, int] | None:
    """Return the numbers of new and fixed problems; None when unknown."""
    if changes is None:
        return None
    if not changes:
        return 0, 0
    files = [change for change in changes if _LINK not in (change.before_mode, change.after_mode)]
    moved = renames(files)
    now = {change.name: copy.root / change.name for change in files if change.after is not None}
    if child.parent is None or not now or len(now) > MAX_LOOKED_AT:
        return None
    services = child.parent.services
    base = {
        change.name: (services.workspace / change.name, change.before)
        for change in files
        if change.before is not None
    }
    olds = {moved.get(name, name) for name in now} & base.keys()
    wanted = {name: base[name] for name in olds}
    if not await asyncio.to_thread(_unchanged, wanted, services.editors):
        return None
    asked = [path for path, _ in wanted.values()]
    # No editor covers a copy, so editors must not cover the base either: their diagnostics differ.
    base_services = services.languages.own_servers or services.languages.diagnostics
    least = child.config.settings.languages.diagnostics_severity
    async with services.children.comparing.place(_LOOKED_AT_ONCE):
        after, before = await asyncio.gather(
            _current_problems(child.services.languages.diagnostics, list(now.values()), least),
            _current_problems(base_services, asked, least),
        )
    if not after.servers or not (_known(after, list(now.values())) and _known(before, asked)):
        return None
    new_names = {old: new for new, old in moved.items()}
    return new_and_fixed(
        (_key(problem, services.workspace, new_names) for problem in before.problems),
        (_key(problem, copy.root, {}) for problem in after.problems),
    )


async def _current_problems(
    diagnostics: Diagnostics, paths: Sequence[Path], least: Severity
) -> CurrentProblems:
    """Return the current problems of these files. A server that starts may need several times its limit for an edit."""
    found = CurrentProblems(())
    for _ in range(_ASKED if paths else 0):
        found = await diagnostics.current(paths, least)
        if not found.silent:
            break
    return found


def _known(found: CurrentProblems, paths: Sequence[Path]) -> bool:
    """Return whether all servers that cover these files have reported their problems."""
    answered = bool(found.servers) or set(found.unwatched) >= set(paths)
    return answered and not found.silent and not found.left_out


def _unchanged(wanted: Mapping[str, tuple[Path, bytes]], editors: Editors) -> bool:
    """Return whether the workspace still has what the branch began with, also in editors. Blocking."""
    for path, content in wanted.values():
        try:
            if editors.unsaved(path) is not None or path.read_bytes() != content:
                return False
        except OSError:
            return False
    return True


def _key(problem: Problem, root: Path, new_names: Mapping[str, str]) -> _Key:
    path = Path(os.path.relpath(problem.path, root)).as_posix()
    # A message may quote the path of a file, which differs in a copy.
    message = problem.message.replace(root.as_posix(), ".")
    return new_names.get(path, path), message, problem.code, problem.severity
