"""A session: one conversation, its queue of prompts, and the one turn that may run at a time.

Everything that happens goes through ``emit``: appended to the log, applied to the state, told to the listeners,
in this order and in one go on the event loop (source: architecture.md "Events").
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Literal

from daemon.agents.loader import AgentProfile
from daemon.config import Config
from daemon.context.pacing import Vain
from daemon.context.prompt import Layer
from daemon.context.tokens import estimate_tokens
from daemon.context.window import WindowCache
from daemon.files.history import SessionHistory
from daemon.files.versions import Version
from daemon.hooks.session import SessionHooks
from daemon.jobs import SessionJobs
from daemon.loop.assembly import Assembly
from daemon.loop.compacting import Compacted, Compactor
from daemon.loop.doom import CallMemory, general_command
from daemon.loop.file_events import file_changed
from daemon.loop.naming import names_after, summary_of
from daemon.loop.notes import JOB_ENDED, job_notice
from daemon.loop.queue import PromptQueue, TurnResult, Waiting
from daemon.loop.recording import Recorder
from daemon.loop.recovery import LEFT_WAITING, STOPPED, UNSTORED, close_what_is_open, waits_for_answer
from daemon.loop.services import Services
from daemon.loop.state import SessionState
from daemon.loop.step import Received
from daemon.loop.turn import Turn
from daemon.model.events import (
    Delta,
    Event,
    Notice,
    PermissionAsked,
    PermissionReplied,
    QueueChanged,
    SessionUpdated,
    TurnEnded,
    TurnStarted,
)
from daemon.model.goals import GoalTree
from daemon.model.messages import FilePart, StopReason, TextPart, whole_characters
from daemon.model.permissions import Grant, Mode, PermissionRequest, Scope, Trust
from daemon.model.traces import QueuedPrompt, SessionStatus, Trace
from daemon.permission.rules import RuleSet
from daemon.permission.service import Answer
from daemon.redaction import SECRETS
from daemon.store.base import StoreError
from daemon.trust import mode_in_force
from tools.jobs import Job

log = logging.getLogger(__name__)

_SNAPSHOT_DELAY_S = 1.0
NOT_TRUSTED = (
    "This folder is not trusted: its instruction files (AGENTS.md, CLAUDE.md) are shown to the model as information, "
    "and not obeyed. If the folder is yours, run `goalwright trust` in it, or trust it in the editor (VS Code: "
    '"Workspaces: Manage Workspace Trust").'
)


class Busy(Exception):
    """A turn is running and the client asked not to wait."""


class _Left(BaseException):
    """The daemon stops while the turn waits for an answer: nothing more of it happens, so that it can go on later."""


class Session:
    """The live session. All methods run on the event loop of the daemon."""

    def __init__(
        self, state: SessionState, agent: AgentProfile, services: Services, *, foreign: bool = False
    ) -> None:
        """``foreign``: the session came with the workspace, see ``daemon.store.own``."""
        self.state = state
        self.foreign = foreign
        self.agent = agent
        self.services = services
        self.config: Config = services.config()
        """The settings in force: the files', and over them those of the client that prompted last."""
        self.trust: Trust = services.trust()
        """Of the folder; what the client says that prompted last."""
        self.jobs = SessionJobs(
            services.trace_folder(self.session_id) / "output",
            services.now,
            redact=SECRETS.text,
            on_end=self._job_ended,
            on_output=self._job_output,
        )
        """Commands in the background."""
        self.env: dict[str, str] = {}
        """Provider variables of the client that prompted last; in memory only."""
        self.default_model = ""
        """The model for a session that has none of its own; set by whoever prompts."""
        self.received: Received | None = None
        """The message that is coming in right now."""
        self.layers: list[Layer] = []
        """The system prompt as the last turn began with it; see Assembly.prepare."""
        self.frame: tuple[list[Layer], tuple[str, ...], int] | None = None
        """Tokens of the system prompt and the tools, see Assembly."""
        self.plan_text: tuple[tuple[int, str], str] | None = None
        """The plan for the model, and of which state of it."""
        self.window_cache = WindowCache()
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
            read_only=foreign,
        )
        self.calls = CallMemory(general_command(services.workspace))
        self.files_lock = asyncio.Lock()
        """Held by a turn, and while changes of files are taken back."""
        self.hooks = SessionHooks(self)
        self._queue = PromptQueue()
        self._worker: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[tuple[StopReason, str]] | None = None
        self._compaction: asyncio.Task[Compacted] | None = None
        self._canceling = False
        self._closing = False
        self._rules: tuple[tuple[object, ...], RuleSet] | None = None
        """What holds, and what that was made of."""
        self._told: set[str] = set()
        self._left = False
        self._told_of_trust = False
        self._snapshot_due: asyncio.TimerHandle | None = None
        self._saving: set[asyncio.Task[None]] = set()

    # -- what happens --

    def emit(self, event: Event) -> None:
        """Store, apply, publish. Raises StoreError when the log cannot be written."""
        if self._left:
            raise _Left
        stored = self.services.store.append(event)
        self.state.apply(stored)
        self.services.bus.publish(stored)
        self.hooks.seen(stored)
        if self._snapshot_due is None:
            self._snapshot_due = asyncio.get_running_loop().call_later(_SNAPSHOT_DELAY_S, self._snapshot_soon)

    def delta(self, delta: Delta) -> None:
        """Publish something that is not stored."""
        self.services.bus.publish(delta)

    def notice(self, level: Literal["info", "warning", "error"], text: str, code: str = "") -> None:
        """Tell the person something."""
        self.emit(
            Notice(trace_id=self.session_id, time=self.services.now(), level=level, text=text, code=code)
        )

    def tell_once(self, text: str) -> None:
        """Tell the person something that stays true."""
        if text not in self._told:
            self._told.add(text)
            self.notice("warning", text)

    def _job_ended(self, job: Job, killed: bool) -> None:
        if not killed:  # whoever killed it knows
            self.notice("info", job_notice(job), JOB_ENDED)

    def _job_output(self, tool_call_id: str, text: str) -> None:
        self.delta(
            Delta(
                trace_id=self.session_id,
                kind="tool_output",
                message_id="",
                tool_call_id=tool_call_id,
                name="bash",
                text=text,
            )
        )

    def tell_of_trust(self) -> None:
        """Once: what the folder tells the model is not obeyed, and how it would be."""
        if not self._told_of_trust:
            self._told_of_trust = True
            self.notice("info", NOT_TRUSTED, "trust")

    def _files_written(self, versions: Sequence[Version]) -> None:
        for version in versions:
            self.services.note_write(version.path)
            try:
                self.emit(file_changed(self.session_id, self.services, version))
            except StoreError as error:
                log.warning("a change of %s is not in the log: %s", version.path, error)

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
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        granted, granted_here = self.services.grants()
        config, session, mode = self.config, tuple(self.state.granted), self.mode
        # Searches ask for each file they find, so the same set is kept while nothing of it changes.
        made_of = (config, session, granted, granted_here, mode, self.trust)
        if self._rules is None or self._rules[0] != made_of:
            rules = RuleSet(
                config.base_rules,
                config.workspace_rules,
                session,
                self.agent.rules,
                trusted=config.trusted,
                granted=granted,
                granted_here=granted_here,
                mode=mode,
                trust=self.trust,
                root=self.services.workspace.as_posix(),
            )
            self._rules = (made_of, rules)
        return self._rules[1]

    @property
    def mode(self) -> Mode:
        """What may pass unasked."""
        return mode_in_force(self.state.trace.mode or self.config.settings.mode, self.trust)

    def asked(self, request: PermissionRequest) -> None:
        """See Asker."""
        self.emit(PermissionAsked(trace_id=self.session_id, time=self.services.now(), request=request))

    def replied(
        self,
        request: PermissionRequest,
        answer: Answer,
        feedback: str | None,
        by: str,
        remembered: tuple[Grant, ...] | None = None,
        scope: Scope = "session",
    ) -> None:
        """See Asker."""
        self.emit(
            PermissionReplied(
                trace_id=self.session_id,
                time=self.services.now(),
                request_id=request.request_id,
                reply=answer,
                feedback=feedback,
                by=by,
                remembered=remembered,
                scope=scope,
            )
        )

    # -- prompts --

    @property
    def status(self) -> SessionStatus:
        """What the session does right now."""
        if self.state.pending:
            return "waiting"
        return "running" if self.running else "idle"

    @property
    def model(self) -> str:
        """The model that answers: the session's own, or the default."""
        return self.state.trace.model or self.default_model

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
    ) -> TurnResult:
        """Work on a prompt; returns when the turn that did has ended.

        Raises Busy when a turn is running and ``when_busy`` is ``refuse``. Cancelling the caller does not
        cancel the turn: a window may close while the agent works.
        """
        if self._closing:
            return TurnResult(prompt_id or "", "canceled", "Goalwright was stopped.")
        if self.running and when_busy == "refuse":
            raise Busy(
                "The session is busy with another prompt. Wait for it, cancel it, or send the prompt with "
                "whenBusy: queue."
            )
        prompt = QueuedPrompt(
            prompt_id=prompt_id or f"prompt_{uuid.uuid4().hex[:12]}",
            text=whole_characters(text),
            steer=when_busy == "steer" and self.running,
        )
        if self.running:
            waiting = self._queue.add(prompt, attachments)
            try:
                self._queue_changed()
            except StoreError:
                self._queue.drop(waiting)
                raise
        else:
            # Before what a crash left waiting: the person has the word.
            waiting = self._queue.add(prompt, attachments, first=True)
            self._worker = asyncio.create_task(self._work(), name=f"session {self.session_id}")
        return await asyncio.shield(waiting.result)

    async def compact(self, instructions: str = "") -> Compacted:
        """Compact the context at the person's wish. Raises Busy while a turn runs; ``cancel`` ends it."""
        if self.running or waits_for_answer(self.state):
            raise Busy("The session is at work. Cancel the turn or wait for its end, then compact.")
        assembly = Assembly(self)
        await assembly.prepare()
        async with self.files_lock:  # a prompt that comes now waits
            self._compaction = asyncio.create_task(Compactor(self, assembly).compact("manual", instructions))
            try:
                return await self._compaction
            except asyncio.CancelledError:
                self.notice("info", "The compaction was canceled: the context is as it was.", "compaction")
                raise
            finally:
                self._compaction = None
                assembly.publish()

    def begin_with(self, text: str) -> None:
        """Put the first user message into a new session, e.g. what another agent hands over."""
        Recorder(self).add("user", (TextPart(text=text),), goal_id=None, tokens=estimate_tokens(text))

    def edit_queued(self, prompt_id: str, text: str | None) -> bool:
        """Change a waiting prompt, or remove it with None. False when it is not waiting (any more)."""
        if not self._queue.edit(prompt_id, text):
            return False
        self._queue_changed()
        return True

    def cancel(self) -> bool:
        """Stop the running turn; what was received so far is kept. False when nothing runs."""
        if self._compaction is not None:
            return self._compaction.cancel()
        if not self.running:
            return False
        if not self._canceling:  # a second cancel must not interrupt the cleaning up of the first
            self._canceling = True
            if self._turn is not None:  # else it is about to start, and will see that it must not
                self._turn.cancel()
        return True

    async def close(self) -> None:
        """Cancel what runs, drop what waits, and write the last snapshot."""
        self._queue.clear("Goalwright was stopped.")
        self._closing = True
        if self._compaction is not None:
            self._compaction.cancel()
            await asyncio.wait({self._compaction}, timeout=10)
        waits = self.running and waits_for_answer(self.state)
        try:
            if waits:
                self.queue_stored()
        except StoreError as error:
            log.warning("the queue was not stored: %s", error)
        self._left = waits
        if self.running and self._worker is not None:
            self.cancel()
            await asyncio.wait({self._worker}, timeout=10)
        try:
            if not self._left:
                self.queue_stored()
        except StoreError as error:
            log.warning("the queue was not stored: %s", error)
        await self.jobs.close()
        await self.hooks.close()
        await asyncio.gather(*self._saving)
        if self._snapshot_due is not None:
            self.snapshot()
        self.services.store.close(self.session_id)

    def queued(self) -> tuple[QueuedPrompt, ...]:
        """What waits, in order."""
        return self._queue.prompts()

    def take_steered(self) -> list[tuple[QueuedPrompt, tuple[FilePart, ...]]]:
        """Prompts to deliver between two steps; they end with the running turn.

        ``queue_stored`` is to be called when they are part of the conversation.
        """
        return [(waiting.prompt, waiting.attachments) for waiting in self._queue.steer()]

    def refused(self, prompt_id: str, reason: str) -> None:
        """A prompt that was taken for delivery will not be delivered."""
        self._queue.refuse_steered(prompt_id, reason)

    def restore_queue(self, queue: Sequence[QueuedPrompt]) -> None:
        """After a crash: what waited still waits, and runs after the person's next prompt."""
        self._queue.restore(queue)

    def queue_stored(self) -> None:
        """Store what waits now, when that has changed."""
        if self.queued() != self.state.queue:
            self._queue_changed()

    def _queue_changed(self) -> None:
        # What hooks look at is not part of the conversation yet, so a crash must not lose it.
        checked = tuple(prompt for prompt in self.hooks.under_check if prompt in self.state.queue)
        queue = (*checked, *self.queued())
        self.emit(QueueChanged(trace_id=self.session_id, time=self.services.now(), queue=queue))

    def resume(self) -> bool:
        """Go on with a turn that waited for an answer when the daemon stopped; False when there is none.

        Whoever calls it is there to answer, and has set ``config``, ``env`` and ``default_model``. What was asked is
        withdrawn, and asked again as the rules and files are now. Raises StoreError.
        """
        if self.foreign or self.running or self._closing or not waits_for_answer(self.state):
            return False
        for request in list(self.state.pending.values()):
            self.replied(request, "canceled", None, "")
        prompt = QueuedPrompt(prompt_id=self.state.turn or "", text="")
        waiting = Waiting(prompt, (), asyncio.get_running_loop().create_future(), restored=True)
        self._worker = asyncio.create_task(self._work(waiting), name=f"session {self.session_id}")
        return True

    async def _work(self, resumed: Waiting | None = None) -> None:
        while (resumed or self._queue) and not self._closing:
            goes_on = resumed is not None
            waiting, resumed = resumed or self._queue.take(), None
            try:
                if self.state.turn is not None and not goes_on:
                    close_what_is_open(self, STOPPED if waits_for_answer(self.state) else UNSTORED)
                async with self.files_lock:
                    stop, detail = await self._run(waiting, goes_on=goes_on)
            except _Left:
                stop, detail = "canceled", LEFT_WAITING
            except StoreError as error:
                log.error("the turn was stopped: %s", error)
                stop, detail = "error", str(error)
                self._store_failed(waiting.prompt.prompt_id, detail)
            except Exception as error:
                log.exception("a turn failed")
                stop, detail = (
                    "error",
                    f"Goalwright has a bug ({error.__class__.__name__}); its log has the details.",
                )
            waiting.settle(stop, detail)
            self._queue.settle_steered(stop, detail)

    def _store_failed(self, prompt_id: str, detail: str) -> None:
        """The log is the truth: without it the turn cannot go on, but everybody must hear of it."""
        now = self.services.now()
        publish = self.services.bus.publish
        publish(Notice(trace_id=self.session_id, time=now, level="error", text=detail))
        try:
            if self.state.turn is not None:
                close_what_is_open(self, UNSTORED)
                return
        except StoreError:
            pass  # before the next turn it is tried again
        publish(
            TurnEnded(
                trace_id=self.session_id, time=now, prompt_id=prompt_id, stop_reason="error", detail=detail
            )
        )

    async def _run(self, waiting: Waiting, *, goes_on: bool = False) -> tuple[StopReason, str]:
        prompt = waiting.prompt
        if not self.hooks.begun:
            await self.hooks.begin()
        turn = Turn(self)
        if goes_on:
            self._turn = asyncio.create_task(turn.resume())
        elif self.hooks.wants("prompt.submit"):
            self._started(prompt)
            self._turn = asyncio.create_task(self._checked(turn, waiting))
        else:
            self._begin(turn, waiting)
            self._turn = asyncio.create_task(turn.run())
        if self._canceling:
            self._turn.cancel()
        try:
            await asyncio.wait({self._turn})
            stop, detail = self._turn.result()
        except asyncio.CancelledError:
            stop, detail = "canceled", "Canceled."
        except StoreError:
            raise
        except Exception as error:
            log.exception("a turn failed")
            stop, detail = (
                "error",
                f"Goalwright has a bug ({error.__class__.__name__}: {error}); see its log.",
            )
            close_what_is_open(self, detail)
        finally:
            self._turn = None
            self._canceling = False
        if self.state.turn is not None:
            self._finish(prompt.prompt_id, stop, detail)
        return stop, detail

    def _started(self, prompt: QueuedPrompt) -> None:
        self.emit(TurnStarted(trace_id=self.session_id, time=self.services.now(), prompt_id=prompt.prompt_id))

    def _begin(self, turn: Turn, waiting: Waiting, context: str = "") -> None:
        """Make the prompt part of the conversation."""
        prompt = waiting.prompt
        if names := names_after(prompt.text, self.state.trace, self.state.plan):
            self.emit(SessionUpdated(trace_id=self.session_id, time=self.services.now(), updates=names))
        if self.state.turn is None:
            self._started(prompt)
        turn.begin(prompt.text, waiting.attachments, context)
        # Not earlier: a prompt that waited must not be lost to a crash in between.
        self.queue_stored()

    async def _checked(self, turn: Turn, waiting: Waiting) -> tuple[StopReason, str]:
        """Nothing of a prompt becomes part of the session before its hooks have agreed."""
        try:
            said = await self.hooks.submitted(waiting.prompt, waiting.attachments)
        except asyncio.CancelledError:
            self.queue_stored()
            raise
        if said.refusal:
            self.queue_stored()
            return "permission_denied", said.refusal
        self._begin(turn, waiting, said.context)
        return await turn.run()

    def _finish(self, prompt_id: str, stop: StopReason, detail: str) -> None:
        now = self.services.now()
        summary = summary_of(self.state.messages)
        if summary and summary != self.state.trace.summary:
            self.emit(SessionUpdated(trace_id=self.session_id, time=now, updates={"summary": summary}))
        self.emit(
            TurnEnded(
                trace_id=self.session_id, time=now, prompt_id=prompt_id, stop_reason=stop, detail=detail
            )
        )
        Assembly(self).publish()
        self.snapshot()
