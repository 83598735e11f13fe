"""One session of the daemon that an editor shows: its updates in order, its questions, its prompts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

from acp import helpers, schema
from acp.exceptions import RequestError
from msgspec import Struct, field
from pydantic import ValidationError

from daemon.model import notice_codes
from lsp_bridge.cli.acp import questions
from lsp_bridge.cli.acp.content import plan_entries
from lsp_bridge.cli.acp.updates import Translator, notice
from lsp_bridge.cli.client import DaemonError, RpcError
from lsp_bridge.cli.run.goal_lines import GOAL_EVENTS
from lsp_bridge.cli.text import shown_line
from lsp_bridge.protocol.handshake import ErrorCode
from tools.json_access import integer, mapping, mappings, string
from tools.localization import noted, t
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from acp.interfaces import Client as Editor

    from lsp_bridge.cli.client import Client

log = logging.getLogger(__name__)

_GONE = (ConnectionError, DaemonError)
_STOPS: dict[str, schema.StopReason] = {
    "canceled": "cancelled",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
}
"""Stop reasons that have another name, or mean more than the end of the turn."""
_KEY_ERRORS = ("no_key", "auth")
_LAST_EVENTS_S = 5.0
"""How long the end of a turn may come after the answer to its prompt."""
_PAGE = 1000
COMMANDS = {
    "compact": ("goalwright/session/compact", noted("Summarize the conversation so far to free context")),
    "undo": ("goalwright/history/undo", noted("Undo the last change of files")),
    "redo": ("goalwright/history/redo", noted("Redo the change that was undone last")),
}
"""Commands of the composer: the request, and its description."""


class _Prompt(Struct):
    """A prompt of the editor that is not answered yet."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Its turn has ended."""
    started: bool = False
    """Its turn has started; a prompt that only switches the agent has none."""
    canceled: bool = False
    """The editor has canceled it."""


