"""The session as its turns, its tools and the permission service see it: its state, its rules, its record.

Everything that happens goes through ``emit``: appended to the log, applied to the state, told to the listeners,
in this order and in one go on the event loop (source: architecture.md "Events").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from daemon.agents.loader import HANDS_OVER, NO_HAND_OVER, AgentProfile, FoundAgents
from daemon.config import Config
from daemon.context.pacing import Vain
from daemon.context.prompt import Layer
from daemon.context.window import WindowCache
from daemon.files.history import LineHistory, SessionHistory
from daemon.files.versions import Version
from daemon.jobs import SessionJobs, StoppableCalls
from daemon.loop.design import note_approval, note_changes
from daemon.loop.doom import CallMemory, general_command
from daemon.loop.features import SessionHooks
from daemon.loop.file_events import file_changed
from daemon.loop.interrupted import Took
from daemon.loop.services import Services
from daemon.loop.step import Received
from daemon.loop.unattended import RunLimits
from daemon.model.branches import branch_of, root_of
from daemon.model.events import (
    Delta,
    Event,
    MessageAdded,
    Notice,
    PermissionAsked,
    PermissionReplied,
    TraceCompleted,
)
from daemon.model.goals import GoalTree
from daemon.model.permissions import Mode, PermissionRequest, Rule, Trust
from daemon.model.traces import Trace, trace_status
from daemon.permission.rules import RuleSet
from daemon.permission.service import Settled
from daemon.state.notes import JOB_ENDED, JOB_KILLED, job_lost, job_notice
from daemon.state.session_state import SessionState
from daemon.store.base import StoreError
from daemon.trust import mode_in_force
from tools.localization import noted, t
from tools.ports import Job
from tools.redaction.redactor import SECRETS

log = logging.getLogger(__name__)

_SNAPSHOT_DELAY_S = 1.0
_LIVE_OUTPUT = 20_000
"""Characters of live output that are kept for each command; clients keep as many."""
NOT_TRUSTED = noted(
    "This folder is not trusted: its instruction files (AGENTS.md, CLAUDE.md) are shown to "
    "the model as information, and not obeyed. If the folder is yours, run `goalwright "
    'trust` in it, or trust it in the editor (VS Code: "Workspaces: Manage Workspace Trust").'
)


class Left(BaseException):
    """The daemon stops while the turn waits for an answer: nothing more of it happens, so that it can go on later."""


class LiveSession:
    """See the module. All methods run on the event loop of the daemon."""

    hooks: SessionHooks
    """Programs that are told of what happens; made by the session that has the turns."""

    def __init__(
        self,
        state: SessionState,
        agent: AgentProfile,
        services: Services,
        *,
        foreign: bool = False,
        parent: LiveSession | None = None,
    ) -> None:
        """``foreign``: the session came with the workspace, see ``daemon.store.own``. ``parent``: of a child."""
        self.state = state
        self.foreign = foreign
        self.parent = parent
        self.root: LiveSession = self if parent is None else parent.root
        """The main line."""
        self.sealed = ""
        """Why no prompt is taken; empty when one is. A child takes none but its parent's."""
        self.agent = agent
        self.interrupted: dict[str, Took] = {}
        """What sub-agents took that a killed daemon left at work, by their id."""
        self.handed_over = False
        """Of a child: its parent handed its work over to it, and keeps none of its own duties in it."""
        self.design: tuple[Rule, ...] = ()
        """Ask about the files of what was handed over to it: carrying a design out is not changing it."""
        self.approved: dict[str, set[str]] = {}
        """Files that the person let a call change, by the call's id."""
        self.changed_unasked: dict[str, None] = {}
        """Files of ``design`` that were changed all the same, see ``daemon.loop.design``."""
        self.leaves = False
        """The agent has handed its work over: the turn ends with this step."""
        self.services = services
        self.config: Config = services.config()
        """The settings in force: the files', and over them those of the client that prompted last."""
        self.trust: Trust = services.trust()
        """Of the folder; what the client says that prompted last."""
        self.live_output: dict[str, str] = {}
        """The end of what commands under way and background jobs have written, by tool call id."""
        self.commands = StoppableCalls()
        self.jobs = SessionJobs(
            services.trace_folder(self.session_id) / "output",
            services.now,
            redact=SECRETS.text,
            on_end=self._job_ended,
            on_output=lambda call_id, text: self.tool_output(call_id, "bash", text),
        )
        """Commands in the background."""
        self.env: dict[str, str] = {}
        """Provider variables of the client that prompted last; in memory only."""
        self.unattended = False
        """Whether a program without a user prompted last."""
        self.run_limits: RunLimits | None = None
        """Of a main session: the limits of the turn that runs, when nobody watches it."""
        self.default_model = ""
        """The model for a session that has none of its own; set by whoever prompts."""
        self.received: Received | None = None
        """The message that is coming in right now."""
        self.layers: list[Layer] = []
        """The system prompt as the last turn began with it; see Assembly.prepare."""
        self.project: tuple[tuple[object, ...], str] | None = None
        """The map of the project, and what it was drawn for; see Assembly."""
        self.agents: FoundAgents | None = None
        """The agents there are, as the last turn began with them."""
        self.frame: tuple[list[Layer], tuple[str, ...], int] | None = None
        """Tokens of the system prompt and the tools, see Assembly."""
        self.plan_text: tuple[tuple[int, str], str] | None = None
        """The plan for the model, and of which state of it."""
        self.window_cache = WindowCache()
        self.budget_lock = asyncio.Lock()
        """Of a main line: one question about money at a time, however many children reach the limit."""
        self.starting = asyncio.Lock()
        """Held by a sub-agent that is about to begin."""
        self.budget_refused: tuple[str | None, str] | None = None
        """The turn in which the person refused to go on over a limit, and what was said then."""
        self.cost_seen = state.trace.total_cost
        """Of a main line: what it had cost, in US dollars, when somebody last looked whether to warn of it."""
        self.compacted_in_vain: Vain | None = None
        """Compactions that were tried and not stored."""
        self.metered_goal: str | None = None
        """The focus when the numbers were published last."""
        self.history = SessionHistory(
            services.trace_folder(self.session_id) / "files",
            services.now,
            services.workspace,
            on_written=self._files_written,
            watch=services.watch_command,
            writes=services.writes,
            read_only=foreign,
        )
        self.keeper: LineHistory = self.history
        """Where the versions of what its tools write are kept; a sub-agent's are its parent's, too."""
        self.calls = CallMemory(general_command(services.workspace))
        self.files_lock = asyncio.Lock()
        """Held by a turn, and while changes of files are taken back."""
        self._rules: tuple[tuple[object, ...], RuleSet] | None = None
        """What holds, and what that was made of."""
        self._told: set[str] = set()
        self._job_stopped_by: dict[str, str] = {}
        self._closing = False
        self._left = False
        self._told_of_trust = False
        self._snapshot_due: asyncio.TimerHandle | None = None
        self._saving: set[asyncio.Task[None]] = set()

    # -- what happens --

    def emit(self, event: Event) -> None:
        """Store, apply, publish. Raises StoreError when the log cannot be written."""
        if self._left:
            raise Left
        stored = self.services.store.append(event)
        self.state.apply(stored)
        self._forget_output(stored)
        self.services.bus.publish(stored)
        self.hooks.seen(stored)
        if self._snapshot_due is None:
            self._snapshot_due = asyncio.get_running_loop().call_later(_SNAPSHOT_DELAY_S, self._snapshot_soon)

    def completed(self) -> None:
        """A turn has ended: say so, with the totals, unless another prompt waits. Branches have words of their own."""
        state = self.state
        if self.parent is None and not state.queue:
            trace = state.trace
            self.emit(
                TraceCompleted(
                    trace_id=self.session_id,
                    time=self.services.now(),
                    status=trace_status(trace),
                    total_messages=len(state.messages),
                    total_tokens=trace.usage.total,
                    total_cost=trace.total_cost,
                )
            )

    def delta(self, delta: Delta) -> None:
        """Publish something that is not stored."""
        self.services.bus.publish(delta)

    def notice(
        self,
        level: Literal["info", "warning", "error"],
        text: str,
        code: str = "",
        *,
        about: str = "",
        exit_code: int | None = None,
    ) -> None:
        """Tell the person something."""
        self.emit(
            Notice(
                trace_id=self.session_id,
                time=self.services.now(),
                level=level,
                text=text,
                code=code,
                about=about,
                exit_code=exit_code,
            )
        )

    def tell_once(self, text: str) -> None:
        """Tell the person something that stays true."""
        if text not in self._told:
            self._told.add(text)
            self.notice("warning", text)

    async def stop_job(self, job_id: str, by: str) -> Job:
        """Stop a command in the background for the person; the model is told. Raises ToolError for an unknown id."""
        self._job_stopped_by[job_id] = by
        try:
            return await self.jobs.kill(job_id)
        finally:
            self._job_stopped_by.pop(job_id, None)

    def _job_ended(self, job: Job, killed: bool) -> None:
        if self._closing:
            return  # it is told when the session is opened again
        by = self._job_stopped_by.get(job.job_id, "")
        code = JOB_KILLED if killed and not by else JOB_ENDED
        stopped_by = by or ("the model" if killed else "")
        self.live_output.pop(job.tool_call_id, None)
        self.notice("info", job_notice(job, stopped_by), code, about=job.job_id, exit_code=job.exit_code)

    def jobs_lost(self) -> None:
        """The session is opened: what ran in the background has ended with the daemon before."""
        for job_id, command in list(self.state.jobs.items()):
            self.notice("info", job_lost(job_id, command), JOB_ENDED, about=job_id)

    def tool_output(self, tool_call_id: str, name: str, text: str) -> None:
        """Publish what a command wrote, and keep the end of it for clients that load the session later."""
        self.live_output[tool_call_id] = (self.live_output.get(tool_call_id, "") + text)[-_LIVE_OUTPUT:]
        self.delta(
            Delta(
                trace_id=self.session_id,
                kind="tool_output",
                message_id="",
                tool_call_id=tool_call_id,
                name=name,
                text=text,
            )
        )

    def _forget_output(self, event: Event) -> None:
        """Drop the live output of a call that has its result, unless it started a background job."""
        result = event.message.tool_result() if isinstance(event, MessageAdded) else None
        if result is not None and result.metadata.get("job_id") not in self.state.jobs:
            self.live_output.pop(result.tool_call_id, None)

    def tell_of_trust(self) -> None:
        """Once: what the folder tells the model is not obeyed, and how it would be."""
        if not self._told_of_trust:
            self._told_of_trust = True
            self.notice("info", t(NOT_TRUSTED), "trust")

    def _files_written(self, versions: Sequence[Version]) -> None:
        written: list[tuple[str, Version]] = []
        for version in versions:
            try:
                event = file_changed(self.session_id, self.services, version)
                written.append((event.path, version))
                self.emit(event)
            except StoreError as error:
                log.warning("a change of %s is not in the log: %s", version.path, error)
        try:
            note_changes(self, written)
        except StoreError as error:
            log.warning("what was changed of the design is not in the log: %s", error)

    def snapshot(self) -> None:
        """Write metadata and goal tree as they are now. A failure is logged: the event log has everything."""
        if self._snapshot_due is not None:
            self._snapshot_due.cancel()
            self._snapshot_due = None
        self._save(self.state.carrying(), self.state.plan.snapshot())

    def _snapshot_soon(self) -> None:
        """The same in a thread: a large plan, read from the disk a moment ago, takes 100 ms the first time."""
        self._snapshot_due = None
        saving = asyncio.to_thread(self._save, self.state.carrying(), self.state.plan.snapshot())
        task = asyncio.create_task(saving)
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    def _save(self, trace: Trace, tree: GoalTree) -> None:
        try:
            self.services.store.save_snapshot(trace, tree)
        except StoreError as error:
            log.warning("no snapshot: %s", error)

    # -- Asker (permission service) --

    @property
    def session_id(self) -> str:
        """Id of the session and of its trace."""
        return self.state.trace.trace_id

    @property
    def trace_id(self) -> str:
        """Of the main line; messages of a branch have it, too (source: seed 000)."""
        return root_of(self.session_id)

    @property
    def branch_id(self) -> str | None:
        """Of a child, see ``daemon.model.branches``; None of a main line."""
        return branch_of(self.session_id)

    @property
    def limits(self) -> tuple[Rule, ...]:
        """The agent's rules, which nobody else's loosen."""
        own = self.agent.own_rules
        return own if self.agent.name in HANDS_OVER else (*own, NO_HAND_OVER)

    @property
    def bounds(self) -> tuple[tuple[Rule, ...], ...]:
        """Rules that only tighten, a layer each: of an agent that came with the workspace, and of the agents that sent
        this one. A sub-agent of one that changes nothing changes nothing, either.
        """
        own, *above = self.bound_by()
        layers = [own.design, *own.agent.limits]
        for session in above:
            layers += [session.design, *session.agent.limits, session.agent.own_rules]
        return tuple(rules for rules in layers if rules)

    @property
    def insists(self) -> frozenset[str]:
        """Permissions that are asked about each time; what an agent insists on holds for whom it sends, too."""
        return frozenset[str]().union(*(session.agent.all_insists for session in self.bound_by()))

    @property
    def looks(self) -> bool:
        """Whether nothing is changed here: the agent only looks, or one that sent it."""
        return any(session.agent.only_looks for session in self.bound_by())

    def bound_by(self) -> list[LiveSession]:
        """The sessions whose agents' limits hold here: its own, and those above. Who was handed the work of its parent
        over has none of that one's limits, but all of those further up.
        """
        above = [] if self.parent is None else self.parent.bound_by()
        return [self, *(above[1:] if self.handed_over else above)]

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        granted, granted_here = self.services.grants()
        # What is allowed for the session is allowed to the main line and all its branches alike.
        config, session, mode = self.config, tuple(self.root.state.granted), self.mode
        # Searches ask for each file they find, so the same set is kept while nothing of it changes.
        agents = (self.agent, self.bounds, self.insists, self.looks)
        made_of = (config, session, granted, granted_here, mode, self.trust, agents)
        if self._rules is None or self._rules[0] != made_of:
            rules = RuleSet(
                config.base_rules,
                config.workspace_rules,
                session,
                self.limits,
                insists=self.insists,
                looks=self.looks,
                bounds=self.bounds,
                branch=self.services.rules,
                trusted=config.trusted,
                granted=granted,
                granted_here=granted_here,
                mode=mode,
                trust=self.trust,
                root=self.services.workspace.as_posix(),
                stands_for="" if self.services.stands_for is None else self.services.stands_for.as_posix(),
            )
            self._rules = (made_of, rules)
        return self._rules[1]

    @property
    def mode(self) -> Mode:
        """What may pass unasked."""
        return mode_in_force(self.root.state.trace.mode or self.config.settings.mode, self.trust)

    def asked(self, request: PermissionRequest) -> None:
        """See Asker. The main line's record has the questions of its children, too: that is where people look."""
        for session in self._recorders():
            session.emit(
                PermissionAsked(trace_id=session.session_id, time=self.services.now(), request=request)
            )

    def replied(self, request: PermissionRequest, settled: Settled) -> None:
        """See Asker."""
        if settled.answer in ("once", "always"):
            note_approval(self, request)
        for session in self._recorders():
            session.emit(
                PermissionReplied(
                    trace_id=session.session_id,
                    time=self.services.now(),
                    request_id=request.request_id,
                    reply=settled.answer,
                    feedback=settled.feedback,
                    by=settled.by,
                    remembered=settled.remembered,
                    scope=settled.scope,
                    answers=settled.answers,
                )
            )

    def _recorders(self) -> tuple[LiveSession, ...]:
        return (self,) if self.root is self else (self.root, self)
