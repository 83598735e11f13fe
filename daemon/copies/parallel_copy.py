"""Copies the files of a plan: few in this thread, many by processes of their own (``copy_worker``)."""

from __future__ import annotations

import marshal
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.copies import copy_worker
from daemon.copies.git_program import DISK_FULL, CancelToken
from daemon.copies.working_copy import CopyError
from tools.process.programs import scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.copies.copy_worker import Plan, Result, Stat, Wanted
    from daemon.files.index_file import IndexLine

_FEW = 1500
_PROCESSES = max(1, min(4, os.cpu_count() or 1))


def plan_of(entries: Iterable[IndexLine]) -> Plan:
    """Return the plan by folder, with the stat of each file at git's check."""
    folders: dict[bytes, list[Wanted]] = {}
    for entry in entries:
        folder, _, name = entry.path.rpartition(b"/")
        inode = entry.stat[5] if entry.stat[5] else -1
        folders.setdefault(folder, []).append((name, entry.mtime_ns, entry.stat[8], inode))
    return list(folders.items())


def copy(stop: CancelToken, source: Path, target: Path, plan: Plan) -> tuple[dict[bytes, Stat], list[bytes]]:
    """Return the stats of the copied files, and which had changed since they were looked at. Raises CopyError."""
    ends = os.fsencode(source), os.fsencode(target)
    if sum(len(files) for _, files in plan) < _FEW:
        results = [copy_worker.copy(*ends, plan, stop.check)]
    else:
        shares = list(copy_worker.split(plan, _PROCESSES))
        with ThreadPoolExecutor(len(shares)) as pool:
            results = list(pool.map(partial(_by_process, stop, ends), shares))
    stats: dict[bytes, Stat] = {}
    moved: list[bytes] = []
    for copied, changed, error in results:
        if error == copy_worker.FULL:
            raise CopyError(DISK_FULL)
        if error:
            raise CopyError(f"The working tree cannot be copied to {target.parent.parent}: {error}.")
        stats.update(copied)
        moved += changed
    _finish_folders(source, target, plan)
    return stats, moved


def _by_process(stop: CancelToken, ends: tuple[bytes, bytes], plan: Plan) -> Result:
    argv = [sys.executable, "-I", "-S", copy_worker.__file__, str(os.getpid())]
    env = scrubbed_environment(dict(os.environ))
    code, out, errors = stop.run(
        argv, cwd=Path("/") if os.name == "posix" else Path.cwd(), env=env, given=marshal.dumps((*ends, plan))
    )
    if code != 0:
        said = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise CopyError(f"Copying the working tree failed: {''.join(said) or f'exit code {code}'}.")
    return marshal.loads(out)  # from our own child, by a pipe


def _finish_folders(source: Path, target: Path, plan: Plan) -> None:
    """Give the folders the rights and times of their originals, the innermost first."""
    names = {b""}
    for folder, _ in plan:
        while folder and folder not in names:
            names.add(folder)
            folder = folder.rpartition(b"/")[0]
    for name in sorted(names, reverse=True):
        here, there = source / os.fsdecode(name), target / os.fsdecode(name)
        try:
            found = here.lstat()
            # The owner may always write, because our own parts are still to come.
            mode = found.st_mode & 0o777 | 0o700
            if there.lstat().st_mode & 0o777 != mode:
                there.chmod(mode)
            os.utime(there, ns=(found.st_atime_ns, found.st_mtime_ns))
        except OSError:
            continue  # the folder has gone or become a file: its files are reported as moved
