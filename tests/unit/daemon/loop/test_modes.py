"""Modes in a session: what is refused, and the reason that the model receives."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from daemon.model.events import PermissionAsked
from daemon.model.permissions import Grant, Mode, Trust
from tests.support.drivers.core import ALLOW_ALL, daemon, finish, prompted
from tests.support.fakes.models import Call

WRITE = Call("write", {"file_path": "a.txt", "content": "x\n"})
MAKE = Call("bash", {"command": "touch b.txt"})


@pytest.mark.parametrize(
    ("mode", "trust", "words"),
    [("plan", "trusted", "mode plan"), ("ask", "restricted", "a folder that is not trusted")],
)
async def test_denied_changes_name_the_mode_or_trust(
    tmp_path: Path, mode: Mode, trust: Trust, words: str
) -> None:
    async with daemon(tmp_path, [WRITE, MAKE], "I see.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        session.policy.use(trust=trust)
        bench.core.update_session(session, {"mode": mode})
        assert (await session.prompt("change it")).stop == "end_turn"
        wrote, made = (m.tool_result() for m in session.state.messages if m.role == "tool")
        for result in (wrote, made):
            assert result is not None
            assert result.metadata["denied"] is True
            assert words in result.content
        assert sorted(path.name for path in bench.workspace.iterdir()) == [".trace"]


async def test_read_only_commands_run_in_plan_mode(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Call("bash", {"command": "ls | head -3"})], "I see.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        bench.core.update_session(session, {"mode": "plan"})
        await session.prompt("look")
        (result,) = (m.tool_result() for m in session.state.messages if m.role == "tool")
        assert result is not None
        assert not result.is_error


async def test_accept_edits_mode_still_asks_for_protected_files(tmp_path: Path) -> None:
    hook = Call("write", {"file_path": ".git/hooks/pre-commit", "content": "x\n"})
    async with daemon(tmp_path, [WRITE, hook], "Done.") as bench:
        session = bench.session()
        bench.core.update_session(session, {"mode": "accept-edits"})
        await asyncio.gather(session.prompt("change it"), bench.answer("reject"))
        assert (bench.workspace / "a.txt").read_text() == "x\n"
        assert not (bench.workspace / ".git").exists()


async def test_auto_needs_a_trusted_folder(tmp_path: Path) -> None:
    async with daemon(tmp_path, MAKE, "Done.") as bench:
        session = bench.session()
        bench.core.update_session(session, {"mode": "auto"})
        assert session.mode == "auto"
        await session.prompt("change it")
        assert (bench.workspace / "b.txt").exists()
        session.policy.use(trust="unknown")
        assert session.mode == "ask"


async def test_plan_mode_runs_commands_only_in_a_read_only_sandbox(
    tmp_path: Path,
) -> None:
    look = Call("bash", {"command": "ls -a"})
    async with daemon(tmp_path, look, "I see.", look, "I see.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        bench.core.update_session(session, {"mode": "plan"})
        await session.prompt("look")
        session.policy.use(config=session.config.overlaid({"sandbox": "off"}, "editor", "test"))
        await session.prompt("look again")
        inside, without = (m.tool_result() for m in session.state.messages if m.role == "tool")
        assert inside is not None and without is not None
        assert inside.metadata["sandbox"] == "disk read-only, no network"
        assert without.metadata["denied"] is True


async def test_allowed_commands_are_sandboxed_and_approved_are_not(tmp_path: Path) -> None:
    steps = Call("bash", {"command": "touch b.txt"}), Call("bash", {"command": "mkdir c"})
    async with daemon(tmp_path, [*steps], "Done.") as bench:
        session = bench.session(settings={"permission": {"bash": {"touch *": "allow"}}})
        turn = asyncio.create_task(session.prompt("make them"))
        await bench.answer("once")
        await turn
        allowed, approved = (m.tool_result() for m in session.state.messages if m.role == "tool")
        assert allowed is not None and approved is not None
        assert "workspace writable" in allowed.metadata["sandbox"]
        assert "sandbox" not in approved.metadata
        assert (bench.workspace / "b.txt").exists() and (bench.workspace / "c").is_dir()


@pytest.mark.parametrize("by", ["mode", "always"])
async def test_commands_that_changed_rules_release_are_sandboxed(tmp_path: Path, by: str) -> None:
    steps = Call("bash", {"command": "mkdir c"}), Call("bash", {"command": "mkdir d"}), "Done.", "Done."
    async with daemon(tmp_path, *steps) as bench:
        other, session = bench.session(), bench.session()
        turns = [prompted(other, "make it")]
        (first,) = await bench.asked()
        turns.append(prompted(session, "make it"))
        await bench.asked(2)
        if by == "mode":
            bench.core.update_session(session, {"mode": "auto"})
            bench.core.permissions.release(session.session_id, "Ann")
            bench.core.permissions.reply(first.request_id, "once", None, "Ann")
        else:
            mkdir = Grant(permission="bash", pattern="mkdir *")
            bench.core.permissions.reply(
                first.request_id, "always", None, "Ann", grants=[mkdir], scope="workspace"
            )
        for turn in turns:
            await finish(turn)
        (released,) = (r for m in session.state.messages if (r := m.tool_result()) is not None)
        assert "workspace writable" in released.metadata["sandbox"]


@pytest.mark.parametrize("permission", ["edit", "external_directory"])
async def test_denied_writes_below_tmp_are_denied_before_a_question(tmp_path: Path, permission: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        async with daemon(tmp_path, Call("bash", {"command": f"echo x > {folder}/f"}), "I see.") as bench:
            session = bench.session(settings={"permission": {permission: {f"{folder}/*": "deny"}}})
            await finish(prompted(session, "write it"))
        assert not bench.events(PermissionAsked)
        assert not Path(folder, "f").exists()
