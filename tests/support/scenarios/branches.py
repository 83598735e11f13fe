"""Explorations on a real repository, with a model that plays each branch from a script of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from daemon.loop.session import Session
from daemon.model.events import Event, MessageAdded
from daemon.model.messages import ToolResultPart
from daemon.provider.model_calls import ModelRequest, ProviderEvent
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import Call, FakeModels, Step

FILES = {
    "src/a.py": "a = 1\n",
    "src/b.py": "b = 1\n",
    "README.md": "read me\n",
    ".gitignore": "*.log\n.trace/\n",
}


class BranchModels(FakeModels):
    """Models by session: the main session plays ``main``, a branch the list with its id; ``s1`` of a branch is
    ``A.s1``."""

    def __init__(
        self, main: Iterable[Step], branches: Mapping[str, Iterable[Step]], delay_s: float = 0.0
    ) -> None:
        super().__init__(*main)
        self.delay_s = delay_s
        """Before each answer."""
        self.branches = {name: FakeModels(*steps) for name, steps in branches.items()}

    async def stream(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        branch = request.env.get("GOALWRIGHT_BRANCH", "")
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        stream = self.branches[branch].stream(model, request) if branch else super().stream(model, request)
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    def seen_by(self, branch: str) -> list[ModelRequest]:
        """Every request of a branch, in order."""
        return self.branches[branch].requests


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """``folder/workspace``, a repository with one commit and changes that are not committed."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    for name, text in (files or FILES).items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "-m", "first")
    (workspace / "src/b.py").write_text("b = 2  # not committed\n")
    (workspace / "new.txt").write_text("untracked\n")
    return workspace


def git(workspace: Path, *args: str) -> str:
    """The output of a git command, with nothing of the developer's own configuration."""
    environment = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "HOME": str(workspace.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(["git", *args], cwd=workspace, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


def state_of(workspace: Path) -> dict[str, Any]:
    """Return everything in the user's repository that must not change: bytes of the index and of all of .git."""
    kept = {
        path.relative_to(workspace).as_posix(): path.read_bytes()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and ".trace" not in path.parts
    }
    return {
        "files": kept,
        "status": git(workspace, "status", "--porcelain=v2", "-z", "--untracked-files=all"),
        "refs": git(workspace, "for-each-ref"),
        "stash": git(workspace, "stash", "list"),
        "worktrees": git(workspace, "worktree", "list", "--porcelain"),
    }


def explore(*directions: str, background: str | None = None) -> Call:
    """The call that begins."""
    given: dict[str, Any] = {"branches": list(directions)}
    return Call("explore", given if background is None else {**given, "background": background})


def told(session: Session, name: str = "explore") -> ToolResultPart:
    """Return the answer of the last call of a tool."""
    results = (m.tool_result() for m in reversed(session.state.messages) if m.role == "tool")
    return next(result for result in results if result is not None and result.name == name)


def kinds(events: Sequence[Event]) -> list[str]:
    """Return the events, without messages' parts and those that are not about the exploration."""
    left_out = ("message_part_added", "tool_started", "session_updated", "notice")
    return [event.event for event in events if event.event not in left_out]


def texts(events: Iterable[Event]) -> list[str]:
    """The texts of all messages that were added."""
    return [event.message.text() for event in events if isinstance(event, MessageAdded)]


ASKED: dict[str, Any] = {"permission": {"edit": {"*.txt": "ask"}}, "test_command": ""}
"""Edits of text files ask in branches, too, because a rule names them."""
EDITS: dict[str, Any] = {"permission": {"edit": "allow", "bash": "allow"}, "test_command": ""}
"""Settings under which branches work without questions."""


@asynccontextmanager
async def exploring(
    folder: Path, main: Iterable[Step], branches: Mapping[str, Iterable[Step]], **options: Any
) -> AsyncGenerator[Bench]:
    """A daemon over a repository. At the end nothing of a branch is left, and the repository is as it was.

    ``options`` are those of ``tests.support.drivers.core.daemon``; ``changes`` (bool): the test itself changes the
    workspace.
    """
    changes = bool(options.pop("changes", False))
    workspace = folder / "workspace"
    if not workspace.exists():
        repository(folder)
    before = state_of(workspace)
    models = BranchModels(main, branches)
    async with daemon(folder, models=models, **options) as bench:
        yield bench
    for name, steps in models.branches.items():
        assert not steps.exhausted, f"{name} called the model once more than the test says"
        assert steps.open == 0, f"a stream of {name} was left open"
    assert left_over(folder / "home") == []
    for session in bench.core.open_sessions:
        assert all(other.parent is None for other in session.features.sessions.values())
    if not changes:
        assert state_of(workspace) == before


def scripts(bench: Bench) -> BranchModels:
    """The models of a bench made by ``exploring``."""
    assert isinstance(bench.models, BranchModels)
    return bench.models


def left_over(home: Path) -> list[str]:
    """Files and folders of working copies that are still there."""
    # Not pathlib: folders may go meanwhile. The folder of the workspace itself may stay.
    top = str(home / "branches")
    found: list[str] = []
    for where, folders, names in os.walk(top):
        depth = 0 if where == top else os.path.relpath(where, top).count(os.sep) + 1
        found += [os.path.join(where, name) for name in (*names, *(folders if depth == 1 else ()))]  # noqa: PTH118
    return sorted(os.path.relpath(path, home) for path in found)


async def ran(bench: Bench, text: str = "go", settings: dict[str, Any] | None = None) -> Session:
    """A session whose only prompt was worked on to its end."""
    session = bench.session(settings=EDITS if settings is None else settings)
    result = await session.prompt(text)
    assert result.stop == "end_turn", result
    return session
