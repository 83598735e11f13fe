"""Requests about the daemon and its sessions: ``goalwright/daemon/…``, ``session/…``, ``queue/…``."""

from __future__ import annotations

import asyncio
import math
import os
import time
import uuid
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from daemon.core import memory_mb
from daemon.demo import prompt_for
from daemon.explore.branch_choice import pending_choices
from daemon.loop.attachments import attached
from daemon.loop.mentions import switch_alone, switch_to
from daemon.model import notice_codes
from daemon.model.branches import root_of
from daemon.model.events import (
    Delta,
    Event,
    Notice,
    PermissionAsked,
    PermissionReplied,
    SessionUpdated,
    TurnEnded,
    TurnStarted,
)
from daemon.model.traces import Budget
from daemon.permission.explain import sandbox_words
from daemon.plan.goal_index import GoalIndex
from daemon.provider.choose import parse_model
from daemon.store.paging import TranscriptEvents, events_after, newest_stored, transcript_events
from daemon.trust import mode_in_force
from lsp_bridge.protocol import sessions as p
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode, RequestError
from lsp_bridge.server.requests.context import prepared
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import noted, t
from tools.process.background import is_canceled
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.config import Config
    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.meters import Metered
    from daemon.model.permissions import Mode, Trust
    from daemon.provider.choose import ModelChoice


_NEEDS_TRUST = noted(
    "only works in folders that you trust. If this one is yours, run `goalwright trust` in it, or trust it "
    "in the editor."
)


