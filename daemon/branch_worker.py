"""The process on a node of a cluster in which one branch works: the same loop as in the daemon, around one session.

Models, questions and costs stay in the driver: this process has no keys, and asks for each. All of its files are in one
private folder, which goes at the end, also when the driver or Ray is killed: then the socket ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.agents.loader import Agents
from daemon.bus import Bus
from daemon.copies.git_program import CancelToken, StoppedError
from daemon.copies.working_copy import CopyError
from daemon.explore.branch import Branch, BranchHost
from daemon.explore.branch_task import BranchOrder, BranchReport, Opened
from daemon.explore.copy_manager import copies_for
from daemon.features import features
from daemon.files.command_changes import CommandWatches
from daemon.files.folder_language_services import NoDiagnostics
from daemon.files.watch import FileWatch
from daemon.hooks.entry_points import FoundFunctions
from daemon.hooks.python import Hooks
from daemon.loop.services import ChildServices, FolderServices, LanguageViews, Services, WatchServices
from daemon.loop.session import Session
from daemon.loop.watchdog import run_limited
from daemon.model.branches import root_of
from daemon.model.events import Delta, Event, SessionCreated
from daemon.model.traces import Trace
from daemon.permission.grants import GrantStore
from daemon.permission.service import PermissionService
from daemon.provider import pricing
from daemon.provider.pricing import model_info
from daemon.remote.base_transfer import NodeCache, cluster_folder, object_format, run_folder
from daemon.remote.peer import Peer, StreamPipe
from daemon.runtime import keep_memory_private
from daemon.skills.catalogue import Skills
from daemon.skills.commands import Commands
from daemon.state.session_state import SessionState
from daemon.store.files import FileTraceStore
from tools.localization import set_language, t
from tools.ports import NoEditors
from tools.process.background import finish
from tools.process.programs import find_program
from tools.registry import BuiltinTools
from tools.sandbox.prepare import works
from tools.tool import Approval, BranchCommands, PermissionAsk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from daemon.explore.branch_task import BranchOutcome, BranchTask, TestCommand
    from daemon.model.messages import Usage
    from daemon.model.meters import Metered
    from daemon.model.permissions import Rule
    from daemon.permission.grants import Grants
    from daemon.permission.service import Asker, CallInfo
    from daemon.provider.model_calls import ModelRequest, ProviderEvents

log = logging.getLogger(__name__)

_END_S = 20.0
"""Seconds for the end in order when the driver is gone."""
_MOST_FILES = 64 << 20
"""Bytes of file versions and outputs that are sent back."""


class DriverModels:
    """Models of the driver. Implements Models."""

    def __init__(self, driver: Peer, windows: Mapping[str, tuple[int, bool]]) -> None:
        self._driver = driver
        self._windows = windows

    def stream(self, model: str, request: ModelRequest) -> ProviderEvents:
        return self._driver.stream("model", model, request)

    def cost(self, model: str, usage: Usage) -> float | None:
        return pricing.cost(model, usage)

    def window(self, model: str, env: Mapping[str, str], configured: int | None = None) -> int:
        return self._windows.get(model, (configured or model_info(model).context_window, True))[0]

    def window_is_assumed(self, model: str, env: Mapping[str, str], configured: int | None = None) -> bool:
        return self._windows.get(model, (0, True))[1]

    def problem(self, model: str, env: Mapping[str, str]) -> str:
        return ""

    def ask_window(self, model: str, env: Mapping[str, str]) -> None:
        """Do nothing: the driver knows it."""


class DriverPermissions(PermissionService):
    """The driver decides what the rules here do not deny, by the rules that hold at that moment, and asks its user."""

    def __init__(self, driver: Peer, grants: _Grants) -> None:
        super().__init__(partial(datetime.now, UTC), grants)
        self._driver = driver
        self._grants = grants

    async def ask(self, asker: Asker, call: CallInfo, ask: PermissionAsk) -> Approval:
        if asker.rules.judge(ask).action == "deny":
            return await super().ask(asker, call, ask)  # it raises, with the reason
        approval, session, everywhere = await self._driver.call("ask", asker.session_id, call, ask)
        self._grants.set(session, everywhere)
        return approval


class BranchWorker:
    """Serves one order."""

    driver: Peer
    """The other end. It is set before anything is received."""

    def __init__(self) -> None:
        self._working: asyncio.Task[None] | None = None
        self._canceled = False

    def cancel(self) -> None:
        """End the branch in order; what it did is reported."""
        self._canceled = True
        if self._working is not None:
            self._working.cancel()

    async def run(self, order: BranchOrder) -> BranchReport:
        """Work on an order to its end. Raises CopyError when it cannot begin."""
        set_language(order.language)
        program = await asyncio.to_thread(find_program, "git", Path("/nonexistent"))
        if program is None:
            raise CopyError(t("git is not installed on the node"))
        with contextlib.ExitStack() as stack:
            place = await asyncio.to_thread(stack.enter_context, run_folder())
            top = await self._built(order, NodeCache(cluster_folder(), order.workspace_key, program), place)
            return await self._explore(order, top / order.inner, place / "home")

    async def _built(self, order: BranchOrder, cache: NodeCache, place: Path) -> Path:
        """Build the base's tree; returns its top folder."""
        base, stop, top = order.task.base, CancelToken(), place / order.top
        commit = base.commit
        try:
            await asyncio.to_thread(cache.prepare, object_format(base))
            if commit is not None and not await asyncio.to_thread(cache.has, stop, commit):
                have = await asyncio.to_thread(cache.tips, stop)
                file = Path(await self.driver.call("pack", commit, have))
                await asyncio.to_thread(cache.add, stop, file, commit)
            await asyncio.to_thread(cache.check_out, stop, base, top)
        except asyncio.CancelledError:
            stop.set()
            raise
        except (OSError, StoppedError) as error:
            raise CopyError(t("the files cannot be written on the node ({error})", error=error)) from error
        return top

    async def _explore(self, order: BranchOrder, workspace: Path, home: Path) -> BranchReport:
        home.mkdir(mode=0o700)
        if order.instructions is not None:
            (home / "AGENTS.md").write_bytes(order.instructions)
        sessions: dict[str, Session] = {}
        grants = _Grants(order.grants, home)
        services, close = _services(order, self.driver, workspace, home, grants)
        main = grants.main = _main_session(order, services, home, sessions)
        if order.contained and not await asyncio.to_thread(works, workspace):
            raise CopyError(t("commands cannot run in a sandbox on the node, as they do here"))
        services.bus.subscribe_to_all(partial(self._began, sessions, order))
        copies = await asyncio.to_thread(copies_for, workspace, home / "branches", ())
        base = await copies.base()
        ended: list[BranchOutcome] = []
        trace_folder = services.store.folder(order.task.session_id)
        try:
            if order.task.base.commit is not None and base.tree != order.task.base.tree:
                raise CopyError(t("the files on the node changed while they were copied"))
            host = BranchHost(
                main,
                partial(copies.open, base=base),
                self._test,
                self._keep,
                lambda _, end, __: ended.append(end),
                copies_folder=cluster_folder(),  # no branch touches what belongs to another one
            )
            self._working = asyncio.create_task(Branch(order.task, host).run())
            if self._canceled:
                self._working.cancel()
            await _to_its_end(self._working)
        finally:
            await copies.done(base)
            await close()
        return BranchReport(ended[0], await asyncio.to_thread(_files, trace_folder))

    def _began(self, sessions: dict[str, Session], order: BranchOrder, item: Event | Delta | Metered) -> None:
        """Tell the daemon about a session that begins here, and from then on what happens in it."""
        if not isinstance(item, SessionCreated) or item.trace_id == root_of(item.trace_id):
            return
        session = sessions[item.trace_id]
        services = session.services
        if first := item.trace_id == order.task.session_id:
            session.state.plan.skip_ids(order.last_goal)
            session.state.children.subagents.update(order.subagents)
        self.driver.tell("opened", Opened(item, services.workspace, services.folder.rules, first))
        services.bus.subscribe(item.trace_id, partial(self.driver.tell, "event"))

    async def _test(self, task: BranchTask) -> TestCommand:
        return await self.driver.call("test_command")

    async def _keep(self, task: BranchTask, outcome: BranchOutcome) -> None:
        await self.driver.call("keep", outcome)


