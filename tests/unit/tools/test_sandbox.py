from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import BashInput, BashTool
from tools.sandbox import bwrap
from tools.sandbox import prepare as sandbox
from tools.sandbox.landlock import landlock_abi
from tools.sandbox.mounts import TooMuchToLookAtError, survey
from tools.sandbox.policy import Sandbox, SandboxPolicy
from tools.sandbox.prepare import own_places
from tools.tool import ToolError, ToolResult

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace as every test finds it, but for its hard links; each gets a copy."""
    workspace = tmp_path_factory.mktemp("repository")
    script = (
        "git init -q .; git config user.email a@example.org; git config user.name a; echo SECRET > .env; "
        "ln -s .env soft; mkdir conf docs; echo SECRET > conf/.env; echo a > plain; "
        "echo SECRET > conf/key.txt; mkdir .vscode; echo a > .vscode/tasks.json"
    )
    subprocess.run(["bash", "-ec", script], cwd=workspace, check=True)
    return workspace


@pytest.fixture(params=["bwrap", "Landlock"])
def ctx(
    repository: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeToolContext]:
    monkeypatch.setattr(sandbox, "BACK_ENDS", (request.param,))
    # Not below /tmp, which is empty in the sandbox anyway.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Path(folder).resolve() / "ws"
        shutil.copytree(repository, workspace, symlinks=True)
        (workspace / "hard").hardlink_to(workspace / ".env")
        (workspace / "alias").hardlink_to(workspace / ".vscode/tasks.json")
        (workspace.parent / "state").mkdir()
        (workspace.parent / "state/token").write_text("TOKEN")
        made = fake_context(workspace)
        made.permission.rules = [
            ("read", "*.env", "ask"),
            ("read", "conf/key.txt", "deny"),
            ("edit", "docs/*", "deny"),
        ]
        hidden = (workspace.parent / "state",)
        yield replace(made, sandbox=SandboxPolicy("workspace-write", hidden=hidden))


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder outside of the workspace that is none of the sandbox's own places; a home may lie in /tmp."""
    own = [Path(place) for place in own_places(Path("/nowhere"))]
    places = [Path.home(), Path("/opt"), Path("/srv"), Path("/mnt"), Path("/var/lib")]
    place = next(one for one in places if os.access(one, os.W_OK) and not any(map(one.is_relative_to, own)))
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


async def bash(ctx: FakeToolContext, command: str, **more: object) -> ToolResult:
    return await BashTool().run(BashInput.model_validate({"command": command, **more}), ctx)


async def test_sandboxed_command_is_contained_and_writes_the_workspace(
    ctx: FakeToolContext,
) -> None:
    result = await bash(ctx, "echo b > new && git add new && git commit -qm x && git log --format=%s")
    assert result.content.startswith("Exit code: 0\nx\n")
    assert ctx.permission.asks[0].contained
    assert (ctx.workspace / "new").read_text() == "b\n"


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat hard", "cat soft", "cat conf/.env", "cat conf/key.txt", "mv conf c && cat c/key.txt",
        "cp .env x; cat x", "cat ../state/token", "cat ~/.ssh/*", "cat /proc/1/root$PWD/.env", "umount .env; cat .env",
        "unshare -rm sh -c 'umount .env; cat .env'",
    ],
)  # fmt: skip
async def test_files_denied_by_rules_cannot_be_read(ctx: FakeToolContext, command: str) -> None:
    result = await bash(ctx, command)
    assert result.metadata["exit_code"] != 0
    assert "SECRET" not in result.content
    assert "TOKEN" not in result.content


