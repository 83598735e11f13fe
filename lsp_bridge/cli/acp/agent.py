"""``goalwright acp``: the agent of the Agent Client Protocol, with a daemon for each folder that the editor names."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

from acp import run_agent, schema
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.stdio import stdio_streams

from daemon.provider.variables import provider_env
from daemon.version import product_version
from lsp_bridge.cli.acp.content import UnsupportedContentError, given_servers, prompt_of
from lsp_bridge.cli.acp.editor_files import EditorFiles
from lsp_bridge.cli.acp.lines import MAX_LINE, Lines
from lsp_bridge.cli.acp.live_session import LiveSession
from lsp_bridge.cli.client import DaemonError, Greeting, RpcError
from lsp_bridge.cli.invocation import EXIT_OK, EXIT_USAGE
from lsp_bridge.cli.launch import LastingConnection
from lsp_bridge.cli.run.newest_session import trace_id
from lsp_bridge.cli.text import shown_line
from lsp_bridge.protocol.handshake import ErrorCode
from tools.json_access import mapping, mappings, string
from tools.localization import noted, t
from tools.process.background import Background
from tools.text.terminal import shown_brief

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CoroutineType

    from acp.interfaces import Client as Editor

    from lsp_bridge.cli.acp.content import Block
    from lsp_bridge.cli.client import Client
    from lsp_bridge.cli.invocation import Invocation
    from lsp_bridge.cli.launch import Launcher

    Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean

MODES = {
    "ask": (noted("Ask"), noted("Rules decide what needs no approval")),
    "accept-edits": (noted("Accept edits"), noted("Edits of the workspace need no approval")),
    "plan": (noted("Plan"), noted("Nothing is changed")),
    "auto": (
        noted("Auto"),
        noted("Nothing needs approval but what your rules ask about; in trusted folders only"),
    ),
}
"""Permission modes: their names and descriptions."""
_ENVIRONMENT = "environment"
"""The only way to sign in."""
_WRONG_PARAMS = (ErrorCode.INVALID_PARAMS, "workspace")
"""Codes of errors in what the editor sent; the second means the folder."""
_PAGE = 50
P = ParamSpec("P")
T = TypeVar("T")


def _answering(handler: Callable[P, CoroutineType[Any, Any, T]]) -> Callable[P, CoroutineType[Any, Any, T]]:
    """Turn the errors of a daemon into those of the protocol, with their advice."""

    @wraps(handler)
    async def handle(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await handler(*args, **kwargs)
        except (DaemonError, UnsupportedContentError) as error:
            is_wrong = isinstance(error, UnsupportedContentError) or error.code in _WRONG_PARAMS
            is_unknown = isinstance(error, RpcError) and error.code == ErrorCode.UNKNOWN_SESSION
            code = -32602 if is_wrong else -32002 if is_unknown else -32603
            raise RequestError(code, str(error)) from error

    return handle


class _Folder:
    """A folder that the editor works in, and the connection to its daemon."""

    def __init__(self, path: Path, launcher: Launcher) -> None:
        self.path = path
        self.files: EditorFiles | None = None
        """The editor's documents; None when it does not offer them."""
        self.sessions: dict[str, LiveSession] = {}
        """Those that this connection reports to, by id; the oldest first."""
        self.entering = asyncio.Lock()
        """Sessions are opened one after the other."""
        self.connection = LastingConnection(launcher, path, self._connected)

    def tell(self, text: str) -> None:
        """Show the user a notice in the sessions that work on a prompt of this editor."""
        for session in self.sessions.values():
            if session.is_working:
                session.tell(text)

    async def connect(self) -> Client:
        """Return the connection, made again when the daemon has ended. Raises LaunchError."""
        answers = None if self.files is None else self.files.answer
        env = provider_env(os.environ)
        return await self.connection.get(lambda: Greeting(client="ACP", env=env, answers=answers))

    def _connected(self, client: Client) -> None:
        client.on_notification(self._notified)
        if self.files is not None:
            self.files.attached(client)

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if (session := self.sessions.get(string(params.get("sessionId")))) is not None:
            session.notified(method, params)


