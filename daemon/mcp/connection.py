"""One MCP server: started, initialized, asked for its tools, restarted after a crash, and stopped.

All of that happens in one task of its own, because the SDK's scopes must be left by the task that entered them. Callers
only wait for answers, each with a timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from daemon.mcp.content import REFRESH_PAUSE_S, ServerContent
from daemon.mcp.failures import brief, exit_words, invalid, sentence, unreadable_line, why_down
from daemon.outside_tools.definitions import BadDefinitionError, Definition, definition, not_offered
from tools.localization import t
from tools.process.background import despite_cancel, is_canceled
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mcp.client.session import IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult
    from pydantic import BaseModel

    from daemon.mcp.configuration import McpServerSpec
    from daemon.mcp.sdk import Listing, ServerSession
    from daemon.mcp.server_log import McpServerLog
    from daemon.mcp.server_requests import CallRequests
    from daemon.mcp.sign_in import McpAccess
    from daemon.mcp.tokens import TokenStore
    from tools.process.server_process import ServerProcess

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound="BaseModel")
MOST_TOOLS = 200
"""Tools of one server that are used."""
State = Literal["starting", "ready", "failed", "stopped", "signed_out"]
CONNECT_S = 60.0
"""For each of the requests until the tools are known; the first start of a server may download it."""
RESTART_S = 10.0
"""Seconds that a call waits for a server that is being restarted."""
RELIST_S = 3.0
"""Seconds that a call waits for the tools of a server that has announced a change."""
GRACE_S = 2.0
"""Between TERM and KILL."""
_BACKOFF_S = (1.0, 2.0, 4.0, 8.0)
"""Before each restart in a row; after the last one a server stays down until it is wanted again."""
_STEADY_S = 60.0
"""A server that was ready for so long begins with the first of them again."""
_CANCEL_AGAIN_S = 1.0
_LONGEST_ERROR = 500
_ENDS = ("Connection closed", "Session terminated")
"""The SDK's errors that mean the end of the connection, not of one answer."""


class _ToolList:
    """The tools of a server as it listed them last, and whether it has announced others since."""

    def __init__(self) -> None:
        self.tools: tuple[Definition, ...] = ()
        self.announced = asyncio.Event()
        """Set when others were announced, until they are asked for."""
        self.current = asyncio.Event()
        """Set while these are those that the server has, as far as it has said."""

    def outdate(self) -> None:
        """The server has announced a change."""
        self.announced.set()
        self.current.clear()

    def listed(self, tools: tuple[Definition, ...]) -> bool:
        """Take these; returns whether they are others than before."""
        changed, self.tools = tools != self.tools, tools
        if not self.announced.is_set():
            self.current.set()
        return changed

    def clear(self) -> bool:
        """Offer none any more; returns whether there were any."""
        had, self.tools = bool(self.tools), ()
        return had


