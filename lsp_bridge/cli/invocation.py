"""The common arguments of all commands, the exit codes, and how expected failures are reported."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

from daemon.provider.variables import provider_env
from lsp_bridge.cli.client import DaemonError
from lsp_bridge.cli.console import OutputFailedError
from lsp_bridge.cli.launch import Greeting, Launcher
from lsp_bridge.cli.text import shown
from lsp_bridge.protocol.handshake import RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from lsp_bridge.cli.console import Console

P = ParamSpec("P")
CLIENT_NAME = "terminal"
EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_DENIED, EXIT_NOTHING, EXIT_LIMIT, EXIT_CANCELED = 0, 1, 2, 3, 4, 5, 130


class Invocation(NamedTuple):
    """One call of ``goalwright``."""

    workspace: Path
    console: Console
    launcher: Launcher = Launcher()
    session: str | None = None
    """None: the newest of this user."""
    json: bool = False
    """The output is for programs."""

    def write_json(self, found: object) -> None:
        """Write ``found`` as a line of JSON."""
        self.console.line(json.dumps(found))

    def wrote_json(self, found: object) -> bool:
        """Write ``found`` as a line of JSON if the output is for programs; returns whether it is."""
        if self.json:
            self.write_json(found)
        return self.json

    def failed(self, error: Exception, exit_code: int = EXIT_FAILED) -> int:
        """Say what went wrong, on stderr or as ``{"error": {"code", "message"}}`` on stdout; returns the exit code."""
        code = error.code if isinstance(error, DaemonError | RequestError) else 0
        if not self.wrote_json({"error": {"code": code, "message": str(error)}}):
            self.console.warn(shown(str(error)))
        return exit_code

    @staticmethod
    def greeting() -> Greeting:
        """Return the data that the command sends to the daemon about itself."""
        return Greeting(client=CLIENT_NAME, env=provider_env(os.environ))


def reporting(
    *expected: type[Exception], usage: tuple[type[Exception], ...] = ()
) -> Callable[
    [Callable[Concatenate[Invocation, P], Awaitable[int | None]]],
    Callable[Concatenate[Invocation, P], Coroutine[Any, Any, int]],
]:
    """Make a command that reports expected failures, those of the daemon among them; returns the exit code.

    ``usage``: failures that come from a wrong command line.
    """

    def declare(
        work: Callable[Concatenate[Invocation, P], Awaitable[int | None]],
    ) -> Callable[Concatenate[Invocation, P], Coroutine[Any, Any, int]]:
        @functools.wraps(work)
        async def command(cli: Invocation, /, *args: P.args, **kwargs: P.kwargs) -> int:
            try:
                return await work(cli, *args, **kwargs) or EXIT_OK
            except OutputFailedError:
                raise  # said by whoever runs the command
            except (DaemonError, *expected) as error:
                return cli.failed(error, EXIT_USAGE if isinstance(error, usage) else EXIT_FAILED)

        return command

    return declare
