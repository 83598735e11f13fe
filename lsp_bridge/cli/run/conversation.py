"""The way of a task to the daemon: connection, session and prompt of ``goalwright run``."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from daemon.provider.variables import provider_env
from lsp_bridge.cli.client import Client, NotificationHandler, RpcError
from lsp_bridge.cli.invocation import CLIENT_NAME
from lsp_bridge.cli.launch import Greeting, Launcher
from lsp_bridge.cli.run.newest_session import newest, trace_id
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class RunOptions(NamedTuple):
    """The options of ``goalwright run``."""

    workspace: Path
    task: str
    model: str | None = None
    agent: str | None = None
    """Agent of a new session; None: the default one."""
    mode: str | None = None
    """Permission mode; None: that of the session."""
    planner: str | None = None
    """How this task is planned; None: by the setting."""
    steer: bool = False
    """Give the task to a running turn at its next step, instead of waiting for the end of the turn."""
    session: str | None = None
    """Go on with this session."""
    resume_last: bool = False
    """Go on with the newest session."""
    fork: str | None = None
    """Start with the conversation of this session: its id, or ``ID:MESSAGE`` for the part before a message."""
    yes: bool = False
    json: bool = False
    verbose: bool = False
    """Show the model's reasoning."""
    limits: Mapping[str, float] = MappingProxyType({})
    """Limits of an unattended run, over those of the settings: ``unattended_steps``, ``_usd``, ``_minutes``."""
    files: tuple[str, ...] = ()
    """Paths to attach, beside those that the task names with ``@``."""
    show_accepted: bool = False
    """With ``yes``: show each diff that is accepted (the demo)."""


_NAMED = re.compile(r"""(?:^|(?<=[\s(\[{'"]))@(?:"([^"\n]+)"|((?:\\[^\n]|[^\s"\\])+))""")
_ENDS = ".,;:!?)]}'"
_RESOURCE = re.compile(r"[\w.-]+:[A-Za-z][A-Za-z0-9+.-]*:\S")
"""``server:uri``: a resource of an MCP server."""
_SHORT_SUFFIX = 5
"""Characters of an ending like ``.yaml``: what ends longer is more likely a name in code."""


def named_files(task: str, workspace: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a task names as ``@path``, ``@a\\ path`` or ``@"a path"``, absolute, and notes.

    A note reports a name that looks like a file but does not exist. Everything else is plain text.
    """
    found: list[str] = []
    notes: list[str] = []
    for quoted, plain in _NAMED.findall(task):
        if _RESOURCE.match(plain):
            continue  # the daemon asks the MCP server; no file of this name is meant
        unescaped = re.sub(r"\\(.)", r"\1", plain)
        names = [
            name for one in (quoted, plain, unescaped) if one for name in (one, one.rstrip(_ENDS)) if name
        ]
        # Not by pathlib, which fails for a name that is too long, and for one in a folder that cannot be entered.
        path = next((workspace / name for name in names if os.path.isfile(workspace / name)), None)  # noqa: PTH113
        if path is not None:
            found.append(str(path.absolute()))
        elif names and (suffix := Path(names[-1]).suffix) and not os.path.exists(workspace / names[-1]):  # noqa: PTH110
            from tools.paths import did_you_mean  # pydantic comes with it

            near = did_you_mean(workspace / names[-1])
            if near or len(suffix) <= _SHORT_SUFFIX:
                choices = t(" or ").join(f"@{name}" for name in near)
                hint = t(" Did you mean {near}?", near=choices) if near else ""
                notes.append(
                    t("There is no file {name}: the text is sent as it is.{hint}", name=names[-1], hint=hint)
                )
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(notes))


Opened = tuple[Client, asyncio.Task[dict[str, Any]]]
"""The connection of a run, and what waits for the answer to its prompt."""


class Conversation:
    """The connection of a run, its session and its prompt. What arrives before ``show`` waits."""

    def __init__(self, options: RunOptions, warn: Callable[[str], None], *, unattended: bool) -> None:
        """``warn``: writes a line about the task. ``unattended``: nobody is there to answer."""
        self.options = options
        self.prompt_id = f"terminal-{os.urandom(6).hex()}"
        self.client: Client | None = None
        self.session_id: str | None = None
        self.loaded: dict[str, Any] = {}
        """The session before the prompt: the answer to ``session/load``."""
        self.sent = False
        """The prompt is being sent or processed."""
        self._warn = warn
        self._unattended = unattended
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._shown: NotificationHandler | None = None

    async def begin(self, launcher: Launcher) -> Opened:
        """Connect, open the session, send the prompt. Returns the connection, and what waits for the prompt's answer.

        Raises LaunchError and what ``Client.request`` raises.
        """
        options = self.options
        greeting = Greeting(
            client=CLIENT_NAME,
            settings={**({"model": options.model} if options.model else {}), **options.limits},
            env=provider_env(os.environ),
            unattended=self._unattended,
        )
        client, _ = await launcher.connect(options.workspace, greeting)
        self.client = client
        client.on_notification(self._notified)
        session_id = self.session_id = await self._open_session(client)
        self.loaded = await client.request(
            "goalwright/session/load", {"sessionId": session_id, "messages": 0}
        )
        params: dict[str, Any] = {"sessionId": session_id, "text": options.task, "promptId": self.prompt_id}
        if options.planner:
            params["planner"] = options.planner
        if options.steer:
            params["whenBusy"] = "steer"
        named, notes = named_files(options.task, options.workspace)
        for note in notes:
            self._warn(note)
        if files := (*options.files, *named):
            params["attachments"] = [{"name": name, "mediaType": ""} for name in dict.fromkeys(files)]
        self.sent = True
        return client, asyncio.create_task(client.request("goalwright/session/prompt", params))

    def show(self, handler: NotificationHandler) -> None:
        """Give ``handler`` the notifications of the daemon: those that came already, and each that comes."""
        self._shown = handler
        waiting, self._waiting = self._waiting, []
        for method, params in waiting:
            handler(method, params)

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if self._shown is None:
            self._waiting.append((method, params))
        else:
            self._shown(method, params)

    async def _open_session(self, client: Client) -> str:
        options = self.options
        session_id = await self._newest(client) if options.resume_last else options.session
        if options.fork is not None:
            source, _, message = options.fork.partition(":")
            forked = {"sessionId": source, "messageId": message or None}
            session_id = trace_id(await client.request("goalwright/session/fork", forked))
        chosen = {"model": options.model, "mode": options.mode, "agent": options.agent}
        params = {name: value for name, value in chosen.items() if value}
        if session_id is None:
            return trace_id(await client.request("goalwright/session/new", params))
        if params:
            await client.request("goalwright/session/set", {"sessionId": session_id, **params})
        return session_id

    async def _newest(self, client: Client) -> str:
        found = await newest(client)
        if found.session_id:
            return found.session_id
        words = t("There is no session in {workspace} to continue.", workspace=self.options.workspace)
        if found.foreign:
            words += t(
                " ({others} came with the folder: `goalwright sessions` lists them, --session takes one.)",
                others=found.foreign,
            )
        raise RpcError(0, words)