class _Grants(GrantStore):
    """The user's grants, as the driver reported them last. None is added: nobody answers here."""

    def __init__(self, everywhere: Grants, home: Path) -> None:
        nothing = home / "grants.json"
        super().__init__(nothing, nothing, partial(datetime.now, UTC))
        self.main: Session | None = None
        self._everywhere = everywhere

    def set(self, session: Sequence[Rule], everywhere: Grants) -> None:
        """Take over those for the session, and the others."""
        if self.main is not None:
            self.main.state.set_granted(session)
        self._everywhere = everywhere

    def rules(self, *, look: bool = True) -> Grants:
        return self._everywhere


def _services(
    order: BranchOrder, driver: Peer, workspace: Path, home: Path, grants: _Grants
) -> tuple[Services, Callable[[], Awaitable[None]]]:
    """Return the services of the main session, and a function that ends what they run."""
    store = FileTraceStore(home.parent / "record")
    store.prepare()
    watch = FileWatch(lambda _: None)
    commands = CommandWatches(workspace, store.root, home / "watched", lambda _: None)
    services = Services(
        workspace=workspace,
        store=store,
        bus=Bus(),
        permissions=DriverPermissions(driver, grants),
        tools=BuiltinTools(),
        run_tool=run_limited,
        models=DriverModels(driver, order.windows),
        config=lambda: order.config,
        now=lambda: datetime.now(UTC),
        user_folder=home,
        editors=NoEditors(),
        trust=lambda: order.trust,
        agents=Agents(workspace, home),
        skills=Skills(workspace, home),
        commands=Commands(workspace, home),
        # Rules name the workspace as it is called in the driver.
        folder=FolderServices(home / "journal", branch=BranchCommands(Path(order.task.workspace))),
        languages=LanguageViews(NoDiagnostics()),
        watching=WatchServices(watch, commands),
        children=ChildServices(),
    )

    async def close() -> None:
        await watch.close()
        await commands.close()
        store.close()

    return services, close


