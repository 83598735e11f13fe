"""A session: one conversation, its queue of prompts, and the one turn that may run at a time.

Its parts are modules of their own: ``record``, ``policy``, ``budget``, ``session_commands``, ``session_files``,
``request_builder``, ``compactor``. Features that work with a session are above it, and are registered with it
(``Features``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from daemon.context.tokens import estimate_tokens
from daemon.loop.budget import SessionBudget
from daemon.loop.compactor import Compactor, CompactResult
from daemon.loop.interrupted_turn import (
    LEFT_WAITING,
    STOPPED,
    UNSTORED,
    WAS_STOPPED,
    close_calls,
    close_what_is_open,
    waits_for_answer,
)
from daemon.loop.loop_detection import LoopDetector, general_command
from daemon.loop.policy import Policy
from daemon.loop.queue import PendingPrompt, PromptQueue, ReplanRequest, TurnResult
from daemon.loop.record import SessionRecord, TurnSuspended
from daemon.loop.request_builder import RequestBuilder
from daemon.loop.session_commands import SessionCommands
from daemon.loop.session_files import FileWork
from daemon.loop.session_titles import TitleWriter, names_after
from daemon.loop.step_diagnostics import StepDiagnostics, kind_of
from daemon.model import notice_codes
from daemon.model.branches import is_within
from daemon.model.events import Event, Notice, QueueChanged, SessionUpdated, TurnEnded, TurnStarted
from daemon.model.messages import FilePart, StopReason, TextPart, whole_characters
from daemon.model.traces import PromptPlanner, QueuedPrompt, SessionStatus, Trace, ViewUpdate
from daemon.permission.service import CANCELED, CallPermission, RequestResult
from daemon.store.trace_store import StoreError
from tools.localization import noted, t
from tools.paths import reading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from daemon.agents.loader import AgentProfile
    from daemon.config import Config
    from daemon.loop.features import Driver, SessionHooks, TurnRuns
    from daemon.loop.policy import ClientSettings
    from daemon.loop.services import Services
    from daemon.loop.step import Received
    from daemon.model.permissions import Mode, PermissionRequest, Trust
    from daemon.permission.rules import RuleSet
    from daemon.state.session_state import SessionState
    from tools.tool import Permission, ToolResult

log = logging.getLogger(__name__)

NOT_TRUSTED = noted(
    "This folder is not trusted: the model sees its instruction files (AGENTS.md, CLAUDE.md) as "
    "information and does not follow them. If the folder is yours, run `goalwright trust` in it, or trust "
    'it in the editor (VS Code: "Workspaces: Manage Workspace Trust").'
)
WITHDRAWN = noted("The request for a plan was withdrawn.")


class BusyError(Exception):
    """A turn is running and the client asked not to wait."""


class ReadOnlySessionError(Exception):
    """The session is the record of a branch or a sub-agent: prompts go to the session that started it."""


class Features(Struct, frozen=True):
    """Features that work with the daemon's sessions: factories and callbacks, one set for all of them."""

    sessions: dict[str, Session]
    """Open sessions by id, children among them."""
    turn: Callable[[Session, PromptPlanner | None], TurnRuns]
    """For a prompt. ``None``: the planner mode of the settings."""
    hooks: Callable[[Session], SessionHooks]
    driver: Callable[[TurnRuns, Session, PromptPlanner | None], Driver]
    """For a turn."""
    explore: Callable[[Session, str, Permission, Sequence[str], str | None], Awaitable[ToolResult]]
    """For a call, by its id, as are the next two; they do what ``SessionPorts`` says."""
    select: Callable[[Session, str, Permission, Sequence[str]], Awaitable[ToolResult]]
    run_task: Callable[[Session, str, str, str], Awaitable[ToolResult]]
    hand_over: Callable[[Session, CallPermission, str, float | None], Awaitable[ToolResult]]
    files_restored: Callable[[Session], None]
    """Called after an undo or redo of file changes. Raises StoreError."""


