"""All MCP servers of a daemon: started when a session first needs them, and their tools for each session.

Without configured servers this reads two absent files a prompt, and loads nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from daemon.mcp.configuration import FoundServers, find_servers, secrets_of, server_parts, tool_names
from daemon.mcp.failures import sentence
from daemon.mcp.lent import EDITOR, LentServers, specs_of
from daemon.mcp.tokens import TokenStore
from daemon.model.stored_model import Model
from daemon.outside_tools.approvals import Approvals
from tools.errors import ToolError
from tools.files.regular_files import write_private
from tools.json_access import mapping, strings
from tools.localization import t
from tools.process.background import Background
from tools.process.environment import scrubbed_environment
from tools.redaction.redactor import SECRETS
from tools.text.validation import unreadable
from tools.tool_names import MCP, MCP_SEARCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from daemon.config import Config
    from daemon.mcp.configuration import McpServerSpec
    from daemon.mcp.connection import Connection
    from daemon.mcp.content import ResourceDefinition
    from daemon.mcp.requested import FromServer
    from daemon.mcp.sign_in import SignIn
    from daemon.model.permissions import Trust
    from daemon.settings import McpServerSetting, McpSettings
    from tools.tool import Tool

WAIT_S = 1.0
"""Seconds that the first request waits for servers that start."""
LISTING_WAIT_S = 15.0
"""Seconds that menus wait for the prompts of servers, and a prompt for a server that it names."""
SHOWN_WAIT_S = 5.0
"""Seconds that a list of servers for the user waits for all of them together; then it shows which still start."""

ServerState = Literal["starting", "ready", "failed", "stopped", "signed_out", "disabled"]


class McpTool(Model):
    """A tool of a server."""

    name: str
    """As the model and rules call it: ``mcp__server__tool``."""
    tool: str
    """As its server calls it."""
    description: str
    """The server's words, with a shape in place of invisible characters."""
    read_only: bool
    """The server says that the tool changes nothing."""
    disabled: bool = False
    """By the setting ``mcp_disabled``."""


class McpPrompt(Model):
    """A prompt of a server."""

    name: str
    """As the user types it, without the slash: ``mcp__server__prompt``."""
    prompt: str
    """As its server calls it."""
    description: str
    hint: str = ""
    """Its arguments: ``<required> [optional]``."""


class McpResource(Model):
    """A resource of a server."""

    name: str
    """As the user types it after ``@``: ``server:uri``."""
    title: str
    """The server's name for it."""
    description: str = ""
    media_type: str = ""
    template: bool = False
    """Its URI has ``{places}`` that the user fills in."""


class McpServer(Model):
    """A configured server."""

    name: str
    source: str
    """The file that names it: ``config.json`` is the user's. ``editor``: a client passed it for a session."""
    state: ServerState
    """``signed_out``: it wants the user to sign in, see ``goalwright/mcp/login``."""
    signed_in: bool = False
    """It is used with the tokens of a sign-in."""
    error: str = ""
    """Why it does not work, or what is wrong with its tools, as text for the user."""
    tools: tuple[McpTool, ...] = ()
    prompts: tuple[McpPrompt, ...] = ()
    resources: int = 0
    """How many it lists, templates among them."""
    log_file: str = ""


class ServerStatus(Struct, frozen=True):
    """A server as it is configured, and as users see it."""

    spec: McpServerSpec
    shown: McpServer
    part: str
    """How names for the user begin: ``@part:uri``."""
    resources: tuple[ResourceDefinition, ...] = ()


