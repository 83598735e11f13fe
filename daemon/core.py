"""The daemon's core: sessions over one workspace, shared by all clients.

It has no sockets or protocols; ``lsp_bridge`` exposes it, tests use it directly.
"""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.agents.loader import AgentProfile, Agents, FoundAgents, UnknownAgentError
from daemon.bus import Bus
from daemon.config import Config, WorkspaceConfig
from daemon.explore.copy_manager import BranchCopies, OpenCopies, copies_for
from daemon.features import features
from daemon.files.command_changes import CommandWatches
from daemon.files.folder_language_services import NoLanguageServices, OpenLanguageServices
from daemon.files.watch import FileWatch
from daemon.hooks.python import Hooks
from daemon.loop.services import (
    ChildServices,
    FolderServices,
    JoinedTools,
    LanguageViews,
    Models,
    Services,
    WatchServices,
)
from daemon.loop.session import Session
from daemon.loop.watchdog import WorkspaceGuard, run_limited
from daemon.mcp.service import McpServers
from daemon.model.branches import root_of
from daemon.model.events import SessionCreated, SessionUpdated
from daemon.model.traces import Trace
from daemon.open_sessions import OpenSessions, Presence
from daemon.outlets import Outlets
from daemon.own_tools.service import OwnTools
from daemon.permission.grants import GrantStore
from daemon.permission.service import PermissionService
from daemon.recovery import Recovery
from daemon.skills.catalogue import Skills
from daemon.skills.commands import Commands
from daemon.state.session_state import Order, SessionState
from daemon.store.location import open_store
from daemon.store.provenance import OwnSessions
from daemon.store.replay import highest_sequence
from daemon.store.trace_index import never_begun
from daemon.store.trace_store import StoreError
from daemon.trace_maintenance import TraceMaintenance, limits_of, new_trace_id
from daemon.workspace_key import workspace_key
from tools.language_ports import Navigation, NoNavigation
from tools.localization import t
from tools.ports import Editors, NoEditors
from tools.process.background import Background
from tools.registry import AnyTool, BuiltinTools
from tools.tool import Diagnostics, ToolContext, ToolResult
from tools.writing.recovery import recover

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.model.messages import Message
    from daemon.model.permissions import Mode, Trust
    from daemon.skills.catalogue import FoundSkills
    from daemon.skills.commands import FoundCommands

log = logging.getLogger(__name__)


