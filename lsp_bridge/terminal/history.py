"""``goalwright history``, ``undo``, ``redo`` and ``restore``: what the agent changed, taken back or done again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from daemon.provider.variables import provider_env
from lsp_bridge.client import Client, ConnectionLost, RequestTimeout, RpcError
from lsp_bridge.launch import Greeting, Launcher, LaunchError
from lsp_bridge.terminal.console import Console
from lsp_bridge.terminal.loose import integer, mapping, mappings, string
from lsp_bridge.terminal.run import CLIENT_NAME, EXIT_FAILED, EXIT_OK
from lsp_bridge.terminal.text import fit, one_line, shown, shown_line

_REQUEST_S = 60.0

Action = Literal["history", "undo", "redo", "restore"]


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """What is asked for. ``session`` None: the newest of this person."""

    action: Action
    workspace: Path
    session: str | None = None
    change: str | None = None
    """One change by its id, for undo and redo."""
    message: str | None = None
    goal: str | None = None
    """Number of a goal as the plan shows it, or its id; for restore."""
    dry_run: bool = False
    json: bool = False


class _Failed(Exception):
    """It cannot be done; the message says why."""


async def history(options: HistoryOptions, launcher: Launcher, console: Console) -> int:
    """Do it, say what was done, and return the exit code."""
    client: Client | None = None
    try:
        client, _ = await launcher.connect(
            options.workspace, Greeting(client=CLIENT_NAME, env=provider_env(os.environ))
        )
        session = options.session or await _newest(client, options.workspace)
        if options.action == "history":
            found = await client.request("goalwright/history/list", {"sessionId": session}, _REQUEST_S)
            if options.json:
                console.write(json.dumps(found) + "\n")
            else:
                _list(console, session, found)
            return EXIT_OK
        params = await _params(client, options, session)
        done = await client.request(f"goalwright/history/{options.action}", params, _REQUEST_S)
        if options.json:
            console.write(json.dumps(done) + "\n")
        else:
            _told(options, console, done)
        return EXIT_OK
    except (_Failed, LaunchError, RpcError, RequestTimeout, ConnectionLost) as error:
        if options.json:
            code = error.code if isinstance(error, RpcError) else 0
            console.write(json.dumps({"error": {"code": code, "message": str(error)}}) + "\n")
        else:
            console.warn(shown(str(error)))
        return EXIT_FAILED
    finally:
        if client is not None:
            await client.close()


async def _newest(client: Client, workspace: Path) -> str:
    """The newest session of this person; one that came with the folder has no history to act on."""
    params: dict[str, Any] = {"limit": 50}
    while True:
        listed = await client.request("goalwright/session/list", params, _REQUEST_S)
        sessions = mappings(listed.get("sessions"))
        for session in sessions:
            params["before"] = string(mapping(session.get("trace")).get("traceId"))
            if session.get("foreign") is not True:
                return params["before"]
        if listed.get("more") is not True or not sessions:
            raise _Failed(f"There is no session in {workspace} yet.")


async def _params(client: Client, options: HistoryOptions, session: str) -> dict[str, Any]:
    params: dict[str, Any] = {"sessionId": session, "dryRun": options.dry_run}
    if options.action != "restore":
        return params if options.change is None else {**params, "changeId": options.change}
    if options.message is not None:
        return {**params, "messageId": options.message}
    loaded = await client.request(
        "goalwright/session/load", {"sessionId": session, "messages": 0}, _REQUEST_S
    )
    numbers = mapping(loaded.get("goalNumbers"))
    wanted = (options.goal or "").rstrip(".")
    goal = next((goal_id for goal_id, number in numbers.items() if number == wanted), None)
    if goal is None:
        known = ", ".join(sorted(string(number) for number in numbers.values()))
        raise _Failed(
            f"There is no goal {wanted}. " + (f"Goals: {known}." if known else "The plan is empty.")
        )
    return {**params, "goalId": goal}


def _list(console: Console, session: str, found: dict[str, Any]) -> None:
    changes = mappings(found.get("changes"))
    if not changes:
        console.write(f"No file was changed in session {shown_line(session)}.\n")
        return
    for change in changes:
        mark = "undone" if change.get("state") == "undone" else ""
        if change.get("changeId") == found.get("undo"):
            mark = "next to undo"
        elif change.get("changeId") == found.get("redo"):
            mark = "next to redo"
        when = string(change.get("time"))[:16].replace("T", " ")
        tool = one_line(string(change.get("tool")))
        line = f"{shown_line(string(change.get('changeId')))}  {when}  {tool}  {_files(change)}"
        line += f"  [{mark}]" if mark else ""
        console.write((fit(line, console.columns) if console.live else line) + "\n")


def _files(change: dict[str, Any]) -> str:
    names = [
        f"{shown_line(string(file.get('path')))} "
        + (
            {"create": "(new)", "delete": "(deleted)"}.get(string(file.get("kind")), "")
            or f"+{integer(file.get('added'))} -{integer(file.get('removed'))}"
        )
        + ("" if file.get("undoable") is not False else " (cannot be undone)")
        for file in mappings(change.get("files"))
    ]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _told(options: HistoryOptions, console: Console, done: dict[str, Any]) -> None:
    files = mappings(done.get("files"))
    target = shown_line(string(done.get("target")))
    if options.dry_run:
        for file in files:
            console.write(console.style.diff(string(file.get("diff"))) + "\n")
    did = {"undo": "Undone", "redo": "Redone", "restore": "Taken back"}[options.action]
    if options.dry_run:
        did = f"Would be {did.lower()}"
    if not files:
        console.write(f"{did}: {target}. The files read so already.\n")
        return
    console.write(f"{did}: {target}\n")
    for file in files:
        what = {"create": "restored", "delete": "deleted"}.get(string(file.get("kind")), "changed")
        counts = f"+{integer(file.get('added'))} -{integer(file.get('removed'))}"
        console.write(f"  {what}  {shown_line(string(file.get('path')))}  {counts}\n")
