"""Trees that nobody thought of, against an oracle that shares no code with the copies
(``tests.support.scenarios.trees``)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.explore.copy_manager import copies_for
from tests.support.examples import in_full
from tests.support.scenarios.trees import commit, fingerprint, git, kept_files, not_ignored, oracle_tree, put

_NAMES = ("a.txt", "b c.py", "dir/c.txt", "dir/inner/d", "ignored/e", "f.log", "ü.txt", "-g", "dir/[h]")
_CONTENTS = (b"", b"one\n", b"one\r\ntwo\r\n", b"no end", b"\0\xff\r\n\0", b"x" * 5000 + b"\n")
_step = st.tuples(
    st.sampled_from(
        ("write", "delete", "rename", "chmod", "link", "stage", "unstage", "commit", "forget", "attributes")
    ),
    st.sampled_from(_NAMES),
    st.sampled_from(_NAMES),
    st.sampled_from(_CONTENTS),
)


def _do(top: Path, what: str, name: str, other: str, content: bytes) -> None:
    path, target = top / name, top / other
    there = os.path.lexists(path)
    if what == "write" and not path.is_symlink():
        put(top, name, content, path.stat().st_mode & 0o777 if there else 0o644)
    elif what == "delete" and there:
        path.unlink()
    elif what == "rename" and there:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    elif what == "chmod" and there and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o111)
    elif what == "link" and not there:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(other)
    elif what == "stage":
        git(top, "add", "-f", "--", name, check=False)
    elif what == "unstage":
        git(top, "reset", "-q", "--", name, check=False)
    elif what == "commit":
        commit(top)
    elif what == "forget":
        git(top, "rm", "-q", "--cached", "--", name, check=False)
    elif what == "attributes":
        put(top, ".gitattributes", b"*.txt text\n*.py text eol=crlf\n")


@settings(
    max_examples=in_full(40, 8), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.lists(_step, max_size=14), st.booleans(), st.lists(_step, max_size=5))
def test_random_tree_is_copied_exactly_and_its_patch_applies(
    steps: list[tuple[str, str, str, bytes]], crlf: bool, inside: list[tuple[str, str, str, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_check(Path(name).resolve(), steps, crlf, inside))


async def _check(
    folder: Path,
    steps: list[tuple[str, str, str, bytes]],
    crlf: bool,
    inside: list[tuple[str, str, str, bytes]],
) -> None:
    top, state = folder / "project", folder / "state"
    top.mkdir()
    git(top, "init", "-q")
    put(top, ".gitignore", b"ignored/\n*.log\n")
    if crlf:
        git(top, "config", "core.autocrlf", "true")
    for step in steps:
        _do(top, *step)
    expected = _counted(top)
    tree, before = oracle_tree(top), fingerprint(top)
    copies = copies_for(top, state, ())
    base = await copies.base()
    copy, other = await copies.open("x:A", base), await copies.open("x:B", base)
    asked = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z")
    assert git(copy.root, *asked) == git(top, *asked)
    assert base.tree == oracle_tree(copy.root, borrows=True) == tree
    assert kept_files(copy.root) == expected
    assert await copy.outcome() == ([], b"")
    for step in inside:
        if step[0] not in ("commit", "stage", "unstage", "forget", "attributes"):
            _do(copy.root, *step)
    now = _bare(not_ignored(copy.root, kept_files(copy.root)), expected)
    changes, patch = await copy.outcome()
    was = _bare(expected, expected)
    found = {change.name: (change.before, change.after) for change in changes}
    sides = {name: (was.get(name), now.get(name)) for name in {*was, *now}}
    assert found == {
        name: tuple(side[1] if side else None for side in both)
        for name, both in sides.items()
        if both[0] != both[1]
    }
    if patch:
        quiet = ("-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null")
        (other.root / ".gitattributes").unlink(missing_ok=True)
        git(other.root, *quiet, "apply", "--binary", "--whitespace=nowarn", given=patch)
        (copy.root / ".gitattributes").unlink(missing_ok=True)
        assert _bare(_counted(other.root), expected) == _bare(_counted(copy.root), expected)
    assert fingerprint(top) == before
    await copy.close()
    await other.close()
    await copies.done(base)
    assert not state.exists() or not list(state.iterdir())


def _counted(top: Path) -> dict[str, tuple[str, bytes, int]]:
    """All files but those that are ignored, and those that are tracked all the same."""
    files = kept_files(top)
    tracked = {os.fsdecode(name) for name in git(top, "ls-files", "-z").split(b"\0")}
    return not_ignored(top, files) | {name: file for name, file in files.items() if name in tracked}


def _bare(
    files: dict[str, tuple[str, bytes, int]], tracked: dict[str, tuple[str, bytes, int]]
) -> dict[str, tuple[str, bytes, bool]]:
    """Reduce modes to the bit that git keeps."""
    return {name: (kind, content, bool(mode & 0o100)) for name, (kind, content, mode) in files.items()}