class SessionRequests(RequestArea):
    """The requests of one connection about the daemon and its sessions."""

    # -- daemon --

    @request("goalwright/daemon/status", changes=False)
    async def status(self, params: p.Empty) -> p.DaemonStatus:
        """Say what the daemon is and does."""
        choice = await self._context.choice()
        core = self._core
        config, trust = self._context.client_config(), self._context.client_trust()
        notices = [core.workspace_problem(), *core.storage_problems(), self._context.api.notice]
        notices += [*config.blocking, *config.problems]
        policy = config.settings.commands.sandbox_policy()
        sandbox, no_sandbox = await asyncio.to_thread(sandbox_words, policy, core.workspace)
        notices += [
            *core.grants.problems(),
            _mode_notice(config, trust),
            no_sandbox,
            core.outlets.telemetry_problem,
        ]
        notices += [*await core.mcp.problems(trust), *core.own_tools.status(trust)[1]]
        return p.DaemonStatus(
            version=self._context.version,
            protocol_version=PROTOCOL_VERSION,
            pid=os.getpid(),
            workspace=str(core.workspace),
            uptime_s=round(time.monotonic() - core.presence.started, 3),
            clients=core.presence.clients,
            running=len(core.running),
            model=choice.model,
            demo=choice.demo,
            model_notice=choice.notice,
            notice="\n".join(notice for notice in notices if notice),
            demo_prompt=prompt_for(core.workspace) if choice.demo else "",
            trace_folder=str(core.store.root),
            trust=trust,
            sandbox=sandbox,
            memory_mb=memory_mb(),
            api_url=self._context.api.address.url if self._context.api.address is not None else None,
            active=active_sessions(core),
        )

    @request("goalwright/config/problems", changes=False)
    async def problems(self, params: p.Empty) -> p.ConfigProblems:
        """List what is not used of the configuration, as its files are now."""
        self._core.configuration.forget()
        config = self._context.client_config()
        return p.ConfigProblems(problems=(*config.blocking, *config.problems))

    @request("goalwright/daemon/stop", changes=False)
    async def stop(self, params: p.Empty) -> p.Empty:
        """Stop the daemon after this answer."""
        asyncio.get_running_loop().call_soon(self._context.stop)
        return p.Empty()

    # -- sessions --

    @request("goalwright/session/new", changes=False)
    async def new(self, params: p.SessionNewParams) -> p.SessionResult:
        """Begin a session."""
        self._core.configuration.forget()
        if params.model is not None:
            _check_model(params.model)
        if params.mode is not None:
            _check_mode(params.mode, self._context.client_trust())
        choice = await self._context.choice()
        session = self._core.new_session(
            model=params.model,
            agent=params.agent,
            mode=params.mode,
            trust=self._context.client_trust(),
            config=self._context.client_config(),
        )
        self._context.adopt(session, choice)
        return p.SessionResult(session=self._context.session_info(session, choice))

    @request("goalwright/session/fork", changes=False)
    async def fork(self, params: p.SessionForkParams) -> p.SessionResult:
        """Begin a session with the conversation of another one."""
        choice = await self._context.choice()
        source = await self._core.session(params.session_id)
        session_id = await self._core.trace_maintenance.fork(source, params.message_id)
        session = await self._core.session(session_id)
        self._core.used(session_id)
        self._context.adopt(session, choice)
        return p.SessionResult(session=self._context.session_info(session, choice))

    @request("goalwright/session/list", changes=False)
    async def list(self, params: p.SessionListParams) -> p.SessionListResult:
        """List the sessions, newest first."""
        choice = await self._context.choice()
        traces = await self._core.traces(limit=params.limit + 1, before=params.before)
        sessions = tuple(self._context.trace_info(trace, choice) for trace in traces[: params.limit])
        more = len(traces) > params.limit
        listed = [trace.trace_id for trace in traces]
        left = await self._core.trace_maintenance.left_out(listed, after=params.before, last=not more)
        last, broken = await self._core.trace_maintenance.last_used() if params.before is None else ("", None)
        if broken is not None and broken not in left:
            left.append(broken)
        unreadable = tuple(p.UnreadableSession(session_id=one.trace_id, why=one.why) for one in left)
        return p.SessionListResult(
            sessions=sessions, more=more, unreadable=unreadable, last_used=last or None
        )

    @request("goalwright/session/load", changes=False)
    async def load(self, params: p.SessionLoadParams) -> p.SessionLoadResult:
        """Open a session and subscribe to its updates."""
        session = await self._context.at_hand(params.session_id)
        choice = await self._context.choice()
        builder = await prepared(session)
        shown = session.state.messages[max(0, len(session.state.messages) - params.messages) :]
        earlier = len(shown) < len(session.state.messages)
        first = shown[0].sequence if earlier and shown else 0
        store = self._core.store
        told = await transcript_events(store, session.session_id, first) if shown else TranscriptEvents(0)
        # No await from here to the return, because the state and the subscription belong together.
        self._resume(session, choice)
        self._follow(session)
        state = session.state
        newest = state.messages[max(0, len(state.messages) - params.messages) :]
        received = session.turn.received
        if shown:
            for event in store.events(session.session_id, after=told.last_id):  # a few arrived meanwhile
                told.add(event)
        return p.SessionLoadResult(
            session=self._context.session_info(session, choice),
            messages=tuple(newest),
            has_earlier=len(newest) < len(state.messages),
            streaming=(
                p.Streaming(message_id=received.message_id, parts=received.parts())
                if received is not None
                else None
            ),
            goal_tree=state.plan.snapshot(),
            goal_numbers=state.plan.numbers(),
            view=session.record.shown(),
            pending=tuple(self._core.permissions.pending(session.session_id)),
            queue=session.queued(),
            last_event_id=state.trace.last_event_id,
            meter=builder.meter(),
            branches=dict(state.children.branches),
            subagents=dict(state.children.subagents),
            awaits_choice=pending_choices(session),
            sealed=session.sealed,
            notices=_told(told),
            under_way=tuple(
                p.CallUnderWay(tool_call_id=call_id, output=session.commands.live_output.get(call_id, ""))
                for call_id in dict.fromkeys(
                    [*state.open.calls, *session.commands.jobs.begun_by(), *session.commands.live_output]
                )
            ),
            compacting=session.compacting,
        )

    @request("goalwright/session/unsubscribe", changes=False)
    async def unsubscribe(self, params: p.SessionParams) -> p.Empty:
        """Send no more updates of a session, until it is loaded again; its questions still count as activity."""
        self._context.unsubscribe(params.session_id)
        return p.Empty()

    @request("goalwright/session/preview", changes=False)
    async def preview(self, params: p.SessionLoadParams) -> p.SessionLoadResult:
        """Return the newest messages of a session from the disk: opening a long session takes longer. Opens nothing and
        subscribes to nothing; plan and totals may be older than the messages."""
        choice = await self._context.choice()
        store, session_id = self._core.store, params.session_id
        stored, tree, messages = await asyncio.to_thread(newest_stored, store, session_id, params.messages)
        plan = GoalIndex(tree)
        earlier = bool(messages) and messages[0].sequence > 1
        first = messages[0].sequence if earlier else 0
        told = await transcript_events(store, session_id, first) if messages else TranscriptEvents(0)
        return p.SessionLoadResult(
            session=self._context.trace_info(stored.trace, choice),
            messages=tuple(messages),
            has_earlier=earlier,
            goal_tree=plan.snapshot(),
            goal_numbers=plan.numbers(),
            pending=(),
            queue=(),
            last_event_id=told.last_id,
            branches=dict(stored.children.branches),
            subagents=dict(stored.children.subagents),
            notices=_told(told),
        )

    @request("goalwright/session/messages", changes=False)
    async def messages(self, params: p.SessionMessagesParams) -> p.SessionMessagesResult:
        """Return older messages."""
        found = await self._core.messages(params.session_id, before=params.before, limit=params.limit)
        earlier = bool(found) and found[0].sequence > 1
        first = found[0].sequence if earlier else 0
        told = await transcript_events(self._core.store, params.session_id, first, params.before)
        return p.SessionMessagesResult(messages=tuple(found), has_earlier=earlier, notices=_told(told))

    @request("goalwright/session/events", changes=False)
    async def events(self, params: p.SessionEventsParams) -> p.SessionEventsResult:
        """Return the events after the last one seen, and subscribe to those that follow."""
        session = await self._context.at_hand(params.session_id)
        choice = await self._context.choice()
        self._context.restrict(session)
        self._resume(session, choice)
        store, after = self._core.store, params.after_event_id
        events = await events_after(store, session.session_id, after)
        self._follow(session)
        after = events[-1].event_id if events else after
        if store.last_event_id(session.session_id) > after:  # a few arrived meanwhile
            events += store.events(session.session_id, after=after)
        return p.SessionEventsResult(events=tuple(events))

    @request("goalwright/session/prompt", changes=True, failed=ErrorCode.INVALID_PARAMS)
    async def prompt(self, params: p.SessionPromptParams) -> p.SessionPromptResult:
        """Work on a prompt; answers when its turn has ended."""
        if not params.text.strip() and not params.attachments:
            raise RequestError(t("The prompt is empty. Write what Goalwright should do."))
        if problem := self._core.workspace_problem():
            raise RequestError(problem, ErrorCode.STORE_FAILED)
        self._context.check_rules()
        choice = await self._context.choice()
        session = await self._core.session(params.session_id)
        client = self._context.adopt(session, choice)
        self._notice_once(session, choice)
        prompt_id = params.prompt_id or f"prompt_{uuid.uuid4().hex[:12]}"
        turn = session.session_id, prompt_id
        self._context.client.turns.add(turn)
        try:
            if not params.attachments and switch_alone(session, params.text):
                self._core.used(session.session_id)
                return p.SessionPromptResult(prompt_id=prompt_id, stop_reason="end_turn")
            reading = asyncio.create_task(
                attached(session, params.attachments, prompt_id, params.text, client)
            )
            self._context.client.attaching[turn] = reading
            try:
                attachments = await reading
            except asyncio.CancelledError:
                if is_canceled():
                    raise  # nothing waits for the answer any more
                return p.SessionPromptResult(prompt_id=prompt_id, stop_reason="canceled", removed=True)
            finally:
                self._context.client.attaching.pop(turn, None)
            client = self._context.adopt(session, choice)  # it may have changed while a question waited
            self._core.used(session.session_id)
            result = await session.prompt(
                params.text,
                attachments,
                prompt_id=prompt_id,
                when_busy=params.when_busy,
                planner=params.planner,
                client=client,
            )
        finally:
            self._context.client.turns.discard(turn)
        return p.SessionPromptResult(
            prompt_id=result.prompt_id, stop_reason=result.stop, detail=result.detail, removed=result.removed
        )

    @request("goalwright/session/cancel", changes=False)
    async def cancel(self, params: p.SessionCancelParams) -> p.CanceledResult:
        """Stop the running turn."""
        return p.CanceledResult(canceled=self._core.cancel(params.session_id, hold_queue=params.hold_queue))

    @request("goalwright/session/set", changes=True, failed=ErrorCode.INVALID_PARAMS)
    async def set(self, params: p.SessionSetParams) -> p.SessionResult:
        """Change title, model, mode, agent or limits."""
        session = await self._core.session(params.session_id)
        updates: dict[str, Any] = {}
        if params.mode is not None:
            _check_mode(params.mode, self._context.client_trust())
            updates["mode"] = params.mode
        if params.title is not None:
            updates["title"] = head(" ".join(params.title.split()), 200)
            updates["titled_by"] = "user"
        if params.model is not None:
            if params.model:
                _check_model(params.model)
            updates["model"] = params.model or None
        if params.budget is not None:
            _check_budget(params.budget)
            updates["budget"] = params.budget.model_dump()
        if params.agent is not None:  # after all checks, because a rejected request changes nothing
            agents = session.services.agents
            switch_to(session, await asyncio.to_thread(agents.find, params.agent, session.trust))
        self._core.update_session(session, updates)
        if params.mode is not None:
            # The client's trust applies to the session that it changes, but not to a turn under way.
            self._context.adopt(session, await self._context.choice())
            self._core.permissions.release(session.session_id, self._context.client_name)
        if params.model is not None or params.budget is not None:
            (await prepared(session)).publish()  # another window has other limits
        return p.SessionResult(session=await self._context.info(session))

    @request("goalwright/queue/edit", changes=True)
    async def edit_queue(self, params: p.QueueEditParams) -> p.Empty:
        """Change or remove a waiting prompt; or remove one of this connection whose attachments are being read."""
        if params.text is not None and not params.text.strip():
            raise RequestError(t("The prompt is empty. Write a text, or null to remove it."))
        session = await self._core.session(params.session_id)
        reading = self._context.client.attaching.get((session.session_id, params.prompt_id))
        if reading is not None and params.text is None and params.hold is None:
            found = reading.cancel()
        elif params.hold is None:
            found = session.edit_queued(params.prompt_id, params.text)
        else:
            found = session.hold_queued(params.prompt_id, params.hold)
        if not found:
            raise RequestError(
                t("This prompt is no longer waiting: it is in progress or was removed."),
                ErrorCode.UNKNOWN_REQUEST,
            )
        return p.Empty()

    @request("goalwright/queue/send", changes=True)
    async def send_queue(self, params: p.SessionParams) -> p.Empty:
        """Work on what waits in the queue."""
        self._context.check_rules()
        choice = await self._context.choice()
        session = await self._core.session(params.session_id)
        session.send_queue(self._context.adopt(session, choice))
        return p.Empty()

    # -- helpers --

    def _resume(self, session: Session, choice: ModelChoice) -> None:
        """Somebody is here to answer: what waited for that when the daemon stopped is asked again."""
        model = self._context.model_of(session.state.trace, choice)
        last = next((m.model for m in reversed(session.state.messages) if m.role == "assistant"), None)
        if session.config.blocking or (model.startswith("demo/") and last is not None and "demo" not in last):
            return  # neither without its rules, nor with the model of a client that has no key for the current one
        if session.resume() and session.state.turn is not None:
            self._context.client.turns.add((session.session_id, session.state.turn))

    def _follow(self, session: Session) -> None:
        self._context.subscribe(session)
        self._context.client.followed.add(root_of(session.session_id))

    def _notice_once(self, session: Session, choice: ModelChoice) -> None:
        """Show the user problems of the settings and the like at a session's first prompt, and of telemetry at the next
        one: by then a client listens."""
        if problem := self._core.outlets.telemetry_problem:
            session.record.notice_once(problem, notice_codes.TELEMETRY)
        if session.state.messages or session.running:
            return
        config = session.config
        for problem in (*self._core.storage_problems(), *config.problems, *self._core.grants.problems()):
            if problem:
                session.notice("warning", problem, notice_codes.CONFIG)
        if notice := _mode_notice(config, session.trust):
            session.notice("warning", notice, notice_codes.MODE)
        if choice.notice and session.model == choice.model:
            session.notice("info", choice.notice, notice_codes.DEMO if choice.demo else notice_codes.MODEL)


