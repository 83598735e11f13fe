"""Mounts of the sandbox hold: while other commands rename folders, and files with several names. Lost ones are said."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import BashInput, BashTool
from tools.sandbox import mounts
from tools.sandbox import prepare as preparing
from tools.sandbox.mounts import survey
from tools.sandbox.policy import Kind, Sandbox, SandboxPolicy, UnavailableError
from tools.sandbox.prepare import prepare
from tools.sandbox.replaced import mounted
from tools.sandbox.state import SandboxState, left_over

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)
EXCHANGE = (
    "import ctypes, sys; one, other = (name.encode() for name in sys.argv[1:]); "
    "sys.exit(-ctypes.CDLL(None).renameat2(-100, one, -100, other, 2))"
)


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeToolContext]:
    monkeypatch.setattr(preparing, "BACK_ENDS", ("bwrap",))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        by_the_user(
            workspace, "git init -q --template= nested; mkdir -p pkg/deep plain; echo a > pkg/deep/.envrc"
        )
        (workspace / "exchange.py").write_text(EXCHANGE)
        yield replace(fake_context(workspace), sandbox=SandboxPolicy("workspace-write"))


def by_the_user(workspace: Path, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=workspace, check=True, capture_output=True)


async def bash(ctx: FakeToolContext, command: str) -> str:
    return (await BashTool().run(BashInput(command=command), ctx)).content


def prepared(ctx: FakeToolContext) -> Sandbox:
    return prepare(ctx.sandbox, ctx.workspace, ctx.scratch, ctx.permission.decide)


def start(stack: ExitStack, sandbox: Sandbox, workspace: Path, script: str) -> subprocess.Popen[bytes]:
    """Start a command that is told by lines on its standard input to go on."""
    process = subprocess.Popen([*sandbox.prefix, "bash", "-c", script], cwd=workspace, stdin=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


async def test_old_versions_in_traces_are_hidden_from_commands(ctx: FakeToolContext) -> None:
    by_the_user(ctx.workspace, "mkdir -p .trace/s/files/blobs; echo secret > .trace/s/files/blobs/a")
    said = await bash(ctx, "cat plain/../.trace/*/files/blobs/* .trace/s/files/blobs/a; echo ended")
    assert "ended" in said and "secret" not in said


# -- folders on the way to protected files


@pytest.mark.parametrize("command", ["mv {0} away", "python3 exchange.py {0} decoy"])
@pytest.mark.parametrize("folder", ["nested", "pkg", "pkg/deep"])
async def test_a_folder_that_leads_to_a_kept_file_stays(
    ctx: FakeToolContext, folder: str, command: str
) -> None:
    by_the_user(ctx.workspace, "mkdir decoy")
    inode = (ctx.workspace / folder).stat().st_ino
    assert not (await bash(ctx, command.format(folder))).startswith("Exit code: 0")
    assert (ctx.workspace / folder).stat().st_ino == inode
    # Files in it can be changed, and other folders renamed.
    assert (await bash(ctx, f"echo b > {folder}/b; mv plain {folder}/c")).startswith("Exit code: 0")


@pytest.mark.parametrize(
    ("folder", "file"), [("nested", ".git/config"), ("pkg", "deep/.envrc"), ("pkg/deep", ".envrc")]
)
async def test_no_command_leads_the_mounts_of_another_astray(
    ctx: FakeToolContext, folder: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one exchanges a folder after the second one was prepared, and again when its mounts are made."""
    # Those of tests that run meanwhile may be gone when the mounts are made; only the tool tries again.
    monkeypatch.setattr(preparing, "sockets", list)
    kept = ctx.workspace / folder / file
    before = kept.read_bytes()
    entry = ".git" if folder == "nested" else file
    by_the_user(ctx.workspace, f"mkdir decoy; cp -r {folder} decoy/it; mv decoy/it/{entry} decoy/later")
    flip = f"python3 exchange.py {folder} decoy/it; touch flipped-$1"
    first, second = prepared(ctx), prepared(ctx)
    with ExitStack() as stack:
        one = start(
            stack,
            first,
            ctx.workspace,
            f"flip() {{ {flip}; }}; mv decoy/later decoy/it/{entry}; flip 1; read; flip 2; read",
        )
        await until(lambda: (ctx.workspace / "flipped-1").exists(), "the first exchange")
        other = start(
            stack, second, ctx.workspace, f"touch mounted; read; echo x >> {folder}/{file}; touch done"
        )
        await until(lambda: (ctx.workspace / "mounted").exists(), "the second command")
        go_on(one)
        await until(lambda: (ctx.workspace / "flipped-2").exists(), "the second exchange")
        go_on(other)
        await until(lambda: (ctx.workspace / "done").exists(), "the attempt")
    assert kept.read_bytes() == before
    first.leave()
    second.leave()


