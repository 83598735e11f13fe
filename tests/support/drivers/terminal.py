"""A terminal whose output can be read, in front of a daemon without a mind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from lsp_bridge.cli.command_line import parse, run_command
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.launch import Launcher
from tests.support.fakes.daemon_server import Connection, FakeDaemon, RefuseError


class Terminal:
    def __init__(self, fake: FakeDaemon, home: Path) -> None:
        self.fake = fake
        self.launcher = Launcher(home=home, command=("/bin/false",))
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(out=self.out, err=self.err)
        self.workspace = fake.paths.workspace

    async def play(self, command: str, *arguments: str) -> int:
        """Run a command as it stands on the command line. Returns the exit code."""
        args = parse([command, *arguments])
        args.workspace = self.workspace
        return await run_command(args, self.console, self.launcher)

    def answer(self, method: str, result: dict[str, Any]) -> None:
        async def handler(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
            return result

        self.fake.handlers[method] = handler

    def refuse(self, method: str, code: int, words: str) -> None:
        async def handler(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
            raise RefuseError(code, words)

        self.fake.handlers[method] = handler

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()

    @property
    def told(self) -> str:
        return self.err.getvalue()
