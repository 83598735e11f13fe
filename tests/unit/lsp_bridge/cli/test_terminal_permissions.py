"""``goalwright permissions``, ``mode``, ``trust`` and ``jobs`` against a daemon without a mind."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from daemon.trust import TrustedFolders
from tests.support.drivers.terminal import Terminal
from tests.support.fakes.daemon_server import FakeDaemon

ASK_PUSH = {
    "permission": "bash",
    "pattern": "git push *",
    "action": "ask",
    "source": "user",
    "file": "~/.goalwright/config.json",
}
RULES: dict[str, Any] = {
    "mode": "accept-edits",
    "trust": "unknown",
    "grants": [
        {
            "grantId": "g1",
            "permission": "bash",
            "pattern": "git log *\x1b[2J",
            "scope": "workspace",
            "grantedAt": "2026-01-02T03:04:05Z",
            "by": "VS Code",
        },
        {"grantId": "g2", "permission": "edit", "pattern": "src/*", "scope": "session"},
    ],
    "rules": [ASK_PUSH],
}


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncGenerator[Terminal]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        terminal = Terminal(fake, tmp_path / "home")
        terminal.answer("goalwright/permission/rules", RULES)
        yield terminal


async def test_grants_are_listed_with_numbers_and_rules_with_files(terminal: Terminal) -> None:
    assert await terminal.play("permissions") == 0
    text = terminal.out.getvalue()
    assert "mode accept-edits; this folder is not trusted" in text
    assert "   1  bash: git log *␛[2J  (this workspace, 2026-01-02 03:04, VS Code)" in terminal.lines
    assert "   2  edit: src/*  (this session)" in terminal.lines
    assert "      your rule bash: git push * → ask (~/.goalwright/config.json)" in terminal.lines


async def test_rules_of_an_untrusted_folder_show_as_idle(terminal: Terminal) -> None:
    local = {"permission": "edit", "pattern": "*", "action": "allow", "source": "workspace"}
    terminal.answer("goalwright/permission/rules", {**RULES, "rules": [{**local, "idle": True}, local]})
    assert await terminal.play("permissions") == 0
    idle, other = terminal.lines[-2:]
    assert idle.endswith("(gives no permission, because the folder is not trusted)")
    assert other.endswith("edit: * → allow")


async def test_permissions_command_works_with_and_without_a_session(terminal: Terminal) -> None:
    await terminal.play("permissions")
    terminal.fake.sessions.append({"trace": {"traceId": "s1"}, "foreign": False})
    await terminal.play("permissions", "--json")
    assert terminal.fake.params("goalwright/permission/rules") == [{}, {"sessionId": "s1"}]


@pytest.mark.parametrize(("ids", "sent"), [(("2", "1"), ["g2", "g1"]), (("g1",), ["g1"])])
async def test_grants_are_revoked_by_number_or_id(
    terminal: Terminal, ids: tuple[str, ...], sent: list[str]
) -> None:
    terminal.answer("goalwright/permission/forget", {"forgotten": RULES["grants"][1:]})
    assert await terminal.play("permissions", "forget", *ids) == 0
    assert terminal.fake.params("goalwright/permission/forget") == [{"grantIds": sent}]
    assert terminal.lines == ["No longer allowed: edit: src/*"]


@pytest.mark.parametrize("wrong", ["3", "0", "x", "-1"])
async def test_unknown_grant_revokes_nothing(terminal: Terminal, wrong: str) -> None:
    assert await terminal.play("permissions", "forget", "--", "1", wrong) == 1
    assert f"There is no grant {wrong}" in terminal.told
    assert terminal.fake.params("goalwright/permission/forget") == []


async def test_a_decision_is_explained_part_by_part(terminal: Terminal) -> None:
    reasons = [
        {"permission": "bash", "target": "git push", "action": "ask", "rule": ASK_PUSH, "why": ""},
        {"permission": "read", "target": ".env", "action": "ask", "why": "argument of cat", "rule": {}},
    ]
    explained = {
        "action": "ask",
        "reasons": reasons,
        "warnings": ["It is gone."],
        "problems": ["tempo: ignored"],
    }
    terminal.answer("goalwright/permission/explain", explained)
    assert await terminal.play("permissions", "explain", "bash", "git push; cat .env") == 0
    assert terminal.lines == [
        "ask",
        "  bash git push: your rule bash: git push * → ask (~/.goalwright/config.json)",
        "  read .env (argument of cat): the built-in rule *: * → ask",
        "  ! It is gone.",
    ]
    assert "tempo: ignored" in terminal.told


async def test_the_mode_is_shown_and_set(terminal: Terminal) -> None:
    terminal.fake.sessions.append({"trace": {"traceId": "s1"}, "foreign": False})
    terminal.answer("goalwright/session/load", {"session": {"mode": "ask"}})
    terminal.answer("goalwright/session/set", {"session": {"mode": "plan"}})
    assert await terminal.play("mode") == 0
    assert await terminal.play("mode", "plan") == 0
    assert terminal.lines == ["ask", "plan"]
    assert terminal.fake.params("goalwright/session/set") == [{"sessionId": "s1", "mode": "plan"}]


async def test_daemon_refusal_is_printed(terminal: Terminal) -> None:
    terminal.fake.sessions.append({"trace": {"traceId": "s1"}, "foreign": False})
    terminal.refuse("goalwright/session/set", -32602, "auto needs a trusted folder: `goalwright trust`.")
    assert await terminal.play("mode", "auto") == 1
    assert "goalwright trust" in terminal.told


async def test_jobs_are_listed_and_stopped(terminal: Terminal) -> None:
    running = {
        "jobId": "job_1",
        "sessionId": "s1",
        "command": "npm run dev",
        "exitCode": None,
        "outputFile": "/x/1.txt",
    }
    terminal.answer("goalwright/job/list", {"jobs": [running]})
    terminal.answer("goalwright/job/kill", {"job": {**running, "exitCode": -15}})
    assert await terminal.play("jobs") == 0
    assert await terminal.play("jobs", "--kill", "job_1") == 0
    assert terminal.lines == [
        "job_1  running  npm run dev  (session s1)  → /x/1.txt",
        "job_1  ended, exit code -15  npm run dev  (session s1)  → /x/1.txt",
    ]
    assert terminal.fake.params("goalwright/job/kill") == [{"sessionId": "s1", "jobId": "job_1"}]
    other = {**running, "sessionId": "s2"}
    terminal.answer("goalwright/job/list", {"jobs": [running, other]})
    for wrong, words in (("job_1", "Name one with --session (s1, s2)."), ("job_9", "There is no job job_9")):
        assert await terminal.play("jobs", "--kill", wrong) == 1
        assert words in terminal.told


async def test_rule_problems_are_printed_with_the_rules(terminal: Terminal) -> None:
    terminal.answer("goalwright/permission/rules", {**RULES, "problems": ["grants.json is damaged."]})
    assert await terminal.play("permissions") == 0
    assert "grants.json is damaged." in terminal.told


@pytest.mark.parametrize("name", ["nowhere", "a" * 300, "circle"])
async def test_missing_folder_is_not_trusted(terminal: Terminal, tmp_path: Path, name: str) -> None:
    (tmp_path / "circle").symlink_to("circle")
    terminal.workspace = tmp_path / name
    assert await terminal.play("trust") == 1
    assert "is not a folder" in terminal.told


async def test_folder_trust_is_added_and_removed(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    (folder / "below").mkdir(parents=True)
    known = TrustedFolders(tmp_path / "state")
    terminal.workspace = folder
    assert await terminal.play("trust") == 0
    assert known.trust(folder / "below") == "trusted"
    assert known.trust(tmp_path) == "unknown"
    terminal.workspace = folder / "below"
    assert await terminal.play("trust", "--remove") == 1
    assert "still trusted, because" in terminal.told
    assert await terminal.play("trust", "--remove", "--json") == 1
    terminal.workspace = folder
    assert await terminal.play("trust", "--remove", "--json") == 0
    assert json.loads(terminal.lines[-1]) == {"folder": str(folder), "trust": "unknown"}


@pytest.mark.parametrize("text", ["", "{", "null", '["relative", 7]', "[]"])
def test_damaged_trust_list_trusts_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "trusted.json").write_text(text)
    known = TrustedFolders(tmp_path)
    assert known.trust(tmp_path / "relative") == "unknown"
    known.add(tmp_path / "x")
    assert known.folders() == [tmp_path / "x"]
