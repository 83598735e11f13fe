"""The daemon's services that a session and its parts use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from daemon.files.folder_language_services import NoLanguageServices, OpenLanguageServices
from daemon.provider.memo import Latest
from tools.language_ports import Navigation, NoNavigation
from tools.tool import BranchCommands

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime
    from pathlib import Path

    from daemon.agents.loader import Agents
    from daemon.bus import Bus
    from daemon.config import Config
    from daemon.copies.working_copy import WorkingCopies
    from daemon.files.command_changes import CommandWatches
    from daemon.files.watch import FileWatch
    from daemon.mcp.requested import FromServer
    from daemon.model.messages import Usage
    from daemon.model.permissions import Rule, Trust
    from daemon.permission.service import PermissionService
    from daemon.provider.model_calls import ModelRequest, ProviderEvents
    from daemon.skills.catalogue import Skills
    from daemon.skills.commands import Commands
    from daemon.store.files import FileTraceStore
    from tools.ports import Editors
    from tools.tool import Diagnostics, Tool


class Models(Protocol):
    """The way to the models; retries are behind it."""

    def stream(self, model: str, request: ModelRequest) -> ProviderEvents:
        """Call ``model`` (``provider/model``). Raises ProviderError."""
        ...

    def cost(self, model: str, usage: Usage) -> float | None:
        """US dollars, or None when the price is not known."""
        ...

    def window(self, model: str, env: Mapping[str, str], configured: int | None = None) -> int:
        """Return the context window of ``model`` in tokens. ``configured``: the user's setting. ``env`` selects the
        server."""
        ...

    def window_is_assumed(self, model: str, env: Mapping[str, str], configured: int | None = None) -> bool:
        """Return whether ``window`` is only a guess."""
        ...

    def problem(self, model: str, env: Mapping[str, str]) -> str:
        """Return why no call of ``model`` can be made, e.g. that its key is missing; empty: it can."""
        ...

    def ask_window(self, model: str, env: Mapping[str, str]) -> None:
        """Ask the server of ``model`` for its window, in the background."""
        ...


class ExtraTools(Protocol):
    """Tools that are not built in, e.g. of MCP servers; which there are can change at any time."""

    async def begin(self, trust: Trust, *, session_id: str) -> Sequence[str]:
        """Prepare for a turn of a session in a folder of this trust; returns soon. Returns notices for the user.

        ``session_id``: here and below, of the main session.
        """
        ...

    def tools(self, trust: Trust, session_id: str) -> Mapping[str, Tool[Any]]:
        """Return those there are now, by name; the same object while nothing changes."""
        ...

    async def requested(
        self, trust: Trust, text: str, have: Sequence[str], *, session_id: str, tell: Callable[[str], None]
    ) -> Sequence[FromServer]:
        """Return what a user's prompt asks servers for; ``have``: names of what is attached. Raises ToolError.

        ``tell``: shows the user what was not found and stays text.
        """
        ...


class JoinedTools:
    """The tools of several, or of none. Implements ExtraTools; of equal names, the first counts."""

    def __init__(self, *sources: ExtraTools) -> None:
        self._sources = sources
        self._joined: Latest[Mapping[str, Tool[Any]]] = Latest()

    async def begin(self, trust: Trust, *, session_id: str) -> Sequence[str]:
        said = await asyncio.gather(*(source.begin(trust, session_id=session_id) for source in self._sources))
        return [text for texts in said for text in texts]

    def tools(self, trust: Trust, session_id: str) -> Mapping[str, Tool[Any]]:
        parts = tuple(source.tools(trust, session_id) for source in self._sources)
        return self._joined.get(
            lambda: {name: tool for part in reversed(parts) for name, tool in part.items()}, same=parts
        )

    async def requested(
        self, trust: Trust, text: str, have: Sequence[str], *, session_id: str, tell: Callable[[str], None]
    ) -> Sequence[FromServer]:
        asked = [
            source.requested(trust, text, have, session_id=session_id, tell=tell) for source in self._sources
        ]
        return [one for found in await asyncio.gather(*asked) for one in found]


class FolderServices(Struct, frozen=True):
    """Places and rules of the folder that a session works in."""

    journal: Path
    """Folder for records of writes, with which an interrupted one is finished or undone."""
    rules: tuple[Rule, ...] = ()
    """Rules of a branch for any agent: see ``daemon.explore.branch_environment``."""
    readable: tuple[Path, ...] = ()
    """Folders outside of the session's that commands in a sandbox must see, and cannot write."""
    branch: BranchCommands = field(default_factory=BranchCommands)
    """In a branch: the workspace that the folder is a copy of. Rules that name its files mean the copy's."""