def _told(told: TranscriptEvents) -> tuple[p.TranscriptNotice, ...]:
    return tuple(p.TranscriptNotice(after=after, event=event) for after, event in told.events)


def _check_model(model: str) -> None:
    """Raises RequestError when it is not of the form ``provider/model``."""
    try:
        parse_model(model)
    except ValueError as error:
        raise RequestError(str(error)) from error


def _check_mode(mode: Mode, trust: Trust) -> None:
    """Raises RequestError when the folder's trust does not allow it."""
    if mode_in_force(mode, trust) == mode:
        return
    if trust == "restricted":
        raise RequestError(
            t(
                "The mode {mode} is not available in a folder that you do not trust: nothing is changed or "
                "run there. Trust it in the editor first.",
                mode=mode,
            )
        )
    raise RequestError(t("The mode {mode} {needs_trust}", mode=mode, needs_trust=t(_NEEDS_TRUST)))


def _mode_notice(config: Config, trust: Trust) -> str:
    """Return why the mode of the settings is not the one in force."""
    if config.settings.approval.mode != "auto" or trust == "trusted":
        return ""
    return t("The mode auto {needs_trust}", needs_trust=t(_NEEDS_TRUST))


def _check_budget(budget: Budget) -> None:
    """Raises RequestError for limits that are none."""
    if not budget.model_fields_set:
        # An empty object, or an unknown name, would otherwise mean "no limits" and remove those of the settings.
        names = ", ".join(to_camel(name) for name in Budget.model_fields)
        raise RequestError(
            t(
                "Name a limit: {names}. Null means no limit; limits that you leave out are removed.",
                names=names,
            )
        )
    limits = {
        "money": (budget.session_usd, budget.goal_usd),
        "tokens": (budget.session_tokens, budget.goal_tokens),
    }
    for unit, values in limits.items():
        for value in values:
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise RequestError(
                    t(
                        "A limit of {value:g} ({unit}) is not valid: give 0 or more, or null for no limit.",
                        value=value,
                        unit=unit,
                    )
                )


