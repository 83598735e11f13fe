"""The common parts of commands about one session: the connection, the choice of the session, and their errors."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

from lsp_bridge.cli.client import Client, DaemonError
from lsp_bridge.cli.invocation import Invocation, reporting
from lsp_bridge.cli.run.goal_lines import in_order
from lsp_bridge.cli.run.newest_session import newest
from tools.json_access import mapping, string
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

P = ParamSpec("P")
REQUEST_S = 60.0


class CommandFailedError(DaemonError):
    """Raised when a command fails; the message says why."""


@contextlib.asynccontextmanager
async def connected(
    cli: Invocation, *, start: bool = True, timeout_s: float = REQUEST_S
) -> AsyncGenerator[Client]:
    """A connection. ``start``: start a daemon when none runs, and print problems of the configuration.

    Raises LaunchError, and as ``Client.request``.
    """
    connect = cli.launcher.connect if start else cli.launcher.connect_running
    client, _ = await connect(cli.workspace, cli.greeting())
    try:
        if start:
            await tell_problems(cli, client, timeout_s)
        yield client
    finally:
        await client.close()


class SessionConnection(NamedTuple):
    """A connection, and the session of a command; empty when the command needs none and there is none."""

    client: Client
    session: str

    async def request(self, method: str, timeout_s: float = REQUEST_S, **params: Any) -> dict[str, Any]:
        """Send a request about the session. Raises the exceptions of ``Client.request``."""
        about = {"sessionId": self.session} if self.session else {}
        return await self.client.request(method, {**about, **params}, timeout_s)

    async def load(self) -> dict[str, Any]:
        """Return the session's state, without messages."""
        return await self.request("goalwright/session/load", messages=0)


def session_command(
    *, needed: bool = True
) -> Callable[
    [Callable[Concatenate[Invocation, SessionConnection, P], Awaitable[int | None]]],
    Callable[Concatenate[Invocation, P], Awaitable[int]],
]:
    """Make of work on a session a command: it connects and finds the session first, and returns the exit code, which
    is that of the work if it returns one.

    ``needed``: without a session it cannot be done.
    """

    def declare(
        work: Callable[Concatenate[Invocation, SessionConnection, P], Awaitable[int | None]],
    ) -> Callable[Concatenate[Invocation, P], Awaitable[int]]:
        @reporting()
        @functools.wraps(work)
        async def command(cli: Invocation, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
            async with connected(cli) as client:
                found = cli.session or (await newest(client, REQUEST_S)).session_id
                if needed and not found:
                    words = t("There are no sessions in {workspace} yet.", workspace=cli.workspace)
                    raise CommandFailedError(words)
                return await work(cli, SessionConnection(client, found), *args, **kwargs)

        return command

    return declare


async def tell_problems(cli: Invocation, client: Client, timeout_s: float = REQUEST_S) -> None:
    """Tell of parts of the configuration that are not used. Raises as ``Client.request``."""
    cli.console.problems(await client.request("goalwright/config/problems", {}, timeout_s))


def called(command: dict[str, Any]) -> str:
    """Return how a user calls a command or prompt: ``/name [arguments]``."""
    return f"/{string(command.get('name'))} {string(command.get('hint'))}".rstrip()


WHOSE = {"user": noted("yours"), "workspace": noted("from this folder")}
"""Where agents, commands and skills come from."""


def goal_by_number(loaded: dict[str, Any], number: str) -> str:
    """Return the id of the goal with the number ``2.1``, ``#2.1``, or with the id that models see, ``g5``.

    Raises CommandFailedError with the existing numbers.
    """
    numbers = {goal_id: string(shown_as) for goal_id, shown_as in mapping(loaded.get("goalNumbers")).items()}
    wanted = number.strip().rstrip(".").removeprefix("#")
    found = next((goal_id for goal_id, shown_as in numbers.items() if shown_as == wanted), None)
    if found is None and wanted.startswith("g") and wanted[1:] in numbers:
        found = wanted[1:]
    if found is None:
        known = ", ".join(sorted(numbers.values(), key=in_order)[:30])
        more = ", …" if len(numbers) > 30 else ""
        raise CommandFailedError(
            t("There is no goal {wanted}. ", wanted=wanted)
            + (t("Goals: {known}{more}.", known=known, more=more) if known else t("The plan is empty."))
        )
    return found