async def test_hidden_file_stays_hidden_after_a_rename_or_hard_link(
    ctx: FakeToolContext,
) -> None:
    for folder in ("deep/priv", "priv"):
        (ctx.workspace / folder).mkdir(parents=True)
        (ctx.workspace / folder / "p").write_text("SECRET")
    (ctx.workspace / "other").hardlink_to(ctx.workspace / "priv/p")
    ctx.permission.rules.extend([("read", "deep/priv/*", "deny"), ("read", "priv/*", "deny")])
    for rename in ("mv deep moved", 'python3 -c \'import os; os.rename("deep", "moved")\''):
        assert (await bash(ctx, rename)).metadata["exit_code"] != 0
    assert (ctx.workspace / "deep/priv/p").exists()
    for line in ("cat moved/priv/p", "cat deep/priv/p", "cat other", "cat priv/p"):
        assert "SECRET" not in (await bash(ctx, line)).content


@pytest.mark.parametrize("path", ["config", "hooks/pre-commit"])
async def test_hard_link_to_git_settings_is_protected(ctx: FakeToolContext, path: str) -> None:
    original = ctx.workspace / ".git" / path
    original.parent.mkdir(exist_ok=True)
    original.touch()
    before = original.read_bytes()
    (ctx.workspace / "another").hardlink_to(original)
    code = "import sys; open(sys.argv[1], 'a').write('x')"
    for name in ("another", f".git/{path}"):
        await bash(ctx, f'python3 -c "{code}" {name}')
    assert original.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("echo x >> .git/config", ".git/config"),
        ("echo x > .git/hooks/post-commit", ".git/hooks/post-commit"),
        ("mkdir .zed; echo x > .zed/tasks.json", ".zed"),
        ("echo x > .vscode/tasks.json", ".vscode/tasks.json"),
        ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", ".github/workflows"),
        ("mkdir .goalwright; echo x > .goalwright/config.json", ".goalwright"),
        ("mv .git .g && mkdir .git", ".g"),
        ("echo x > docs/new.md", "docs/new.md"),
        ("python3 -c \"open('../out', 'w')\"; touch ../out", "../out"),
        ("rm -rf .git/hooks .vscode; mkdir -p .vscode; touch .vscode/x", ".vscode/x"),
        ("echo /tmp/x > .git/commondir", ".git/commondir"),
        ("echo x > alias; sed -i s/a/b/ alias; echo x > alias", ".vscode/tasks.json"),
    ],
)
async def test_files_that_make_others_run_code_cannot_be_written(
    ctx: FakeToolContext, command: str, path: str
) -> None:
    target = ctx.workspace / path
    before = target.read_bytes() if target.is_file() else None
    await bash(ctx, command)
    assert (target.read_bytes() if target.is_file() else None) == before
    assert before is not None or not os.path.lexists(target)


_OPENED_OF_THE_MACHINE = """
import os
for folder, folders, files in os.walk("/proc"):
    folders[:] = [name for name in folders if not name.isdigit() and name not in ("self", "thread-self")]
    for name in files:
        try:
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_NONBLOCK))
            print("OPENED", f"{folder}/{name}")
        except OSError:
            pass
print("looked")
"""


@pytest.mark.parametrize("network", [False, True])
async def test_machine_wide_files_in_proc_cannot_be_written(ctx: FakeToolContext, network: bool) -> None:
    (ctx.workspace / "look.py").write_text(_OPENED_OF_THE_MACHINE)
    # Opening for writing changes nothing; what is written is what stands there.
    same = "f=/proc/sys/kernel/printk_ratelimit_burst; v=$(cat $f); echo $v > $f || echo refused\n"
    (ctx.workspace / "look.sh").write_text(f"python3 look.py; {same}echo seen > /proc/self/fd/1\n")
    ctx = replace(ctx, sandbox=replace(ctx.sandbox, network=network))
    result = await bash(ctx, "bash look.sh")
    assert ctx.permission.asks[0].contained
    assert "OPENED" not in result.content
    for word in ("looked", "refused", "seen"):
        assert word in result.content


