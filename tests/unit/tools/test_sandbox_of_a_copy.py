"""The sandbox of a branch: its copy is writable, the workspace is not, and nobody else's copy is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.explore.branch_environment import git_folders
from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tests.support.scenarios.branch_place import BranchPlace, branch_place, copy_of
from tools.bash import BashInput, BashTool
from tools.sandbox.policy import SandboxPolicy
from tools.tool import BranchCommands, ToolResult

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)


@dataclass
class Boxed:
    place: BranchPlace
    other: Path
    ctx: FakeToolContext

    async def bash(self, command: str) -> ToolResult:
        return await BashTool().run(BashInput(command=command), self.ctx)

    async def script(self, line: str) -> ToolResult:
        """The line from a file, where no rule sees it: then only the sandbox is in the way."""
        names = {"ws": self.place.workspace, "other": self.other, "state": self.place.state}
        (self.place.copy.root / "script").write_text(line.format(**names))
        return await self.bash("sh script")


def boxed(folder: Path) -> Boxed:
    place = branch_place(folder)
    (place.state / "token").write_text("TOKEN\n")
    socket = place.state / "run" / "daemon.sock"
    socket.parent.mkdir()
    socket.write_text("in place of a socket\n")
    (place.folder / "shared").mkdir()
    other = copy_of(place.workspace, place.copies / "k/B").root
    ctx = fake_context(place.copy.root)
    ctx.permission.rules = [("read", "*.env", "ask"), ("read", "secret/*", "deny")]
    policy = SandboxPolicy(
        "workspace-write",
        writable=(place.folder / "shared", place.workspace / "src"),
        hidden=(place.state, socket),
        readable=(place.workspace / ".venv", *git_folders(place.workspace)),
        copy_of=place.workspace,
    )
    made = replace(
        ctx,
        journal=place.copy.private / "journal",
        scratch=place.folder / "scratch",
        sandbox=policy,
        branch=BranchCommands(place.workspace, environment={"BRANCH_OF": "proj"}),
    )
    return Boxed(place, other, made)


# Below /tmp everything is empty in the sandbox but for what is shown.
@pytest.fixture(params=[None, "/work", "/tmp"], ids=["home", "work", "tmp"])
def box(request: pytest.FixtureRequest) -> Iterator[Boxed]:
    parent: str | None = request.param
    parent = parent if parent is not None and Path(parent).is_dir() else str(Path.home())
    with tempfile.TemporaryDirectory(prefix="gw-box-", dir=parent) as folder:
        yield boxed(Path(folder))


async def test_the_copy_is_writable_and_commits_are_made_there(box: Boxed) -> None:
    result = await box.bash(
        "echo 'A = 2' > src/a.py && git -c user.name=a -c user.email=a@b commit -qam two && git log --format=%s && "
        "echo $BRANCH_OF; echo out > ../../../../../shared/x"
    )
    assert result.metadata["exit_code"] == 0
    assert "\ntwo\nfirst\nproj" in result.content
    assert (box.place.copy.root / "src/a.py").read_text() == "A = 2\n"
    assert (box.place.workspace / "src/a.py").read_text() == "A = 1\n"
    assert (box.place.folder / "shared/x").read_text() == "out\n"


@pytest.mark.parametrize(
    "command",
    [
        "touch {ws}/src/new",
        "echo x > {ws}/src/a.py",
        "touch .venv/bin/new",
        "rm .venv/bin/tool",
        "git -C {ws} -c user.name=a -c user.email=a@b commit --allow-empty -qm x",
        "touch {ws}/.git/x",
        "echo x > {other}/src/a.py",
        "touch {state}/x",
        "touch ../x",
        "mkdir -p ../../B/tree && touch ../../B/tree/x",
    ],
)
async def test_nothing_outside_the_copy_can_be_changed(box: Boxed, command: str) -> None:
    before = everything(box.place.workspace), everything(box.other), everything(box.place.state, but=True)
    await box.script(command)
    assert (
        everything(box.place.workspace),
        everything(box.other),
        everything(box.place.state, but=True),
    ) == before


@pytest.mark.parametrize(
    "command",
    [
        "cat {ws}/.env", "cat {ws}/secret/key.txt", "cat secret/key.txt", "cat {state}/token", "cat ../../../../token",
        "cat {other}/secret/key.txt", "cat {other}/src/a.py && echo SECRET", "ls {state} {state}/*",
        "ls {state}/branches/k/B",
    ],
)  # fmt: skip
async def test_hidden_files_and_other_copies_are_unreadable_in_a_copy(box: Boxed, command: str) -> None:
    result = await box.script(command)
    assert not {"SECRET", "TOKEN", "token", "private"} & set(result.content.split())


async def test_workspace_and_its_linked_folders_are_readable_in_a_copy(box: Boxed) -> None:
    result = await box.script("cat {ws}/src/a.py && .venv/bin/tool")
    assert result.content.startswith("Exit code: 0\nA = 1\ntool")


def everything(folder: Path, *, but: bool = False) -> dict[str, bytes | None]:
    """All files and folders. ``but``: without the copies and our own scratch."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not (but and "branches" in path.parts)
    }