# -- the activity of all sessions: for clients that show one and must not miss requests of another --

_CHANGES = (TurnStarted, TurnEnded, PermissionAsked, PermissionReplied, Notice, SessionUpdated)


def active_sessions(core: Daemon) -> tuple[p.ActiveSession, ...]:
    """Return the sessions with a turn under way or a question that waits."""
    found: list[p.ActiveSession] = []
    for session in core.open_sessions:
        asked = tuple(request.request_id for request in core.permissions.pending(session.session_id))
        waits = bool(asked) or bool(pending_choices(session))
        if waits or session.state.turn is not None:
            title = session.state.trace.title
            found.append(
                p.ActiveSession(session_id=session.session_id, title=title, asked=asked, waits=waits)
            )
    return tuple(found)


class Activity:
    """Tells one client whenever the activity of any session changes."""

    def __init__(self, core: Daemon, send: Callable[[p.SessionsActivity], None]) -> None:
        self._core = core
        self._send = send
        self._told: tuple[p.ActiveSession, ...] = ()
        self._due = False
        core.bus.subscribe_to_all(self._happened)
        core.permissions.watch(self._soon)

    def close(self) -> None:
        """Stop sending notifications."""
        self._core.bus.unsubscribe(self._happened)
        self._core.permissions.unwatch(self._soon)

    def _happened(self, item: Event | Delta | Metered) -> None:
        if not isinstance(item, _CHANGES):
            return
        if isinstance(item, TurnEnded) and (session := self._main(item.trace_id)) is not None:
            title = session.state.trace.title
            active = active_sessions(self._core)
            self._told = active
            self._send(
                p.SessionsActivity(
                    active=active, ended=item.trace_id, title=title, stop_reason=item.stop_reason
                )
            )
            return
        self._soon()

    def _main(self, session_id: str) -> Session | None:
        return next((one for one in self._core.open_sessions if one.session_id == session_id), None)

    def _soon(self) -> None:
        """Notify in the next round of the event loop, when the change that caused the call is complete."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._due = False
        active = active_sessions(self._core)
        if active != self._told:
            self._told = active
            self._send(p.SessionsActivity(active=active))
