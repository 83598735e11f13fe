"""A workspace and a branch's copy of it, made by hand: real folders, real git, a linked environment."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.copies.working_copy import BranchChange, WorkingCopy
from daemon.explore.branch_environment import branch_rules
from daemon.model.permissions import Mode, Rule
from daemon.permission.rules import SHIPPED, RuleSet
from tools.shell.path_lookup import real_place
from tools.shell.question import question
from tools.tool import PermissionAsk

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")


class HandMadeCopy(WorkingCopy):
    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        return (), b""

    async def close(self) -> None:
        shutil.rmtree(self.root.parent, ignore_errors=True)


@dataclass
class BranchPlace:
    """``workspace`` and ``copy`` below one folder; the copies lie in ``state``, where the daemon has its own files."""

    folder: Path
    workspace: Path
    state: Path
    copy: HandMadeCopy

    @property
    def copies(self) -> Path:
        return self.state / "branches"

    def rules(self, *user: Rule, mode: Mode = "ask", session: Sequence[Rule] = ()) -> RuleSet:
        """Return the rules of the branch, with those that the user wrote and granted."""
        return RuleSet(
            (*SHIPPED, *user),
            session=session,
            branch=branch_rules(self.workspace, self.copy.root, self.copy.links, self.copies),
            mode=mode,
            trust="trusted",
            root=self.copy.root.as_posix(),
            stands_for=self.workspace.as_posix(),
        )

    def command(self, line: str) -> PermissionAsk:
        """The question for a command line in the copy."""
        return question(line, real_place(self.copy.root))


def branch_place(folder: Path) -> BranchPlace:
    """Create a workspace with ``src/a.py``, ``secret/key.txt`` and a ``.venv`` that git ignores, and a copy of it."""
    folder = folder.resolve()
    workspace, state = folder / "proj", folder / "state"
    for name, text in {
        "src/a.py": "A = 1\n",
        "secret/key.txt": "SECRET\n",
        ".gitignore": ".venv/\n.env\n",
        ".venv/pyvenv.cfg": "home = /usr/bin\n",
        ".venv/bin/tool": "#!/bin/sh\necho tool\n",
        ".env": "PASSWORD=SECRET\n",
    }.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (workspace / ".venv/bin/tool").chmod(0o755)
    _git(workspace, "init", "-q")
    _git(workspace, "add", ".")
    _git(workspace, "commit", "-qm", "first")
    return BranchPlace(folder, workspace, state, copy_of(workspace, state / "branches/k/A"))


def copy_of(workspace: Path, folder: Path) -> HandMadeCopy:
    """A copy by hand in ``folder``: a git directory of its own that borrows the workspace's objects."""
    root, private = folder / "tree", folder / "private"
    private.mkdir(parents=True)
    root.mkdir()
    _git(root, "init", "-q")
    alternates = root / ".git/objects/info/alternates"
    alternates.write_text(f"{workspace}/.git/objects\n")
    head = subprocess.run(
        [*GIT, "rev-parse", "HEAD"], cwd=workspace, check=True, capture_output=True, text=True
    ).stdout.strip()
    _git(root, "reset", "-q", "--hard", head)
    link = root / ".venv"
    link.symlink_to(workspace / ".venv")
    (root / ".git/info/exclude").write_text(".venv\n")
    return HandMadeCopy(root, {"BRANCH_OF": "proj"}, (link,), private)


def _git(folder: Path, *args: str) -> None:
    subprocess.run([*GIT, *args], cwd=folder, check=True)
