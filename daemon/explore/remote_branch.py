"""A branch that is worked on by a worker process on a node of a cluster, and what of it stays here.

Its session here holds the record alone: the worker's events are applied to it and stored, so viewers, the main session
and a recovery see no difference to a local branch. Models are called here, questions are asked here, money is counted
here. The worker gets no key.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from daemon.copies.git_program import CancelToken
from daemon.copies.working_copy import CopyError
from daemon.explore.branch import MAX_SUMMARY, EventMirror, own_words
from daemon.explore.branch_notes import unfinished_summary
from daemon.explore.branch_task import (
    BranchOrder,
    BranchOutcome,
    BranchReport,
    BranchTask,
    Opened,
    TestCommand,
    for_node,
)
from daemon.loop.children import close_child, open_child
from daemon.loop.services import FolderServices
from daemon.loop.session import Session
from daemon.model import notice_codes
from daemon.model.branches import CheckRun
from daemon.model.events import BranchPlaced, MessageAdded, PermissionAsked, PermissionReplied, TurnStarted
from daemon.provider.model_calls import ProviderError
from daemon.remote.base_transfer import pack
from daemon.remote.cluster import Cluster, ClusterError, Node, NodeLostError
from daemon.remote.peer import Peer, PeerLostError
from daemon.store.ids import parent_of
from daemon.workspace_key import workspace_key
from tools.localization import language, t
from tools.process.background import finish
from tools.process.programs import find_program
from tools.text.truncate import head
from tools.tool import BranchCommands, ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from daemon.copies.working_copy import Base
    from daemon.explore.branch import BranchHost
    from daemon.model.events import Delta, Event
    from daemon.model.meters import Metered
    from daemon.permission.service import CallInfo
    from daemon.provider.model_calls import ModelRequest, ProviderEvent
    from tools.tool import PermissionAsk

ATTEMPTS = 2
_PLACINGS, _AGAIN_S = 15, 2.0
"""Tries to get a node that lives, and the seconds between them."""
_RESERVED = 1_000
"""Numbers of messages that are kept for one attempt: the worker cannot ask for each."""
_END_S = 30.0
"""Seconds that a canceled worker may take to report what it did."""


class NotThereError(Exception):
    """Raised when a branch cannot work on a node; the message says why. Nothing of it has happened."""


class RemoteBranch:
    """One branch on its way."""

    def __init__(self, task: BranchTask, host: BranchHost, nodes: Nodes) -> None:
        self._task = task
        self._host = host
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._began = time.monotonic()
        self._peer: Peer | None = None
        self._node: Node | None = None
        self._child: Session | None = None
        self._sessions: dict[str, Session] = {}
        """This branch's and its sub-agents', by id."""
        self._mirror: EventMirror | None = None
        self._own = False
        """The worker's branch has begun its own work: its events before are those that every attempt begins with."""
        self._begun = 0
        """Events before its own work that the record has."""
        self._heard_of = 0
        """Events before its own work of this attempt."""
        self._kept: BranchOutcome | None = None
        self._canceled = False
        self._reported = False
        """The worker has reported how the branch ended."""

    async def run(self) -> None:
        """Have it worked on to its end, once more when its node is lost. Canceled, it is ended in order.

        Raises NotThereError when it cannot work on a node.
        """
        working = asyncio.create_task(self._work())
        try:
            while not working.done():
                try:
                    await asyncio.wait({working}, timeout=_END_S if self._canceled else None)
                    if self._canceled and not working.done():
                        working.cancel()  # it does not answer
                except asyncio.CancelledError:
                    self._cancel(working)
            outcome = self._lost_outcome("") if working.cancelled() else working.result()
            self._host.ended(self._task, replace(outcome, duration_ms=self._elapsed()), self._child)
        finally:
            await finish(asyncio.ensure_future(self._close()))

    def _cancel(self, working: asyncio.Task[BranchOutcome]) -> None:
        first, self._canceled = not self._canceled, True
        if first and self._peer is not None:
            self._peer.tell("cancel")
        elif self._peer is None and not self._reported:
            working.cancel()

    async def _work(self) -> BranchOutcome:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt()
            except (PeerLostError, ClusterError) as error:
                again = attempt < ATTEMPTS and not self._canceled and isinstance(error, NodeLostError)
                if self._child is None and isinstance(error, ClusterError) and not again:
                    raise NotThereError(str(error)) from None
                if self._kept is not None and self._kept.status == "completed":
                    return self._counted(self._kept)  # it had ended, and only its score is missing
                why = str(error)
                if attempt == ATTEMPTS or self._canceled:
                    return await self._measured(self._lost_outcome(why))
                self._interrupted(why)
            except CopyError as error:
                if self._child is None:
                    raise NotThereError(str(error)) from None
                return await self._measured(self._lost_outcome(str(error)))
        raise AssertionError("the last attempt returns")

    async def _attempt(self) -> BranchOutcome:
        self._own, self._heard_of = False, 0
        node = self._node = await self._place()
        order = await self._order()
        peer = self._peer = Peer(
            node,
            {
                "pack": self._pack, "opened": self._opened, "event": self._heard, "ask": self._ask,
                "model": self._model, "test_command": self._test_command, "keep": self._keep,
            },
        )  # fmt: skip
        serving = asyncio.create_task(peer.run())
        try:
            if self._canceled:
                peer.tell("cancel")
            report: BranchReport = await peer.call("run", order)
            await asyncio.to_thread(self._save_files, report.files)
            self._reported = True
            return self._counted(report.outcome)
        finally:
            # From here on nothing of this attempt is heard any more.
            self._peer = None
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await self._cluster.release(node)

    async def _place(self) -> Node:
        """Return a node. Ray may offer one that was just lost for some seconds more, which counts as no attempt."""
        left = _PLACINGS
        while True:
            try:
                return await self._cluster.open(self._nodes.cpus)
            except NodeLostError:
                if not left or self._canceled:
                    raise
            left -= 1
            await asyncio.sleep(_AGAIN_S)

    # -- the order --

    async def _order(self) -> BranchOrder:
        task, parent = self._task, self._host.parent
        services, state = parent.services, parent.state
        first = state.order.reserve(_RESERVED)
        models = {task.model, *task.settings.model.models.values(), *task.settings.model.fallback_model}
        configured = task.settings.context.context_window
        windows = {
            model: (
                services.models.window(model, parent.env, configured),
                services.models.window_is_assumed(model, parent.env, configured),
            )
            for model in models
            if model
        }
        contained, inner, top, instructions = await asyncio.to_thread(self._look)
        return BranchOrder(
            task=replace(task, settings=for_node(task.settings)),
            config=replace(parent.config, settings=for_node(parent.config.settings)),
            trust=parent.trust, mode=parent.mode,
            granted=tuple(state.granted), grants=services.permissions.keeper.rules(), agent=parent.agent,
            design=parent.policy.design.rules, default_model=parent.policy.client.default_model,
            first_sequence=first, last_goal=0 if self._child is None else self._child.state.plan.last_id,
            subagents={} if self._child is None else dict(self._child.state.children.subagents),
            calibration=state.calibration, windows=windows, contained=contained,
            workspace_key=workspace_key(services.workspace), top=top, inner=inner, language=language(),
            instructions=instructions,
        )  # fmt: skip

    def _look(self) -> tuple[bool, str, str, bytes | None]:
        """Return facts of this machine: see the fields of the order. Blocking."""
        from tools.sandbox.prepare import works

        services = self._host.parent.services
        workspace = services.workspace
        contained = self._task.settings.commands.sandbox_policy().kind != "off" and works(workspace)
        top = next((one for one in (workspace, *workspace.parents) if (one / ".git").exists()), workspace)
        if self._task.base.commit is None:
            top = workspace
        inner = workspace.relative_to(top).as_posix()
        try:
            instructions = (services.user_folder / "AGENTS.md").read_bytes()
        except OSError:
            instructions = None
        return contained, "" if inner == "." else inner, top.name or "copy", instructions

    # -- what the worker asks for --

    async def _pack(self, commit: str, have: list[str]) -> str:
        assert self._node is not None, "it asks"
        return await self._cluster.give(self._node, await self._nodes.pack(commit, have))

    async def _ask(self, session_id: str, call: CallInfo, ask: PermissionAsk) -> Any:
        services = self._host.parent.services
        approval = await services.permissions.ask(self._sessions[session_id], call, ask)
        return approval, tuple(self._host.parent.state.granted), services.permissions.keeper.rules()

    async def _model(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent]:
        parent = self._host.parent
        budget = parent.budget
        if over := budget.run_over() or await budget.keep():
            raise ProviderError("bad_request", over)
        budget.count_step()
        env = {**parent.env, **request.env}
        async for event in parent.services.models.stream(model, replace(request, env=env)):
            yield event

    async def _test_command(self) -> TestCommand:
        return await self._host.test_command(self._task)

    async def _keep(self, outcome: BranchOutcome) -> None:
        await self._host.keep(self._task, outcome)
        self._kept = outcome

    # -- its record --

    def _placed(self) -> None:
        parent = self._host.parent
        assert self._node is not None, "it works there"
        parent.emit(
            BranchPlaced(**parent.record.here(), branch_id=self._task.branch_id, node=self._node.name)
        )

    def _opened(self, opened: Opened) -> None:
        parent = self._host.parent
        trace = opened.created.trace
        if opened.first:
            self._placed()
        services = replace(
            parent.services,
            workspace=opened.root,
            folder=FolderServices(
                parent.services.folder.journal,
                opened.rules,
                branch=BranchCommands(parent.services.workspace),
            ),
        )
        if not opened.first:
            name = trace.trace_id.rpartition(".")[2]
            above = self._sessions[parent_of(trace.trace_id)]
            agent = parent.services.agents.find_or_stand_in(trace.agent, parent.trust)
            child = open_child(above, name, agent, services=above.services, model=trace.model)
        elif self._child is None:
            child = self._child = open_child(
                parent, self._task.branch_id, self._task.agent, services=services,
                model=self._task.model or None, explore_start_id=self._task.explore_start_id,
                description=self._task.direction, inherited=len(self._task.conversation),
            )  # fmt: skip
            child.state.share_order(parent.state.order)
        else:
            # The record goes on, with the places of another node.
            with contextlib.suppress(ValueError):
                parent.record.children.remove(self._child.record)
            state, agent = self._child.state, self._child.agent
            child = self._child = Session(
                state, agent, services, parent.features, foreign=parent.foreign, parent=parent
            )
            child.policy.use(
                config=parent.config,
                env=parent.env,
                trust=parent.trust,
                default_model=parent.policy.client.default_model,
            )
            parent.features.sessions[trace.trace_id] = child
        self._sessions[trace.trace_id] = child
        child.make_read_only(
            t(
                "Branch {name} works on {node} and takes no messages there. Cancel it, or wait until it ends.",
                name=self._task.branch_id,
                node="" if self._node is None else self._node.name,
            )
        )

    def _heard(self, item: Event | Delta | Metered) -> None:
        session = self._sessions.get(item.trace_id)
        if session is None:
            return
        if not hasattr(item, "event_id"):
            session.services.bus.publish(item)
            return
        event: Any = item
        if isinstance(event, PermissionAsked | PermissionReplied):
            return  # it was asked here
        if session is self._child and not self._own:
            self._own = isinstance(event, TurnStarted)
            if self._own and self._mirror is None:
                self._mirror = EventMirror(self._host.parent, session, self._task.branch_id)
            if not self._own:
                self._heard_of += 1
                if self._heard_of <= self._begun:
                    return  # the record has this from the attempt before
                self._begun = self._heard_of
        session.emit(event.model_copy(update={"event_id": 0}))
        if isinstance(event, MessageAdded):
            self._host.parent.budget.warn()

    def _save_files(self, files: Mapping[str, bytes]) -> None:
        """Keep the versions of files and the outputs with the record. Blocking."""
        folder = self._host.parent.services.store.folder(self._task.session_id)
        for name, data in files.items():
            parts = name.split("/")
            if any(part in ("", ".", "..") for part in parts) or not {"files", "output"} & set(parts[:-1]):
                continue
            path = folder.joinpath(*parts)
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
                with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                    file.write(data)

    # -- the end --

    def _interrupted(self, why: str) -> None:
        """Bring the record to rest before the next attempt."""
        if self._child is not None:
            told = t("Its node was lost: {why}", why=why)
            self._child.close_open(told)
            plan = self._child.state.plan
            for goal in [one for one in plan.goals.values() if one.parent_id is None]:
                if plan.ended_root(goal.id) is None:
                    self._child.record.goals(plan.plan_abandon(told, goal))
        self._host.parent.notice(
            "warning",
            t(
                "Branch {name} lost its node ({why}) and is started again on another one.",
                name=self._task.branch_id,
                why=why,
            ),
            notice_codes.BRANCH_NODE_LOST,
            about=self._task.branch_id,
        )

    def _lost_outcome(self, why: str) -> BranchOutcome:
        """Return the outcome of a branch whose worker did not report one: what its record has."""
        child, mirror = self._child, self._mirror
        stop = "canceled" if self._canceled else "error"
        detail = "" if self._canceled else t("Its node was lost: {why}", why=why)
        words = ""
        if child is not None:
            with contextlib.suppress(Exception):
                child.close_open(detail or t("Canceled."))
            words = own_words(child) if mirror is not None else ""
        kept = self._kept or BranchOutcome(self._task.session_id, "abandoned", "", stop)
        return replace(
            self._counted(kept),
            status="abandoned",
            summary=head(unfinished_summary(stop, detail, words), MAX_SUMMARY),
            stop=stop,
            detail=detail,
        )

    def _counted(self, outcome: BranchOutcome) -> BranchOutcome:
        """Return what a worker reported with the numbers of all attempts."""
        if self._child is None or self._mirror is None:
            return outcome
        trace = self._child.state.trace
        return replace(
            outcome,
            stats=self._mirror.stats,
            last_message=self._mirror.last_message,
            usage=trace.usage,
            cost=trace.total_cost,
        )

    async def _measured(self, outcome: BranchOutcome) -> BranchOutcome:
        """Add the facts that are known here."""
        from daemon.explore.scoring import measured

        if self._child is None:
            return outcome
        why = t("it was canceled") if self._canceled else t("its node was lost")
        test = CheckRun(command="", detail=why)
        changes = outcome.changes if self._kept is not None else None
        score = await measured(self._child, changes, test=test, duration_ms=self._elapsed())
        return replace(outcome, score=score)

    async def _close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
        for session in reversed(list(self._sessions.values())):
            await close_child(session)

    def _elapsed(self) -> int:
        return int((time.monotonic() - self._began) * 1000)