class LiveSession:
    """One session. ``connect`` returns the connection to its daemon."""

    def __init__(
        self, session_id: str, workspace: Path, editor: Editor, connect: Callable[[], Awaitable[Client]]
    ) -> None:
        self.session_id = session_id
        self.workspace = workspace
        self._editor = editor
        self.connect = connect
        self._translator = Translator(workspace)
        self._client: Client | None = None
        self._last_event_id = 0
        self._outbox: asyncio.Queue[Any] = asyncio.Queue()
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Questions that the user has been asked, by the id of the request or of the exploration."""
        self._prompts: dict[str, _Prompt] = {}
        """By their ids, in order."""
        self._error: str = ""
        """Kind of the error that ended the last turn."""
        self._is_canceled = False
        """The editor has answered a question with a cancellation since the last prompt."""
        self._plan_due = False
        self._servers: list[dict[str, Any]] = []
        """The editor's MCP servers (``McpGivenServer`` of the wire); in memory only."""
        self._commands: schema.AvailableCommandsUpdate | None = None
        """Those that the editor knows."""
        self._opening = asyncio.Lock()
        self._held: list[tuple[str, dict[str, Any]]] | None = None
        """Notifications that wait until the state before them is shown; None while none has to."""
        self._closed = False
        self._background = Background("work for an editor's session")
        self._background.start(self._send_all())

    # -- what the editor asks for --

    async def opened(
        self, client: Client, servers: list[dict[str, Any]] | None = None, *, replay: bool = False
    ) -> dict[str, Any]:
        """Subscribe to the session, and show what waits. ``servers``: the editor's MCP servers (``McpGivenServer`` of
        the wire); None: those that it gave before. ``replay``: send the whole conversation first.

        Returns the session (``SessionInfo``). Raises as ``Client.request``.
        """
        async with self._opening:
            self._held = []
            try:
                return await self._open(client, servers, replay=replay)
            finally:
                held, self._held = self._held, None
                for method, notice_params in held:
                    self.notified(method, notice_params)

    async def _open(
        self, client: Client, servers: list[dict[str, Any]] | None, *, replay: bool
    ) -> dict[str, Any]:
        params = {"sessionId": self.session_id, "messages": _PAGE if replay else 0}
        loaded = await client.request("goalwright/session/load", params)
        self._client = client
        had, self._servers = self._servers, self._servers if servers is None else servers
        if self._servers or had:  # another daemon, or another connection, does not know them
            await self._pass_servers(client)
        self._last_event_id = integer(loaded.get("lastEventId"))
        if replay:
            self._translator = Translator(self.workspace)  # the editor begins with nothing
            for message in await self._history(client, loaded):
                self._put(self._translator.message(message))
        for call in mappings(loaded.get("underWay")) if replay else ():
            self._put(self._translator.event({"event": "tool_started", **call}))
        self._put(self._translator.streaming(mapping(loaded.get("streaming"))))
        if (plan := _plan(loaded)).entries:
            self._put([plan])
        self._put(self._translator.meter(mapping(loaded.get("meter"))))
        self._commands = await self._listed_commands(client)
        self._put([self._commands])
        self._background.start(self._offer_commands(client, start=True))
        for request in mappings(loaded.get("pending")):
            self._asked(request)
        for start_id in loaded.get("awaitsChoice") or ():
            self._choice_awaited(string(start_id))
        return mapping(loaded.get("session"))

    async def _offer_commands(self, client: Client, *, start: bool = False) -> None:
        """Send the commands when they are others than before. ``start``: with those of MCP servers that start now."""
        with contextlib.suppress(*_GONE):
            commands = await self._listed_commands(client, start=start)
            if commands != self._commands:
                self._commands = commands
                self._put([commands])

    async def _listed_commands(
        self, client: Client, *, start: bool = False
    ) -> schema.AvailableCommandsUpdate:
        """Return our commands, those of the user, and prompts of MCP servers, which ``start`` starts. Raises as
        ``Client.request``."""
        params = {"sessionId": self.session_id, "start": start}
        return _commands(mappings((await client.request("goalwright/prompt/list", params)).get("commands")))

    async def _pass_servers(self, client: Client) -> None:
        params = {"sessionId": self.session_id, "servers": self._servers}
        try:
            await client.request("goalwright/mcp/session", params)
        except RpcError as error:  # the session works without them
            self.tell(str(error))

    async def _history(self, client: Client, loaded: dict[str, Any]) -> Sequence[dict[str, Any]]:
        messages = mappings(loaded.get("messages"))
        earlier = loaded.get("hasEarlier") is True
        while earlier and messages:
            before = integer(messages[0].get("sequence"))
            params = {"sessionId": self.session_id, "before": before, "limit": _PAGE}
            page = await client.request("goalwright/session/messages", params)
            messages = [*mappings(page.get("messages")), *messages]
            earlier = page.get("hasEarlier") is True and bool(page.get("messages"))
        return messages

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request about this session. Raises as ``Client.request``, and LaunchError."""
        client = await self.connect()
        if client is not self._client:
            await self.opened(client)  # another daemon than before
        return await client.request(method, {"sessionId": self.session_id, **(params or {})})

    async def prompt(self, text: str, files: list[dict[str, Any]]) -> schema.StopReason:
        """Work on a prompt, or on a command; returns when its turn has ended and the editor has all of it.

        Raises RequestError when the turn failed, and as ``request``.
        """
        name, _, rest = text.strip().removeprefix("/").partition(" ")
        if text.startswith("/") and name in COMMANDS and not rest and not files:
            done = await self.request(COMMANDS[name][0])
            if words := string(done.get("detail")):
                self.tell(words)
            await self.settled()
            return "end_turn"
        prompt_id = f"acp-{os.urandom(6).hex()}"
        prompt = self._prompts[prompt_id] = _Prompt()
        self._error, self._is_canceled = "", False
        try:
            params = {"text": text, "promptId": prompt_id, **({"attachments": files} if files else {})}
            done = await self.request("goalwright/session/prompt", params)
            if done.get("removed") is not True and (prompt.started or self._held is not None):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_EVENTS_S):
                        await prompt.ended.wait()
        except RpcError:
            if self._is_canceled or prompt.canceled:  # in a question about an attachment
                return "cancelled"
            raise
        finally:
            del self._prompts[prompt_id]
            is_canceled = self._is_canceled or prompt.canceled
        await self.settled()
        reason, detail = string(done.get("stopReason")), string(done.get("detail"))
        if is_canceled and reason != "end_turn":
            return "cancelled"
        if reason == "error":
            raise RequestError(self._code(), detail or t("The turn failed."))
        return "cancelled" if done.get("removed") is True else _STOPS.get(reason, "end_turn")

    def _code(self) -> int:
        """Return the error code of a failed turn: the editor offers to sign in where a key is missing or wrong."""
        return -32000 if self._error in _KEY_ERRORS else -32603

    @property
    def is_working(self) -> bool:
        """Whether a prompt of the editor is under way."""
        return bool(self._prompts)

    async def cancel(self) -> None:
        """Stop what the session does, also prompts of this editor that wait for their turn: each is answered as
        canceled. Later ones are worked on."""
        waiting = list(self._prompts)
        for prompt in self._prompts.values():
            prompt.canceled = True
        if self._client is not None:
            for prompt_id in waiting:
                with contextlib.suppress(DaemonError):  # an error for the one under way
                    params = {"sessionId": self.session_id, "promptId": prompt_id, "text": None}
                    await self._client.request("goalwright/queue/edit", params)
            # When all of them have ended meanwhile, a later one may be under way.
            if not waiting or not self._prompts or any(one in self._prompts for one in waiting):
                await self._cancel_turn(self._client)

    async def _cancel_turn(self, client: Client) -> None:
        with contextlib.suppress(DaemonError):
            await client.request("goalwright/session/cancel", {"sessionId": self.session_id})

    async def settled(self) -> None:
        """Return when the editor has received all updates so far, or the session is closed."""
        await self._outbox.join()

    def show(self, update: schema.ConfigOptionUpdate) -> None:
        """Send one more update."""
        self._put([update])

    def tell(self, text: str) -> None:
        """Show the user a notice."""
        self._put([notice(text)])

    async def close(self) -> None:
        """Take part in the session no more; it goes on, without the editor's MCP servers."""
        self._closed = True
        if self._servers and self._client is not None:
            self._servers = []
            with contextlib.suppress(*_GONE):
                await self._pass_servers(self._client)
        for prompt in self._prompts.values():
            prompt.ended.set()
        await self._background.close()
        while not self._outbox.empty():  # or those who wait for it would do so for ever
            self._outbox.get_nowait()
            self._outbox.task_done()

    # -- what the daemon says --

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Handle a notification about this session."""
        if self._held is not None:
            self._held.append((method, params))
        elif method == "goalwright/session/delta":
            self._put(self._translator.delta(mapping(params.get("delta"))))
        elif method == "goalwright/session/meter":
            self._put(self._translator.meter(mapping(params.get("meter"))))
        elif method == "goalwright/session/update":
            event = mapping(params.get("event"))
            if integer(event.get("eventId")) > self._last_event_id:
                self._last_event_id = integer(event.get("eventId"))
                self._put(self._translator.event(event))
                self._follow(event)

    def _follow(self, event: dict[str, Any]) -> None:
        name, prompt = string(event.get("event")), self._prompts.get(string(event.get("promptId")))
        if name in GOAL_EVENTS and not self._plan_due:
            self._plan_due = True
            self._put([None])
        elif name == "permission_asked":
            self._asked(mapping(event.get("request")))
        elif name == "permission_replied":
            self._answered(string(event.get("requestId")))
        elif name == "notice" and event.get("code") == notice_codes.CHOICE_AWAITED:
            self._choice_awaited(string(event.get("about")))
        elif name == "notice" and event.get("code") == notice_codes.CHOICE_MADE:
            self._answered(string(event.get("about")))
        elif name == "turn_started" and prompt is not None:
            prompt.started = True
            self._translator.own_turn()
            if prompt.canceled and self._client is not None:
                # It was canceled while its attachments were read: then nothing was running.
                self._background.start(self._cancel_turn(self._client))
        elif name == "turn_ended":
            self._error = string(event.get("errorKind"))
            if self._client is not None:  # a server may have changed its prompts
                self._background.start(self._offer_commands(self._client))
            if prompt is not None:
                prompt.ended.set()

    # -- questions --

    def _asked(self, request: dict[str, Any]) -> None:
        request_id = string(request.get("requestId"))
        if request_id not in self._asking:
            self._asking[request_id] = self._background.start(self._ask(request_id, request))

    async def _ask(self, request_id: str, request: dict[str, Any]) -> None:
        try:
            try:
                await self._reply(request_id, request)
            except RpcError as error:
                if error.code not in (ErrorCode.INVALID_PARAMS, ErrorCode.STORE_FAILED):
                    raise
                self.tell(str(error))
                # The request still waits. What could not be remembered can be allowed once.
                await self._reply(request_id, {**request, "suggestions": ()})
        except _GONE:
            pass  # somebody else has answered, the turn has ended, or the question waits for other clients
        finally:
            self._asking.pop(request_id, None)
            self._call_over(questions.call_id(request))

    async def _reply(self, request_id: str, request: dict[str, Any]) -> None:
        answer = await questions.permission(request, self.workspace, self._option)
        client = await self.connect()
        await client.request("goalwright/permission/reply", {"requestId": request_id, **answer})

    def _choice_awaited(self, start_id: str) -> None:
        if start_id not in self._asking:
            self._asking[start_id] = self._background.start(self._choose(start_id))

    async def _choose(self, start_id: str) -> None:
        about = {"exploreStartId": start_id}
        try:
            listed = await self.request("goalwright/explore/list", about)
            explorations = mappings(listed.get("explorations"))
            exploration = explorations[-1] if explorations else None
            while exploration and (chosen := await questions.branch(exploration, self._option)):
                if await self._merge(chosen):
                    return
                # The choice is still open. An editor that answers by itself must not choose the same one again.
                others = [one for one in mappings(exploration.get("branches")) if one.get("id") != chosen]
                exploration = {**exploration, "branches": others}
            await self.request("goalwright/explore/leave", about)
        except _GONE:
            pass
        finally:
            self._asking.pop(start_id, None)
            self._call_over(questions.choice_id(start_id))

    async def _merge(self, branch_id: str) -> bool:
        """Merge a branch; when that fails, say why and return False."""
        try:
            done = await self.request("goalwright/explore/select", {"choice": [branch_id]})
        except RpcError as error:
            self.tell(str(error))
            return False
        if done.get("applied") is not True:
            self.tell(string(done.get("title")))
        return done.get("applied") is True

    def _call_over(self, call_id: str) -> None:
        """End a call that the editor knows by its question alone, so that it does not show it as running."""
        if not self._translator.has_shown(call_id):
            self._put([helpers.update_tool_call(call_id, status="completed")])

    def _answered(self, about: str) -> None:
        """Somebody has answered: the editor's answer is not waited for any more."""
        task = self._asking.get(about)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _option(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse:
        await self.settled()  # the call is shown before it is asked about
        try:
            response = await self._editor.request_permission(self.session_id, call, options)
        except (RequestError, ValidationError) as error:
            log.warning("the editor did not ask: %s", error)
            self.tell(t("The editor could not ask “{title}”, which counts as no.", title=call.title or ""))
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        if isinstance(response.outcome, schema.DeniedOutcome):
            self._is_canceled = True  # it may arrive before the cancellation that it belongs to
        return response

    # -- updates, in their order --

    def _put(self, updates: Sequence[Any]) -> None:
        for update in updates if not self._closed else ():
            self._outbox.put_nowait(update)

    async def _send_all(self) -> None:
        while True:
            update = await self._outbox.get()
            try:
                if update is None:  # the plan as it is when its turn comes, not once for each change
                    self._plan_due = False
                    update = await self._plan_now()
                if update is not None:
                    await self._editor.session_update(self.session_id, update)
            except _GONE:
                pass  # the editor or the daemon is gone, which the next request reports
            except Exception:
                log.exception("an update was not sent")  # those that follow are
            finally:
                self._outbox.task_done()

    async def _plan_now(self) -> schema.AgentPlanUpdate | None:
        if self._client is None:
            return None
        params = {"sessionId": self.session_id, "messages": 0}
        return _plan(await self._client.request("goalwright/session/load", params))


def _plan(loaded: dict[str, Any]) -> schema.AgentPlanUpdate:
    entries = plan_entries(mapping(loaded.get("goalTree")), mapping(loaded.get("goalNumbers")))
    return helpers.update_plan(entries)


def _commands(own: Sequence[dict[str, Any]]) -> schema.AvailableCommandsUpdate:
    found = {
        string(one.get("name")): schema.AvailableCommand(
            name=string(one.get("name")),
            description=shown_line(string(one.get("description"))),
            input=_input(one),
        )
        for one in own
    }
    for name, (_, words) in COMMANDS.items():
        found[name] = schema.AvailableCommand(name=name, description=t(words))
    return helpers.update_available_commands(found.values())


def _input(command: dict[str, Any]) -> schema.AvailableCommandInput | None:
    if command.get("arguments") is not True:
        return None
    hint = shown_line(string(command.get("hint"))) or t("arguments")
    return schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))