class AcpAgent:
    """Implements ``acp.Agent`` for one editor."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._folders: dict[Path, _Folder] = {}
        self._sessions: dict[str, LiveSession] = {}
        """Those that are open, by id."""
        self._models: dict[Path, list[str]] = {}
        """The models that the providers of each folder have named."""
        self._editor: Editor | None = None
        self._has_files = False
        """The editor reads and writes files with its unsaved text."""
        self._background = Background("work for an editor")

    def on_connect(self, conn: Editor) -> None:
        """Take the connection to the editor."""
        self._editor = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Tell what Goalwright can do. Raises RequestError when the editor's abilities are not in the form of the
        protocol."""
        self._has_files = _offers_files(client_capabilities)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,  # the only one
            agent_info=schema.Implementation(
                name="goalwright", title="Goalwright", version=product_version()
            ),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[
                schema.AuthMethodAgent(
                    id=_ENVIRONMENT,
                    name=t("A key in the environment"),
                    description=t(
                        "Set the variable of your provider, such as ANTHROPIC_API_KEY or OPENAI_API_KEY, where the "
                        "editor starts `goalwright acp`. `goalwright doctor` shows what was found."
                    ),
                )
            ],
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Check that some model can be used. Raises RequestError when none can."""
        from daemon.provider.catalogue import is_set_up

        if method_id != _ENVIRONMENT:
            raise RequestError(-32602, t("There is no sign-in {name}.", name=shown_brief(method_id, 60)))
        if not await is_set_up(provider_env(os.environ)):
            raise RequestError(
                -32000,
                t("No key was found in the environment of `goalwright acp`. Set it there, and start again."),
            )
        return schema.AuthenticateResponse()

    # -- sessions --

    @_answering
    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Begin a session in a folder."""
        client = await self._folder(cwd).connect()
        made = trace_id(await client.request("goalwright/session/new", {}))
        entered = await self._entered(made, cwd, mcp_servers, additional_directories)
        return schema.NewSessionResponse(session_id=made, **entered)

    @_answering
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Open a session, and send its conversation."""
        entered = await self._entered(session_id, cwd, mcp_servers, additional_directories, replay=True)
        return schema.LoadSessionResponse(**entered)

    @_answering
    async def resume_session(
        self, session_id: str, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Open a session without its conversation, which the editor has."""
        entered = await self._entered(session_id, cwd, mcp_servers, additional_directories)
        return schema.ResumeSessionResponse(**entered)

    @_answering
    async def fork_session(
        self, session_id: str, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """Begin a session with the conversation of another one."""
        client = await self._folder(cwd).connect()
        forked = trace_id(await client.request("goalwright/session/fork", {"sessionId": session_id}))
        entered = await self._entered(forked, cwd, mcp_servers, additional_directories)
        return schema.ForkSessionResponse(session_id=forked, **entered)

    @_answering
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List the sessions of a folder, newest first; without one, those of the folders that the editor has opened."""
        known = [folder for folder in self._folders.values() if folder.connection.client]
        folders = [self._folder(cwd)] if cwd else known
        found: list[schema.SessionInfo] = []
        more: str | None = None
        for folder in folders:
            client = await folder.connect()
            params = {"limit": _PAGE, **({"before": cursor} if cursor else {})}
            listed = await client.request("goalwright/session/list", params)
            traces = [mapping(one.get("trace")) for one in mappings(listed.get("sessions"))]
            found += [
                schema.SessionInfo(
                    session_id=string(trace.get("traceId")),
                    cwd=str(folder.path),
                    title=string(trace.get("title")) or None,
                    updated_at=string(trace.get("updatedAt")) or None,
                )
                for trace in traces
            ]
            if listed.get("more") is True and cwd and traces:
                more = string(traces[-1].get("traceId"))
        return schema.ListSessionsResponse(sessions=found, next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Take part in a session no more."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            self._folders[session.workspace].sessions.pop(session_id, None)
            await session.cancel()
            await session.close()
        return schema.CloseSessionResponse()

    # -- work --

    @_answering
    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> schema.PromptResponse:
        """Work on a prompt; answers when its turn has ended."""
        session = self._known(session_id)
        text, files = prompt_of(prompt, session.workspace)
        if (documents := self._folders[session.workspace].files) is not None:
            documents.ask_again()
        return schema.PromptResponse(stop_reason=await session.prompt(text, files))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the running turn."""
        if (session := self._sessions.get(session_id)) is not None:
            await session.cancel()

    @_answering
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        """Change the permission mode."""
        await self._known(session_id).request("goalwright/session/set", {"mode": mode_id})
        return schema.SetSessionModeResponse()

    @_answering
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the model or the agent."""
        if config_id not in ("model", "agent"):
            raise RequestError(-32602, t("There is no option {name}.", name=config_id))
        session = self._known(session_id)
        changed = await session.request("goalwright/session/set", {config_id: value})
        options = await self._options(session, mapping(changed.get("session")))
        return schema.SetSessionConfigOptionResponse(config_options=options)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """There are no extensions."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """There are no extensions."""

    async def close(self) -> None:
        """The editor is gone: hang up."""
        await self._background.close()
        # First, because a daemon that hangs must not be waited for. It withdraws the editor's servers by itself.
        for folder in self._folders.values():
            await folder.connection.close()
        for session in self._sessions.values():
            await session.close()

    # -- helpers --

    def _folder(self, cwd: str) -> _Folder:
        path = Path(cwd)
        if not path.is_absolute():
            raise RequestError(-32602, t("The folder {cwd} is not absolute.", cwd=cwd))
        if path not in self._folders:
            self._folders[path] = folder = _Folder(path, self._launcher)
            if self._has_files and self._editor is not None:
                # The oldest, because the editor may not know the newest yet.
                folder.files = EditorFiles(
                    self._editor, path, lambda: next(iter(folder.sessions), ""), folder.tell
                )
        return self._folders[path]

    async def _entered(
        self, session_id: str, cwd: str, servers: Any, folders: Any, *, replay: bool = False
    ) -> dict[str, Any]:
        """Take part in a session from now on; return its modes and options, for the answer. ``servers`` and
        ``folders``: what the editor offers for it. A failure leaves all open sessions as they are. Raises as
        ``LiveSession.opened``, and LaunchError."""
        folder = self._folder(cwd)
        client = await folder.connect()
        given, refused = given_servers(servers or ())
        async with folder.entering:
            known = folder.sessions.get(session_id)
            session = known or self._joined(session_id, folder)
            try:
                info = await session.opened(client, given, replay=replay)
                options = await self._options(session, info)
            except BaseException:
                if session is not known:
                    folder.sessions.pop(session_id, None)
                    await session.close()
                raise
        before, self._sessions[session_id] = self._sessions.get(session_id), session
        if before is not None and before is not session:  # another folder's, as in a copy of this one
            self._folders[before.workspace].sessions.pop(session_id, None)
            await before.close()
        if replay:
            await session.settled()
        _say_unused(session, refused, folders)
        self._background.start(self._offer_models(session, info))
        return {"modes": _modes(info), "config_options": options}

    def _joined(self, session_id: str, folder: _Folder) -> LiveSession:
        assert self._editor is not None  # the SDK calls on_connect first
        session = LiveSession(session_id, folder.path, self._editor, folder.connect)
        folder.sessions[session_id] = session
        return session

    def _known(self, session_id: str) -> LiveSession:
        if (session := self._sessions.get(session_id)) is None:
            raise RequestError(
                -32002, t("Session {session_id} is not open: load it first.", session_id=session_id)
            )
        return session

    async def _options(self, session: LiveSession, info: dict[str, Any]) -> list[Option]:
        """Return the agents, and the models that are known; all follow when the providers have named theirs."""
        listed = await session.request("goalwright/agent/list")
        agents = [
            schema.SessionConfigSelectOption(
                value=string(one.get("name")),
                name=string(one.get("name")),
                description=string(one.get("description")),
            )
            for one in mappings(listed.get("agents"))
            if one.get("primary") is True
        ]
        agent = schema.SessionConfigOptionSelect(
            type="select",
            id="agent",
            name=t("Agent"),
            current_value=string(mapping(info.get("trace")).get("agent")) or "build",
            options=agents,
        )
        return [_model_option(string(info.get("model")), self._models.get(session.workspace, [])), agent]

    async def _offer_models(self, session: LiveSession, info: dict[str, Any]) -> None:
        with contextlib.suppress(DaemonError):
            client = await session.connect()
            listed = await client.request("goalwright/model/list", {})
            names = [
                string(model.get("model"))
                for provider in mappings(listed.get("providers"))
                if provider.get("connected") is True
                for model in mappings(provider.get("models"))
            ]
            self._models[session.workspace] = names
            if set(names) - {string(info.get("model"))}:
                options = await self._options(session, info)
                session.show(
                    schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
                )


def _offers_files(abilities: object) -> bool:
    """Return whether the editor reads and writes files. The SDK lets a dict through where it received no object.
    Raises RequestError then."""
    files, name = abilities, "clientCapabilities"
    if isinstance(abilities, schema.ClientCapabilities):
        files, name = abilities.fs, "clientCapabilities.fs"
    if files is not None and not isinstance(files, schema.FileSystemCapabilities):
        why = f"{name} {t('must be an object, in curly brackets')}"
        raise RequestError(-32602, t("Invalid params: {why}.", why=why))
    return files is not None and bool(files.read_text_file and files.write_text_file)


def _say_unused(session: LiveSession, servers: Sequence[str], folders: Any) -> None:
    """Tell the user of what the editor offers and Goalwright does not use."""
    if servers:
        names = shown_line(", ".join(servers))
        session.tell(t("These MCP servers of the editor are not used: {names}.", names=names))
    if folders:
        session.tell(
            t("Goalwright works in one folder; the editor's other folders are not part of the session.")
        )


def _model_option(current: str, others: list[str]) -> schema.SessionConfigOptionSelect:
    names = dict.fromkeys([current, *others])
    return schema.SessionConfigOptionSelect(
        type="select",
        id="model",
        name=t("Model"),
        category="model",
        current_value=current,
        options=[schema.SessionConfigSelectOption(value=name, name=name) for name in names],
    )


def _modes(info: dict[str, Any]) -> schema.SessionModeState:
    return schema.SessionModeState(
        current_mode_id=string(info.get("mode")) or "ask",
        available_modes=[
            schema.SessionMode(id=mode, name=t(name), description=t(words))
            for mode, (name, words) in MODES.items()
        ],
    )


async def acp(cli: Invocation) -> int:
    """Serve the editor at the other end of stdin and stdout. Log lines go to stderr."""
    if not all(map(_is_pipe, (sys.stdin, sys.stdout))):
        # The event loop reads and writes nothing else, and would wait for ever, as at /dev/null.
        print(t("goalwright acp is started by an editor, which speaks with it over a pipe."), file=sys.stderr)
        return EXIT_USAGE
    logging.basicConfig(level=logging.WARNING)
    agent = AcpAgent(cli.launcher)
    try:
        await run_agent(agent, Lines(*await stdio_streams(MAX_LINE)), use_unstable_protocol=True)
    finally:
        await agent.close()
    return EXIT_OK


def _is_pipe(stream: TextIO) -> bool:
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()
