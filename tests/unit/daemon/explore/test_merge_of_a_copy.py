from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from daemon.explore.branch_actions import branch_patch, select_for_user
from daemon.explore.copy_manager import copies_for
from daemon.explore.results import save_result
from daemon.loop.undo import Restorer
from daemon.model.branches import child_id
from tests.support.drivers.core import daemon
from tests.support.scenarios.explored import explored

ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *args: str, given: bytes = b"") -> str:
    done = subprocess.run(
        ["git", *args], cwd=folder, env=ENVIRONMENT, input=given, capture_output=True, check=True
    )
    return done.stdout.decode()


def tree(root: Path) -> dict[str, tuple[bytes, bool]]:
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), os.access(path, os.X_OK))
        for path in found
        if path.relative_to(root).parts[0] not in (".git", ".trace")
    }


@pytest.mark.parametrize("repository", [True, False])
async def test_merge_of_a_real_copy_gives_its_tree_and_keeps_edits(tmp_path: Path, repository: bool) -> None:
    root = (tmp_path / "workspace").resolve()
    (root / "src").mkdir(parents=True)
    numbered = "".join(f"{n}\n" for n in range(40))
    (root / "src/a.py").write_text(numbered)
    (root / "src/b.py").write_bytes(b"b\r\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    (root / "gone.txt").write_text("bye\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "plain").write_text("was a file\n")
    (root / "folder/deep").mkdir(parents=True)
    (root / "folder/deep/x").write_text("x\n")
    (root / "folder/y").write_text("y\n")
    (root / ".gitignore").write_text("ignored\n.trace\n")
    (root / "ignored").write_text("mine\n")
    if repository:
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
    (root / "src/a.py").write_text(numbered + "dirty\n")
    (root / "untracked.txt").write_text("u\n")
    copies = copies_for(root, tmp_path / "copies", ())
    base = await copies.base()
    async with daemon(tmp_path) as bench:
        session = bench.session()
        copy = await copies.open(child_id(session.session_id, "A"), base)
        inside = copy.root
        (inside / "src/a.py").write_text("0 is first\n" + numbered + "dirty\n")
        (inside / "src/b.py").write_bytes(b"b\r\nc\r\n")
        (inside / "data.bin").write_bytes(bytes(range(255, -1, -1)))
        (inside / "gone.txt").unlink()
        (inside / "run.sh").chmod(0o755)
        (inside / "new folder").mkdir()
        (inside / "new folder/ü.txt").write_text("no end")
        (inside / "untracked.txt").rename(inside / "moved.txt")
        (inside / "plain").unlink()
        (inside / "plain/in").mkdir(parents=True)
        (inside / "plain/in/side.txt").write_text("in\n")
        (inside / "folder/deep/x").unlink()
        (inside / "folder/deep").rmdir()
        (inside / "folder/y").unlink()
        (inside / "folder").rmdir()
        (inside / "folder").write_text("is a file\n")
        explored(session, {"A": []})
        changes, patch = await copy.outcome()
        save_result(
            session.services.store.folder(child_id(session.session_id, "A")) / "result", changes, patch
        )
        wanted = tree(inside)
        await copy.close()
        assert not inside.exists()

        if repository:
            other = tmp_path / "other"
            git(tmp_path, "clone", "-q", str(root), str(other))
            (other / "src/a.py").write_text(numbered + "dirty\n")
            (other / "untracked.txt").write_text("u\n")
            git(other, "apply", "--binary", "-", given=await branch_patch(session, "A"))
            assert tree(other) == {name: found for name, found in wanted.items() if name != "ignored"}

        # The person goes on meanwhile.
        (root / "src/a.py").write_text(numbered + "dirty\nmore\n")
        (root / "own.txt").write_text("own\n")
        own = tree(root)
        before = git(root, "rev-parse", "HEAD") + git(root, "diff", "--cached") if repository else ""
        pick = select_for_user(session, ["A"], "test")
        task = asyncio.create_task(pick)
        await bench.answer("once")
        await task
        merged = tree(root)
        assert merged.pop("own.txt") == (b"own\n", False)
        assert merged.pop("src/a.py")[0].decode() == "0 is first\n" + numbered + "dirty\nmore\n"
        wanted.pop("src/a.py")
        merged.pop("ignored")
        wanted.pop("ignored", None)
        assert merged == wanted
        if repository:
            assert git(root, "rev-parse", "HEAD") + git(root, "diff", "--cached") == before
        await Restorer(session).undo()
        assert tree(root) == own
