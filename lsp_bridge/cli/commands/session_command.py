"""What the commands about one session share: the connection, which session is meant, and how they fail."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.provider.variables import provider_env
from lsp_bridge.cli.client import Client, ConnectionLostError, RequestTimeoutError, RpcError
from lsp_bridge.cli.launch import Greeting, Launcher, LaunchError
from lsp_bridge.cli.run.newest_session import newest
from lsp_bridge.cli.run.turn import CLIENT_NAME, EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.text import shown
from tools.json_access import mapping, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from lsp_bridge.cli.console import Console

REQUEST_S = 60.0


class CommandFailedError(Exception):
    """It cannot be done; the message says why."""


@dataclass(frozen=True, slots=True)
class SessionConnection:
    """A connection, and the session that a command is about; empty when it needs none and there is none."""

    client: Client
    session: str

    async def request(self, method: str, timeout_s: float = REQUEST_S, **params: Any) -> dict[str, Any]:
        """A request about the session. Raises what ``Client.request`` raises."""
        about = {"sessionId": self.session} if self.session else {}
        return await self.client.request(method, {**about, **params}, timeout_s)

    async def load(self) -> dict[str, Any]:
        """The session's state, without messages."""
        return await self.request("goalwright/session/load", messages=0)


async def about_session(
    workspace: Path,
    session: str | None,
    launcher: Launcher,
    console: Console,
    work: Callable[[SessionConnection], Awaitable[None]],
    *,
    as_json: bool,
    needed: bool = True,
) -> int:
    """Connect, find the session (None: the newest of this person), do ``work``, and return the exit code.

    ``needed``: without a session it cannot be done.

    Expected failures are told on stderr, with ``as_json`` as ``{"error": {"code", "message"}}`` on stdout.
    """
    try:
        async with _connected(workspace, launcher) as client:
            found = session or (await newest(client, REQUEST_S)).session_id
            if needed and not found:
                raise CommandFailedError(t("There is no session in {workspace} yet.", workspace=workspace))
            await work(SessionConnection(client, found))
        return EXIT_OK
    except (CommandFailedError, LaunchError, RpcError, RequestTimeoutError, ConnectionLostError) as error:
        if as_json:
            code = error.code if isinstance(error, RpcError) else 0
            console.write(json.dumps({"error": {"code": code, "message": str(error)}}) + "\n")
        else:
            console.warn(shown(str(error)))
        return EXIT_FAILED


@contextlib.asynccontextmanager
async def _connected(workspace: Path, launcher: Launcher) -> AsyncGenerator[Client]:
    client, _ = await launcher.connect(workspace, Greeting(client=CLIENT_NAME, env=provider_env(os.environ)))
    try:
        yield client
    finally:
        await client.close()


def goal_by_number(loaded: dict[str, Any], number: str) -> str:
    """Return the id of the goal that is meant by ``2.1``, ``#2.1``, or by its id as models see it, ``g5``.

    Raises CommandFailedError with the numbers there are.
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
