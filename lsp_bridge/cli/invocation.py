"""The common arguments of all commands, and the exit codes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.provider.variables import provider_env
from lsp_bridge.cli.launch import Greeting, Launcher
from lsp_bridge.cli.text import shown

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.console import Console

CLIENT_NAME = "terminal"
EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_DENIED, EXIT_NOTHING, EXIT_LIMIT, EXIT_CANCELED = 0, 1, 2, 3, 4, 5, 130


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of ``goalwright``."""

    workspace: Path
    console: Console
    launcher: Launcher = field(default_factory=Launcher)
    session: str | None = None
    """None: the newest of this user."""
    json: bool = False
    """The output is for programs."""

    def write_json(self, found: object) -> None:
        """Write ``found`` as a line of JSON."""
        self.console.write(json.dumps(found) + "\n")

    def failed(self, error: Exception, code: int | str = 0, exit_code: int = EXIT_FAILED) -> int:
        """Say what went wrong, on stderr or as ``{"error": {"code", "message"}}`` on stdout; returns the exit code."""
        if self.json:
            self.write_json({"error": {"code": code, "message": str(error)}})
        else:
            self.console.warn(shown(str(error)))
        return exit_code

    @staticmethod
    def greeting() -> Greeting:
        """Return the data that the command sends to the daemon about itself."""
        return Greeting(client=CLIENT_NAME, env=provider_env(os.environ))