async def test_hidden_or_vanishing_sockets_do_not_break_commands(
    ctx: FakeToolContext, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the daemon's own socket: in its state folder, which no command sees.
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as other:
        server.bind(str(outside / "daemon.sock"))
        server.listen()
        hides = replace(ctx, sandbox=replace(ctx.sandbox, hidden=(outside,)))
        assert (await bash(hides, "echo ran")).content == "Exit code: 0\nran\n"
        gone = outside.parent / f"{outside.name}.sock"
        other.bind(str(gone))
        other.listen()
        found = sandbox.sockets

        def vanishing() -> list[Path]:
            return [*found(), gone] if gone.exists() else found()

        argv = bwrap.argv

        def late(*args: Any, **more: Any) -> tuple[str, ...]:
            made = argv(*args, **more)
            gone.unlink(missing_ok=True)
            return made

        monkeypatch.setattr(sandbox, "sockets", vanishing)
        monkeypatch.setattr(bwrap, "argv", late)
        assert (await bash(ctx, "echo ran")).content == "Exit code: 0\nran\n"


async def test_unix_sockets_are_not_reachable(ctx: FakeToolContext) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(ctx.workspace / "agent.sock"))
        server.listen()
        code = "import socket,sys; socket.socket(socket.AF_UNIX).connect('agent.sock')"
        result = await bash(ctx, f'python3 -c "{code}"')
    assert result.metadata["exit_code"] != 0


_ABSTRACT = """
import socket, sys
own, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
own.bind("\\0" + sys.argv[1] + "-own")
own.listen()
client.connect(own.getsockname())
print("own reached")
try:
    socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1])
    print("OUTSIDE REACHED")
except OSError:
    print("refused")
"""


@pytest.mark.skipif(landlock_abi() < 6, reason="needs a kernel that keeps names without a file inside (6.12)")
@pytest.mark.parametrize("network", [False, True])
async def test_abstract_unix_sockets_are_unreachable_from_the_sandbox(
    ctx: FakeToolContext, network: bool
) -> None:
    (ctx.workspace / "reach.py").write_text(_ABSTRACT)
    ctx = replace(ctx, sandbox=replace(ctx.sandbox, network=network))
    with socket.socket(socket.AF_UNIX) as server:
        name = f"goalwright-test-{ctx.workspace.parent.name}"
        server.bind(f"\0{name}")
        server.listen()
        result = await bash(ctx, f"python3 reach.py {name}")
    assert result.content == "Exit code: 0\nown reached\nrefused\n"


