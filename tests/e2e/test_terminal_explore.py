"""Branches at a terminal, with real processes: the run that explores, and the commands about what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lsp_bridge.protocol.handshake import ErrorCode
from tests.e2e.vscode import ways
from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Finished, Goalwright, installed

pytestmark = pytest.mark.timeout(200)


@contextlib.asynccontextmanager
async def explored(tmp_path: Path, *args: str) -> AsyncGenerator[tuple[Goalwright, Finished]]:
    """A repository in which three ways were tried, and the run that did."""
    workspace = ways.make_repository(tmp_path / "shop")
    model = ways.write_script(tmp_path / "ways.json")
    async with installed(workspace, forker=shared_forker()) as goalwright:
        # Edits of the copies ask only where a rule names the files.
        goalwright.configure(permission={"edit": {"*.py": "ask"}})
        yield goalwright, await goalwright.run(ways.TASK, "--model", model, *args)


async def says(goalwright: Goalwright, command: str, *args: str) -> list[str]:
    """The lines of a command that must work."""
    done = await goalwright.command(command, *args)
    assert (done.code, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


async def test_run_shows_each_branch_and_explore_pick_applies_one(tmp_path: Path) -> None:
    async with explored(tmp_path, "--yes") as (goalwright, run):
        lines = run.check().stdout.splitlines()
        for name, direction in zip("ABC", ways.DIRECTIONS, strict=True):
            assert f"{name} │ {direction}" in lines
            assert f"{name} │ ✓ read cart.py" in lines
            assert f"  accepted (--yes): Branch {name} · Edit cart.py" in run.stdout
        cart = goalwright.workspace / "cart.py"
        assert cart.read_text() == ways.CART

        listed = await says(goalwright, "explore")
        assert listed[0] == f"A  {ways.DIRECTIONS[0]}  (completed)"
        assert listed[3].split() == ["problems", "tests", "files", "tokens", "cost", "time"]
        assert listed[5].startswith("B ")
        shown = await says(goalwright, "explore", "show", "b")
        assert shown[:2] == [f"B: {ways.DIRECTIONS[1]}  (completed)", "Decimal: exact, and one import more."]
        assert shown[-1] == "  changed  cart.py  +3 -1"
        assert "+from decimal import Decimal" in await says(goalwright, "explore", "diff", "B", "cart.py")

        patch = (await goalwright.command("explore", "patch", "B")).stdout
        (tmp_path / "b.patch").write_text(patch)
        await asyncio.to_thread(ways.git, goalwright.workspace, "apply", "--check", str(tmp_path / "b.patch"))

        picked = await says(goalwright, "explore", "pick", "A", "cart.py", "--yes")
        assert picked[0].startswith("  accepted (--yes): ")
        assert cart.read_text() == ways.WHOLE
        assert f"A  {ways.DIRECTIONS[0]}  (completed, used)" in await says(goalwright, "explore", "list")
        prompt, change = await says(goalwright, "history")
        assert prompt.startswith("msg_")
        assert prompt.endswith(f"  {ways.TASK}")
        assert change.split()[3:] == ["explore", "cart.py", "+2", "-2", "[next", "to", "undo]"]

        found = json.loads((await goalwright.command("explore", "--json")).stdout)
        (exploration,) = found["explorations"]
        assert [branch["score"]["files"] for branch in exploration["branches"]] == [1, 1, 1]
        assert exploration["selectedBranch"].startswith("A")

        session, message = run.stdout.split("\nsession ")[-1].split()[0], prompt.split()[0]
        forked = await goalwright.run("again", "--fork", f"{session}:{message}")
        assert "has no user message" not in forked.stderr


async def test_invalid_explore_commands_print_advice(tmp_path: Path) -> None:
    async with explored(tmp_path, "--yes") as (goalwright, run):
        run.check()
        for args, words in (
            (("show", "Q"), "There is no branch Q. Branches: A, B, C.\n"),
            (("diff", "A", "other.py"), "Branch A did not change other.py. Files it changed: cart.py.\n"),
            (("leave",), "No choice is open in this session.\n"),
        ):
            wrong = await goalwright.command("explore", *args)
            assert (wrong.code, wrong.stdout, wrong.stderr) == (1, "", words)
        error = json.loads((await goalwright.command("explore", "pick", "Q", "--json")).stdout)["error"]
        assert "Branches: A, B, C." in error["message"]

        # Nobody is asked where there is no terminal, and then nothing is written.
        refused = await goalwright.command("explore", "pick", "B")
        assert refused.code == 1
        assert "terminal to ask on" in refused.stderr
        cart = goalwright.workspace / "cart.py"
        assert cart.read_text() == ways.CART

        # The person has changed the same line: both sides are shown.
        cart.write_text(ways.CART.replace("sum(prices) - discount", "sum(prices) - min(discount, 100)"))
        conflict = await goalwright.command("explore", "pick", "B", "--yes")
        assert conflict.code == 1
        assert "min(discount, 100)" in conflict.stderr
        assert "Decimal(discount)" in conflict.stderr

        await says(goalwright, "explore", "remove", "C")
        assert f"C  {ways.DIRECTIONS[2]}  (removed)" in await says(goalwright, "explore")
        gone = json.loads((await goalwright.command("explore", "diff", "C", "--json")).stdout)["error"]
        assert gone["code"] == ErrorCode.UNKNOWN_BRANCH


async def test_without_a_terminal_a_branch_is_refused_by_its_name(tmp_path: Path) -> None:
    async with explored(tmp_path) as (_, run):
        assert "Rejected, because there is no terminal to ask on: Branch A · Edit cart.py" in run.stderr
        assert "A │ ✗ write rejected: there is no terminal to ask on; use --yes or a rule" in run.stdout


async def test_agents_are_listed_and_a_session_begins_with_one(tmp_path: Path) -> None:
    async with explored(tmp_path, "--yes", "--agent", "plan") as (goalwright, _):
        lines = await says(goalwright, "agents")
        assert any(line.startswith("plan ") for line in lines)
        assert await says(goalwright, "skills") == ["There are no skills and no commands here."]
        found = json.loads((await goalwright.command("sessions", "--json")).stdout)
        assert found["sessions"][0]["trace"]["agent"] == "plan"
        wrong = await goalwright.run("do it", "--agent", "nobody")
        assert wrong.code == 1
        assert "nobody" in wrong.stderr
        both = await goalwright.run("do it", "--agent", "plan", "--continue")
        assert both.code == 2


async def test_session_of_another_agent_has_no_plan_to_build(tmp_path: Path) -> None:
    async with explored(tmp_path, "--yes") as (goalwright, _):
        refused = await goalwright.command("plan", "build")
        assert refused.code == 1
        assert "not plan" in refused.stderr


async def test_run_yes_leaves_the_branch_choice_to_the_model(tmp_path: Path) -> None:
    workspace = ways.make_repository(tmp_path / "shop")
    model = ways.write_script(
        tmp_path / "ways.json", ways.step(ways.call("explore", select=["B"])), ways.step(text=ways.ANSWER)
    )
    async with installed(workspace, forker=shared_forker()) as goalwright:
        goalwright.configure(explore_choice="person")
        run = (await goalwright.run(ways.TASK, "--model", model, "--yes")).check()
    assert "`goalwright explore leave`" in run.stdout + run.stderr
    assert "the model chooses (--yes)" in run.stdout
    assert (workspace / "cart.py").read_text() == ways.EXACT


@contextlib.asynccontextmanager
async def waiting_for_a_choice(tmp_path: Path) -> AsyncGenerator[tuple[Goalwright, asyncio.Task[Finished]]]:
    """A run without a terminal that waits for the user to choose a branch."""
    workspace = ways.make_repository(tmp_path / "shop")
    model = ways.write_script(tmp_path / "ways.json")
    async with installed(workspace, forker=shared_forker()) as goalwright:
        goalwright.configure(explore_choice="person")
        running = asyncio.create_task(goalwright.run(ways.TASK, "--model", model))

        async def awaited() -> bool:
            assert not running.done(), running.result()
            found = json.loads((await goalwright.command("explore", "--json")).stdout)
            return any(one["awaitsChoice"] for one in found.get("explorations", ()))

        while not await awaited():
            pass
        yield goalwright, running


@pytest.mark.parametrize("every", [False, True])
async def test_waiting_run_says_that_the_daemon_was_stopped(tmp_path: Path, every: bool) -> None:
    async with waiting_for_a_choice(tmp_path) as (goalwright, running):
        stopped = await says(goalwright, "stop", *(["--all"] if every else []))
        assert stopped == [f"Stopped the daemon of {goalwright.workspace}." if every else "Stopped."]
        run = await running
    assert run.code == 130
    assert "Goalwright was stopped. What was done is stored" in run.stderr


async def test_pick_counts_while_a_run_without_a_terminal_waits(tmp_path: Path) -> None:
    async with waiting_for_a_choice(tmp_path) as (goalwright, running):
        assert "`goalwright explore pick A` (or parts: `pick A:PATH B:PATH`)" in "".join(
            await says(goalwright, "explore")
        )
        await says(goalwright, "explore", "pick", "B", "--yes")
        run = (await running).check()
    assert "Rejected" not in run.stderr
    assert "In another terminal: `goalwright explore pick A` (or parts: `pick A:PATH B:PATH`)" in run.stderr
    assert (goalwright.workspace / "cart.py").read_text() == ways.EXACT


_TURNS = (
    "rm plain && mkdir plain && echo in > plain/in.txt; rm -r folder && echo file > folder;"
    " chmod +x run.sh; mv old.txt new.txt; echo log > my.log"
)


async def test_branch_with_type_changes_is_diffed_picked_and_undone(tmp_path: Path) -> None:
    workspace = tmp_path / "turned"
    old = {
        "plain": "was a file\n",
        "folder/x.txt": "x\n",
        "run.sh": "#!/bin/sh\n",
        "old.txt": "moved\n" * 9,
        ".gitignore": "*.log\n.trace/\n",
    }
    for name, text in old.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for args in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "first")):
        await asyncio.to_thread(ways.git, workspace, *args)

    def files() -> dict[str, str]:
        found = (path for path in workspace.rglob("*") if path.is_file())
        names = {path.relative_to(workspace).as_posix(): path for path in found}
        return {name: path.read_text() for name, path in names.items() if name[:5] not in (".git/", ".trac")}

    explore = {"name": "explore", "input": {"branches": ["turn"]}}
    script = {
        "name": "turning",
        "turns": [[{"tool_calls": [explore]}, {"text": "Done."}]],
        "branches": {
            "A": [[{"tool_calls": [{"name": "bash", "input": {"command": _TURNS}}]}, {"text": "Turned."}]]
        },
    }
    (tmp_path / "turning.json").write_text(json.dumps(script))
    async with installed(workspace, forker=shared_forker()) as goalwright:
        (await goalwright.run("go", "--yes", "--model", f"scripted/{tmp_path / 'turning.json'}")).check()
        shown = await says(goalwright, "explore", "diff", "A")
        assert "Mode of run.sh changed from 100644 to 100755" in shown
        assert "Moved from old.txt to new.txt" in shown and "+log" not in shown
        assert "+log" in await says(goalwright, "explore", "diff", "A", "my.log")
        await says(goalwright, "explore", "pick", "A", "--yes")
        assert files() == {
            "plain/in.txt": "in\n",
            "folder": "file\n",
            "run.sh": "#!/bin/sh\n",
            "new.txt": "moved\n" * 9,
            ".gitignore": old[".gitignore"],
        }
        assert (workspace / "run.sh").stat().st_mode & 0o100
        await says(goalwright, "undo")
        assert files() == old