class TurnState(Struct):
    """State that the turns of a session share with each other and show to others."""

    calls: LoopDetector
    """The calls of the model, to see when they go in circles."""
    received: Received | None = None
    """The message that is coming in right now."""
    leaves: bool = False
    """The agent has handed its work over: the turn ends with this step."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a sub-agent that is about to begin."""
    replan_request: ReplanRequest | None = None
    """For another plan; the turn under way takes it between two steps."""
    last_result: TurnResult | None = None
    """Result of the newest turn that worked on a prompt; one that hooks rejected does not count."""

    def receive(self, message: Received | None) -> None:
        """Show this message as the one that is coming in; None: none is."""
        self.received = message

    def leave(self) -> None:
        """Have the turn end with this step."""
        self.leaves = True

    def set_replan_request(self, replan_request: ReplanRequest | None) -> ReplanRequest | None:
        """Have the turn take this wish, or none; returns the one that it would have taken."""
        before, self.replan_request = self.replan_request, replan_request
        return before

    def settle_replan_request(self, prompt_id: str, stop: StopReason, detail: str) -> None:
        """End a wish that still waits."""
        if (wish := self.set_replan_request(None)) is not None:
            wish.settle(prompt_id, stop, detail)


class _Running(Struct):
    """How the turn under way is ended from outside."""

    turn: asyncio.Task[tuple[StopReason, str]] | None = None
    taken: bool = False
    """Its prompt has left the queue, so that only canceling stops it."""
    canceling: bool = False
    failure: str = ""
    """Why it is ended."""
    stopping_jobs: asyncio.Task[None] | None = None