async def test_network_needs_the_policy_or_a_rule_for_each_command(
    ctx: FakeToolContext,
) -> None:
    (ctx.workspace / "go.sh").write_text("exec 3<>/dev/tcp/127.0.0.1/$1\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"bash go.sh {server.getsockname()[1]}"
        assert (await bash(ctx, line)).metadata["exit_code"] != 0
        with_network = replace(ctx, sandbox=replace(ctx.sandbox, network=True))
        assert (await bash(with_network, line)).metadata["exit_code"] == 0
        ctx.permission.rules.append(("network", "bash go.sh *", "allow"))
        assert (await bash(ctx, line)).metadata["exit_code"] == 0
        assert (await bash(ctx, f"cd . && {line}")).metadata["exit_code"] == 0
        assert (await bash(ctx, f"{line} && bash other.sh")).metadata["exit_code"] != 0
        assert (await bash(ctx, f"touch x; {line}")).metadata["exit_code"] != 0


async def test_proxy_variables_are_passed_only_with_network(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("http_proxy", "HTTPS_PROXY", "all_proxy", "NO_PROXY", "npm_config_proxy")
    for name in names:
        monkeypatch.setenv(name, f"http://u:SECRET@{name}:1")
    without = await bash(ctx, "env")
    assert ctx.permission.asks[0].contained
    assert "SECRET" not in without.content
    with_network = replace(ctx, sandbox=replace(ctx.sandbox, network=True))
    said = (await bash(with_network, "env")).content
    assert [name for name in names if f"{name}=http://u:SECRET@{name}:1" not in said] == []


async def test_failed_sandboxed_command_is_offered_outside_with_reason(
    ctx: FakeToolContext, outside: Path
) -> None:
    (ctx.workspace / "elsewhere").symlink_to(outside)
    target = outside / "made"
    line = "touch plain && touch elsewhere/made"
    refused = await bash(ctx, line)
    (first, second) = ctx.permission.asks
    assert (first.contained, first.leaves) == (True, "")
    assert not second.contained
    assert second.leaves.startswith("it failed in the sandbox: touch: ")
    assert second.suggestions == ()
    assert refused.content.startswith("Exit code: 1")
    assert "The user was asked whether to run it outside, and rejected that." in refused.content
    assert not target.exists()
    ctx.permission.outside = True
    done = await bash(ctx, line)
    assert done.content.startswith("Exit code: 0")
    assert "was run again outside of it, as the user approved" in done.content
    assert target.exists()


async def test_failure_unrelated_to_the_sandbox_is_not_offered_again(ctx: FakeToolContext) -> None:
    (ctx.workspace / "script.sh").write_text("true")
    for line in ("false", "./script.sh", "cat nothing-there", "touch /usr/x || true"):
        ctx.permission.asks.clear()
        await bash(ctx, line)
        assert len(ctx.permission.asks) == 1, line


@pytest.mark.parametrize(
    ("programs", "code", "network", "met"),
    [
        (["curl"], 6, False, True),
        (["cd", "wget"], 4, False, True),
        (["curl"], 6, True, False),
        (["curl"], 22, False, False),
        (["grep"], 6, False, False),
    ],
)
def test_exit_code_of_a_silent_program_reveals_missing_network(
    programs: list[str], code: int, network: bool, met: bool
) -> None:
    sandbox = Sandbox(("true",), SandboxPolicy("workspace-write", network), None)
    assert bool(sandbox.met("", programs, code)) is met


@pytest.mark.parametrize("more", [{}, {"unsandboxed": True, "reason": "it needs it"}])
async def test_an_unseen_approval_leaves_denied_files_hidden(
    ctx: FakeToolContext, more: dict[str, object]
) -> None:
    ctx.permission.outside = ctx.permission.unseen = True
    result = await bash(ctx, "cat $(echo conf)/k*.txt; echo b > new; curl -sS http://127.0.0.1:1", **more)
    assert "SECRET" not in result.content
    assert (
        "was not run outside: rules deny files, and nobody looked at the approval (--yes)" in result.content
    )
    assert (ctx.workspace / "new").read_text() == "b\n"


async def test_an_unseen_approval_gives_the_network_in_the_sandbox(ctx: FakeToolContext) -> None:
    ctx.permission.outside = ctx.permission.unseen = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        result = await bash(ctx, line, unsandboxed=True, reason="it needs the network")
    assert "connected" in result.content
    assert result.metadata["exit_code"] == 0


async def test_an_unseen_approval_counts_in_full_without_denials(ctx: FakeToolContext, outside: Path) -> None:
    ctx.permission.outside = ctx.permission.unseen = True
    ctx.permission.rules.clear()
    await bash(ctx, f"bash -c 'echo x > {outside}/out'", unsandboxed=True, reason="it writes there")
    assert (outside / "out").read_text() == "x\n"


async def test_command_writing_outside_runs_without_the_sandbox(ctx: FakeToolContext, outside: Path) -> None:
    result = await bash(ctx, f"echo x > {outside}/out")
    assert not ctx.permission.asks[0].contained
    assert "sandbox" not in result.metadata
    assert (outside / "out").read_text() == "x\n"
    await bash(ctx, "echo x > /dev/null 2>/dev/stderr")
    assert ctx.permission.asks[1].contained


async def test_user_approved_command_runs_without_the_sandbox(ctx: FakeToolContext) -> None:
    ctx.permission.answered = True
    result = await bash(ctx, "touch ../made && cat .env")
    assert result.content.startswith("Exit code: 0\nSECRET")
    assert "sandbox" not in result.metadata


async def test_read_only_policy_sandboxes_approved_commands_too(ctx: FakeToolContext) -> None:
    ctx = replace(ctx, sandbox=SandboxPolicy("read-only", always=True))
    ctx.permission.answered = True
    result = await bash(ctx, "touch new")
    assert "This mode or agent changes nothing, so its commands only run there:" in result.content
    assert not (ctx.workspace / "new").exists()
    with pytest.raises(ToolError, match="only in a read-only sandbox"):
        await bash(ctx, "touch new", unsandboxed=True, reason="it must")
    assert len(ctx.permission.asks) == 1


async def test_unsandboxed_command_needs_a_reason_and_asks(ctx: FakeToolContext) -> None:
    with pytest.raises(ToolError, match="needs a reason"):
        await bash(ctx, "cat plain", unsandboxed=True)
    ctx.permission.outside = True
    await bash(ctx, "cat plain", unsandboxed=True, reason="the cache is elsewhere")
    (ask,) = ctx.permission.asks
    assert not ask.contained
    assert "the cache is elsewhere" in ask.leaves
    assert ask.detail == "cat plain"


async def test_read_only_changes_nothing(ctx: FakeToolContext) -> None:
    ctx = replace(ctx, sandbox=SandboxPolicy("read-only"))
    result = await bash(ctx, "echo x > plain; cat plain")
    assert (ctx.workspace / "plain").read_text() == "a\n"
    assert "Read-only file system" in result.content or "Permission denied" in result.content
    result = await bash(ctx, "echo x >> plain")
    assert "(disk read-only, no network; " in result.content
    assert "secrets hidden), which may be the reason: " in result.content
    assert result.metadata["sandbox"] == "disk read-only, no network"


async def test_result_names_what_the_rules_left_of_the_policy(ctx: FakeToolContext) -> None:
    more = ctx.workspace.parent / "cache"
    more.mkdir()
    ctx.permission.rules.append(("edit", "*", "deny"))
    result = await bash(ctx, "echo x >> plain; touch new")
    assert "(disk read-only, no network;" in result.content
    ctx = replace(ctx, sandbox=replace(ctx.sandbox, writable=(more,)))
    result = await bash(ctx, "echo x >> plain")
    assert f"({more.as_posix()} writable, rest read-only, no network;" in result.content


async def test_more_folders_may_be_writable(ctx: FakeToolContext) -> None:
    more = ctx.workspace.parent / "cache"
    more.mkdir()
    ctx = replace(ctx, sandbox=replace(ctx.sandbox, writable=(more,)))
    await bash(ctx, "echo x > ../cache/made")
    assert (more / "made").read_text() == "x\n"


async def test_sandbox_leaves_no_files_behind(ctx: FakeToolContext) -> None:
    before = sorted(ctx.workspace.iterdir())
    await bash(ctx, "true")
    assert sorted(ctx.workspace.iterdir()) == before


async def test_missing_bwrap_contains_nothing_and_notifies_the_user(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(sandbox, "BACK_ENDS", ("bwrap",))
    monkeypatch.setattr(bwrap, "find_program", lambda name, *folders: None)
    await bash(replace(ctx, notify_user=told.append), "true")
    assert not ctx.permission.asks[0].contained
    assert "bwrap is not installed" in told[0]


async def test_without_a_full_survey_commands_are_not_contained(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TooMuchToLookAtError):
        survey(ctx.workspace, ctx.permission.decide, writable=True, max_entries=3)
    told: list[str] = []
    ctx.permission.rules.append(("read", "*", "ask"))
    await bash(replace(ctx, notify_user=told.append), "true")
    assert [ask.contained for ask in ctx.permission.asks] == [True, False]
    assert told
