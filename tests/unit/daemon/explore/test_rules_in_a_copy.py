"""Rules for the workspace also hold in a branch's copy; a branch may not change the workspace itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.explore.branch_environment import branch_rules, git_folders
from daemon.model.permissions import Action, Mode, Rule
from daemon.permission.answers import denial
from daemon.permission.rules import SHIPPED, RuleSet
from tests.support.scenarios.branch_place import BranchPlace, branch_place, copy_of
from tools.access import Suggestion
from tools.shell.path_lookup import real_place
from tools.shell.question import question
from tools.tool import PermissionAsk

MODES: tuple[Mode, ...] = ("ask", "accept-edits", "auto")


@pytest.fixture
def place(tmp_path: Path) -> BranchPlace:
    return branch_place(tmp_path)


def rule(permission: str, pattern: str, action: Action) -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source="user")


def decided(rules: RuleSet, permission: str, target: str | Path) -> Action:
    return rules.judge(PermissionAsk(permission, (str(target),), "")).action


@pytest.mark.parametrize(
    "pattern",
    ["secret/**", "secret/*", "*/key.txt", "{ws}/secret/**", "~/proj/secret/*", "../proj/secret/**"],
)
@pytest.mark.parametrize("named", ["secret/key.txt", "{copy}/secret/key.txt", "{ws}/secret/key.txt"])
def test_deny_rule_for_a_file_holds_for_workspace_and_copy_paths(
    place: BranchPlace, monkeypatch: pytest.MonkeyPatch, pattern: str, named: str
) -> None:
    monkeypatch.setenv("HOME", str(place.folder))
    names = {"ws": place.workspace, "copy": place.copy.root}
    target = named.format(**names)
    rules = place.rules(rule("read", pattern.format(**names), "deny"))
    assert decided(rules, "read", target) == "deny"
    assert rules.decide("read", target).action == "deny"
    assert rules.judge(place.command(f"cat {target}")).action == "deny"
    assert decided(rules, "read", "src/a.py") == "allow"


@pytest.mark.parametrize("pattern", ["src/*", "{ws}/src/*", "~/proj/src/*"])
def test_workspace_allow_rule_applies_in_the_copy_only(
    place: BranchPlace, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setenv("HOME", str(place.folder))
    rules = place.rules(rule("edit", pattern.format(ws=place.workspace), "allow"))
    assert decided(rules, "edit", "src/a.py") == "allow"
    assert rules.decide("edit", "src/a.py").source == "user"
    assert decided(rules, "edit", place.workspace / "src/a.py") == "deny"


@pytest.mark.parametrize("mode", MODES)
def test_edits_in_the_copy_are_allowed_except_ruled_or_protected(place: BranchPlace, mode: Mode) -> None:
    rules = place.rules(rule("edit", "*.lock", "ask"), rule("edit", "gen/*", "deny"), mode=mode)
    assert decided(rules, "edit", "src/a.py") == "allow"
    assert decided(rules, "edit", place.copy.root / "new.py") == "allow"
    assert decided(rules, "edit", "uv.lock") == "ask"
    assert decided(rules, "edit", "gen/out.py") == "deny"
    assert decided(rules, "edit", ".env") == "ask"
    assert decided(rules, "edit", place.folder / "elsewhere.py") == "ask"
    assert decided(place.rules(mode="plan"), "edit", "src/a.py") == "deny"


@pytest.mark.parametrize("mode", MODES)
def test_branch_may_read_workspace_with_approval_but_not_edit_it(place: BranchPlace, mode: Mode) -> None:
    rules = place.rules(rule("bash", "*", "allow"), rule("edit", "*", "allow"), mode=mode)
    there = place.workspace / "src/a.py"
    verdict = rules.judge(PermissionAsk("read", (str(there),), ""))
    assert (verdict.action, verdict.rule.permission) == ("ask", "external_directory")
    ask = PermissionAsk("edit", (str(there),), "")
    verdict = rules.judge(ask)
    assert verdict.action == "deny"
    said = denial(ask, verdict)
    assert f"works in its own copy at {place.copy.root}" in said
    assert "relative to the copy" in said


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "line",
    [
        "echo x > {ws}/src/a.py",
        "cp src/a.py {ws}/src/a.py",
        "sed -i s/1/2/ {ws}/src/a.py",
        "cd {ws} && echo x > src/a.py",
        "mv {ws}/src/a.py here.py",
        "tee -a {ws}/new.txt",
        "rm -rf {ws}",
        "rm {ws}/.git/index",
        "git -C {ws} apply x > {ws}/out",
        "git -C {ws} commit -qam x",
        "git -C {ws}/src commit -qam x",
        "git -C {ws} stash",
        "git -C {ws} checkout -q -b x",
        "git -C {ws} reset --hard HEAD~1",
        "git -C {ws} gc",
        "git -C {ws} unheard-of",
        "git -C .venv commit -qam x",
        "git --git-dir={ws}/.git update-ref refs/heads/x HEAD",
        "git --git-dir {ws}/.git --work-tree={ws} add -A",
        "git --work-tree={ws} reset -q",
        "git -C {ws} --git-dir=.git tag x",
        "GIT_DIR={ws}/.git git update-ref refs/heads/x HEAD",
        "export GIT_DIR={ws}/.git; git tag x",
        "GIT_WORK_TREE={ws} git checkout .",
        "GIT_INDEX_FILE={ws}/.git/index git add src",
        "cd {ws} && git commit -qam x",
        "(cd {ws}/src; git tag x)",
        "git push {ws} HEAD:refs/heads/x",
        "git push file://{ws}/.git HEAD:refs/heads/x",
        "ln .venv/bin/tool hard",
        "ln -f {ws}/src/a.py hard",
        "cp -al {ws}/src mine",
        "cp --link .venv/bin/tool mine",
        "echo x > .venv/pyvenv.cfg",
        "rm -r .venv/bin",
        "cp src/a.py .venv/",
        ".venv/bin/pip install x",
        "./.venv/bin/python -m pip install -q x",
        "{copy}/.venv/bin/pip uninstall -y x",
        "{ws}/.venv/bin/python3 -m pip install x",
        "cat {other}/src/a.py",
        "ls {other}",
        "echo x > {other}/src/a.py",
        "cp src/a.py {private}/x",
    ],
)
def test_commands_that_write_outside_the_copy_are_denied(place: BranchPlace, mode: Mode, line: str) -> None:
    other = copy_of(place.workspace, place.copies / "k/B")
    rules = place.rules(rule("bash", "*", "allow"), rule("edit", "*", "allow"), mode=mode)
    line = line.format(ws=place.workspace, copy=place.copy.root, other=other.root, private=place.copy.private)
    assert rules.judge(place.command(line)).action == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "git commit -qam x",
        "git -C src commit -qam x",
        "git -C {copy} stash",
        "cd src && git commit -qam x",
        "cd {copy}/src && git checkout -q -b x",
        "git fetch -q origin",
        "ln src/a.py b.py",
        "ln -s .venv/bin/tool t",
        "cp -r .venv mine",
    ],
)
def test_git_and_links_inside_the_copy_are_allowed(place: BranchPlace, line: str) -> None:
    rules = place.rules(mode="auto")
    ask = place.command(line.format(copy=place.copy.root))
    assert rules.judge(replace(ask, contained=True)).action == "allow"


def test_read_only_git_in_the_workspace_requires_approval(
    place: BranchPlace,
) -> None:
    rules = place.rules(mode="auto")
    for line in ("git -C {ws} log --oneline", "git -C {ws} status", "cd {ws} && git diff"):
        assert rules.judge(place.command(line.format(ws=place.workspace))).action == "ask"


@pytest.mark.parametrize("line", ["make", "npm test", "pytest -q", "python3 w.py", "./run", "uv run x"])
def test_opaque_commands_in_auto_mode_ask_unless_contained(place: BranchPlace, line: str) -> None:
    rules, ask = place.rules(mode="auto"), place.command(line)
    for fenced in (False, True, None):
        assert rules.judge(replace(ask, fenced=fenced)).action == "ask"
        assert rules.judge(replace(ask, fenced=fenced, contained=True)).action == "allow"
    # Who has said yes to this command is not asked again.
    granted = Rule(permission="bash", pattern=line, action="allow", source="session")
    rules = place.rules(mode="auto", session=[granted])
    assert rules.judge(replace(ask, fenced=False)).action == "allow"


def test_command_behind_a_wrapper_is_judged(place: BranchPlace) -> None:
    rules = place.rules(mode="auto")
    assert rules.judge(replace(place.command("timeout 9 make x"), fenced=False)).action == "ask"
    assert rules.judge(replace(place.command("timeout 9 make x"), contained=True)).action == "allow"


def test_push_to_a_server_names_no_folder(place: BranchPlace) -> None:
    for line in (
        "git push origin HEAD",
        "git push git@example.org:a/b.git",
        "git push https://example.org/a/b",
    ):
        assert place.rules().judge(place.command(line)).action == "ask"


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("cat src/a.py", "allow"),
        ("cd src && ls", "allow"),
        ("cp src/a.py b.py", "ask"),
        ("git commit -qam x", "ask"),
        ("sed -i s/1/2/ src/a.py", "ask"),
        ("mkdir x", "ask"),
    ],
)
def test_unfenced_auto_mode_allows_only_read_only_commands(
    place: BranchPlace, line: str, action: Action
) -> None:
    assert place.rules(mode="auto").judge(replace(place.command(line), fenced=False)).action == action


def test_runtime_file_names_are_allowed_only_if_contained(
    place: BranchPlace,
) -> None:
    ask = place.command('d=$(date +%s); cp src/a.py "$d/x.py"')
    rules = place.rules(mode="auto")
    assert rules.judge(replace(ask, fenced=True, contained=True)).action == "allow"
    assert rules.judge(replace(ask, fenced=True)).action == "ask"
    # What the user forbids is read-only in the sandbox.
    rules = place.rules(rule("edit", "secret/*", "deny"), mode="auto")
    assert rules.judge(replace(ask, fenced=True, contained=True)).action == "allow"
    assert rules.judge(replace(ask, fenced=True)).action == "ask"


def test_git_in_another_repository_is_a_change_there(place: BranchPlace) -> None:
    other = place.copy.root
    rules = RuleSet(SHIPPED, mode="auto", trust="trusted", root=place.workspace.as_posix())
    for line in ("git -C {other} commit -qam x", "cd {other} && git tag x", "git push {other} HEAD"):
        ask = question(line.format(other=other), real_place(place.workspace))
        reasons = rules.judge(ask).reasons
        assert ("edit", "ask") in {(one.permission, one.action) for one in reasons}, line
    for line in (
        "git -C {ws} commit -qam x",
        "git -C src tag x",
        "cd {ws}/src && git stash",
    ):
        ask = question(line.format(ws=place.workspace), real_place(place.workspace))
        assert rules.judge(replace(ask, contained=True)).action == "allow", line


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("line", ["pip install x", "python3 -m pip install x", "uv sync", "poetry add x"])
def test_package_installs_into_linked_folders_always_ask(
    place: BranchPlace, line: str, contained: bool
) -> None:
    granted = Rule(permission="bash", pattern="*", action="allow", source="session")
    rules = place.rules(rule("bash", "*", "allow"), mode="auto", session=[granted])
    ask = place.command(line)
    asked = PermissionAsk(
        "bash", ask.targets, "", ask.suggestions, accesses=ask.accesses, contained=contained
    )
    verdict = rules.judge(asked)
    assert verdict.action == "ask"
    assert ".venv" in verdict.rule.words
    assert not rules.lasting(asked.suggestions, verdict), "it would be asked again"


def test_branch_rules_never_override_a_deny(place: BranchPlace) -> None:
    rules = place.rules(rule("bash", "pip *", "deny"))
    assert rules.judge(place.command("pip install x")).action == "deny"


def test_linked_folders_are_read_like_those_of_the_workspace(place: BranchPlace) -> None:
    target = place.workspace / ".venv/pyvenv.cfg"
    assert decided(place.rules(), "read", target) == "allow"
    assert decided(place.rules(), "ls", target.parent) == "allow"
    assert decided(place.rules(rule("read", ".venv/*", "deny")), "read", target) == "deny"
    assert (
        place.rules(rule("bash", "cat *", "allow")).judge(place.command("cat .venv/pyvenv.cfg")).action
        == "allow"
    )


@pytest.mark.parametrize("mode", MODES)
def test_protected_paths_stay_protected_in_the_copy(
    place: BranchPlace, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(place.state))
    rules = place.rules(rule("edit", "*", "allow"), rule("read", "*", "allow"), mode=mode)
    for target in (".env", "sub/id_rsa", "x.pem"):
        assert decided(rules, "read", target) == "ask"
    for target in (".goalwright/config.json", ".git/hooks/pre-commit", ".vscode/tasks.json"):
        assert decided(rules, "edit", target) == "ask"
    # That the copy lies in our own folder makes its files no secrets.
    assert decided(rules, "read", "src/a.py") == "allow"
    assert rules.decide("edit", "src/a.py").action == "allow"
    assert decided(rules, "read", place.state / "daemon.json") == "ask"


def test_workspace_secret_named_by_absolute_path_still_asks(place: BranchPlace) -> None:
    rules = place.rules(rule("external_directory", f"{place.workspace}/*", "allow"))
    assert decided(rules, "read", place.workspace / "src/a.py") == "allow"
    assert decided(rules, "read", place.workspace / ".env") == "ask"


def test_grants_of_a_branch_are_translated_to_the_workspace(place: BranchPlace) -> None:
    rules, copy = place.rules(), place.copy.root
    wanted = [
        Suggestion("edit", f"{copy}/src/*"),
        Suggestion("edit", "src/*"),
        Suggestion("bash", f"cat {copy}/src/a.py"),
        Suggestion("bash", "pytest *"),
    ]
    kept = rules.lasting(wanted)
    assert kept == (
        Suggestion("edit", "src/*"),
        Suggestion("bash", f"cat {place.workspace}/src/a.py"),
        Suggestion("bash", "pytest *"),
    )


@pytest.mark.parametrize("end", ["", "/src", ";", " && true"])
def test_command_grant_for_workspace_path_covers_the_copy_path(place: BranchPlace, end: str) -> None:
    granted = Rule(permission="bash", pattern=f"make -C {place.workspace}*", action="allow", source="session")
    rules = place.rules(session=[granted])
    verdict = rules.judge(place.command(f"make -C {place.copy.root}{end}"))
    assert verdict.action == "allow"
    assert str(place.copy.root) in verdict.reasons[0].target, "the user reads what would run"
    assert rules.judge(place.command(f"make -C {place.copy.root}-2")).action != "allow"


def test_git_folders_of_outer_repository_and_worktree_are_denied(
    tmp_path: Path,
) -> None:
    top = tmp_path.resolve() / "top"
    (top / "pkg").mkdir(parents=True)
    script = "git init -q; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git worktree add -q ../w"
    subprocess.run(["bash", "-ec", script], cwd=top, check=True)
    assert git_folders(top / "pkg") == (top / ".git",)
    worktree = top.parent / "w"
    assert git_folders(worktree) == (worktree / ".git", top / ".git/worktrees/w", top / ".git")
    for workspace in (top / "pkg", worktree):
        copy = tmp_path / "copies/A"
        rules = RuleSet(
            (*SHIPPED, rule("edit", "*", "allow")),
            branch=branch_rules(workspace, copy, (), copy.parent),
            root=copy.as_posix(),
            stands_for=workspace.as_posix(),
        )
        for name in ("index", "refs/heads/main"):
            assert decided(rules, "edit", top / ".git" / name) == "deny"


def test_link_out_of_the_workspace_is_not_writable(tmp_path: Path) -> None:
    place = branch_place(tmp_path)
    shared = place.folder / "shared"
    shared.mkdir()
    link = place.copy.root / "node_modules"
    link.symlink_to(shared)
    place.copy.links = (link,)
    rules = place.rules(rule("bash", "*", "allow"), mode="auto")
    assert rules.judge(place.command("echo x > node_modules/x")).action == "deny"
    assert rules.judge(place.command("npm install left-pad")).action == "ask"
    # As in the workspace: it is elsewhere.
    assert decided(rules, "read", shared / "x") == "ask"
