"""``goalwright run`` in a terminal, in front of a daemon without a mind."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
from pathlib import Path
from typing import Any

from lsp_bridge.cli.console import Console
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.run.command import run
from lsp_bridge.cli.run.conversation import RunOptions
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import FakeDaemon, Turn


class TerminalRun:
    """``goalwright run`` against the fake, with what it wrote."""

    def __init__(self, fake: FakeDaemon, home: Path) -> None:
        self.fake = fake
        self.launcher = Launcher(home=home, command=("/bin/false",))
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(out=self.out, err=self.err)
        self.options = RunOptions(workspace=fake.paths.workspace, task="do it")

    async def run(self, **options: Any) -> int:
        return await run(self.options._replace(**options), self.launcher, self.console)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def told(self) -> str:
        return self.err.getvalue()

    @property
    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


class Person:
    """A terminal at which somebody types; ``answers`` are the lines."""

    def __init__(self, terminal: TerminalRun) -> None:
        self.master, self.slave = pty.openpty()
        terminal.console = Console(out=terminal.out, err=terminal.err, tty=self.slave, live=True)
        self.terminal = terminal

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def answer(self, text: str, after: str = "[f]eedback: ") -> None:
        """Type ``text`` when the question is on the screen once more than it was answered."""
        await until(lambda: self.terminal.text.endswith(after), f"the question {after!r}")
        self.terminal.out.write("<typed>")
        self.type(text)


async def wait_for_cancel(turn: Turn) -> str:
    await turn.canceled.wait()
    return "canceled"


async def edit_with_permission(turn: Turn) -> str:
    reply = await turn.ask(files=[{"path": "a.py", "diff": "-old\n+new\n"}])
    if reply["reply"] == "reject" and not reply.get("feedback"):
        return "permission_denied"
    turn.say("Done: " + str(reply.get("feedback") or reply["reply"]))
    return "end_turn"


async def answering(person: Person, *answers: tuple[str, str]) -> int:
    running = asyncio.create_task(person.terminal.run())
    for text, after in answers:
        await person.answer(text, after)
    return await running


ASKED = "[f]eedback: "