async def test_with_too_many_folders_only_one_command_runs_at_a_time(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MAX_ALL_MOUNTS", 5)
    first = prepared(ctx)
    with pytest.raises(UnavailableError, match="too many folders for two commands"):
        prepared(ctx)
    with pytest.raises(UnavailableError):
        prepared(replace(ctx, workspace=ctx.workspace / "pkg"))
    first.leave()
    monkeypatch.undo()
    monkeypatch.setattr(preparing, "BACK_ENDS", ("bwrap",))
    second = prepared(ctx)
    monkeypatch.setattr(mounts, "MAX_ALL_MOUNTS", 5)
    with pytest.raises(UnavailableError):
        prepared(ctx)
    second.leave()
    assert (await bash(ctx, "mv pkg away")).startswith("Exit code: 0")


async def test_folders_around_the_workspace_cannot_be_renamed(ctx: FakeToolContext) -> None:
    """A writable folder may contain the workspace."""
    top = ctx.workspace.parent / "top"
    by_the_user(ctx.workspace.parent, "mkdir -p top/mid; cp -r ws top/mid/ws")
    inner = replace(fake_context(top / "mid/ws"), sandbox=SandboxPolicy("workspace-write", writable=(top,)))
    await bash(inner, "mv ../../mid ../../away; touch ../made")
    assert sorted(path.name for path in top.iterdir()) == ["mid"]
    assert (top / "mid/made").exists()


async def test_pins_open_no_read_only_folder(ctx: FakeToolContext) -> None:
    """A tool's folder is read-only, also where it is in the workspace and leads to a kept file."""
    by_the_user(ctx.workspace, "echo SECRET > pkg/deep/.env")
    ctx.permission.rules = [("read", "*.env", "ask")]
    readable = ctx.workspace / "pkg"
    inner = replace(ctx, sandbox=replace(ctx.sandbox, readable=(readable,)))
    await bash(inner, "touch pkg/x; touch pkg/deep/x; touch plain/x")
    assert sorted(path.name for path in ctx.workspace.rglob("x")) == ["x"]
    assert (ctx.workspace / "plain/x").exists()


# -- files with several names


@pytest.mark.parametrize("back_end", ["bwrap", "Landlock"])
@pytest.mark.parametrize("link", ["plain/.envrc", "pkg/deep/.npmrc", "nested/.git/hooks/pre-commit"])
async def test_older_name_of_a_new_protected_link_is_kept(
    ctx: FakeToolContext, link: str, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BACK_ENDS", (back_end,))
    monkeypatch.setattr(mounts, "_RACY_NS", 0)
    by_the_user(ctx.workspace, "mkdir -p src nested/.git/hooks; echo a > src/script; chmod +x src/script")
    assert (await bash(ctx, "echo b >> src/script")).startswith("Exit code: 0")
    by_the_user(ctx.workspace, f"ln src/script {link}")
    await bash(ctx, "echo evil >> src/script")
    assert (ctx.workspace / link).read_text() == "a\nb\n"


def test_other_names_are_searched_for_once(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_RACY_NS", 0)
    asked: list[str] = []

    def decide(permission: str, name: str) -> str:
        asked.append(name)
        return "ask" if permission == "read" and name.endswith(".env") else "allow"

    by_the_user(ctx.workspace, "mkdir a b; echo SECRET > a/x; ln pkg/deep/.envrc ../outside")
    for script, looks in (("", True), ("", False), ("ln a/x b/.env", True), ("", False)):
        by_the_user(ctx.workspace, script)
        asked.clear()
        found = survey(ctx.workspace, decide, writable=True, key="the same rules")
        assert ("a/x" in asked) is looks
    assert sorted(found.hidden) == [ctx.workspace / "a/x", ctx.workspace / "b/.env"]


# -- links on the way to protected files


@pytest.mark.parametrize("back_end", ["bwrap", "Landlock"])
@pytest.mark.parametrize(
    ("made", "attack"),
    [
        ("ln -s there .envrc", "echo evil > there"),
        ("ln -s there/below .envrc", "mkdir there; echo evil > there/below"),
        ("mkdir a; echo a > a/x; ln -s a by; ln -s by/x .envrc", "rm by; mkdir by; echo evil > by/x"),
        (
            "mkdir a; echo a > a/x; ln -s $PWD/a by; ln -s plain/../by/x .envrc",
            "mkdir b; echo evil > b/x; rm by; ln -s b by",
        ),
    ],
)
async def test_a_protected_link_leads_where_it_led(
    ctx: FakeToolContext, made: str, attack: str, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BACK_ENDS", (back_end,))
    by_the_user(ctx.workspace, made)
    target = ctx.workspace / ".envrc"
    assert "Moved away" not in await bash(ctx, "touch plain/x")
    said = await bash(ctx, attack)
    assert "Moved away" in said
    assert not target.exists() or target.read_text() == "a\n"


# -- files that others replace while a command runs


async def meanwhile(ctx: FakeToolContext, script: str, command: str) -> str:
    """Run a command; while it waits, the user runs a script."""
    seen: list[str] = []
    ctx = replace(ctx, on_output=seen.append)
    line = f"echo waits; until [ -e goes ]; do sleep 0.02; done; {command}"
    running = asyncio.create_task(bash(ctx, line))
    await until(lambda: seen, "the command")
    by_the_user(ctx.workspace, f"{script}; touch goes")
    return await running


@pytest.mark.parametrize("times", [1, 2])
async def test_replaced_protected_file_is_reported_with_a_copy(ctx: FakeToolContext, times: int) -> None:
    """The second time, the file may have its first number on the disk again."""
    told: list[str] = []
    ctx = replace(ctx, notify_user=told.append)
    before = (ctx.workspace / "nested/.git/config").read_bytes()
    change = "; ".join(f"git -C nested config user.name {name}" for name in range(times))
    said = await meanwhile(ctx, change, "echo '# by the command' >> nested/.git/config")
    assert "by the command" in (ctx.workspace / "nested/.git/config").read_text()
    (line,) = told
    assert line in said
    assert "replaced protected files" in line
    copy = Path(line.split("nested/.git/config (before: ")[1].split(")")[0])
    assert copy.read_bytes() == before
    assert not copy.is_relative_to(ctx.workspace)


@pytest.mark.parametrize("kind", ["workspace-write", "read-only"])
async def test_replaced_hidden_file_is_reported(ctx: FakeToolContext, kind: Kind) -> None:
    by_the_user(ctx.workspace, "echo SECRET > .env; echo SECRET > pkg/.env")
    ctx.permission.rules = [("read", "*.env", "ask")]
    ctx = replace(ctx, sandbox=SandboxPolicy(kind))
    said = await meanwhile(ctx, "echo SECOND > new; mv new .env", "cat .env pkg/.env")
    assert "SECOND" in said
    assert "SECRET" not in said
    assert "could have read the new ones: .env. Renew" in said


@pytest.mark.parametrize(
    "change",
    [
        "echo more >> pkg/deep/.envrc",
        "cp pkg/deep/.envrc new; mv new pkg/deep/.envrc",
        "mv pkg moved",
        "rm pkg/deep/.envrc",
        "cp .vscode/tasks.json new; echo b >> new; mv new .vscode/tasks.json",
    ],
)
async def test_changes_that_open_nothing_are_not_reported(ctx: FakeToolContext, change: str) -> None:
    by_the_user(ctx.workspace, "mkdir .vscode; echo a > .vscode/tasks.json")
    said = await meanwhile(ctx, change, "echo x >> .vscode/tasks.json")
    assert "Another program" not in said
    assert "x" not in (ctx.workspace / ".vscode/tasks.json").read_text()


async def test_replaced_files_are_reported_after_a_killed_daemon(ctx: FakeToolContext) -> None:
    outer = ctx.workspace.parent / "outer"
    known = survey(ctx.workspace, ctx.permission.decide, writable=True)
    state = SandboxState(
        ctx.workspace, outer, known.known, ctx.permission.decide, (), limited=True,
        mounts=mounted(known.kept, known.hidden),
    )  # fmt: skip
    (mark,) = (outer / "running").iterdir()
    content = mark.read_text()
    state.leave()
    by_the_user(
        ctx.workspace, "git -C nested config user.name b; cp pkg/deep/.envrc new; mv new pkg/deep/.envrc"
    )
    mark.write_text(content)
    (line,) = left_over(ctx.workspace, outer, ())
    assert "them, too: nested/.git/config. Make sure" in line
    mark.write_text(json.dumps({**json.loads(content), "until": 1.0}))
    assert left_over(ctx.workspace, outer, ()) == []