def _main_session(
    order: BranchOrder, services: Services, home: Path, sessions: dict[str, Session]
) -> Session:
    """Return what the main session is for its branch: its policy, and the numbers that it shares."""
    now = services.now()
    trace = Trace(
        trace_id=order.task.trace_id, workspace=str(services.workspace), agent=order.agent.name,
        model=order.task.model or None, mode=order.mode, created_at=now, updated_at=now,
    )  # fmt: skip
    services.store.create(trace)
    hooks = Hooks(services.workspace, home, find=FoundFunctions)
    main = Session(SessionState(trace), order.agent, services, features(hooks, sessions))
    main.policy.use(config=services.config(), trust=order.trust, default_model=order.default_model)
    main.policy.design.guard_by(order.design)
    main.state.set_granted(order.granted)
    main.state.order.reserve(order.first_sequence)
    main.state.set_calibration(order.calibration)
    sessions[main.session_id] = main
    return main


async def _to_its_end(task: asyncio.Task[None]) -> None:
    """Wait; a cancellation ends the task in order. Raises its error."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await finish(task)
        raise
    task.result()


def _files(folder: Path) -> dict[str, bytes]:
    """Return versions of files and outputs below the folder, as far as they are not too large together."""
    found: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or not {"files", "output"} & set(name.split("/")[:-1]):
            continue
        size += path.stat().st_size
        if size <= _MOST_FILES:
            found[name] = path.read_bytes()
    return found


async def _serve(descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    worker = BranchWorker()
    driver = worker.driver = Peer(StreamPipe(reader, writer), {"run": worker.run, "cancel": worker.cancel})
    serving = asyncio.create_task(driver.run())
    # ``run`` returns only when everything that it served has ended, so a thread watches over that.
    watching = asyncio.create_task(_watch_end(driver))
    await serving
    watching.cancel()


async def _watch_end(driver: Peer) -> None:
    await driver.lost.wait()
    timer = threading.Timer(_END_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


def main(descriptor: int) -> None:
    """Serve the socket until it ends."""
    logging.getLogger().addHandler(logging.NullHandler())  # a log here would hold the user's content
    keep_memory_private()
    with contextlib.suppress(Exception):
        asyncio.run(_serve(descriptor))
    os._exit(0)
