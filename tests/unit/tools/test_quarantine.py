from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import BashInput, BashTool
from tools.files.protected_names import is_protected_name
from tools.sandbox import mounts
from tools.sandbox import prepare as preparing
from tools.sandbox.git_files import STOPPED as STATES
from tools.sandbox.git_files import would_run
from tools.sandbox.mounts import KnownEntries, survey
from tools.sandbox.policy import SandboxPolicy
from tools.sandbox.prepare import prepare
from tools.sandbox.quarantine import take_away
from tools.sandbox.state import SandboxState, left_over
from tools.tool import ToolResult

GIT = "git -c user.email=a@example.org -c user.name=a"


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace as every test finds it; each gets a copy."""
    workspace = tmp_path_factory.mktemp("repositories")
    make(
        workspace,
        "git init -q --template= .; mkdir -p sub plain; git -C sub init -q --template=; echo a > a",
    )
    make(workspace, f"for r in . sub; do {GIT} -C $r commit -q --allow-empty -m m; done")
    return workspace


@pytest.fixture
def ctx(repositories: Path) -> Iterator[FakeToolContext]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Path(folder).resolve() / "ws"
        shutil.copytree(repositories, workspace)
        yield replace(fake_context(workspace), sandbox=SandboxPolicy("workspace-write"))


def make(workspace: Path, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=workspace, check=True, capture_output=True)


def by_the_person(folder: Path, *command: str) -> str:
    argv = command if len(command) > 1 else ("bash", "-c", *command)
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stdout


async def bash(ctx: FakeToolContext, command: str, **more: object) -> ToolResult:
    return await BashTool().run(BashInput.model_validate({"command": command, **more}), ctx)


EVIL = "printf '#!/bin/sh\\ntouch %s\\n' \"$PWD/../pwned\" > {0}; chmod +x {0}"
ATTACKS = [
    "mkdir -p .git/hooks; " + EVIL.format(".git/hooks/post-index-change"),
    "mkdir -p sub/.git/hooks; " + EVIL.format("sub/.git/hooks/post-index-change"),
    f"mkdir x; cd x; git init -q; {GIT} commit -q --allow-empty -m m; "
    "git config core.fsmonitor 'touch ../../pwned; false'; cd ..; git add x",
    "cp -r sub/.git evil; git config -f evil/config core.fsmonitor 'touch ../../pwned; false'; "
    "echo ../../evil > sub/.git/commondir",
    "cp .git/config c; git config -f c core.fsmonitor 'touch ../pwned; false'; rm .git/config; cp c .git/config",
    "mv sub old; cp -r old sub; git -C sub config core.fsmonitor 'touch ../../pwned; false'",
    f"mkdir x; cd x; git init -q; {GIT} commit -q --allow-empty -m m; "
    "git config core.fsmonitor 'touch ../../pwned; false'; cd ..; git add x; chmod 311 x; chmod 555 x/.git",
    "git clone -q --bare sub evil.git; cd evil.git; git config core.bare false; git config core.worktree .; "
    "git config core.fsmonitor 'touch ../../pwned; false'",
]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_git_of_the_user_runs_nothing_made_in_the_sandbox(ctx: FakeToolContext, attack: str) -> None:
    await bash(ctx, attack)
    for folder in [ctx.workspace, *(path for path in ctx.workspace.iterdir() if path.is_dir())]:
        for command in ("git status", f"{GIT} commit -q --allow-empty -m m", "git add -A"):
            by_the_person(folder, command)
    assert not (ctx.workspace.parent / "pwned").exists()


NEW = [
    ".bashrc", ".envrc", "sub/.vscode/tasks.json", ".vscode/settings.json", "x.code-workspace",
    "plain/.husky/pre-commit", ".devcontainer/devcontainer.json",
    ".goalwright/config.json", ".gitmodules", "deep/b/c/.envrc",
]  # fmt: skip


@pytest.mark.parametrize("name", NEW)
async def test_new_files_that_run_code_are_removed_and_reported(ctx: FakeToolContext, name: str) -> None:
    told: list[str] = []
    ctx = replace(ctx, notify_user=told.append)
    result = await bash(ctx, f"python3 -c 'import os; p = \"{name}\"; os.makedirs(os.path.dirname(p) or \".\", "
                             "exist_ok=True); open(p, \"w\").write(\"x\")'; echo b > plain/b")  # fmt: skip
    assert result.metadata["exit_code"] == 0
    assert not (ctx.workspace / name).exists()
    assert (ctx.workspace / "plain/b").exists()
    assert "Moved away" in result.content
    assert "unsandboxed: true" in result.content
    assert told
    assert told[0] in result.content
    kept = Path(told[0].split("(now ")[1].split(")")[0])
    assert kept.exists()
    assert not kept.is_relative_to(ctx.workspace)


async def test_removed_file_is_named_once(ctx: FakeToolContext) -> None:
    result = await bash(ctx, "git init -q x; mkdir -p y/.vscode/.vscode")
    assert result.content.count(" (now ") == 2
    assert "NOT" not in result.content


async def test_existing_files_survive_renaming_their_folder(ctx: FakeToolContext) -> None:
    make(
        ctx.workspace,
        "mkdir sub/.vscode; echo x > sub/.vscode/tasks.json; echo y > sub/.envrc; ln -s a .bashrc",
    )
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    make(ctx.workspace, f"mv sub old; echo more > plain/c; {GIT} commit -q --allow-empty -m n")
    assert take_away(ctx.workspace, known, ctx.workspace.parent / "taken") == []
    assert (ctx.workspace / "old/.git/config").exists()


async def test_file_saved_by_the_user_meanwhile_is_kept(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "echo x > .envrc")
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    make(ctx.workspace, "git config user.name b; echo y > new; mv new .envrc")
    assert take_away(ctx.workspace, known, ctx.workspace.parent / "taken") == []
    assert (ctx.workspace / ".envrc").read_text() == "y\n"


async def test_link_that_replaces_a_link_is_removed(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "ln -s a .bashrc; echo evil > b")
    await bash(ctx, "rm .bashrc; ln -s b .bashrc")
    assert not os.path.lexists(ctx.workspace / ".bashrc")


async def test_target_of_a_protected_link_cannot_be_changed(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "ln -s a .envrc")
    await bash(ctx, "echo evil >> a")
    assert (ctx.workspace / "a").read_text() == "a\n"


async def test_new_files_that_rules_forbid_to_edit_are_removed(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "echo x > old.lock")
    ctx.permission.rules = [("edit", "*.lock", "deny")]
    result = await bash(ctx, "echo 'echo y > new.lock; echo z > old.lock; echo b > b' > s.sh; sh s.sh")
    assert not (ctx.workspace / "new.lock").exists()
    assert "new.lock" in result.content
    assert (ctx.workspace / "old.lock").read_text() == "x\n"
    assert (ctx.workspace / "b").exists()


def taken_with_rules(ctx: FakeToolContext, meanwhile: str) -> list[str]:
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    make(ctx.workspace, meanwhile)
    taken = take_away(
        ctx.workspace,
        known,
        ctx.workspace.parent / "taken",
        denied=lambda name: ctx.permission.decide("edit", name) == "deny",
    )
    return sorted(one.name for one in taken)


async def test_what_the_daemon_stores_meanwhile_stays(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "mkdir -p .trace/s/messages; echo 1 > .trace/s/messages/1.json")
    ctx.permission.rules = [("edit", "*.json", "deny")]
    meanwhile = "mkdir .trace/t; touch .trace/s/messages/2.json .trace/t/3.json .trace/t/.envrc 4.json"
    assert taken_with_rules(ctx, meanwhile) == ["4.json"]


async def test_denied_files_that_the_user_makes_anew_stay(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "mkdir docs; touch docs/a.md docs/b.md")
    ctx.permission.rules = [("edit", "docs/*", "deny")]
    assert taken_with_rules(ctx, "cp -r docs new; rm -r docs; mv new docs") == []


async def test_kept_folders_are_searched_for_new_files(ctx: FakeToolContext) -> None:
    """Another command may have lifted the mount, and the folder may be another one with the same inode."""
    make(ctx.workspace, "mkdir out")
    ctx.permission.rules = [("edit", "out/*", "deny")]
    assert taken_with_rules(ctx, "mkdir out/.vscode; touch out/.envrc") == ["out/.envrc", "out/.vscode"]


async def test_sandbox_leaves_no_files_in_the_workspace_while_running(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "rm -rf .git")
    before = {path.name for path in ctx.workspace.iterdir()}
    sandbox = prepare(ctx.sandbox, ctx.workspace, ctx.scratch, ctx.permission.decide)
    listed = by_the_person(ctx.workspace, *sandbox.prefix, "ls", "-A")
    assert set(listed.split()) == before == {path.name for path in ctx.workspace.iterdir()}
    sandbox.leave()


@pytest.mark.parametrize("there", ["", "mkdir .git", "mkdir -p .git/refs .git/objects"])
async def test_empty_or_incomplete_repository_counts_as_none(ctx: FakeToolContext, there: str) -> None:
    make(ctx.workspace, f"rm -rf .git sub/.git; {there}")
    await bash(ctx, "git init -q; git config core.fsmonitor 'touch ../pwned; false'; "
                    f"{EVIL.format('.git/hooks/post-index-change')}; git add a")  # fmt: skip
    for command in ("git status", "git add -A"):
        by_the_person(ctx.workspace, command)
    assert not (ctx.workspace.parent / "pwned").exists()


def mark(outer: Path, known: KnownEntries, until: float | None) -> None:
    (outer / "running").mkdir(parents=True)
    content: dict[str, object] = {
        "things": known.things,
        "bare": [],
        "closed": [],
        "named": [],
        "stopped": {},
    }
    content["until"] = until
    (outer / "running/dead.json").write_text(json.dumps(content))


async def test_leftovers_of_a_killed_daemon_are_removed_before_use(ctx: FakeToolContext) -> None:
    outer = ctx.journal.with_name(f"{ctx.journal.name}-sandbox")
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    mark(outer, known, None)
    make(ctx.workspace, "mkdir x; git -C x init -q; echo x > .envrc")
    result = await bash(ctx, "echo b > b")
    assert "x/.git (now " in result.content
    assert ".envrc (now " in result.content
    assert not (ctx.workspace / "x/.git").exists()
    assert (ctx.workspace / "sub/.git/HEAD").exists()
    assert list((outer / "running").iterdir()) == []


async def test_files_made_long_after_a_killed_daemon_are_kept(ctx: FakeToolContext) -> None:
    outer = ctx.workspace.parent / "outer"
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    mark(outer, known, 1.0)
    make(ctx.workspace, "mkdir x; git -C x init -q")
    assert left_over(ctx.workspace, outer, ()) == []
    assert (ctx.workspace / "x/.git").exists()


async def test_marks_of_running_commands_are_not_removed(ctx: FakeToolContext) -> None:
    outer = ctx.workspace.parent / "outer"
    known = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    guard = SandboxState(ctx.workspace, outer, known, ctx.permission.decide, (), limited=True)
    make(ctx.workspace, "echo x > .envrc")
    assert left_over(ctx.workspace, outer, ()) == []
    second = survey(ctx.workspace, ctx.permission.decide, writable=True).known
    other = SandboxState(ctx.workspace, outer, second, ctx.permission.decide, (), limited=True)
    (taken,) = other.leave()
    assert ": .envrc (now " in taken
    assert guard.leave() == []


# -- /tmp, and what lies outside


async def test_tmp_is_kept_from_command_to_command_of_a_session(ctx: FakeToolContext) -> None:
    name = f"goalwright-{os.getpid()}-{threading.get_ident()}"
    first = await bash(ctx, f"echo hello > /tmp/{name}")
    assert "It ran in a sandbox with its own /tmp for this session:" in first.content
    assert all(access.permission == "bash" for access in ctx.permission.asks[0].all_accesses)
    assert (await bash(ctx, f"cat /tmp/{name}")).content == "Exit code: 0\nhello\n"
    assert not Path("/tmp", name).exists()
    other = replace(ctx, scratch=ctx.scratch.with_name("other"))
    assert (await bash(other, f"cat /tmp/{name}")).metadata["exit_code"] != 0


async def test_a_missing_file_of_the_real_tmp_is_explained(ctx: FakeToolContext) -> None:
    assert "It ran in a sandbox" in (await bash(ctx, "cat /tmp/nothing-there")).content
    assert "It ran in a sandbox" not in (await bash(ctx, "cat nothing-there")).content


def test_survey_of_two_thousand_files_finds_nothing_hidden(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "mkdir d{1..50}; for d in d*; do touch $d/{1..40}; done")
    asked: list[str] = []

    def decide(permission: str, name: str) -> str:
        asked.append(name)
        return "allow"

    assert not survey(ctx.workspace, decide, writable=True).hidden
    asyncio.run(bash(ctx, "true"))


def test_sessions_with_other_rules_keep_their_survey(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(ctx.workspace, "echo a > plain/a")
    asked: list[str] = []

    def decide(permission: str, name: str) -> str:
        asked.append(name)
        return "allow"

    monkeypatch.setattr(mounts, "_RACY_NS", 0)
    for key in ("one", "two"):
        survey(ctx.workspace, decide, writable=True, key=key)
    assert "plain/a" in asked
    asked.clear()
    for key in ("one", "two"):
        survey(ctx.workspace, decide, writable=True, key=key)
    assert "plain/a" not in asked


@pytest.mark.parametrize("mode", ["111", "444", "000", "555"])
async def test_closed_folders_are_searched_and_closed_again(ctx: FakeToolContext, mode: str) -> None:
    result = await bash(ctx, f"mkdir -p x/y/.vscode; touch x/y/.envrc; chmod {mode} x/y; chmod {mode} x")
    assert "x/y/.vscode (now " in result.content
    assert "x/y/.envrc (now " in result.content
    assert f"{(ctx.workspace / 'x').stat().st_mode & 0o777:03o}" == mode
    make(ctx.workspace, "chmod 755 x; chmod 755 x/y")
    assert list((ctx.workspace / "x/y").iterdir()) == []


@pytest.mark.parametrize("name", [".bashrc", ".zlogout", ".XSESSION", ".gitmodules", "a.code-workspace"])
def test_names_the_rules_protect_are_protected_in_the_sandbox(name: str) -> None:
    assert is_protected_name(name)


# -- what git's settings name


async def by_back_end(ctx: FakeToolContext, name: str, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    monkeypatch.setattr(preparing, "BACK_ENDS", (name,))
    (ctx.workspace / "s.sh").write_text(script)
    return (await bash(ctx, "bash s.sh")).content


HOOK = "printf '#!/bin/sh\\ntouch %s/../pwned\\n' \"$PWD\" > {0}; chmod +x {0}"
SETTING = "printf '[core]\\n\\tfsmonitor = touch %s/../pwned; false\\n' \"$PWD\" >> {0}"
NAMED = {
    "a folder of hooks": ("mkdir hooks; git config core.hooksPath hooks", HOOK.format("hooks/pre-commit")),
    "an existing hook": (
        "mkdir hooks; printf '#!/bin/sh\\n' > hooks/pre-commit; chmod +x hooks/*; git config core.hooksPath hooks",
        "echo 'touch ../pwned' >> hooks/pre-commit",
    ),
    "a folder that is missing": (
        "git config core.hooksPath deep/hooks",
        f"mkdir -p deep/hooks; {HOOK.format('deep/hooks/pre-commit')}",
    ),
    "a renamed folder": (
        "mkdir -p deep/hooks; git config core.hooksPath deep/hooks",
        f"mv deep old; mkdir -p deep/hooks; {HOOK.format('deep/hooks/pre-commit')}",
    ),
    "a folder by a link": (
        "mkdir -p real/hooks; ln -s real link; git config core.hooksPath link/hooks",
        f"rm link; mkdir -p link/hooks; {HOOK.format('link/hooks/pre-commit')}",
    ),
    "an included file": ("touch more; git config include.path ../more", SETTING.format("more")),
    "an included file that is missing": (
        "git config include.path ../conf/more",
        f"mkdir conf; {SETTING.format('conf/more')}",
    ),
    "an included file under a condition": (
        "touch more; git config includeIf.gitdir:**.path ../more",
        SETTING.format("more"),
    ),
    "an included file of an included file": (
        "mkdir conf; touch conf/more; git config -f conf/first include.path more; "
        "git config include.path ../conf/first",
        SETTING.format("conf/more"),
    ),
    "settings of one working tree": (
        "touch more; git config extensions.worktreeConfig true; git config --worktree include.path ../more",
        SETTING.format("more"),
    ),
    "another repository": (
        "mkdir hooks; git -C sub config core.hooksPath ../hooks",
        HOOK.format("hooks/pre-commit"),
    ),
    "a program": (
        "mkdir bin; echo 'exit 1' > bin/watch; chmod +x bin/watch; git config core.fsmonitor bin/watch",
        HOOK.format("bin/watch"),
    ),
    "a program with options": (
        "mkdir bin; echo cat > bin/clean; git config filter.x.clean 'sh bin/clean %f'; "
        "echo '* filter=x' > .gitattributes",
        "echo 'touch ../pwned' > bin/clean",
    ),
}


@pytest.mark.parametrize("back_end", ["bwrap", "Landlock"])
@pytest.mark.parametrize("case", NAMED)
async def test_files_named_by_git_settings_are_protected(
    ctx: FakeToolContext, case: str, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_user, attack = NAMED[case]
    make(ctx.workspace, by_the_user)
    await by_back_end(ctx, back_end, monkeypatch, attack)
    for folder in (ctx.workspace, ctx.workspace / "sub"):
        for command in ("git status", f"{GIT} commit -q --allow-empty -m m", "touch x; git add x"):
            by_the_person(folder, command)
    assert not (ctx.workspace.parent / "pwned").exists()


async def test_new_settings_of_git_count_from_the_next_command_on(ctx: FakeToolContext) -> None:
    make(ctx.workspace, "mkdir one two")
    for name in ("one", "two"):
        await bash(ctx, f"echo x > {name}/before")
        make(ctx.workspace, f"git config core.hooksPath {name}")
        await bash(ctx, f"echo x > {name}/after")
    assert {path.name for path in ctx.workspace.glob("[ot][nw][eo]/*")} == {"before"}
    await bash(ctx, "echo x > one/after")
    assert (ctx.workspace / "one/after").exists()


# -- operations of git that have stopped

STOPPED = (
    "h=$(git rev-parse HEAD); mkdir -p .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/master > head-name; "
    "echo $h > onto; echo $h > orig-head; touch interactive done; echo 1 > msgnum; echo 1 > end; "
)
CONFLICT = (
    f"git add a; {GIT} commit -qm a; git checkout -qb other; echo b > a; {GIT} commit -qam b; "
    f"git checkout -q -; echo c > a; {GIT} commit -qam c"
)
FORGED = {
    "a step": f"{STOPPED} echo 'exec touch ../pwned' > git-rebase-todo",
    "a short step": f"{STOPPED} printf 'noop\n\tx touch ../pwned\n' > git-rebase-todo",
    "a step by a link": f"{STOPPED} echo 'exec touch ../pwned' > ../../todo; ln -s ../../todo git-rebase-todo",
    "a step in a folder by a link": f"{STOPPED} echo 'exec touch ../pwned' > git-rebase-todo; cd ../..; "
    "mv .git/rebase-merge state; ln -s ../state .git/rebase-merge",
    "a step of a rebase that the command began": f"{GIT} rebase -q other; "
    "echo 'exec touch ../pwned' >> .git/rebase-merge/git-rebase-todo",
    "another working tree": "mkdir -p .git/worktrees/x; cd .git/worktrees/x; echo ../.. > commondir",
}
"""Entries that a command in the sandbox creates, while the user has started nothing."""


@pytest.mark.parametrize("back_end", ["bwrap", "Landlock"])
@pytest.mark.parametrize("case", FORGED)
async def test_state_of_a_stopped_git_operation_is_removed(
    ctx: FakeToolContext, case: str, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(ctx.workspace, CONFLICT)
    said = await by_back_end(ctx, back_end, monkeypatch, FORGED[case])
    assert ".git/rebase-merge (now " in said or ".git/worktrees (now " in said
    by_the_person(ctx.workspace, f"git add -A; {GIT} -c core.editor=true rebase --continue")
    assert not (ctx.workspace.parent / "pwned").exists()
    assert not (ctx.workspace / ".git/worktrees").exists()


@pytest.mark.parametrize(
    "operation",
    [
        "rebase -q other", "rebase -q --apply other", "rebase -q -s ort other", "cherry-pick other",
        "merge other", "revert --no-edit HEAD~1",
    ],
)  # fmt: skip
async def test_git_operation_stopped_at_a_conflict_can_be_continued(
    ctx: FakeToolContext, operation: str
) -> None:
    make(ctx.workspace, CONFLICT)
    said = (await bash(ctx, f"{GIT} {operation}")).content
    assert "Moved away" not in said
    name = operation.split()[0]
    go_on = f"echo d > a; git add a; {GIT} -c core.editor=true {name} --continue; git status"
    result = await bash(ctx, go_on)
    assert "Moved away" not in result.content
    assert "nothing added to commit" in result.content
    assert not [path for path in STATES if (ctx.workspace / ".git" / path).exists()]


async def test_user_rebase_steps_are_kept_and_new_ones_removed(ctx: FakeToolContext) -> None:
    make(ctx.workspace, CONFLICT)
    by_the_person(ctx.workspace, f"{GIT} rebase -q -x 'echo ran' other")
    todo = ctx.workspace / ".git/rebase-merge/git-rebase-todo"
    assert "exec echo ran" in todo.read_text()
    assert "Moved away" not in (await bash(ctx, "echo d > a; git add a; git status")).content
    (ctx.workspace / "s.sh").write_text(f"echo 'exec touch ../pwned' >> {todo}")
    assert ".git/rebase-merge (now " in (await bash(ctx, "sh s.sh")).content


@pytest.mark.parametrize(
    ("name", "content", "runs"),
    [
        (
            "git-rebase-todo",
            "pick 1 x\n# exec no\n\n  f -C 1 y\r\nmerge -C 1 b # exec\nu refs/heads/x\nb\n",
            False,
        ),
        ("git-rebase-todo", "pick 1 x\n exec true\n", True),
        ("git-rebase-todo", "pick 1\nx\ttrue", True),
        ("todo", "revert 1 exec\n", False),
        ("todo", "later-git-runs 1\n", True),
        ("strategy", "ort\n", False),
        ("strategy", "../evil", True),
        (
            "author-script",
            "GIT_AUTHOR_NAME='O'\\''Neil $(x)'\nGIT_AUTHOR_DATE='@1 +0000'\n",
            False,
        ),
        ("author-script", "GIT_AUTHOR_NAME='a'; touch x; B='b'\n", True),
        ("opts", "[options]\n\tedit = false\n\tstrategy = ort\n\tstrategy-option = ours\n", False),
        ("opts", "[options]\n\tstrategy = ../evil\n", True),
        ("opts", "[options] Strategy = ../evil\n", True),
        ("opts", "[options]\n\tstrategy = \\\n../evil\n", True),
    ],
)
def test_would_run_detects_pending_git_commands(tmp_path: Path, name: str, content: str, runs: bool) -> None:
    (tmp_path / name).write_text(content)
    assert bool(would_run(tmp_path)) is runs


def test_steps_that_cannot_be_read_count_as_programs(tmp_path: Path) -> None:
    for kind in (os.mkdir, os.mkfifo):
        kind(tmp_path / "todo")
        assert would_run(tmp_path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
    assert not would_run(tmp_path / "missing")
