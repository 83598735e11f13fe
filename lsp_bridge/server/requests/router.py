"""What a client can ask for: each ``goalwright/…`` request against the daemon's core, free of any transport."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from daemon.agents.loader import UnknownAgentError
from daemon.core import Daemon, memory_mb
from daemon.demo import prompt_for
from daemon.keeping import InUseError
from daemon.loop.attaching import attached
from daemon.loop.forking import ForkError
from daemon.loop.mentions import switch_alone, switch_to
from daemon.loop.session import BusyError, SealedError, Session
from daemon.model.base import Model
from daemon.model.branches import root_of
from daemon.permission.explain import sandbox_words
from daemon.provider.choose import ModelChoice, is_provider_variable
from daemon.store.base import StoreError, UnknownTraceError
from daemon.store.paging import TranscriptEvent, events_after, told_events
from daemon.trust import mode_in_force
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.server.requests.activity import active_sessions
from lsp_bridge.server.requests.branches import BranchRequests, awaiting
from lsp_bridge.server.requests.client_state import ClientState, attended_by
from lsp_bridge.server.requests.context import ContextRequests, prepared
from lsp_bridge.server.requests.goals import GoalRequests
from lsp_bridge.server.requests.history import HistoryRequests
from lsp_bridge.server.requests.models import ModelRequests
from lsp_bridge.server.requests.permissions import PermissionRequests
from lsp_bridge.server.requests.trace_maintenance import KeepingRequests
from lsp_bridge.server.requests.traces import TraceRequests
from lsp_bridge.server.requests.validation import (
    check_budget,
    check_mode,
    check_model,
    check_sealed,
    mode_notice,
)
from tools.base import ToolError
from tools.localization import t
from tools.redaction.redactor import SECRETS
from tools.text.truncate import head

if TYPE_CHECKING:
    from daemon.api.door import ApiDoor
    from daemon.config import Config
    from daemon.model.permissions import Trust
    from daemon.model.traces import SessionStatus, Trace

ModelChooser = Callable[[dict[str, str], str | None], Awaitable[ModelChoice]]
"""Finds the model for a client's environment and the one that its settings name."""
Handler = Callable[[Any], Awaitable[Model]]