class LanguageViews(Struct, frozen=True):
    """Views of language servers and editors on the session's folder."""

    diagnostics: Diagnostics
    navigation: Navigation = field(default_factory=NoNavigation)
    """Where things are defined and used."""
    own_servers: Diagnostics | None = None
    """Diagnostics of our own language servers, whatever editors are attached; None: ``diagnostics`` has no other
    source."""
    open_language_services: OpenLanguageServices = NoLanguageServices
    """Diagnostics and navigation for another folder, see ``daemon.explore``."""


class WatchServices(Struct, frozen=True):
    """The watches over the session's folder: over files that were read, and over what commands change."""

    files: FileWatch
    commands: CommandWatches


class ChildSlots:
    """Places to work at, first come, first served. The limit may differ from call to call: settings change."""

    def __init__(self) -> None:
        self.working = 0
        """How many are at work."""
        self._first = asyncio.Lock()
        """Held by the one that is next."""
        self._left = asyncio.Event()

    @asynccontextmanager
    async def place(self, limit: int) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it for the block; while ``limit`` are at work, no other one starts.

        Nested sub-agents (those of a branch) take no slot: their parent waits for them and already holds one, so
        waiting would deadlock. They do not call this.
        """
        async with self._first:
            while self.working >= limit:
                self._left.clear()
                await self._left.wait()
            self.working += 1
        try:
            yield
        finally:
            self.working -= 1
            self._left.set()


class ChildServices(Struct, frozen=True):
    """The means to start and limit branches and sub-agents."""

    copies: Callable[[Sequence[str]], Awaitable[WorkingCopies]] | None = None
    """Working copies for branches, in which these ignored folders are links. Copies that a crash left are removed by
    then."""
    cancel_branch: dict[str, Callable[[], bool]] = field(default_factory=dict[str, Callable[[], bool]])
    """Ends one branch, by session id: from its announcement on, when it has no session yet, until it has ended."""
    parallel: ChildSlots = field(default_factory=ChildSlots)
    """How many children work at the same time."""
    testing: ChildSlots = field(default_factory=ChildSlots)
    """How many branches are tested at the same time."""
    comparing: ChildSlots = field(default_factory=ChildSlots)
    """How many are looked at by language servers: all at once would need more of them than there may be."""


class Services(Struct, frozen=True):
    """Shared by all sessions of a daemon, but for what belongs to a branch's folder."""

    workspace: Path
    """The folder that the session works in: in a branch, the copy."""
    store: FileTraceStore
    """In its folders, sessions keep file versions and full outputs, too."""
    bus: Bus
    permissions: PermissionService
    tools: Mapping[str, Tool[Any]]
    run_tool: Callable[..., Awaitable[Any]]
    models: Models
    config: Callable[[], Config]
    now: Callable[[], datetime]
    user_folder: Path
    editors: Editors
    """The documents that are open in editors."""
    trust: Callable[[], Trust]
    """Trust in the workspace, for when no client states it."""
    agents: Agents
    """Agents for sessions and tasks."""
    skills: Skills
    commands: Commands
    folder: FolderServices
    languages: LanguageViews
    watching: WatchServices
    children: ChildServices
    extra: ExtraTools = field(default_factory=JoinedTools)
    """Further tools than ``tools``."""