class Daemon:
    """One workspace's sessions, permissions and plan. Made and used on one event loop."""

    def __init__(
        self,
        workspace: Path,
        *,
        diagnostics: Diagnostics,
        models: Models,
        state_folder: Path,
        command_line: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        editors: Editors | None = None,
        navigation: Navigation | None = None,
        own_servers: Diagnostics | None = None,
        open_language_services: OpenLanguageServices = NoLanguageServices,
        copies: OpenCopies = copies_for,
    ) -> None:
        """``copies``: makes the working copies of branches."""
        self.workspace = workspace.resolve()
        self.state_folder = state_folder
        self.bus = Bus()
        self.configuration = WorkspaceConfig(self.workspace, state_folder, command_line or {})
        self.grants = GrantStore(
            state_folder / "grants.json", self._private("grants").with_suffix(".json"), now
        )
        self.permissions = PermissionService(now, self.grants)
        self.presence = Presence()
        self._at_hand = OpenSessions()
        self._background = Background("work beside the sessions")
        self._guard = WorkspaceGuard(self.workspace, self._background)
        self.store, self.storage_notice = open_store(self.workspace, state_folder)
        self._recover_changes()
        self.trace_maintenance = TraceMaintenance(
            self.store,
            OwnSessions(state_folder, self.workspace),
            now,
            limits=lambda: limits_of(self.config()),
            sessions=self._at_hand.live,
            opening=self._at_hand.opening,
            bus=self.bus,
            replica=lambda: self.outlets.replica,
        )
        self.outlets = Outlets(self.store, self.bus, self.config, now, self._at_hand.live)
        self.hooks = Hooks(self.workspace, state_folder)
        """The user's programs and functions that run at key moments of sessions."""
        self.mcp = McpServers(
            self.workspace,
            self._private("mcp"),
            self.config,
            lambda: any(session.trust == "trusted" for session in self._at_hand.live.values()),
            state_folder / "mcp-tokens.json",
        )
        """The servers whose tools sessions have beside the built-in ones."""
        self.own_tools = OwnTools(self.workspace, state_folder, self._private("tools"))
        """The user's tools."""
        branch_copies = BranchCopies(self.workspace, state_folder, copies)
        self._services = Services(
            workspace=self.workspace,
            store=self.store,
            bus=self.bus,
            permissions=self.permissions,
            tools=BuiltinTools(),
            run_tool=self._run_tool,
            extra=JoinedTools(self.mcp, self.own_tools),
            models=models,
            config=self.config,
            now=now,
            user_folder=state_folder,
            editors=editors or NoEditors(),
            trust=self.trust,
            agents=Agents(self.workspace, state_folder),
            skills=Skills(self.workspace, state_folder),
            commands=Commands(self.workspace, state_folder),
            folder=FolderServices(self._private("journal")),
            languages=LanguageViews(
                diagnostics, navigation or NoNavigation(), own_servers, open_language_services
            ),
            watching=WatchServices(
                FileWatch(self._changed_outside),
                CommandWatches(
                    self.workspace, self.store.root, self._private("copies"), self._changed_outside
                ),
            ),
            children=ChildServices(branch_copies.open),
        )
        branch_copies.recover(self._services)
        self._recovery = Recovery(
            self._services,
            features(self.hooks, self._at_hand.live),
            branch_copies,
            is_foreign=self.is_foreign,
            order=self._order,
            open_session=self.session,
            background=self._background,
        )
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def _run_tool(self, tool: AnyTool, input_json: str, ctx: ToolContext) -> ToolResult:
        """Run a tool call with a time limit, unless the workspace is gone."""
        self._guard.begin()
        if problem := self.workspace_problem():
            return ToolResult(problem, title="no workspace", is_error=True)
        return await run_limited(tool, input_json, ctx)

    def workspace_problem(self) -> str:
        """Return why nothing can be done in the workspace any more; empty when it is there."""
        return self._guard.problem()

    def now(self) -> datetime:
        """Return the time of the sessions' events."""
        return self._services.now()

    def _fail(self, problem: str) -> None:
        log.warning("%s", problem)
        for session in self.running:
            session.fail(problem)

    def load_tools(self) -> None:
        """Load modules and agents before the first turn needs them. Blocks: call it in a thread."""
        import daemon.planner.driver  # pyright: ignore[reportUnusedImport]  # noqa: F401 - 12 ms that no turn waits for

        list(self._services.tools)  # this imports them
        self._services.agents.all(self.trust())
        self.mcp.preload(self.trust())
        self.own_tools.preload()

    def found_agents(self, trust: Trust | None = None) -> FoundAgents:
        """Return all agents, shipped ones first, with the problems of their files. Blocks: call it in a thread.

        ``trust``: the client's trust in the folder; None: our own record.
        """
        return self._services.agents.all(trust or self.trust())

    def found_prompts(self, trust: Trust) -> tuple[FoundCommands, FoundSkills]:
        """Return the user's slash commands and skills, with the problems of their files. Blocks: call it in a
        thread."""
        return self._services.commands.all(trust), self._services.skills.all(trust)

    def trust(self) -> Trust:
        """Return the trust in the workspace's folder, for when no client states it."""
        return self.configuration.trust()

    def config(self, trusted: bool | None = None) -> Config:
        """Return the configuration; ``configuration.forget`` has the files read again."""
        return self.configuration.read(trusted)

    # -- sessions --

    def new_session(
        self,
        *,
        model: str | None = None,
        agent: str = "build",
        mode: Mode | None = None,
        trust: Trust | None = None,
        config: Config | None = None,
    ) -> Session:
        """Begin a session. Raises UnknownAgentError, StoreError.

        ``trust``: in the folder, as a client states it. ``config``: the settings of that client; None: the daemon's.
        """
        profile = self._beginning(agent, trust or self.trust())
        self.outlets.observe()
        settings = (config or self.config()).settings
        now = self.now()
        trace = Trace(
            trace_id=new_trace_id(now, self._at_hand.live),
            workspace=str(self.workspace),
            agent=agent,
            model=model or (None if agent in settings.model.models else profile.model) or None,
            mode=mode,
            created_at=now,
            updated_at=now,
        )
        self.trace_maintenance.own.add(trace.trace_id)
        try:
            self.store.create(trace)
            self._guard.watch(lambda: bool(self.running), self._fail)
            session = Session(SessionState(trace), profile, self._services, self._recovery.features)
            self._at_hand.live[trace.trace_id] = session
            self._at_hand.orders[trace.trace_id] = session.state.order
            session.emit(SessionCreated(trace_id=trace.trace_id, time=now, trace=trace))
        except StoreError:
            self.trace_maintenance.never_began(trace.trace_id)
            raise
        self.outlets.dump(session)
        return session

    async def session(self, session_id: str) -> Session:
        """Return the live session, opened from the store when needed. Raises UnknownTraceError, StoreError."""
        await self.trace_maintenance.wanted(root_of(session_id))
        live = self._at_hand.live.get(session_id)
        if live is not None:
            return live
        return await self._at_hand.opened(session_id, self._open, before=self.trace_maintenance.refuse_held)

    def live(self, session_id: str) -> Session | None:
        """Return the session when it is open."""
        return self._at_hand.live.get(session_id)

    def cancel(self, session_id: str, *, hold_queue: bool = False) -> bool:
        """Stop what a session does, also a branch whose copy is being made. False when nothing runs.

        ``hold_queue``: see Session.cancel.
        """
        live = self._at_hand.live.get(session_id)
        if live is not None and live.cancel(hold_queue=hold_queue):
            return True
        end = self._services.children.cancel_branch.get(session_id)
        return end is not None and end()

    def is_foreign(self, session_id: str) -> bool:
        """Return whether a stored session was imported or came with the workspace instead of being started here."""
        return session_id not in self.trace_maintenance.own

    async def traces(self, *, limit: int, before: str | None = None) -> list[Trace]:
        """Return stored sessions, newest first; open ones in their current state. Unused ones only while clients watch
        them."""
        looked_at = self.bus.heard()

        def listed(trace: Trace) -> bool:
            return trace.trace_id in looked_at or not never_begun(self.store, trace)

        stored = await asyncio.to_thread(self.store.traces, limit=limit, before=before, matches=listed)
        return [
            self._at_hand.live[t.trace_id].state.trace if t.trace_id in self._at_hand.live else t
            for t in stored
        ]

    def used(self, session_id: str) -> None:
        """A session is the one that its user worked with last."""
        self.trace_maintenance.own.use(root_of(session_id))

    async def messages(self, session_id: str, *, before: int, limit: int) -> list[Message]:
        """Older messages of a session, oldest first."""
        session = await self.session(session_id)
        older = [m for m in session.state.messages if m.sequence < before]
        return older[max(0, len(older) - limit) :]

    def saved(self, path: Path) -> None:
        """Record that the user saved a file in an editor."""
        self._services.watching.commands.wrote(path)

    def buffer_changed(self, path: Path) -> None:
        """An editor's text of a file changed, or is no longer open: language servers are to see that text."""
        self._services.languages.diagnostics.buffer_changed(path)

    def renamed(self, old: Path, new: Path) -> None:
        """Record that the user renamed a file or folder in an editor: what the model has read of it stays valid."""
        for session in self._at_hand.live.values():
            seen = session.state.given.files
            for name in [name for name in seen if Path(name) == old or old in Path(name).parents]:
                # Keep the old name: a replay knows it too, and a hash of a deleted file does no harm.
                seen[str(new / Path(name).relative_to(old))] = seen[name]
                self._services.watching.files.add(new / Path(name).relative_to(old))

    def update_session(self, session: Session, updates: Mapping[str, Any]) -> None:
        """Change title, model, mode or limits."""
        if updates:
            session.emit(SessionUpdated(**session.record.here(), updates=dict(updates)))
        if "budget" in updates:
            session.budget.withdraw_question()

    @property
    def open_sessions(self) -> list[Session]:
        """Open sessions of the user, running or not; no branches or sub-agents."""
        return [session for session in self._at_hand.live.values() if session.parent is None]

    @property
    def running(self) -> list[Session]:
        """Sessions with a turn under way, branches and sub-agents among them."""
        return [session for session in self._at_hand.live.values() if session.running]

    # -- life cycle --

    async def wait_until_idle(self, poll_s: float = 1.0) -> None:
        """Return when there has been no client and no work for ``idle_timeout_s``."""
        await self.presence.until_quiet(
            lambda: bool(self.running), lambda: self.config().settings.daemon.idle_timeout_s, poll_s
        )

    def storage_problems(self) -> list[str]:
        """Return what keeps sessions from being stored where they should be, for the user."""
        return [problem for problem in (self.storage_notice, self.outlets.behind()) if problem]

    def when_closing(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run ``step`` when the sessions are closed and stored, so that watching clients see how they ended."""
        self._closing.append(step)

    async def close(self) -> None:
        """Cancel all turns, store everything, release everything."""
        # Main lines end their children.
        await asyncio.gather(
            *self.trace_maintenance.unloading.values(), *(session.close() for session in self.open_sessions)
        )
        for step in self._closing:
            await step()
        await self.outlets.close()
        await self._recovery.copies.recovered()
        await asyncio.gather(self.hooks.close(), self.mcp.close())
        await self._services.watching.files.close()
        await self._services.watching.commands.close()
        self._background.cancel()
        self.store.close()

    # -- internals --

    def _beginning(self, name: str, trust: Trust) -> AgentProfile:
        """Return an agent to begin a session with. Raises UnknownAgentError."""
        profile = self._services.agents.find(name, trust)
        if not profile.begins:
            known = ", ".join(agent.name for agent in self._services.agents.all(trust).beginning())
            raise UnknownAgentError(
                t(
                    "The agent {name} only works as a sub-agent. Start a session with one of: {known}.",
                    name=name,
                    known=known,
                )
            )
        return profile

    async def _open(self, session_id: str) -> Session:
        self.outlets.observe()
        session = await self._recovery.open(session_id)
        self._guard.watch(lambda: bool(self.running), self._fail)
        self.outlets.dump(session)
        return session

    async def _order(self, trace_id: str) -> Order:
        """Return what numbers the messages of a main session and of all its children."""
        orders = self._at_hand.orders
        known = orders.get(trace_id)
        if known is not None:
            return known
        order = Order(await asyncio.to_thread(highest_sequence, self.store, trace_id))
        return orders.setdefault(trace_id, order)  # another of them may have been opened meanwhile

    def _private(self, what: str) -> Path:
        """Return where something of this workspace is kept that nothing else may write."""
        return self.state_folder / what / workspace_key(self.workspace)

    def _recover_changes(self) -> None:
        """Finish or undo changes that a crash interrupted, and report them. Call it before anything can be written."""
        for change in recover(self._private("journal")):
            log.warning("%s", change.text)
            self.storage_notice = f"{self.storage_notice} {change.text}".lstrip()

    def _changed_outside(self, path: Path) -> None:
        self._background.start(self._services.languages.diagnostics.changed(path))


def memory_mb() -> float | None:
    """Return the resident memory of this process in MB, where the system reports it (Linux)."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576, 1)