class Requests:
    """The requests of one connection."""

    def __init__(
        self,
        core: Daemon,
        client: ClientState,
        api: ApiDoor,
        *,
        choose: ModelChooser,
        subscribe: Callable[[Session], None],
        stop: Callable[[], None],
        version: str,
        others: Callable[[], Iterable[ClientState]] = lambda: (),
    ) -> None:
        """``others``: the clients of all other connections."""
        self._core = core
        self._client = client
        self._api = api
        self._choose = choose
        self._subscribe = subscribe
        self._stop = stop
        self._version = version
        self._others = others
        self._config: tuple[Config, Config] | None = None
        """The files' configuration, and over it this client's settings."""
        self.handlers: dict[str, Handler] = {
            "goalwright/daemon/status": self.status,
            "goalwright/daemon/stop": self.stop,
            "goalwright/session/new": self.new,
            "goalwright/session/fork": self.fork,
            "goalwright/session/list": self.list,
            "goalwright/session/load": self.load,
            "goalwright/session/messages": self.messages,
            "goalwright/session/events": self.events,
            "goalwright/session/prompt": self.prompt,
            "goalwright/session/cancel": self.cancel,
            "goalwright/session/set": self.set,
            "goalwright/queue/edit": self.edit_queue,
            "goalwright/queue/send": self.send_queue,
            **PermissionRequests(core, self).handlers,
            **ContextRequests(core, self).handlers,
            **GoalRequests(core, lambda: client.name).handlers,
            **HistoryRequests(core, lambda: client.name).handlers,
            **BranchRequests(core, self, lambda: client.name).handlers,
            **TraceRequests(core, api).handlers,
            **ModelRequests(self._provider_env).handlers,
            **KeepingRequests(lambda: core.keeping).handlers,
        }

    async def handle(self, method: str, params: object) -> dict[str, Any]:
        """Answer a request with its result as JSON. Raises RequestError, and ValidationError for bad params."""
        model = p.REQUESTS[method][0]
        parsed = model.model_validate({} if params is None else params)
        try:
            await check_sealed(self._core, method, parsed)
            return (await self.handlers[method](parsed)).wire()
        except UnknownTraceError as error:
            raise RequestError(
                p.UNKNOWN_SESSION, t("{error} `goalwright/session/list` lists the sessions.", error=error)
            ) from error
        except StoreError as error:
            raise RequestError(p.STORE_FAILED, str(error)) from error
        except SealedError as error:
            raise RequestError(p.SEALED, str(error)) from error

    # -- daemon --

    async def status(self, params: p.Empty) -> p.DaemonStatus:
        """What the daemon is and does."""
        choice = await self._choice()
        core = self._core
        config, trust = self.client_config(), self.client_trust()
        notices = [core.workspace_problem(), core.storage_notice, self._api.notice]
        notices += [*config.blocking, *config.problems]
        policy = config.settings.sandbox_policy()
        sandbox, no_sandbox = await asyncio.to_thread(sandbox_words, policy, core.workspace)
        notices += [*core.grants.problems(), mode_notice(config, trust), no_sandbox]
        return p.DaemonStatus(
            version=self._version,
            protocol_version=p.PROTOCOL_VERSION,
            pid=os.getpid(),
            workspace=str(core.workspace),
            uptime_s=round(time.monotonic() - core.started, 3),
            clients=core.clients,
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
            api_url=self._api.address.url if self._api.address is not None else None,
            active=active_sessions(core),
        )

    async def stop(self, params: p.Empty) -> p.Empty:
        """Stop the daemon after this answer."""
        asyncio.get_running_loop().call_soon(self._stop)
        return p.Empty()

    # -- sessions --

    async def new(self, params: p.SessionNewParams) -> p.SessionResult:
        """Begin a session."""
        self._core.reload_config()
        if params.model is not None:
            check_model(params.model)
        if params.mode is not None:
            check_mode(params.mode, self.client_trust())
        choice = await self._choice()
        try:
            session = self._core.new_session(
                model=params.model,
                agent=params.agent,
                mode=params.mode,
                trust=self.client_trust(),
                config=self.client_config(),
            )
        except UnknownAgentError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        self._adopt(session, choice)
        return p.SessionResult(session=self._info(session, choice))

    async def fork(self, params: p.SessionForkParams) -> p.SessionResult:
        """Begin a session with what was said in another one."""
        choice = await self._choice()
        source = await self._core.session(params.session_id)
        try:
            session_id = await self._core.keeping.fork(source, params.message_id)
        except InUseError as error:
            raise RequestError(p.BUSY, str(error)) from error
        except ForkError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        session = await self._core.session(session_id)
        self._core.used(session_id)
        self._adopt(session, choice)
        return p.SessionResult(session=self._info(session, choice))

    async def list(self, params: p.SessionListParams) -> p.SessionListResult:
        """Sessions, newest first."""
        choice = await self._choice()
        traces = await self._core.traces(limit=params.limit + 1, before=params.before)
        sessions = tuple(self._trace_info(trace, choice) for trace in traces[: params.limit])
        more = len(traces) > params.limit
        listed = [trace.trace_id for trace in traces]
        left = await self._core.keeping.left_out(listed, after=params.before, last=not more)
        last, broken = await self._core.keeping.last_used() if params.before is None else ("", None)
        if broken is not None and broken not in left:
            left.append(broken)
        unreadable = tuple(p.UnreadableSession(session_id=one.trace_id, why=one.why) for one in left)
        return p.SessionListResult(
            sessions=sessions, more=more, unreadable=unreadable, last_used=last or None
        )

    async def load(self, params: p.SessionLoadParams) -> p.SessionLoadResult:
        """Open a session and subscribe."""
        session = await self.at_hand(params.session_id)
        choice = await self._choice()
        assembly = await prepared(session)
        shown = session.state.messages[max(0, len(session.state.messages) - params.messages) :]
        earlier = len(shown) < len(session.state.messages)
        first = shown[0].sequence if earlier and shown else 0
        store = self._core.store
        told = await told_events(store, session.session_id, first) if shown else TranscriptEvent(0)
        # From here to the return nothing is awaited: the state and the subscription belong together.
        self._resume(session, choice)
        self._follow(session)
        state = session.state
        newest = state.messages[max(0, len(state.messages) - params.messages) :]
        received = session.turn.received
        if shown:
            for event in store.events(session.session_id, after=told.last_id):  # a few came meanwhile
                told.add(event)
        return p.SessionLoadResult(
            session=self._info(session, choice),
            messages=tuple(newest),
            has_earlier=len(newest) < len(state.messages),
            streaming=(
                p.Streaming(message_id=received.message_id, parts=received.parts())
                if received is not None
                else None
            ),
            goal_tree=state.plan.snapshot(),
            goal_numbers=state.plan.numbers(),
            pending=tuple(self._core.permissions.pending(session.session_id)),
            queue=session.queued(),
            last_event_id=state.trace.last_event_id,
            meter=assembly.meter(),
            branches=dict(state.children.branches),
            subagents=dict(state.children.subagents),
            awaits_choice=awaiting(session),
            sealed=session.sealed,
            notices=_told(told),
            under_way=tuple(
                p.CallUnderWay(tool_call_id=call_id, output=session.commands.live_output.get(call_id, ""))
                for call_id in dict.fromkeys(
                    [*state.under_way, *session.commands.jobs.begun_by(), *session.commands.live_output]
                )
            ),
            compacting=session.compacting,
        )

    async def messages(self, params: p.SessionMessagesParams) -> p.SessionMessagesResult:
        """Older messages."""
        found = await self._core.messages(params.session_id, before=params.before, limit=params.limit)
        earlier = bool(found) and found[0].sequence > 1
        first = found[0].sequence if earlier else 0
        told = await told_events(self._core.store, params.session_id, first, params.before)
        return p.SessionMessagesResult(messages=tuple(found), has_earlier=earlier, notices=_told(told))

    async def events(self, params: p.SessionEventsParams) -> p.SessionEventsResult:
        """Events after the last one seen, and the subscription to those that follow."""
        session = await self.at_hand(params.session_id)
        choice = await self._choice()
        self._restrict(session)
        self._resume(session, choice)
        store, after = self._core.store, params.after_event_id
        events = await events_after(store, session.session_id, after)
        self._follow(session)
        after = events[-1].event_id if events else after
        if store.last_event_id(session.session_id) > after:  # a few came meanwhile
            events += store.events(session.session_id, after=after)
        return p.SessionEventsResult(events=tuple(events))

    async def prompt(self, params: p.SessionPromptParams) -> p.SessionPromptResult:
        """Work on a prompt; answers when its turn has ended."""
        if not params.text.strip() and not params.attachments:
            raise RequestError(p.INVALID_PARAMS, t("The prompt is empty: write what should be done."))
        if problem := self._core.workspace_problem():
            raise RequestError(p.STORE_FAILED, problem)
        self.check_rules()
        choice = await self._choice()
        session = await self._core.session(params.session_id)
        self._adopt(session, choice)
        self._tell_once(session, choice)
        prompt_id = params.prompt_id or f"prompt_{uuid.uuid4().hex[:12]}"
        self._client.there.begins(session.session_id, prompt_id)
        try:
            if not params.attachments and switch_alone(session, params.text):
                self._core.used(session.session_id)
                return p.SessionPromptResult(prompt_id=prompt_id, stop_reason="end_turn")
            attachments = await attached(session, params.attachments, prompt_id, params.text)
            self._core.used(session.session_id)
            result = await session.prompt(
                params.text,
                attachments,
                prompt_id=prompt_id,
                when_busy=params.when_busy,
                planner=params.planner,
            )
        except BusyError as error:
            raise RequestError(p.BUSY, str(error)) from error
        except ToolError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        finally:
            self._client.there.ended(session.session_id, prompt_id)
        return p.SessionPromptResult(
            prompt_id=result.prompt_id, stop_reason=result.stop, detail=result.detail, removed=result.removed
        )

    async def cancel(self, params: p.SessionCancelParams) -> p.CanceledResult:
        """Stop the running turn."""
        return p.CanceledResult(canceled=self._core.cancel(params.session_id, hold_queue=params.hold_queue))

    async def set(self, params: p.SessionSetParams) -> p.SessionResult:
        """Change title, model, mode, agent or limits."""
        session = await self._core.session(params.session_id)
        if params.agent is not None:
            await self._switch(session, params.agent)
        updates: dict[str, Any] = {}
        if params.mode is not None:
            check_mode(params.mode, self.client_trust())
            updates["mode"] = params.mode
        if params.title is not None:
            updates["title"] = head(" ".join(params.title.split()), 200)
            updates["titled_by"] = "user"
        if params.model is not None:
            if params.model:
                check_model(params.model)
            updates["model"] = params.model or None
        if params.budget is not None:
            check_budget(params.budget)
            updates["budget"] = params.budget.model_dump()
        self._core.update_session(session, updates)
        if params.mode is not None:
            # Whoever sets it sees a folder of this client's trust.
            self._adopt(session, await self._choice())
            self._core.permissions.release(session.session_id, self.client_name)
        if params.model is not None or params.budget is not None:
            (await prepared(session)).publish()  # another window, other limits
        return p.SessionResult(session=await self.info(session))

    async def _switch(self, session: Session, name: str) -> None:
        """Have another agent go on with a session. Raises RequestError with what to do instead."""
        try:
            agent = await asyncio.to_thread(session.services.agents.find, name, session.trust)
            switch_to(session, agent)
        except (UnknownAgentError, ToolError) as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error

    async def edit_queue(self, params: p.QueueEditParams) -> p.Empty:
        """Change or remove a waiting prompt."""
        if params.text is not None and not params.text.strip():
            raise RequestError(
                p.INVALID_PARAMS, t("The prompt is empty: write a text, or null to remove it.")
            )
        session = await self._core.session(params.session_id)
        if params.hold is None:
            found = session.edit_queued(params.prompt_id, params.text)
        else:
            found = session.hold_queued(params.prompt_id, params.hold)
        if not found:
            raise RequestError(
                p.UNKNOWN_REQUEST,
                t("This prompt is not waiting any more: it is being worked on or was removed."),
            )
        return p.Empty()

    async def send_queue(self, params: p.SessionParams) -> p.Empty:
        """Work on what waits in the queue."""
        self.check_rules()
        choice = await self._choice()
        session = await self._core.session(params.session_id)
        self._adopt(session, choice)
        session.send_queue()
        return p.Empty()

    # -- Hands (context requests) --

    async def at_hand(self, session_id: str) -> Session:
        """See Hands."""
        choice = await self._choice()
        session = await self._core.session(session_id)
        if session.running:
            self._restrict(session)
        else:
            self._adopt(session, choice)
        return session

    def check_rules(self) -> None:
        """See Hands."""
        self._core.reload_config()
        if blocking := self.client_config().blocking:
            # Without its rules a configuration would allow what the person forbade.
            raise RequestError(
                p.CONFIG_BROKEN, t("Nothing is done until this is put right: ") + "; ".join(blocking)
            )

    async def info(self, session: Session) -> p.SessionInfo:
        """See Hands."""
        return self._info(session, await self._choice())

    # -- ThisClient (permission requests) --

    @property
    def client_name(self) -> str:
        """See ThisClient."""
        return self._client.name

    def attended_by(self, session_id: str) -> tuple[str, ...]:
        """See ThisClient."""
        others = ((other.name, other.there) for other in self._others() if other is not self._client)
        return attended_by(session_id, self._core.live(root_of(session_id)), others)

    def client_config(self) -> Config:
        """See ThisClient."""
        files = self._core.config(self.client_trust() == "trusted")
        if self._config is None or self._config[0] is not files:
            # Kept, because rules are compiled once for the same objects.
            self._config = files, files.overlaid(self._client.settings, "editor", self._client.name)
        return self._config[1]

    def client_trust(self) -> Trust:
        """See ThisClient. An editor that asks its person about folders has the word; else the person's list."""
        if self._client.trusted is None:
            return self._core.trust()
        return "trusted" if self._client.trusted else "restricted"

    # -- helpers --

    async def _choice(self) -> ModelChoice:
        return await self._choose(self._provider_env(), self.client_config().settings.model)

    def _provider_env(self) -> dict[str, str]:
        """The daemon's own provider variables, and over them the client's."""
        own = {name: value for name, value in os.environ.items() if is_provider_variable(name)}
        env = {**own, **self._client.env}
        SECRETS.register_env(env)
        return env

    def _adopt(self, session: Session, choice: ModelChoice) -> None:
        """The session works with this client's settings, trust and keys from now on."""
        session.policy.use(
            config=self.client_config(),
            trust=self.client_trust(),
            env=self._provider_env(),
            unattended=self._client.there.unattended,
            default_model=choice.model,
        )
        self._core.dump(session)

    def _resume(self, session: Session, choice: ModelChoice) -> None:
        """Somebody is here to answer: what waited for that when the daemon stopped is asked again."""
        model = self._model(session.state.trace, choice)
        last = next((m.model for m in reversed(session.state.messages) if m.role == "assistant"), None)
        if session.config.blocking or (model.startswith("demo/") and last is not None and "demo" not in last):
            return  # without its rules, or with the model of somebody who has no key for the one at work
        if session.resume() and session.state.turn is not None:
            self._client.there.begins(session.session_id, session.state.turn)

    def _follow(self, session: Session) -> None:
        self._subscribe(session)
        self._client.there.follows(session.session_id)

    def _restrict(self, session: Session) -> None:
        """A folder that is trusted no longer is so at once, whoever began what runs there."""
        if self.client_trust() == "restricted" and session.trust != "restricted":
            session.policy.use(trust="restricted", config=self.client_config())

    def _tell_once(self, session: Session, choice: ModelChoice) -> None:
        """What the person should know, when a session's first prompt comes: by then somebody listens."""
        if session.state.messages or session.running:
            return
        config = session.config
        for problem in (self._core.storage_notice, *config.problems, *self._core.grants.problems()):
            if problem:
                session.notice("warning", problem, "config")
        if notice := mode_notice(config, session.trust):
            session.notice("warning", notice, "mode")
        if choice.notice and session.model == choice.model:
            session.notice("info", choice.notice, "demo" if choice.demo else "model")

    def _info(self, session: Session, choice: ModelChoice) -> p.SessionInfo:
        return self._described(session.state.trace, session.status, choice, session.foreign)

    def _trace_info(self, trace: Trace, choice: ModelChoice) -> p.SessionInfo:
        session = self._core.live(trace.trace_id)
        if session is not None:
            return self._info(session, choice)
        foreign = self._core.is_foreign(trace.trace_id)
        if foreign:
            trace = trace.model_copy(update={"model": None, "mode": None})
        return self._described(trace, "idle", choice, foreign)

    def _model(self, trace: Trace, choice: ModelChoice) -> str:
        """Return the model of a session under this client's settings, as ``Session.model`` would."""
        return trace.model or self.client_config().settings.models.get(trace.agent) or choice.model

    def _described(
        self, trace: Trace, status: SessionStatus, choice: ModelChoice, foreign: bool
    ) -> p.SessionInfo:
        model = self._model(trace, choice)
        trust = self.client_trust()
        return p.SessionInfo(
            trace=trace,
            status=status,
            model=model,
            demo=model.startswith("demo/"),
            foreign=foreign,
            mode=mode_in_force(trace.mode or self.client_config().settings.mode, trust),
            trust=trust,
        )


def _told(told: TranscriptEvent) -> tuple[p.Told, ...]:
    return tuple(p.Told(after=after, event=event) for after, event in told.events)