class McpServers:
    """The servers of one workspace. Used on one event loop."""

    def __init__(
        self,
        workspace: Path,
        folder: Path,
        config: Callable[[bool], Config],
        trusted_elsewhere: Callable[[], bool],
        tokens: Path,
    ) -> None:
        """``folder``: private, for logs and approvals. ``config``: the configuration, with the workspace's own file
        trusted or not. ``trusted_elsewhere``: whether the folder is trusted for any open session. ``tokens``: private
        file with the tokens of sign-ins.
        """
        self._tokens = TokenStore(tokens)
        self._sampling_file = tokens.with_name("mcp-sampling.json")
        """Shared by all folders, as grants may be."""
        self._sign_ins: dict[str, SignIn] = {}
        """Sign-ins under way, by the name of the server."""
        self._trusted_elsewhere = trusted_elsewhere
        self._workspace = workspace
        self._folder = folder
        self._config = config
        self._connections: dict[McpServerSpec, Connection] = {}
        self._found: dict[bool, FoundServers] = {}
        """As last read, by whether the workspace's own files were trusted then."""
        self._settings: McpSettings | None = None
        self._tools: dict[tuple[Trust, str], Mapping[str, Tool[Any]]] = {}
        """By trust, and session where clients passed servers for it. Forgotten when anything changes, so that equal
        ones are the same object."""
        self._lent = LentServers(lambda: config(True).settings.mcp.mcp_disabled)
        self._background = Background("MCP servers of clients that are gone")
        self._approved = Approvals(folder / "approved.json")
        self._settling = asyncio.Lock()
        self._closed = False

    async def begin(
        self, trust: Trust, wait_s: float | None = None, *, session_id: str = ""
    ) -> tuple[str, ...]:
        """Start the servers that a session in a folder of this trust has, and wait a moment for them.

        Returns what the user should know, e.g. that tools of slow servers come later. ``wait_s``: seconds, from the
        start of each; None: WAIT_S. ``session_id``: of the main session, whose client may have passed servers.
        """
        if trust == "restricted":
            return ()
        trusted = trust == "trusted"
        found = self._lent.added(await self._read(trusted), session_id, trusted=trusted)
        if not found.servers and not self._connections:
            return found.problems
        async with self._settling:
            await self._settle(found)
        wanted = [self._connections[spec] for spec in found.servers if spec in self._connections]
        late = await _late(wanted, WAIT_S if wait_s is None else wait_s)
        said = list(found.problems)
        for server in wanted:
            if server in late:
                said.append(
                    t(
                        "The MCP server {name} is still starting: its tools come with a later request.",
                        name=server.spec.name,
                    )
                )
            elif server.state in _DOWN:
                said.append(_failed(server.spec.name, server.error, log=True))
            elif server.error:
                said.append(t("MCP server {name}: {problem}", name=server.spec.name, problem=server.error))
        said += [_failed(one.name, one.problem) for one in found.servers if one.problem and not one.disabled]
        return tuple(said)

    def preload(self, trust: Trust) -> None:
        """Load the SDK if there are servers, so that the first prompt need not wait for it. Blocks, in any thread."""
        trusted = trust == "trusted"
        settings = self._config(trusted).settings.mcp
        found = find_servers(self._workspace, settings, os.environ, trusted=trusted)
        if any(not (one.disabled or one.problem) for one in found.servers):
            from daemon.mcp.connection import load_sdk

            load_sdk()

    async def look(self, trust: Trust) -> None:
        """Read which servers are configured, without starting any."""
        if trust != "restricted":
            await self._read(trust == "trusted")

    async def problems(self, trust: Trust) -> list[str]:
        """Return what is wrong with the files that name servers, and with servers, without starting any."""
        await self.look(trust)
        servers, problems = self.servers(trust, None)
        down = [one for one in servers if one.shown.state in _DOWN]
        said = (_failed(one.spec.name, one.shown.error, log=not one.spec.problem) for one in down)
        return [*problems, *said]

    def tools(self, trust: Trust, session_id: str = "") -> Mapping[str, Tool[Any]]:
        """Return the tools of the servers that run, by name; the same object while nothing changes."""
        if trust == "restricted" or not self._connections:
            return _NONE
        key = (trust, session_id if self._lent.of(session_id) else "")
        if key not in self._tools:
            self._tools[key] = self._offered(*key)
        return self._tools[key]

    async def lend(
        self, holder: object, session_id: str, given: Iterable[tuple[str, McpServerSetting]]
    ) -> None:
        """Use these servers in a session, until its client passes others or is gone. ``holder``: the client.
        ``given``: by name, with literal values.
        """
        specs = await asyncio.to_thread(specs_of, given, self._workspace)
        self._lent.lend(holder, session_id, specs)
        await self._end_unwanted()

    def withdraw(self, holder: object) -> None:
        """Stop the servers of a client that is gone, in the background."""
        if self._lent.withdraw(holder):
            self._background.start(self._end_unwanted())

    async def _end_unwanted(self) -> None:
        """Stop servers that clients have passed and no session has any more, whatever they do."""
        self._tools.clear()
        async with self._settling:
            lent = self._lent.all()
            gone = [spec for spec in self._connections if spec.source == EDITOR and spec not in lent]
            await asyncio.gather(*(self._connections.pop(spec).stop() for spec in gone))

    def servers(
        self, trust: Trust, session_id: str | None = ""
    ) -> tuple[tuple[ServerStatus, ...], tuple[str, ...]]:
        """Return all servers, as last read by ``begin``, and the problems of the files that name them.

        With those that clients passed for a session; None: for all sessions.
        """
        found = self._here(trust, session_id)
        return tuple(self._status(spec, found, trust == "trusted") for spec in found.servers), found.problems

    def unknown_keys(self, trust: Trust) -> tuple[str, ...]:
        """Return texts about keys of servers that mean nothing here, as last read."""
        return () if trust == "restricted" else self._found.get(trust == "trusted", _NOTHING).unknown

    async def listed(self, trust: Trust, session_id: str | None = "") -> None:
        """Wait a moment until the servers that run have listed their prompts and resources."""
        waits = [
            server.content.listed.wait()
            for spec in self._here(trust, session_id).servers
            if (server := self._connections.get(spec)) is not None and server.state == "ready"
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*waits)

    def resources(self, trust: Trust, query: str, most: int, session_id: str = "") -> tuple[McpResource, ...]:
        """Return the resources of servers that run whose name has these letters: first those that begin with them."""
        if not self._connections:
            return ()
        wanted = query.lower()
        ranked: list[tuple[bool, str, ResourceDefinition]] = []
        for server in self.servers(trust, session_id)[0]:
            for one in server.resources:
                names = f"{server.part}:{one.uri}", one.title
                if wanted in " ".join(names).lower():
                    begins = any(name.lower().startswith(wanted) for name in names)
                    ranked.append((not begins, names[0], one))
        return tuple(
            McpResource(
                name=name,
                title=one.title,
                description=one.description,
                media_type=one.media_type,
                template=one.template,
            )
            for _, name, one in sorted(ranked, key=lambda one: one[:2])[:most]
        )

    async def requested(
        self,
        trust: Trust,
        text: str,
        have: Iterable[str] = (),
        *,
        session_id: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> tuple[FromServer, ...]:
        """Return what a user's prompt asks servers for, and start them: a prompt that it calls, and resources that it
        names. Raises ToolError, with a text for the user.

        ``have``: names of resources that are attached already. ``tell``: shows the user which resources are of no
        server, and stay text.
        """
        if not ("@" in text or text.lstrip().startswith(f"/{MCP}")):
            return ()
        from daemon.mcp.requested import requested, unknown_server, wanted_in

        wanted = wanted_in(text)
        if not wanted:
            return ()
        if trust == "restricted":
            for server, uri in wanted.resources:
                tell(unknown_server(server, uri, (), trusted=False))
            return ()
        await self.look(trust)
        specs = self._here(trust, session_id).servers
        parts = server_parts(spec.name for spec in specs)
        for server, uri in wanted.resources:
            if server not in parts and server not in parts.values():
                tell(unknown_server(server, uri, parts, trusted=True))
        needed = [spec for spec in specs if wanted.names(spec.name, parts[spec.name])]
        if not needed and wanted.prompt is None:
            return ()
        await self.begin(trust, 0, session_id=session_id)
        servers = [self._connections[spec] for spec in needed if spec in self._connections]
        await _late(servers, LISTING_WAIT_S)  # for no other one
        running = {parts[one.spec.name]: one for one in servers if one.state == "ready"}
        return await requested(wanted, running, frozenset((*parts, *parts.values())), have)

    def log(self, name: str) -> str:
        """Return the log of a server without secrets. Raises ToolError."""
        return self._named(name).log.text()

    async def restart(self, name: str) -> None:
        """Stop and start a server. Raises ToolError."""
        server = self._named(name)
        async with self._settling:
            if not self._closed:
                await server.restart()

    async def sign_in(self, name: str) -> str:
        """Begin to sign in to a server; returns the page for the user's browser. Raises ToolError."""
        from daemon.mcp.connection import has_own_token, load_sdk

        spec = self._named(name).spec
        if not spec.url or has_own_token(spec):
            raise ToolError(
                t("{name} has no sign-in: it is a program, or its headers have a token.", name=name)
            )
        await asyncio.to_thread(load_sdk)
        from daemon.mcp.sign_in import SignIn

        if (before := self._sign_ins.pop(name, None)) is not None:
            await before.close()
        attempt = self._sign_ins[name] = SignIn(spec.url, self._tokens)
        return await attempt.page()

    async def signed_in(self, name: str) -> None:
        """Wait until the user has signed in, and start the server again. Raises ToolError; canceled, it gives up."""
        attempt = self._sign_ins.get(name)
        if attempt is None:
            raise ToolError(t("No sign-in to {name} is under way.", name=name))
        try:
            await attempt.done()
        finally:
            await attempt.close()
            if self._sign_ins.get(name) is attempt:
                del self._sign_ins[name]
        await self.restart(name)

    async def sign_out(self, name: str) -> None:
        """Forget the tokens of a server, and start it again without. Raises ToolError."""
        url = self._named(name).spec.url
        if not await asyncio.to_thread(self._tokens.read, url):
            raise ToolError(t("You are not signed in to {name}.", name=name))
        await asyncio.to_thread(self._tokens.write, url, lambda _: None)
        await self.restart(name)

    async def close(self) -> None:
        """Stop all servers; none starts any more."""
        self._closed = True
        await self._background.wait()
        await asyncio.gather(*(attempt.close() for attempt in self._sign_ins.values()))
        async with self._settling:  # what is being started or restarted is stopped, too
            await asyncio.gather(*(server.stop() for server in self._connections.values()))

    # -- internals --

    async def _read(self, trusted: bool) -> FoundServers:
        settings = self._config(trusted).settings.mcp
        found = await asyncio.to_thread(find_servers, self._workspace, settings, os.environ, trusted=trusted)
        if found != self._found.get(trusted) or settings != self._settings:
            self._found[trusted], self._settings = found, settings
            self._tools.clear()
        if not trusted and not self._trusted_elsewhere():
            self._found.pop(True, None)  # servers of a folder that is trusted no longer must not stay
        return found

    async def _settle(self, found: FoundServers) -> None:
        """Start what is wanted, and stop what nobody wants any more."""
        everywhere = [spec for one in self._found.values() for spec in one.servers]
        everywhere += self._lent.all() if True in self._found else ()
        usable = {spec for spec in everywhere if not spec.disabled and not spec.problem}
        unwanted = [
            spec for spec, server in self._connections.items() if spec not in usable and not server.calls
        ]
        await asyncio.gather(*(self._connections.pop(spec).stop() for spec in unwanted))
        for spec in found.servers:
            if spec in usable and not self._closed:
                self._connection(spec).start()

    def _connection(self, spec: McpServerSpec) -> Connection:
        known = self._connections.get(spec)
        if known is None:
            from daemon.mcp.connection import Connection
            from daemon.mcp.server_log import McpServerLog

            SECRETS.register(secrets_of(spec))
            known = self._connections[spec] = Connection(
                spec,
                self._workspace,
                scrubbed_environment(os.environ),
                McpServerLog(self._log_file(spec)),
                self._tools.clear,
                self._tokens,
            )
        return known

    def _log_file(self, spec: McpServerSpec) -> Path:
        part = server_parts([spec.name])[spec.name]
        different = "" if part == spec.name else f"-{hashlib.sha256(spec.name.encode()).hexdigest()[:8]}"
        return self._folder / f"{part}{different}.log"

    def _here(self, trust: Trust, session_id: str | None) -> FoundServers:
        """Return the servers of a session, as last read."""
        found = self._found.get(trust == "trusted")
        if found is None or trust == "restricted":
            return _NOTHING
        return self._lent.added(found, session_id, trusted=trust == "trusted")

    def _offered(self, trust: Trust, session_id: str) -> Mapping[str, Tool[Any]]:
        from daemon.mcp.search_tool import McpSearchTool
        from daemon.mcp.tool import McpServerTool

        timeout_s = self._config(trust == "trusted").settings.mcp.mcp_timeout_s
        offered: dict[str, McpServerTool] = {}
        for status in self.servers(trust, session_id)[0]:
            server = self._connections.get(status.spec)
            definitions = {} if server is None else {one.name: one for one in server.tools}
            for tool in status.shown.tools:
                if server is not None and not tool.disabled:
                    offered[tool.name] = McpServerTool(
                        tool.name,
                        definitions[tool.tool],
                        server,
                        self._approved,
                        timeout_s,
                        self._sampling_file,
                    )
        return {**offered, MCP_SEARCH: McpSearchTool(offered)} if offered else _NONE

    def _status(self, spec: McpServerSpec, found: FoundServers, trusted: bool) -> ServerStatus:
        from daemon.mcp.requested import prompt_names

        part = server_parts(one.name for one in found.servers)[spec.name]
        server = self._connections.get(spec)
        state: ServerState = "disabled" if spec.disabled else "failed" if spec.problem else "stopped"
        error = spec.problem
        if server is not None and state == "stopped":
            state, error = server.state, server.error
        shown = McpServer(
            name=spec.name, source=spec.source, state=state, error=error, log_file=str(self._log_file(spec))
        )
        if server is None:
            return ServerStatus(spec, shown, part)
        disabled = self._config(trusted).settings.mcp.mcp_disabled
        called = tool_names(part, [one.name for one in server.tools])
        tools = tuple(
            McpTool(
                name=called[one.name],
                tool=one.name,
                description=one.description,
                read_only=one.read_only,
                disabled=f"{spec.name}/{one.name}" in disabled,
            )
            for one in server.tools
        )
        prompts = tuple(
            McpPrompt(name=name, prompt=one.name, description=one.description, hint=one.hint)
            for name, one in prompt_names(part, server.content.prompts).items()
        )
        resources = server.content.resources
        told = {
            "tools": tools,
            "prompts": prompts,
            "resources": len(resources),
            "signed_in": server.signed_in,
        }
        return ServerStatus(spec, shown.model_copy(update=told), part, resources)

    def _named(self, name: str) -> Connection:
        """Return a server by its name, which need not run. Raises ToolError."""
        for spec, server in self._connections.items():
            if spec.name == name:
                return server
        specs = {spec.name: spec for found in self._found.values() for spec in found.servers}
        specs |= {spec.name: spec for spec in self._lent.all()}
        if name not in specs:
            known = ", ".join(sorted(specs)) or t("none")
            raise ToolError(t("There is no MCP server {name}. There are: {known}.", name=name, known=known))
        spec = specs[name]
        if spec.disabled:
            raise ToolError(
                t(
                    "The MCP server {name} is disabled. Use it again with: goalwright mcp enable {argument}",
                    name=name,
                    argument=quote(name),
                )
            )
        if spec.problem:
            raise ToolError(_failed(name, spec.problem))
        return self._connection(spec)


_NONE: Mapping[str, Tool[Any]] = {}
_NOTHING = FoundServers()
_DOWN = ("failed", "signed_out")


def _failed(name: str, why: str, *, log: bool = False) -> str:
    words = t("The MCP server {name} does not work: {why}", name=name, why=sentence(why))
    return t("{words} Its log: goalwright mcp log {name}", words=words, name=quote(name)) if log else words


async def _late(servers: Sequence[Connection], wait_s: float) -> list[Connection]:
    """Wait for servers that start, at most ``wait_s`` seconds from the start of each; return those that take longer."""
    loop = asyncio.get_running_loop()

    async def settled(server: Connection) -> None:
        async with asyncio.timeout_at(server.began + wait_s if server.began else loop.time()):
            await server.settled.wait()

    waits = [asyncio.ensure_future(settled(server)) for server in servers]
    await asyncio.gather(*waits, return_exceptions=True)
    return [server for server in servers if not server.settled.is_set()]


def set_enabled(file: Path, name: str, enabled: bool) -> None:
    """Write into the user's settings whether a server (``name``) or a tool (``server/tool``) is used.

    Raises ToolError when the file cannot be read or written. Blocking.
    """
    try:
        value: object = json.loads(file.read_text("utf-8-sig")) if file.exists() else {}
        if not isinstance(value, dict):
            raise ValueError(t("it must hold a JSON object"))
        values = mapping(value)  # pyright: ignore[reportUnknownArgumentType]
        others = [one for one in strings(values.get("mcp_disabled")) if one != name]
        values["mcp_disabled"] = others if enabled else [*others, name]
        if not values["mcp_disabled"]:
            del values["mcp_disabled"]
        data = json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"
        write_private(Path(os.path.realpath(file)), data)
    except (OSError, ValueError, RecursionError) as error:
        raise ToolError(t("{path} cannot be changed: {error}", path=file, error=unreadable(error))) from error