class Connection:
    """A server and what is known of it."""

    def __init__(
        self,
        spec: McpServerSpec,
        workspace: Path,
        environment: Mapping[str, str],
        server_log: McpServerLog,
        changed: Callable[[], None],
        tokens: TokenStore,
    ) -> None:
        """``environment``: of its process, without what ``spec`` adds. ``changed``: called when the tools did.
        ``tokens``: of servers that the user signed in to.
        """
        self.spec = spec
        self.log = server_log
        self.state: State = "stopped"
        self.error = ""
        """Why it is not ready, or what is wrong with its tools, as text for the user."""
        self.content = ServerContent(server_log.line)
        self.settled = asyncio.Event()
        """Set while it is not being started: it is ready, or has failed."""
        self.began = 0.0
        """When it was last wanted while it was down, in the time of the event loop."""
        self.calls = 0
        """Calls under way."""
        self._workspace = workspace
        self._environment = environment
        self._changed = changed
        self._tokens = tokens
        self._access: McpAccess | None = None
        self._session: ServerSession | None = None
        self._running: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        """Set while it can be asked."""
        self._ready_at = math.inf
        """When it became ready, in the time of the event loop."""
        self._ended = asyncio.Event()
        self._listed = _ToolList()

    @property
    def tools(self) -> tuple[Definition, ...]:
        """The tools that it offers."""
        return self._listed.tools

    @property
    def signed_in(self) -> bool:
        """Whether it is used with the tokens of a sign-in."""
        return self._access is not None and self._access.auth is not None

    def start(self) -> None:
        """Start it, unless it runs or is about to."""
        if self._running is None or self._running.done():
            self.began = asyncio.get_running_loop().time()
            self._set("starting", self.error)
            self._running = asyncio.create_task(self._run(), name=f"mcp {self.spec.name}")

    async def stop(self) -> None:
        """Stop it, and wait until nothing of it runs."""
        while self._running is not None and not self._running.done():
            self._running.cancel()
            # A cancellation that comes at the same moment as a message may get lost in the SDK, so it is repeated.
            await asyncio.wait({self._running}, timeout=_CANCEL_AGAIN_S)
        self._set("stopped")
        await self.log.close()

    async def restart(self) -> None:
        """Stop and start it."""
        await self.stop()
        self.start()

    async def call(
        self,
        tool: Definition,
        arguments: Mapping[str, Any],
        timeout_s: float,
        on_progress: ProgressFnT,
        requests: CallRequests,
    ) -> CallToolResult:
        """Call a tool; a timeout or cancellation is sent to the server. Raises ToolError, also where the tool may be
        another one by now.

        Waits a while for a server that is being started again, or that has just announced a change. ``requests``:
        answers what the server asks meanwhile.
        """
        await self._back()
        if self._session is not None and not self._listed.current.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELIST_S):
                    await self._listed.current.wait()
        session = self._session
        if session is None:
            why = f": {sentence(self.error)}" if self.error else "."
            raise ToolError(f"The MCP server {self.spec.name} is not running{why}")
        if tool not in self.tools:
            raise ToolError(
                f"The MCP server {self.spec.name} has changed or removed this tool. Read its current description, "
                "and call it again if it still does what you need."
            )
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool.name, arguments=dict(arguments))
        )
        self.calls += 1
        try:
            # Not session.call_tool, which checks results against schemas of the server: both may be hostile.
            async with requests.running(session.calls, timeout_s):
                return await session.send_request(request, types.CallToolResult, math.inf, None, on_progress)
        except TimeoutError as error:
            raise ToolError(
                f"The MCP server {self.spec.name} did not answer within {timeout_s:g} s, and was told to stop. "
                "Part of the work may be done: check before you repeat it."
            ) from error
        except MCPError as error:
            if error.message in _ENDS:
                self._gone()
                raise ToolError(
                    f"The MCP server {self.spec.name} ended during the call. It is being restarted. Part of the work "
                    "may be done: check before you repeat it."
                ) from error
            raise ToolError(f"The MCP server {self.spec.name} refused: {self._refusal(error)}") from error
        except ValueError as error:  # pydantic's, for a result that is none
            raise ToolError(
                f"The MCP server {self.spec.name} sent a result that is not valid: {invalid(error)}."
            ) from error
        finally:
            self.calls -= 1

    async def ask(self, request: Any, kind: type[ResultT], timeout_s: float) -> ResultT:
        """Send a request for the user's prompt, e.g. ``prompts/get``. Raises ToolError with a text for the user."""
        await self._back()
        session, name = self._session, self.spec.name
        if session is None:
            error = sentence(self.error or t("it was stopped"))
            raise ToolError(t("The MCP server {name} is not running: {error}", name=name, error=error))
        from mcp.shared.exceptions import MCPError
        from mcp_types import REQUEST_TIMEOUT

        self.calls += 1
        try:
            return await session.send_request(request, kind, timeout_s)
        except MCPError as error:
            if error.message in _ENDS:
                self._gone()
                words = t("The MCP server {name} ended before it answered. It is started again.", name=name)
            elif error.code == REQUEST_TIMEOUT:
                seconds = timeout_s
                words = t(
                    "The MCP server {name} did not answer within {seconds:g} s.", name=name, seconds=seconds
                )
            else:
                words = t("The MCP server {name} refused: {why}", name=name, why=self._refusal(error))
            raise ToolError(words) from error
        except ValueError as error:  # pydantic's, for a result that is none
            raise ToolError(
                t("The MCP server {name} sent an answer that is not valid.", name=name)
            ) from error
        finally:
            self.calls -= 1

    def _refusal(self, error: MCPError) -> str:
        status = 0 if self._access is None else self._access.transport.error_status
        return f"{brief(error.message)} (HTTP {status})" if status else brief(error.message)

    def _gone(self) -> None:
        """Have it started again; calls from now on wait for that."""
        self._session = None
        self._up.clear()
        self._ended.set()

    async def _back(self) -> None:
        """Wait a while for a server that is being started again."""
        if self._ended.is_set():
            self._gone()  # the task that runs it has not noticed yet
        if self._session is None and self._running is not None and not self._running.done():
            up = asyncio.ensure_future(self._up.wait())
            await asyncio.wait({up, self._running}, timeout=RESTART_S, return_when=asyncio.FIRST_COMPLETED)
            up.cancel()

    # -- internals --

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures, problem = 0, ""
        try:
            while failures <= len(_BACKOFF_S):
                self._ready_at = math.inf
                problem = await self._attempt()
                failures = 1 if loop.time() - self._ready_at > _STEADY_S else failures + 1
                self.log.line(problem)
                if self._access is not None and self._access.refused:
                    own = has_own_token(self.spec)
                    self._set("failed" if own else "signed_out", _signed_out(self.spec))
                    return
                if failures > len(_BACKOFF_S):
                    break
                self._set("failed", problem)
                await asyncio.sleep(_BACKOFF_S[failures - 1])
            self._set(
                "failed", t("{problem} It is tried again with the next prompt.", problem=sentence(problem))
            )
        finally:
            # Until then it is offered, because a restart should not change the request to the model.
            self.content.clear()
            if self._listed.clear():
                self._changed()

    async def _attempt(self) -> str:
        """Serve until the connection ends; return why."""
        self._set("starting", self.error)
        self._ended = asyncio.Event()  # what an earlier attempt still hears does not end this one
        self._listed.announced.clear()
        try:
            # The SDK takes half a second to load, and is not needed without servers.
            await asyncio.to_thread(load_sdk)
            async with AsyncExitStack() as stack:
                process = await self._start_process(stack) if self.spec.command else None
                await self._serve(process)
                return await self._end(process)
        except asyncio.CancelledError:
            if is_canceled():
                raise
            return t("the connection broke")  # the SDK's own cancellation
        except (Exception, BaseExceptionGroup) as error:
            if is_canceled():
                raise asyncio.CancelledError from None
            status = 0 if self._access is None else self._access.transport.error_status
            return why_down(error, self.spec, status, CONNECT_S)
        finally:
            self._session = None
            self._up.clear()

    async def _end(self, process: ServerProcess | None) -> str:
        """Describe how the connection ended."""
        if process is None:
            return t("the connection ended")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.exited.wait()
        last = process.stderr_tail.rpartition("\n")[2]
        why = exit_words(process.exit_code) if process.exited.is_set() else t("it closed its output")
        return ": ".join(filter(None, [why, brief(last)]))

    async def _serve(self, process: ServerProcess | None) -> None:
        from daemon.mcp import sdk, transports

        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(
                await self._http_streams()
                if process is None
                else transports.stdio_streams(process, self._ended)
            )
            session = sdk.ServerSession(streams, CONNECT_S, self._workspace, self._heard)
            await stack.enter_async_context(session)
            try:
                await session.greet()
                await self._list(session)
                # Beside the tools, which must not wait for a server that never lists its prompts.
                following = asyncio.create_task(self.content.follow(session))
                stack.push_async_callback(_canceled, following)
                self._ready_at = asyncio.get_running_loop().time()
                while not self._ended.is_set():
                    self._session = session
                    self._up.set()
                    await self._wait()
                    if not self._ended.is_set():
                        await self._list(session)
            except sdk.MCPError:
                if not self._ended.is_set():
                    raise  # else its process tells more

    async def _http_streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        from daemon.mcp.sign_in import McpAccess
        from daemon.mcp.transports import http_streams

        loop, spec, ended = asyncio.get_running_loop(), self.spec, self._ended

        def refused() -> None:  # called in a thread
            loop.call_soon_threadsafe(ended.set)

        self._access = access = await asyncio.to_thread(
            McpAccess, spec.url, self._tokens, refused, own=has_own_token(spec)
        )
        return http_streams(spec.url, dict(spec.headers), access.transport, access.auth)

    async def _start_process(self, stack: AsyncExitStack) -> ServerProcess:
        from tools.process.server_process import ServerProcess

        self.log.line(f"starting {self.spec.command[0]}")
        process = await ServerProcess.start(
            self.spec.command,
            cwd=self.spec.cwd,
            environment={**self._environment, **dict(self.spec.env)},
            grace_s=GRACE_S,
            on_stderr=self.log.add,
        )
        stack.push_async_callback(lambda: despite_cancel(process.end(GRACE_S)))
        return process

    async def _list(self, session: ServerSession) -> None:
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        listing = await session.listed("tools", MOST_TOOLS)
        if (error := listing.error) is not None:
            offered = session.server_capabilities
            unknown = isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND
            if not unknown or offered is None or offered.tools is not None:
                raise error  # else it has only prompts or resources
        tools, problems = await asyncio.to_thread(_definitions, self.spec.name, listing)
        changed = self._listed.listed(tools)
        self._set("ready", " ".join(problems))
        if changed:
            self._changed()

    async def _wait(self) -> None:
        """Wait until the connection ends, or the tools have changed."""
        announced = self._listed.announced
        waits = [asyncio.ensure_future(event.wait()) for event in (self._ended, announced)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if announced.is_set() and not self._ended.is_set():
            await asyncio.sleep(REFRESH_PAUSE_S)
            announced.clear()

    async def _heard(self, message: IncomingMessage) -> None:
        """Called by the SDK with each notification."""
        import mcp_types as types

        self.content.heard(message)
        if isinstance(message, types.ToolListChangedNotification):
            self._listed.outdate()
        elif isinstance(message, types.LoggingMessageNotification):
            said = message.params
            self.log.line(f"{said.level}: {str(said.data)[:_LONGEST_ERROR]}")
        elif isinstance(message, Exception):
            self.log.line(f"not a message: {unreadable_line(message)}")

    def _set(self, state: State, error: str = "") -> None:
        self.state, self.error = state, error
        if state == "starting":
            self.settled.clear()
        else:
            self.settled.set()


async def _canceled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def has_own_token(spec: McpServerSpec) -> bool:
    """Return whether the settings of a server have its token, so that there is nothing to sign in to."""
    return any(name.lower() == "authorization" for name, _ in spec.headers)


def _signed_out(spec: McpServerSpec) -> str:
    if has_own_token(spec):
        return t("it does not accept the header Authorization of {source}", source=spec.source)
    return t("it needs a sign-in: goalwright mcp login {name}", name=quote(spec.name))


def load_sdk() -> None:
    """Load the SDK. Blocks for half a second, once."""
    importlib.import_module("daemon.mcp.sdk")
    importlib.import_module("daemon.mcp.sign_in")


def _definitions(server: str, listing: Listing) -> tuple[tuple[Definition, ...], list[str]]:
    """Return the usable tools and the problems of others. Takes a while: call it in a thread."""
    made: dict[str, Definition] = {}
    problems = [f"{not_offered(name, why)}." for name, why in listing.wrong]
    if listing.endless:
        text = t("Its list of tools has no end: only the first {most} pages are used.", most=listing.endless)
        problems.insert(0, text)
    for tool in listing.found[:MOST_TOOLS]:
        hints = tool.annotations
        try:
            one = definition(
                server,
                tool.name,
                tool.description or "",
                tool.input_schema,
                read_only=hints is not None and hints.read_only_hint is True,
            )
        except BadDefinitionError as error:
            problems.append(f"{error}.")
            continue
        made.setdefault(one.name, one)
    if len(listing.found) > MOST_TOOLS:
        problems.append(t("Only the first {most} tools are offered.", most=MOST_TOOLS))
    told = [
        text if count == 1 else t("{problem} ({count} times)", problem=text, count=count)
        for text, count in Counter(problems).items()
    ]
    return tuple(made.values()), told[:5]
