"""The plan and the context from outside, with real processes: the daemon, the terminal command, the SDK on the wire."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Finished, Goalwright, installed
from tests.support.fakes.model_replies import Call, Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer

LINES = "".join(f"line {n}\n" for n in range(1, 21))
SECRET = "the answer of the detour is 4711"


def goal(**arguments: Any) -> Call:
    return Call("goal", arguments)


def edit(old: str, new: str) -> Call:
    return Call("edit", {"file_path": "a.py", "old_string": old, "new_string": new})


READ = Call("read", {"file_path": "a.py"})


def calls(*made: Call, text: str = "") -> Reply:
    return Reply(text=text, tool_calls=made)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a terminal, in a workspace with one file."""

    goalwright: Goalwright
    server: ModelServer

    @property
    def file(self) -> Path:
        return self.goalwright.workspace / "a.py"

    async def run(self, task: str, *args: str) -> Finished:
        """``goalwright run --yes``, to its end."""
        return await self.goalwright.run(task, "--yes", *args)

    async def says(self, command: str, *args: str) -> list[str]:
        """The lines a command prints that must work."""
        done = await self.goalwright.command(command, *args)
        assert (done.code, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout.splitlines()

    async def json(self, command: str, *args: str) -> dict[str, Any]:
        done = await self.goalwright.command(command, *args, "--json")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def last_request(self) -> str:
        """All the text of the newest request."""
        return json.dumps(self.server.requests[-1].json, ensure_ascii=False)

    async def kill_the_daemon(self) -> None:
        os.kill((await self.json("status"))["pid"], signal.SIGKILL)


@contextlib.asynccontextmanager
async def person(*replies: ReplyLike) -> AsyncGenerator[Person]:
    async with (
        ModelServer(replies) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        found = Person(goalwright, server)
        found.file.write_text(LINES)
        yield found


async def test_user_edits_of_the_plan_reach_the_model() -> None:
    async with person(calls(goal(add=["Cart", "Docs"], focus="1")), "Planned.", "Understood.") as me:
        (await me.run("plan it")).check()
        assert (await me.says("goals"))[0] == "Mission: plan it"
        await me.says("goal", "add", "Coupons", "--under", "1", "--reason", "they are wrong")
        await me.says("goal", "rename", "2", "Manual")
        await me.says("goal", "move", "2", "--before", "1")
        lines = await me.says("goal", "focus", "2.1")
        assert [line.split("  (")[0] for line in lines] == [
            "Mission: plan it",
            "○ 1. Manual",
            "◐ 2. Cart",
            "    ◐ 2.1 Coupons",
            "  Without a goal",
        ]
        assert lines[-2].endswith("← current")
        await me.kill_the_daemon()
        (await me.run("go on", "--continue")).check()
        said = me.last_request()
        for words in (
            'added the goal \\\\"Coupons\\\\" under \\\\"Cart\\\\". Why: they are wrong.',
            'renamed the goal \\\\"Docs\\\\" to \\\\"Manual\\\\".',
            'moved the goal \\\\"Manual\\\\" before \\\\"Cart\\\\".',
            'put the focus on \\\\"Coupons\\\\"',
        ):
            assert words.replace("\\\\", "\\") in said
        wrong = await me.goalwright.command("goal", "focus", "7")
        assert (wrong.code, wrong.stderr) == (1, "There is no goal 7. Goals: 1, 2, 2.1.\n")
        error = (await me.json("goal", "move", "2", "--under", "2.1"))["error"]
        assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_abandoned_goal_reverts_files_and_keeps_only_its_reason() -> None:
    replies = (
        calls(goal(add=["Detour", "Rest"], focus="1")),
        calls(READ, edit("line 10\n", "ten\n"), text=SECRET),
        calls(goal(focus="2")),
        calls(edit("line 15\n", "fifteen\n")),
        "Done.",
        "I see.",
    )
    async with person(*replies) as me:
        (await me.run("do it")).check()
        before = "\n".join(await me.says("context"))
        assert SECRET in before
        me.file.write_text(me.file.read_text().replace("line 1\n", "mine\n"))
        dry = await me.says("goal", "abandon", "1", "--reason", "x", "--dry-run")
        assert {"-ten", "+line 10", "Would be reverted:", "  changed  a.py  +1 -1"} <= set(dry)
        assert "ten\n" in me.file.read_text()
        told = await me.says("goal", "abandon", "1", "--reason", "it led nowhere", "--revert-files")
        assert told[:2] == ["Reverted:", "  changed  a.py  +1 -1"]
        assert me.file.read_text() == LINES.replace("line 1\n", "mine\n").replace("line 15\n", "fifteen\n")
        after = "\n".join(await me.says("context"))
        assert SECRET not in after
        assert "it led nowhere" in after
        (await me.run("and now?", "--continue")).check()
        said = me.last_request()
        assert SECRET not in said
        for words in (
            "it led nowhere",
            "reverted 1 change for the goal 1 Detour",
            "the user abandoned the goal",
            "do it",
        ):
            assert words in said


async def test_revert_conflict_is_refused_and_the_goal_stays_open() -> None:
    async with person(
        calls(goal(add=["Detour"], focus="1")), calls(READ, edit("line 10\n", "ten\n")), "Done."
    ) as me:
        (await me.run("do it")).check()
        me.file.write_text(me.file.read_text().replace("ten\n", "dix\n"))
        refused = await me.json("goal", "abandon", "1", "--reason", "x", "--revert-files")
        assert refused["error"]["code"] == ErrorCode.HISTORY_CONFLICT
        assert "a.py:10" in refused["error"]["message"]
        assert "dix\n" in me.file.read_text()
        assert "◐ 1. Detour" in (await me.says("goals"))[1]


async def test_context_command_shows_what_the_next_request_starts_with() -> None:
    async with person(calls(goal(add=["Cart"], focus="1"), READ), "Read.", "More.") as me:
        (me.goalwright.workspace / "AGENTS.md").write_text("Tests first.")
        (await me.run("check it, then delete it")).check()
        shown = await me.json("context")
        (await me.run("more", "--continue")).check()
        sent = me.server.requests[-1].json
        assert "".join(block["text"] for block in sent["system"]) == "".join(shown["system"])
        assert [tool["name"] for tool in sent["tools"]] == [tool["name"] for tool in shown["tools"]]
        wire = json.dumps(sent["messages"])
        for message in shown["messages"]:
            for part in message["content"]:
                if part["type"] in ("text", "tool_result"):
                    assert json.dumps(part.get("text") or part["content"])[1:-1] in wire
        assert "Tests first." in "".join(shown["system"])
        assert shown["tail"].strip() in sent["messages"][-1]["content"][-1]["text"]
        # What the provider counted for it is near what was estimated for it.
        assert shown["meter"]["usage"]["output"] > 0
        brief = await me.says("context", "--brief")
        assert any("more lines" in line for line in brief)
        assert len(brief) < len(await me.says("context"))


async def test_compact_command_summarizes_and_keeps_user_messages() -> None:
    summary = json.dumps(
        {
            "current_work": "reading",
            "requests_and_rulings": ["tabs, not spaces"],
            "decisions": [],
            "findings": [],
            "files_changed": [],
            "failed_attempts": [],
            "pending_actions": ["go on"],
            "key_paths": {"file": "a.py"},
        }
    )
    replies = (
        *(
            calls(
                Call("read", {"file_path": "a.py", "limit": 100 + n}), text=f"{n} {SECRET} ".ljust(4_000, "x")
            )
            for n in range(6)
        ),
        "Done.",
        summary,
        "On.",
    )
    async with person(*replies) as me:
        (await me.run("tabs, not spaces")).check()
        said = await me.says("compact", "--keep", "the SQL")
        assert len(said) == 1
        assert said[0].startswith("The context was compacted from ")
        assert "the SQL" in me.last_request()
        (await me.run("go on", "--continue")).check()
        sent = me.last_request()
        assert f"0 {SECRET}" not in sent
        assert sent.count("tabs, not spaces") >= 2  # the person's own words, and the summary's


async def test_budget_stops_the_run_and_raising_it_continues() -> None:
    async with person("One.", calls(READ), "Two.") as me:
        (await me.run("one")).check()
        assert (await me.says("budget"))[1:] == ["No limits are set."]
        assert (await me.says("budget", "--tokens", "1", "--goal-usd", "3"))[1:] == [
            "limit for the session: 1 token",
            "limit for each goal: $3.00",
        ]
        await me.kill_the_daemon()
        stopped = await me.run("two", "--continue")
        assert stopped.code == 5, stopped.stdout + stopped.stderr
        assert "goalwright budget" in stopped.stdout + stopped.stderr
        assert len(me.server.requests) == 1
        assert (await me.says("budget", "--none"))[1:] == ["No limits are set."]
        went_on = (await me.run("two", "--continue")).check()
        assert "context " in went_on.stdout.splitlines()[-1]
