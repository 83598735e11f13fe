"""Nasty working trees, and an oracle for them that shares no code with what it judges: os.walk and git's plumbing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

Tree = Callable[[Path], None]
ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


_QUIET = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
# Nothing runs behind a commit, no sample hooks are copied, and nothing is flushed: all of it only takes time.
_QUICK = (
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "init.templateDir=",
    "-c",
    "core.fsync=none",
)


def git(
    folder: Path, *args: str, given: bytes = b"", check: bool = True, env: Mapping[str, str] = {}
) -> bytes:
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]
    command += [*_QUIET, *_QUICK, *args]
    done = subprocess.run(
        command, cwd=folder, env={**ENV, **env}, input=given, capture_output=True, check=False
    )
    assert not check or done.returncode == 0, (args, done.stderr)
    return done.stdout


def put(folder: Path, name: str | bytes, content: bytes = b"one\ntwo\nthree\n", mode: int = 0o644) -> Path:
    path = folder / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def start(folder: Path, *options: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *options)
    put(folder, "a.txt")
    put(folder, "src/b.py", b"b = 1\n")
    put(folder, "run.sh", b"#!/bin/sh\n", 0o755)
    put(folder, "gone.txt", b"to be removed\n")
    put(folder, ".gitignore", b"ignored/\n*.log\n.venv/\nnode_modules/\n")
    commit(folder)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a commit", "--allow-empty")


def oracle_tree(top: Path, *, borrows: bool = False) -> str:
    """Return the result of ``add -A`` on another index and ``write-tree``, with a store of their own.

    ``borrows``: the repository reads objects of another one. They are copied, as git renews the times of what it finds.
    """
    with tempfile.TemporaryDirectory() as name:
        index = Path(name) / "index"
        own = Path(
            os.fsdecode(git(top, "rev-parse", "--path-format=absolute", "--git-path", "index").rstrip(b"\n"))
        )
        if own.exists():
            shutil.copy2(own, index)
            for shared in own.parent.glob("sharedindex.*"):
                shutil.copy2(shared, Path(name))
        objects = Path(
            os.fsdecode(
                git(top, "rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n")
            )
        )
        env = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": name,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        }
        if borrows:
            own_store = Path(name) / "store"
            stores = (objects / "info" / "alternates").read_text().splitlines()
            for store in (objects, *map(Path, stores)):
                shutil.copytree(store, own_store, dirs_exist_ok=True)
            (own_store / "info" / "alternates").unlink()
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(own_store)
        safe = ("-c", "core.fsmonitor=false", "-c", "core.splitIndex=false")
        git(top, *safe, "add", "-A", env=env)
        return git(top, *safe, "write-tree", "--missing-ok", env=env).decode().strip()


def kept_files(top: Path) -> dict[str, tuple[str, bytes, int]]:
    """Kind, bytes and exec bits of each file that git does not ignore, nested repositories' included; by os.walk."""
    found: dict[str, tuple[str, bytes, int]] = {}
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        folders[:] = [name for name in folders if name != ".git"]
        names = [*files, *(name for name in folders if (here / name).is_symlink())]
        for name in names:
            path = here / name
            if name == ".git" or not (path.is_symlink() or path.is_file()):
                continue
            if path.is_symlink():
                entry = ("link", os.fsencode(path.readlink()), 0)
            else:
                entry = ("file", path.read_bytes(), path.stat().st_mode & 0o777)
            found[path.relative_to(top).as_posix()] = entry
    return found


def not_ignored(top: Path, files: Mapping[str, tuple[str, bytes, int]]) -> dict[str, tuple[str, bytes, int]]:
    """Without those that git ignores, each asked of the innermost repository."""
    by_repository: dict[Path, list[str]] = {}
    for name in files:
        folder = (top / name).parent
        while folder != top and not (folder / ".git").exists():
            folder = folder.parent
        by_repository.setdefault(folder, []).append((top / name).relative_to(folder).as_posix())
    kept: dict[str, tuple[str, bytes, int]] = {}
    for folder, names in by_repository.items():
        given = b"".join(os.fsencode(name) + b"\0" for name in names)
        ignored = set(git(folder, "check-ignore", "-z", "--stdin", given=given, check=False).split(b"\0"))
        prefix = folder.relative_to(top).as_posix()
        for name in names:
            full = name if prefix == "." else f"{prefix}/{name}"
            if os.fsencode(name) not in ignored:
                kept[full] = files[full]
    return kept


def fingerprint(top: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of everything below the folder, the git folders with all they hold included."""
    found: dict[str, tuple[str, int]] = {}
    for folder, folders, files in os.walk(top):
        for name in [*files, *folders]:
            path = Path(folder) / name
            stat = path.lstat()
            if path.is_symlink():
                said = os.fsencode(path.readlink())
            elif path.is_file():
                said = path.read_bytes()
            else:
                said = b""
            found[str(path)] = (hashlib.sha256(said).hexdigest(), stat.st_mtime_ns)
    return found
