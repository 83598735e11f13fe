"""Commands of a branch cannot change the workspace, whatever rules say about it, although there is no sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.explore.branch_environment import git_folders
from daemon.jobs import SessionJobs
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tests.support.scenarios.branch_place import BranchPlace, branch_place, copy_of
from tools.bash import BashInput, BashTool
from tools.ports import Job, SessionPorts
from tools.sandbox import confinement as module
from tools.sandbox.confinement import Confinement, confine
from tools.tool import BranchCommands, ToolResult

needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)


@dataclass
class Fenced:
    place: BranchPlace
    other: Path
    ctx: FakeToolContext

    async def bash(self, command: str) -> ToolResult:
        return await BashTool().run(BashInput(command=command), self.ctx)

    async def script(self, line: str) -> ToolResult:
        """The line from a file, where no rule sees it."""
        names = {"ws": self.place.workspace, "other": self.other, "me": os.getpid()}
        (self.place.copy.root / "script").write_text(line.format(**names))
        return await self.bash("sh script")


@pytest.fixture
def fenced(tmp_path: Path) -> Fenced:
    place = branch_place(tmp_path)
    other = copy_of(place.workspace, place.copies / "k/B").root
    root, workspace = place.copy.root, place.workspace
    (workspace / "sub").mkdir()
    theirs = (place.copies, workspace, *(Path(os.path.realpath(link)) for link in place.copy.links))
    confinement = confine(root, workspace, (*theirs, *git_folders(workspace)), (root, *git_folders(root)))
    ctx = replace(
        fake_context(root),
        journal=place.copy.private / "journal",
        scratch=place.folder / "scratch",
        branch=BranchCommands(workspace, confinement, {"BRANCH_OF": "proj"}),
    )
    return Fenced(place, other, ctx)


def everything(folder: Path) -> dict[str, object]:
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() else None,
            path.lstat().st_mode,
        )
        for path in folder.rglob("*")
    }


@needs_bwrap
@pytest.mark.parametrize(
    "line",
    [
        "echo x > {ws}/src/a.py",
        "touch {ws}/new {ws}/sub/new",
        "mkdir -p .venv/cache; echo x > .venv/cache/x",
        "rm .venv/bin/tool",
        "chmod 0 .venv/bin/tool",
        "mv {ws} {ws}-away",
        "ln .venv/bin/tool hard; echo x >> hard",
        "ln {ws}/src/a.py hard; echo x >> hard",
        "ln -s {ws} soft; echo x > soft/new",
        "git -C {ws} -c user.name=a -c user.email=a@b commit --allow-empty -qm x",
        "git --git-dir={ws}/.git update-ref refs/heads/evil HEAD",
        "GIT_DIR={ws}/.git git update-ref refs/heads/evil HEAD",
        "python3 -c \"open('{ws}/src/a.py', 'w')\"",
        "printf 'x:\\n\\ttouch {ws}/made\\n' > Makefile; make",
        "echo x > {other}/src/a.py",
        "touch ../x ../private/x",
        "mount -o remount,rw,bind {ws} {ws}; umount {ws}; touch {ws}/new",
        "unshare -Urm sh -c 'mount -o remount,rw,bind {ws} {ws}; umount {ws}; touch {ws}/new'",
        "echo x > /proc/{me}/root{ws}/src/a.py",
        "nsenter -t {me} -m touch {ws}/new",
    ],
)
async def test_confined_command_cannot_change_workspace_or_other_copy(fenced: Fenced, line: str) -> None:
    own = fenced.place.copy.root.parent
    before = everything(fenced.place.workspace), everything(fenced.other.parent), sorted(own.iterdir())
    await fenced.script(line)
    after = everything(fenced.place.workspace), everything(fenced.other.parent), sorted(own.iterdir())
    assert after == before


@needs_bwrap
async def test_confinement_leaves_everything_else_unchanged(fenced: Fenced) -> None:
    outside = fenced.place.folder / "outside"
    outside.mkdir()
    line = (
        "echo 2 > src/a.py && git -c user.name=a -c user.email=a@b commit -qam two && git log --format=%s && "
        f"echo $BRANCH_OF $$ && pwd && id -u && touch {outside}/new && cat {fenced.place.workspace}/src/a.py && "
        ".venv/bin/tool && test -w /dev/null && readlink /proc/self/ns/net /proc/self/ns/pid"
    )
    result = await fenced.script(line)
    said = result.content.splitlines()
    assert said[:3] == ["Exit code: 0", "two", "first"]
    assert said[3].startswith("proj ")
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")]  # noqa: PTH115
    assert said[4:] == [str(fenced.place.copy.root), str(os.getuid()), "A = 1", "tool", *here]
    assert (outside / "new").exists()


@needs_bwrap
async def test_mounts_below_the_workspace_are_read_only(fenced: Fenced, tmp_path: Path) -> None:
    below, elsewhere = fenced.place.workspace / "sub", tmp_path / "elsewhere"
    elsewhere.mkdir()
    # A mount of another place, within a namespace of its own: the confinement is made in there.
    inner = [
        *fenced.ctx.branch.confinement.prefix,
        "sh",
        "-c",
        f"touch {below}/new; touch {tmp_path}/written",
    ]
    bwrap = shutil.which("bwrap") or "bwrap"
    subprocess.run(  # noqa: ASYNC221 - short
        [bwrap, "--dev-bind", "/", "/", "--bind", str(elsewhere), str(below), "--cap-add", "ALL", "--", *inner],
        check=False, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "written").exists() and list(elsewhere.iterdir()) == []


@needs_bwrap
async def test_failed_write_explains_the_sandbox_to_the_model(fenced: Fenced) -> None:
    failed = await fenced.script("mkdir .venv/cache")
    assert "Read-only file system" in failed.content
    assert "copy what you must change into another folder" in failed.content
    assert "copy what you must change into another folder" not in (await fenced.bash("echo fine")).content


@needs_bwrap
async def test_jobs_are_confined_and_leave_no_processes(fenced: Fenced) -> None:
    jobs = SessionJobs(
        fenced.place.folder / "output", lambda: datetime.now(UTC), on_end=_nothing, kill_grace_s=0.2
    )
    ctx = replace(fenced.ctx, session=SessionPorts(jobs=jobs))
    pids = fenced.place.copy.root / "pids"
    begin = f"touch {fenced.place.workspace}/new; trap 'touch tidied; exit' TERM"
    line = f"{begin}; setsid sleep 300 & echo $! $$ > pids; wait"
    await BashTool().run(BashInput(command=line, background=True), ctx)
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    await jobs.close()
    assert not any(_alive(int(pid)) for pid in pids.read_text().split())
    assert (fenced.place.copy.root / "tidied").exists(), "it was told to end first"
    assert not (fenced.place.workspace / "new").exists()


@needs_bwrap
async def test_a_canceled_command_is_stopped_with_all_that_it_started(fenced: Fenced) -> None:
    pids = fenced.place.copy.root / "pids"
    task = asyncio.create_task(fenced.bash("setsid sleep 300 & echo $! $$ > pids; wait"))
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(_alive(int(pid)) for pid in pids.read_text().split())


async def test_missing_confinement_is_reported_and_commands_still_run(
    fenced: Fenced, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken/bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    found: list[str] = [str(broken)]

    def bwrap(_workspace: Path, _origin: Path) -> str:
        return found[0]

    monkeypatch.setattr(module.bwrap, "program", bwrap)
    place = fenced.place
    for program in (str(broken), "/nowhere/bwrap"):
        found[0] = program
        lacking = confine(place.copy.root, place.workspace, (place.workspace,), (place.copy.root,))
        assert (lacking.prefix, lacking.fenced) == ((), False)
        told: list[str] = []
        ctx = replace(
            fenced.ctx, branch=replace(fenced.ctx.branch, confinement=lacking), notify_user=told.append
        )
        assert (await BashTool().run(BashInput(command="echo ran"), ctx)).content == "Exit code: 0\nran\n"
        assert (
            len(told) == 1
            and "Here, nothing prevents the programs that branches run from writing to the workspace:"
            in told[0]
        )
        assert ctx.permission.asks[-1].fenced is False


async def test_bwrap_without_any_effect_is_not_used(
    fenced: Fenced, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Such wrappers are found in containers: they run the command, without its mounts.
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)

    def bwrap(_workspace: Path, _origin: Path) -> str:
        return str(fake)

    monkeypatch.setattr(module.bwrap, "program", bwrap)
    place = fenced.place
    assert confine(place.copy.root, place.workspace, (place.workspace,), (place.copy.root,)).fenced is False


def test_without_a_branch_there_is_no_confinement() -> None:
    assert (Confinement().fenced, Confinement().hint("Read-only file system")) == (None, "")


def _nothing(job: Job, killed: bool) -> None:
    pass


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