class Session:
    """The parts of a session, its queue and its worker. All methods run on the event loop of the daemon."""

    def __init__(
        self,
        state: SessionState,
        agent: AgentProfile,
        services: Services,
        features: Features,
        *,
        foreign: bool = False,
        parent: Session | None = None,
    ) -> None:
        """``foreign``: the session came with the workspace, see ``daemon.store.provenance``. ``parent``: for a
        child."""
        self.services = services
        self.features = features
        self.parent = parent
        self.sealed = ""
        """Why no prompt is taken; empty when one is. A child takes none but its parent's."""
        self.record = SessionRecord(state, services, foreign=foreign, parent=parent and parent.record)
        self.policy = Policy(self.record, agent, parent and parent.policy)
        self.budget = SessionBudget(self.policy, parent and parent.budget)
        self.commands = SessionCommands(self.record)
        self.files = FileWork(self.policy)
        self.hooks = features.hooks(self)
        self.record.follow(self.hooks.seen)
        self.request_builder = RequestBuilder(self.policy, self.budget, self.hooks)
        self.compactor = Compactor(self.request_builder)
        self.diagnostics = StepDiagnostics(
            services.languages.diagnostics,
            services.workspace,
            lambda name: kind_of(name, tool.permission) if (tool := services.tools.get(name)) else "other",
            lambda: self.config.settings.languages.diagnostics_severity,
            lambda path: reading(
                path, services.workspace, lambda name: self.rules.decide("read", name).action
            ),
        )
        self.turn = TurnState(LoopDetector(general_command(services.workspace)))
        self._namer = TitleWriter(self.policy, self.budget)
        self._queue = PromptQueue()
        self._worker: asyncio.Task[None] | None = None
        self._running = _Running()
        self._compactions: set[asyncio.Task[CompactResult]] = set()
        self._closing = False

    # -- summary properties --

    @property
    def session_id(self) -> str:
        """Id of the session and of its trace."""
        return self.record.session_id

    @property
    def branch_id(self) -> str | None:
        """Id of the branch for a child; None for a main session. See ``daemon.model.branches``."""
        return self.record.branch_id

    @property
    def state(self) -> SessionState:
        """The state that results from its events."""
        return self.record.state

    @property
    def foreign(self) -> bool:
        """Whether it came with the workspace."""
        return self.record.foreign

    @property
    def agent(self) -> AgentProfile:
        """The agent that works in it."""
        return self.policy.agent

    @property
    def config(self) -> Config:
        """The settings in force."""
        return self.policy.client.config

    @property
    def trust(self) -> Trust:
        """Trust in the folder, as stated by the client that prompted last."""
        return self.policy.client.trust

    @property
    def env(self) -> Mapping[str, str]:
        """Provider variables of that client."""
        return self.policy.client.env

    @property
    def mode(self) -> Mode:
        """The mode in force: which actions run without approval."""
        return self.policy.mode

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.policy.model

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now. See Asker."""
        return self.policy.rules

    @property
    def status(self) -> SessionStatus:
        """The current activity of the session."""
        if self.state.status == "waiting":
            return "waiting"
        # A prompt is taken up before its turn begins, and the end of a turn may not have been stored.
        return "running" if self.running else "idle"

    def emit(self, event: Event) -> None:
        """Store, apply, publish. Raises StoreError when the log cannot be written."""
        self.record.emit(event)

    def notice(
        self, level: Literal["info", "warning", "error"], text: str, code: str = "", *, about: str = ""
    ) -> None:
        """Show the user a notice. Raises StoreError."""
        self.record.notice(level, text, code, about=about)

    def notify_untrusted(self) -> None:
        """Notify the user once that the folder's instructions are not obeyed, and how to change that."""
        self.record.notice_once(t(NOT_TRUSTED), notice_codes.TRUST, level="info")

    def asked(self, request: PermissionRequest) -> None:
        self.record.asked(request)

    def replied(self, request: PermissionRequest, settled: RequestResult) -> None:
        if settled.answer in ("once", "always"):
            self.policy.design.note_approval(request)
        self.record.replied(request, settled)

    # -- prompts and the turn --

    @property
    def compacting(self) -> bool:
        """Whether a compaction is under way that the user started."""
        return bool(self._compactions)

    @property
    def running(self) -> bool:
        """Whether a turn is under way (or about to start)."""
        return self._worker is not None and not self._worker.done()

    async def prompt(
        self,
        text: str,
        attachments: tuple[FilePart, ...] = (),
        *,
        prompt_id: str | None = None,
        when_busy: Literal["queue", "refuse", "steer"] = "queue",
        planner: PromptPlanner | None = None,
        client: ClientSettings | None = None,
    ) -> TurnResult:
        """Work on a prompt; returns when the turn that did has ended. ``planner``: see QueuedPrompt, ``client``: see
        PendingPrompt.

        Raises BusyError when a turn is running and ``when_busy`` is ``refuse``, and ReadOnlySessionError for the record
        of a child that has ended. Cancelling the caller does not cancel the turn: a window may close while the agent
        works.
        """
        self.check_writable()
        if self._closing:
            return TurnResult(prompt_id or "", "canceled", t("Goalwright was stopped."))
        if self.running and when_busy == "refuse":
            raise BusyError(
                t(
                    "The session is busy with another prompt. Wait for it, cancel it, or send the prompt "
                    "with whenBusy: queue."
                )
            )
        prompt = QueuedPrompt(
            prompt_id=prompt_id or f"prompt_{uuid.uuid4().hex[:12]}",
            text=whole_characters(text),
            steer=when_busy == "steer" and self.running,
            planner=planner,
            attachments=attachments,
        )
        if self.running:
            # A prompt after a stop is not held back by it, but sent with it.
            waiting = self._queue.add(prompt, client, first=self._running.canceling and self._running.taken)
        else:
            # It goes before prompts that a crash left waiting; prompts held back by a stop stay held.
            self._queue.follow()
            waiting = self._queue.add(prompt, client, first=True)
        if self.running or self.files.lock.locked():
            try:
                self._queue_changed()
            except StoreError:
                self._queue.drop(waiting)
                raise
        if not self.running:
            self._start()
        return await asyncio.shield(waiting.result)

    async def compact(self, instructions: str = "") -> CompactResult:
        """Compact the context at the user's request. Raises BusyError while a turn runs; ``cancel`` ends it."""
        self.check_writable()
        self._check_idle()
        compaction = asyncio.create_task(self._compact(instructions))
        self._compactions.add(compaction)
        try:
            return await compaction
        finally:
            self._compactions.discard(compaction)
            self.request_builder.publish()

    async def _compact(self, instructions: str) -> CompactResult:
        try:
            await self.request_builder.prepare()
            self._check_idle()  # a prompt may have come meanwhile
            async with self.files.lock:  # a prompt that arrives now waits
                self.check_writable()  # it may have ended meanwhile
                return await self.compactor.compact("manual", instructions)
        except asyncio.CancelledError:
            canceled = t("The compaction was canceled; the context is unchanged.")
            self.notice("info", canceled, notice_codes.COMPACTION)
            raise

    def _check_idle(self) -> None:
        if self.running or waits_for_answer(self.state):
            raise BusyError(t("The session is running. Cancel the turn or wait until it ends, then compact."))

    def begin_with(self, text: str) -> None:
        """Put the first user message into a new session, e.g. what another agent hands over."""
        self.record.add("user", (TextPart(text=text),), goal_id=None, tokens=estimate_tokens(text))

    def edit_queued(self, prompt_id: str, text: str | None) -> bool:
        """Change a waiting prompt, or remove it with None. False when it is not waiting (any more)."""
        if not self._queue.edit(prompt_id, text):
            return False
        self._queue_changed()
        self._take_up()
        return True

    def hold_queued(self, prompt_id: str, held: bool) -> bool:
        """Hold a waiting prompt back while it is edited, or no longer. False when it is not waiting (any more)."""
        if not self._queue.being_edited(prompt_id, held):
            return False
        self._take_up()
        return True

    def send_queue(self, client: ClientSettings | None = None) -> None:
        """Send waiting prompts now. Those held after a stop wait for this, those left by a crash for this or the next
        prompt. ``client``: settings of the client that asks for it."""
        self.check_writable()
        if self._queue.hold(False, client):
            self._queue_changed()
        self._take_up()

    def _take_up(self) -> None:
        if not self.running and not self._closing and self._queue:
            self._start()

    def _start(self, resumed: PendingPrompt | None = None) -> None:
        self._running.taken, self._running.canceling = resumed is not None, False
        self._worker = asyncio.create_task(self._work(resumed), name=f"session {self.session_id}")

    def cancel(self, *, hold_queue: bool = False) -> bool:
        """Stop the running turn, or the compaction; received parts are kept. False when nothing runs.

        ``hold_queue``: waiting prompts stay until ``send_queue``.
        """
        compacted = any([compaction.cancel() for compaction in self._compactions])
        if not self.running:
            return compacted
        if hold_queue:
            self._queue.take_back(self.hooks.under_check)  # what hooks have not agreed to yet waits, too
            if self._queue.hold(True):
                with contextlib.suppress(StoreError):  # the turn stops anyway
                    self._queue_changed()
        # A second cancellation must not interrupt the clean-up of the first.
        if not self._running.canceling and (self._running.taken or self._queue):
            self._running.canceling = True
            if self._running.turn is not None:  # otherwise it is about to start, and will see this
                self._running.turn.cancel()
        return True

    def fail(self, why: str) -> None:
        """End the running turn with an error, drop what waits, and stop its jobs."""
        if self.running and not self._running.failure:
            self._running.failure = why
            self._queue.clear(why)
            self._running.stopping_jobs = asyncio.create_task(self.commands.jobs.stop_all())
            self.cancel()

    async def rest(self) -> None:
        """Wait until nothing runs and nothing waits to run. Cancelling the caller does not cancel the turn."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker})

    def close_open(self, why: str = STOPPED, ended: Mapping[str, Trace] | None = None) -> None:
        """Bring the session to rest after its turn broke off. ``ended``: records of children that a killed daemon left
        at work, by their id. Raises StoreError."""
        close_what_is_open(self.record, self.services.store, self.model, why, ended or {})

    def restrict(self, config: Config) -> None:
        """Restrict the work under way, its children's too, and the prompts that wait: the folder is no longer
        trusted."""
        for session in (self, *self.features.sessions.values()):
            if is_within(session.session_id, self.session_id):
                session.policy.use(trust="restricted", config=config)
                session._queue.restrict(config)

    def make_read_only(self, why: str) -> None:
        """Take nothing more, at once."""
        self.sealed = why

    def check_writable(self) -> None:
        """Raise ReadOnlySessionError when the session must not change any more."""
        if self.sealed:
            raise ReadOnlySessionError(self.sealed)

    async def seal(self, why: str) -> None:
        """Work on all that waits, then take nothing more, in one go: no prompt is accepted whose work would be lost."""
        while not self.sealed:
            await self.rest()
            async with self.files.lock:  # an undo between two turns finishes first
                if not self.running:
                    self.sealed = self.sealed or why

    def break_off(self, why: str) -> None:
        """Take nothing more, drop what waits, and cancel what runs."""
        self.sealed = self.sealed or why
        self._queue.clear(why)
        self.cancel()

    async def close(self) -> None:
        """Cancel what runs, drop what waits unless the user holds it, and write the last snapshot."""
        self._queue.clear(t("Goalwright was stopped."), held=bool(self.sealed))
        self._closing = True
        self.commands.leave()
        await self._namer.close()
        if compactions := set(self._compactions):
            for compaction in compactions:
                compaction.cancel()
            await asyncio.wait(compactions, timeout=10)
        waits = self.running and waits_for_answer(self.state)
        if waits:
            self._store_queue_if_possible()
            self.record.leave()
        if self.running and self._worker is not None:
            self.cancel()
            await asyncio.wait({self._worker}, timeout=10)
        if not waits:
            self._store_queue_if_possible()
        await self.diagnostics.close()
        await self.commands.jobs.close()
        await self.hooks.close()
        await self.record.close()

    def queued(self) -> tuple[QueuedPrompt, ...]:
        """Return the waiting prompts, in order."""
        return self._queue.prompts()

    def take_steered(self) -> list[QueuedPrompt]:
        """Prompts to deliver between two steps; call ``queue_stored`` when they are part of the conversation."""
        return self._queue.steer()

    def refused(self, prompt_id: str, reason: str) -> None:
        """A prompt that was taken for delivery will not be delivered."""
        self._queue.refuse_steered(prompt_id, reason)

    def restore_queue(self, queue: Sequence[QueuedPrompt]) -> None:
        """After a crash: what waited still waits, for the user's word or next prompt."""
        self._queue.restore(queue)

    def queue_stored(self) -> None:
        """Store what waits now, when that has changed."""
        if self.queued() != self.state.queue:
            self._queue_changed()

    def _store_queue_if_possible(self) -> None:
        try:
            self.queue_stored()
        except StoreError as error:
            log.warning("the queue was not stored: %s", error)

    def _queue_changed(self) -> None:
        # Prompts that hooks check are not part of the conversation yet, so a crash must not lose them.
        waiting = self.queued()
        taken_back = {prompt.prompt_id for prompt in waiting}
        checked = (prompt for prompt in self.hooks.under_check if prompt.prompt_id not in taken_back)
        queue = (*(prompt for prompt in checked if prompt in self.state.queue), *waiting)
        self.emit(QueueChanged(**self.record.here(), queue=queue))

    def resume(self) -> bool:
        """Continue a turn that waited for an answer when the daemon stopped; False when there is none.

        The caller is there to answer, and has set its client's settings (``policy.use``). The old questions are
        withdrawn, and asked again by the current rules and files. Raises StoreError.
        """
        if self.foreign or self.sealed or self.running or self._closing or not waits_for_answer(self.state):
            return False
        for request in list(self.state.pending.values()):
            self.replied(request, CANCELED)
        prompt = QueuedPrompt(prompt_id=self.state.turn or "", text="")
        waiting = PendingPrompt(prompt, asyncio.get_running_loop().create_future(), restored=True)
        self._queue.follow()
        self._start(waiting)
        return True

    async def _work(self, resumed: PendingPrompt | None) -> None:
        while (resumed or self._queue) and not self._closing:
            self._running.failure = ""
            goes_on = resumed is not None
            async with self.files.lock:  # while there is a compaction or an undo, prompts stay in the queue
                if not goes_on and (self._closing or not self._queue):
                    continue
                waiting, resumed = resumed or self._queue.take(), None
                self._running.taken = True
                self.policy.use(waiting.client)
                try:
                    if self.state.turn is not None and not goes_on:
                        self.close_open(STOPPED if waits_for_answer(self.state) else UNSTORED)
                    stop, detail = await self._run(waiting, goes_on=goes_on)
                except TurnSuspended:
                    stop, detail = "canceled", LEFT_WAITING
                except StoreError as error:
                    log.error("the turn was stopped: %s", error)
                    stop, detail = "error", self._running.failure or str(error)
                    self._store_failed(waiting.prompt.prompt_id, detail)
                except Exception as error:
                    log.exception("a turn failed")
                    kind = error.__class__.__name__
                    stop, detail = (
                        "error",
                        t("Goalwright has a bug ({kind}); its log has the details.", kind=kind),
                    )
                if stop == "error":  # it may have failed before it ran
                    self._store_queue_if_possible()
                if self.turn.last_result is None or self.state.open.has_prompt:
                    self.turn.last_result = TurnResult(waiting.prompt.prompt_id, stop, detail)
                self._running.taken = False
                waiting.settle(stop, detail)
                self._queue.settle_steered(stop, detail)
                self.turn.settle_replan_request(waiting.prompt.prompt_id, stop, detail)
        self.turn.settle_replan_request("", "canceled", t(WITHDRAWN))  # no turn came of the queue

    def _store_failed(self, prompt_id: str, detail: str) -> None:
        """Report a failed log to all listeners: without the log, the source of truth, the turn cannot continue."""
        publish = self.services.bus.publish
        self.state.children.awaited.clear()  # the calls that waited have ended, and the log does not say so
        self.record.view = ViewUpdate(status="failed", awaits_choice=())
        publish(Notice(**self.record.here(), level="error", text=detail))
        try:
            if self.state.turn is not None:
                self.close_open(UNSTORED)
                return
        except StoreError:
            pass  # it is tried again before the next turn
        publish(TurnEnded(**self.record.here(), prompt_id=prompt_id, stop_reason="error", detail=detail))

    async def _run(self, waiting: PendingPrompt, *, goes_on: bool = False) -> tuple[StopReason, str]:
        prompt = waiting.prompt
        if not self.hooks.begun:
            await self.hooks.begin()
        turn, self.turn.leaves = self.features.turn(self, prompt.planner), False
        self.budget.begin_run()
        out_of_time = ""
        error_kind = ""
        if goes_on:
            self._running.turn = asyncio.create_task(turn.resume())
        elif self.hooks.wants("prompt.submit"):
            self._started(prompt)
            self._running.turn = asyncio.create_task(self._checked(turn, waiting))
        else:
            self._begin(turn, waiting)
            self._running.turn = asyncio.create_task(turn.run())
        if self._running.canceling:
            self._running.turn.cancel()
        try:
            await asyncio.wait({self._running.turn}, timeout=self.budget.run_left())
            if not self._running.turn.done():
                out_of_time = self.budget.run_over()
                self._running.turn.cancel()
                await asyncio.wait({self._running.turn})
            await self.record.save()
            # A prompt may have been taken, or all dropped, without a message. The turn may still raise its own error.
            self._store_queue_if_possible()
            stop, detail = self._running.turn.result()
            error_kind = turn.error_kind if stop == "error" else ""
        except asyncio.CancelledError:
            if self._running.failure:
                stop, detail = "error", self._running.failure
            else:
                why = t(WAS_STOPPED) if self._closing else t("Canceled.")
                stop, detail = ("permission_denied", out_of_time) if out_of_time else ("canceled", why)
        except StoreError:
            raise
        except Exception as error:
            log.exception("a turn failed")
            kind = error.__class__.__name__
            detail = t("Goalwright has a bug ({kind}: {error}); see its log.", kind=kind, error=error)
            stop = "error"
            self.close_open(detail)
        finally:
            self._running.turn = None
            self._running.canceling = False
        if self.state.turn is not None:
            self._finish(prompt.prompt_id, stop, detail, error_kind)
        return stop, detail

    def _started(self, prompt: QueuedPrompt) -> None:
        self.emit(TurnStarted(**self.record.here(), prompt_id=prompt.prompt_id))

    def _begin(self, turn: TurnRuns, waiting: PendingPrompt, context: str = "") -> None:
        """Make the prompt part of the conversation."""
        prompt = waiting.prompt
        if names := names_after(prompt.text, self.state.trace, self.state.plan):
            self.emit(SessionUpdated(**self.record.here(), updates=names))
        self._namer.begun(prompt.text)
        if self.state.turn is None:
            self._started(prompt)
        turn.begin(prompt.text, prompt.attachments, context)
        # Not earlier, because a crash in between must not lose a waiting prompt.
        self.queue_stored()

    async def _checked(self, turn: TurnRuns, waiting: PendingPrompt) -> tuple[StopReason, str]:
        """Nothing of a prompt becomes part of the session before its hooks have agreed."""
        said = await self.hooks.submitted(waiting.prompt)
        if said.refusal:
            return "permission_denied", said.refusal
        self._begin(turn, waiting, said.context)
        return await turn.run()

    def _finish(self, prompt_id: str, stop: StopReason, detail: str, error_kind: str = "") -> None:
        self.policy.end_turn()
        # Those of a turn that was canceled before it went on.
        close_calls(self.record, "The turn was stopped.", begun=False)
        summary = self._namer.summary()
        if summary and summary != self.state.trace.summary:
            self.emit(SessionUpdated(**self.record.here(), updates={"summary": summary}))
        self.emit(
            TurnEnded(
                **self.record.here(),
                prompt_id=prompt_id,
                stop_reason=stop,
                detail=detail,
                error_kind=error_kind,
            )
        )
        self.record.completed()
        self._namer.ended()
        self.request_builder.publish()
        self.record.snapshot()
