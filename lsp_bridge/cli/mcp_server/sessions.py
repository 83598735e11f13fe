"""The sessions of one folder as text for other agents. Reading opens no session, so that none goes on by it."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from daemon.provider.variables import provider_env
from lsp_bridge.cli.client import Greeting
from lsp_bridge.cli.commands.session_command import REQUEST_S, CommandFailedError, goal_by_number
from lsp_bridge.cli.launch import LastingConnection
from lsp_bridge.cli.run.branch_lines import exploration_lines
from lsp_bridge.cli.run.newest_session import newest, trace_id
from lsp_bridge.cli.text import one_line, sign
from tools.json_access import integer, mapping, mappings, string
from tools.process.background import Background
from tools.text.truncate import abridged

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.client import Client
    from lsp_bridge.cli.launch import Launcher

LONGEST_PROMPT = 10_000
MOST_EXPLORATIONS = 3
"""Explorations of one connection that work at the same time."""
_LONGEST_PART = 2_000
_LONGEST_LINE = 300
"""Characters."""
_AT_ONCE_S = 2.0
"""Errors of a prompt that come so soon belong to the answer."""

Session = Annotated[str, Field(description="Id of a session (see list_sessions); empty: the one used last.")]
Number = Annotated[int, Field(ge=1, le=100)]


class FolderSessions:
    """The sessions of a folder as far as other agents may see and change them.

    All public methods but ``close`` are tools, and their docstrings are for models. They raise the errors of
    ``Client.request``, LaunchError, and CommandFailedError for what does not exist.
    """

    def __init__(self, workspace: Path, launcher: Launcher) -> None:
        self._connection = LastingConnection(launcher, workspace)
        self._exploring = Background("explorations of another agent", level=logging.DEBUG)
        self._under_way = 0

    async def close(self) -> None:
        """Hang up; the daemon and its sessions go on."""
        await self._exploring.close()
        await self._connection.close()

    async def list_sessions(self, limit: Number = 20) -> str:
        """List the sessions of this folder, newest first: id, state, when, and title."""
        found = await self._request("goalwright/session/list", limit=limit)
        return "\n".join(map(_session_line, mappings(found.get("sessions"))))

    async def goal_tree(self, session: Session = "") -> str:
        """Show the plan of a session: its goals with their numbers, states and summaries, and its explorations."""
        loaded = await self._loaded(session)
        tree, numbers = mapping(loaded.get("goalTree")), mapping(loaded.get("goalNumbers"))
        lines = [_session_line(mapping(loaded.get("session")))]
        if mission := one_line(string(tree.get("mission")), _LONGEST_PART):
            lines.append(f"Mission: {mission}")
        for goal in mappings(tree.get("goals")):
            number = string(numbers.get(string(goal.get("id"))))
            if not number:
                continue  # an abandoned one
            status = string(goal.get("status"))
            now = " (in focus)" if goal.get("id") == tree.get("currentId") else ""
            indent = "  " * number.count(".")
            description = one_line(string(goal.get("description")), _LONGEST_LINE)
            lines.append(f"{indent}{sign(status)} {number} {description} [{status}]{now}")
            if summary := one_line(string(goal.get("summary")), _LONGEST_LINE):
                lines.append(f"{indent}    {summary}")
        branches = [mapping(one) for one in mapping(loaded.get("branches")).values()]
        if branches:
            lines += ["Branches of explorations:", *exploration_lines({"branches": branches})]
        return "\n".join(lines)

    async def goal_messages(
        self,
        goal: Annotated[str, Field(description="Number of a goal, e.g. 2.1; empty: of all goals.")] = "",
        session: Session = "",
        limit: Number = 20,
        before: Annotated[int, Field(description="Only those with a lower number; 0: the newest.")] = 0,
    ) -> str:
        """Show the messages of a goal, oldest first, each with its number. Long ones are shortened."""
        loaded = await self._loaded(session)
        params: dict[str, Any] = {"sessionId": trace_id(loaded), "limit": limit}
        if goal:
            params |= {"goalId": goal_by_number(loaded, goal), "descendants": True}
        if before:
            params["before"] = before
        found = await self._request("goalwright/trace/messages", **params)
        texts = [_message(message) for message in mappings(found.get("messages"))]
        if found.get("hasEarlier") is True:
            texts.insert(0, "(There are earlier messages: ask with before.)")
        return "\n\n".join(filter(None, texts))

    async def search(
        self, query: Annotated[str, Field(min_length=1, max_length=500)], limit: Number = 20
    ) -> str:
        """Find sessions of this folder by words of their title or messages."""
        found = await self._request("goalwright/session/search", query=query, limit=limit)
        return "\n".join(
            f"{string(hit.get('sessionId'))}  {one_line(string(hit.get('excerpt')), _LONGEST_LINE)}".rstrip()
            for hit in mappings(found.get("hits"))
        )

    async def add_goal(
        self,
        description: Annotated[str, Field(min_length=1, max_length=500)],
        reason: Annotated[str, Field(max_length=2_000)] = "",
        under: Annotated[str, Field(description="Number of the goal above; empty: at the top.")] = "",
        session: Session = "",
    ) -> str:
        """Add a goal to the plan of a session. The agent works on it when its user goes on."""
        loaded = await self._loaded(session)
        parent = goal_by_number(loaded, under) if under else None
        session_id = trace_id(loaded)
        params = {"sessionId": session_id, "description": description, "reason": reason, "parentId": parent}
        await self._request("goalwright/goal/add", **params)
        return f"Added to session {session_id}: {one_line(description, _LONGEST_LINE)}"

    async def explore(
        self,
        question: Annotated[str, Field(min_length=1, max_length=LONGEST_PROMPT)],
        session: Annotated[str, Field(description="Id of a session; empty: a new one.")] = "",
    ) -> str:
        """Start an exploration: several approaches to a question, each in its own copy of the files.

        Returns at once. Its user is asked about changes and commands as usual. Follow it with goal_tree.
        """
        if self._under_way >= MOST_EXPLORATIONS:
            raise CommandFailedError(
                f"{MOST_EXPLORATIONS} explorations that were started here are still at work: wait for one of them."
            )
        self._under_way += 1  # at once: other calls come while this one waits for the daemon
        try:
            client = await self._connect()
            if session:
                await self._loaded(session)
            else:
                session = trace_id(await self._request("goalwright/session/new"))
        except BaseException:
            self._under_way -= 1
            raise
        params = {"sessionId": session, "text": f"/explore {question.strip()}"}
        # How it ends later is in its session.
        prompt = self._exploring.start(client.request("goalwright/session/prompt", params), then=self._ended)
        await asyncio.wait({prompt}, timeout=_AT_ONCE_S)
        if prompt.done():
            result = prompt.result()
            if result.get("stopReason") == "error":
                raise CommandFailedError(f"Session {session}: {string(result.get('detail'))}")
        return (
            f"Started in session {session}. Its user is asked about changes and commands in VS Code or a terminal "
            "(goalwright run --continue). Follow it with goal_tree."
        )

    # -- internals --

    def _ended(self, prompt: object) -> None:
        self._under_way -= 1

    async def _connect(self) -> Client:
        # Unattended: this client answers no questions, and the limits of such runs hold.
        env = provider_env(os.environ)
        return await self._connection.get(lambda: Greeting(client="MCP", env=env, unattended=True))

    async def _request(self, method: str, **params: Any) -> dict[str, Any]:
        return await (await self._connect()).request(method, params, REQUEST_S)

    async def _loaded(self, session: str) -> dict[str, Any]:
        """Return a session as it is stored; the user's newest one for an empty id."""
        if not session:
            session = (await newest(await self._connect(), REQUEST_S)).session_id
        if not session:
            raise CommandFailedError("There are no sessions in this folder yet.")
        return await self._request("goalwright/session/preview", sessionId=session, messages=0)


def _session_line(info: dict[str, Any]) -> str:
    trace = mapping(info.get("trace"))
    title = one_line(string(trace.get("title")), 120) or "(untitled)"
    origin = ", came with the folder" if info.get("foreign") is True else ""
    when = string(trace.get("updatedAt"))[:19]
    return f"{trace_id(info)}  [{string(info.get('status'))}{origin}]  {when}  {title}"


def _message(message: dict[str, Any]) -> str:
    lines: list[str] = []
    for part in mappings(message.get("content")):
        match part.get("type"):
            case "text":
                lines.append(abridged(string(part.get("text")).strip(), _LONGEST_PART))
            case "tool_call":
                call = f"{string(part.get('name'))} {string(part.get('input'))}"
                lines.append(f"[call] {one_line(call, _LONGEST_LINE)}")
            case "tool_result":
                outcome = string(part.get("title")) or string(part.get("content"))
                failed = " failed" if part.get("isError") is True else ""
                lines.append(f"[result{failed}] {one_line(outcome, _LONGEST_LINE)}")
            case _:
                pass
    text = "\n".join(filter(None, lines))
    return f"#{integer(message.get('sequence'))} {string(message.get('role'))}:\n{text}" if text else ""
