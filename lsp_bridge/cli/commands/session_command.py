"""The common parts of commands about one session: the connection, the choice of the session, and their errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from lsp_bridge.cli.client import Client, ConnectionLostError, RequestTimeoutError, RpcError
from lsp_bridge.cli.invocation import EXIT_OK, Invocation
from lsp_bridge.cli.launch import LaunchError
from lsp_bridge.cli.run.newest_session import newest
from tools.json_access import mapping, string, strings
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
REQUEST_S = 60.0


class CommandFailedError(Exception):
    """Raised when a command fails; the message says why."""


@dataclass(frozen=True, slots=True)
class SessionConnection:
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
    [Callable[Concatenate[Invocation, SessionConnection, P], Awaitable[None]]],
    Callable[Concatenate[Invocation, P], Awaitable[int]],
]:
    """Make of work on a session a command: it connects and finds the session first, and returns the exit code.

    ``needed``: without a session it cannot be done.
    """

    def declare(
        work: Callable[Concatenate[Invocation, SessionConnection, P], Awaitable[None]],
    ) -> Callable[Concatenate[Invocation, P], Awaitable[int]]:
        @functools.wraps(work)
        async def command(cli: Invocation, /, *args: P.args, **kwargs: P.kwargs) -> int:
            try:
                client, _ = await cli.launcher.connect(cli.workspace, cli.greeting())
                try:
                    await tell_problems(cli, client)
                    found = cli.session or (await newest(client, REQUEST_S)).session_id
                    if needed and not found:
                        raise CommandFailedError(
                            t("There are no sessions in {workspace} yet.", workspace=cli.workspace)
                        )
                    await work(cli, SessionConnection(client, found), *args, **kwargs)
                finally:
                    await client.close()
            except (
                CommandFailedError,
                LaunchError,
                RpcError,
                RequestTimeoutError,
                ConnectionLostError,
            ) as error:
                return cli.failed(error, error.code if isinstance(error, RpcError) else 0)
            return EXIT_OK

        return command

    return declare


async def tell_problems(cli: Invocation, client: Client, timeout_s: float = REQUEST_S) -> None:
    """Tell of parts of the configuration that are not used. Raises as ``Client.request``."""
    found = await client.request("goalwright/config/problems", {}, timeout_s)
    for problem in strings(found.get("problems")):
        cli.console.problem(problem)


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
        known = ", ".join(sorted(numbers.values(), key=_in_order)[:30])
        more = ", …" if len(numbers) > 30 else ""
        raise CommandFailedError(
            t("There is no goal {wanted}. ", wanted=wanted)
            + (t("Goals: {known}{more}.", known=known, more=more) if known else t("The plan is empty."))
        )
    return found


def _in_order(number: str) -> list[int]:
    return [int(step) for step in number.split(".") if step.isdecimal()]