# -- where the branches of an exploration work: on this machine, or on the nodes of a cluster --
#
# The user's own file decides, never the workspace's or a client's: it sends the workspace to other machines.


@dataclass
class Nodes:
    """The cluster of one exploration."""

    session: Session
    cluster: Cluster
    cpus: float
    """CPUs that a branch takes of a node."""
    fallback: Literal["local", "fail"]
    _packs: dict[tuple[str, ...], asyncio.Task[bytes]] = field(
        default_factory=dict[tuple[str, ...], "asyncio.Task[bytes]"]
    )
    """Packs of git objects, by what a node has already."""

    async def ran(self, task: BranchTask, host: BranchHost) -> bool:
        """Have a branch worked on to its end on a node. False: nothing of it has happened, and it is to work here."""
        try:
            await RemoteBranch(task, host, self).run()
            return True
        except NotThereError as error:
            why = str(error)
        if self.fallback == "local":
            text = t("Branch {name} works on this machine: {why}.", name=task.branch_id, why=why.rstrip("."))
            self.session.notice("warning", text, notice_codes.BRANCHES_HERE, about=task.branch_id)
            return False
        detail = t("It cannot work on the Ray cluster: {why}.", why=why.rstrip("."))
        host.ended(task, BranchOutcome(task.session_id, "abandoned", detail, "error", detail), None)
        return True

    async def pack(self, commit: str, have: list[str]) -> bytes:
        """Return the pack for a node. Raises CopyError."""
        key = (commit, *have)
        if key not in self._packs:
            self._packs[key] = asyncio.create_task(asyncio.to_thread(self._made, commit, have))
        return await asyncio.shield(self._packs[key])

    def _made(self, commit: str, have: list[str]) -> bytes:
        workspace = self.session.services.workspace
        program = find_program("git", workspace)
        if program is None:
            raise CopyError(t("git is not installed"))
        return pack(program, CancelToken(), workspace, commit, have)


async def connected(session: Session, base: Base, call_id: str) -> Nodes | None:
    """Return the cluster that the settings name; None: branches work here, and the user knows why.

    Raises ToolError when the settings say that they must not.
    """
    settings = session.services.config().settings.agents
    try:
        if why := base.stays or _needed_here(session):
            raise ClusterError(why)
        cluster = await Cluster.connect(settings.ray_address)
    except ClusterError as error:
        why = str(error).rstrip(".")
        if settings.ray_fallback == "fail":
            raise ToolError(
                f"The branches cannot work on the Ray cluster: {why}. The user's setting ray_fallback says that "
                "they then must not work on this machine. Try one approach after another."
            ) from error
        session.notice(
            "warning",
            t("The branches work on this machine: {why}.", why=why),
            notice_codes.BRANCHES_HERE,
            about=call_id,
        )
        return None
    return Nodes(session, cluster, settings.ray_cpus_per_branch, settings.ray_fallback)


def _needed_here(session: Session) -> str:
    """Return why the session's branches must work on this machine; empty: they need not."""
    if any(
        session.hooks.wants(name) for name in ("tool.execute.before", "tool.execute.after", "prompt.system")
    ):
        return t("hooks run for their calls, and there are none on the nodes")
    return ""
