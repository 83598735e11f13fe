"""What a client can ask for: each ``goalwright/…`` request against the daemon's core, free of any transport."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic.alias_generators import to_camel

from daemon.agents.loader import UnknownAgent
from daemon.config import Config
from daemon.core import Daemon, memory_mb
from daemon.loop.session import Busy, Session
from daemon.model.base import Model
from daemon.model.traces import Budget, Trace
from daemon.provider.choose import Choice, is_provider_variable, parse_model
from daemon.store.base import StoreError, UnknownTrace
from lsp_bridge import protocol as p
from lsp_bridge.context_requests import ContextRequests, prepared
from lsp_bridge.goal_requests import GoalRequests
from lsp_bridge.history_requests import HistoryRequests
from lsp_bridge.request_error import RequestError
from tools.base import ProposedFile, ToolError
from tools.text import decode


class ModelChooser(Protocol):
    """Finds the model for a client's environment and settings."""

    async def __call__(self, env: dict[str, str], configured: str | None) -> Choice: ...


@dataclass(slots=True)
class ClientState:
    """What is known of one connection's client since ``initialize``."""

    name: str = "client"
    trusted: bool | None = None
    can_save: bool = False
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    env: dict[str, str] = field(default_factory=dict[str, str], repr=False)


Handler = Callable[[Any], Awaitable[Model]]


class Requests:
    """The requests of one connection."""

    def __init__(
        self,
        core: Daemon,
        client: ClientState,
        *,
        choose: ModelChooser,
        subscribe: Callable[[Session], None],
        stop: Callable[[], None],
        version: str,
    ) -> None:
        self._core = core
        self._client = client
        self._choose = choose
        self._subscribe = subscribe
        self._stop = stop
        self._version = version
        self.handlers: dict[str, Handler] = {
            "goalwright/daemon/status": self.status,
            "goalwright/daemon/stop": self.stop,
            "goalwright/session/new": self.new,
            "goalwright/session/list": self.list,
            "goalwright/session/load": self.load,
            "goalwright/session/messages": self.messages,
            "goalwright/session/events": self.events,
            "goalwright/session/prompt": self.prompt,
            "goalwright/session/cancel": self.cancel,
            "goalwright/session/set": self.set,
            "goalwright/queue/edit": self.edit_queue,
            "goalwright/permission/list": self.permissions,
            "goalwright/permission/content": self.permission_content,
            "goalwright/permission/reply": self.permission_reply,
            **ContextRequests(core, self).handlers,
            **GoalRequests(core, lambda: client.name).handlers,
            **HistoryRequests(core, lambda: client.name).handlers,
        }

    async def handle(self, method: str, params: object) -> dict[str, Any]:
        """Answer a request with its result as JSON. Raises RequestError, and ValidationError for bad params."""
        model = p.REQUESTS[method][0]
        parsed = model.model_validate({} if params is None else params)
        try:
            return (await self.handlers[method](parsed)).wire()
        except UnknownTrace as error:
            raise RequestError(
                p.UNKNOWN_SESSION, f"{error} `goalwright/session/list` lists the sessions."
            ) from error
        except StoreError as error:
            raise RequestError(p.STORE_FAILED, str(error)) from error

    # -- daemon --

    async def status(self, params: p.Empty) -> p.DaemonStatus:
        """What the daemon is and does."""
        choice = await self._choice()
        core = self._core
        config = self._config()
        notices = [core.storage_notice, choice.notice, *config.blocking, *config.problems]
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
            notice="\n".join(notice for notice in notices if notice),
            trace_folder=str(core.store.root),
            memory_mb=memory_mb(),
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
            self._check_model(params.model)
        choice = await self._choice()
        try:
            session = self._core.new_session(model=params.model, agent=params.agent)
        except UnknownAgent as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        self._adopt(session, choice)
        return p.SessionResult(session=self._info(session, choice))

    async def list(self, params: p.SessionListParams) -> p.SessionListResult:
        """Sessions, newest first."""
        choice = await self._choice()
        traces = await self._core.traces(limit=params.limit + 1, before=params.before)
        sessions = tuple(self._trace_info(trace, choice) for trace in traces[: params.limit])
        return p.SessionListResult(sessions=sessions, more=len(traces) > params.limit)

    async def load(self, params: p.SessionLoadParams) -> p.SessionLoadResult:
        """Open a session and subscribe."""
        session = await self.at_hand(params.session_id)
        choice = await self._choice()
        assembly = await prepared(session)
        # From here to the return nothing is awaited: the state and the subscription belong together.
        self._subscribe(session)
        state = session.state
        newest = state.messages[max(0, len(state.messages) - params.messages) :]
        received = session.received
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
        )

    async def messages(self, params: p.SessionMessagesParams) -> p.SessionMessagesResult:
        """Older messages."""
        found = await self._core.messages(params.session_id, before=params.before, limit=params.limit)
        return p.SessionMessagesResult(
            messages=tuple(found), has_earlier=bool(found) and found[0].sequence > 1
        )

    async def events(self, params: p.SessionEventsParams) -> p.SessionEventsResult:
        """Events after the last one seen, and the subscription to those that follow."""
        session = await self._core.session(params.session_id)
        self._subscribe(session)
        events = self._core.store.events(params.session_id, after=params.after_event_id)
        return p.SessionEventsResult(events=tuple(events))

    async def prompt(self, params: p.SessionPromptParams) -> p.SessionPromptResult:
        """Work on a prompt; answers when its turn has ended."""
        if not params.text.strip() and not params.attachments:
            raise RequestError(p.INVALID_PARAMS, "The prompt is empty: write what should be done.")
        self.check_rules()
        choice = await self._choice()
        session = await self._core.session(params.session_id)
        self._adopt(session, choice)
        self._tell_once(session, choice)
        try:
            result = await session.prompt(
                params.text, params.attachments, prompt_id=params.prompt_id, when_busy=params.when_busy
            )
        except Busy as error:
            raise RequestError(p.BUSY, str(error)) from error
        return p.SessionPromptResult(
            prompt_id=result.prompt_id, stop_reason=result.stop, detail=result.detail, removed=result.removed
        )

    async def cancel(self, params: p.SessionParams) -> p.CanceledResult:
        """Stop the running turn."""
        session = self._core.live(params.session_id)
        return p.CanceledResult(canceled=session is not None and session.cancel())

    async def set(self, params: p.SessionSetParams) -> p.SessionResult:
        """Change title, model or limits."""
        session = await self._core.session(params.session_id)
        updates: dict[str, Any] = {}
        if params.title is not None:
            updates["title"] = " ".join(params.title.split())[:200]
        if params.model is not None:
            if params.model:
                self._check_model(params.model)
            updates["model"] = params.model or None
        if params.budget is not None:
            _check_budget(params.budget)
            updates["budget"] = params.budget.model_dump()
        self._core.update_session(session, updates)
        if params.model is not None or params.budget is not None:
            (await prepared(session)).publish()  # another window, other limits
        return p.SessionResult(session=await self.info(session))

    async def edit_queue(self, params: p.QueueEditParams) -> p.Empty:
        """Change or remove a waiting prompt."""
        if params.text is not None and not params.text.strip():
            raise RequestError(p.INVALID_PARAMS, "The prompt is empty: write a text, or null to remove it.")
        session = await self._core.session(params.session_id)
        if not session.edit_queued(params.prompt_id, params.text):
            raise RequestError(
                p.UNKNOWN_REQUEST,
                "This prompt is not waiting any more: it is being worked on or was removed.",
            )
        return p.Empty()

    # -- permissions --

    async def permissions(self, params: p.PermissionListParams) -> p.PermissionListResult:
        """What waits for an answer."""
        return p.PermissionListResult(requests=tuple(self._core.permissions.pending(params.session_id)))

    async def permission_content(self, params: p.PermissionContentParams) -> p.PermissionContentResult:
        """Both sides of a proposed change as text."""
        try:
            file = self._core.permissions.proposed(params.request_id, params.path)
        except KeyError as error:
            raise RequestError(
                p.UNKNOWN_REQUEST, "There is no such request waiting: it was answered or canceled."
            ) from error
        if file is None:
            raise RequestError(p.UNKNOWN_REQUEST, f"The request does not touch {params.path}.")
        return await asyncio.to_thread(_both_sides, file)

    async def permission_reply(self, params: p.PermissionReplyParams) -> p.PermissionReplyResult:
        """Answer a request; the first answer wins."""
        feedback = (params.feedback or "").strip() or None
        permissions = self._core.permissions
        try:
            left = (
                await permissions.left(params.request_id, params.files) if params.reply != "reject" else None
            )
            accepted, by = permissions.reply(
                params.request_id, params.reply, feedback, self._client.name, left
            )
        except ToolError as error:
            # The request still waits: what the person chose or wrote can be put right.
            raise RequestError(p.INVALID_PARAMS, str(error)) from error
        except KeyError as error:
            raise RequestError(
                p.UNKNOWN_REQUEST, "There is no such request; it may have been canceled with its turn."
            ) from error
        return p.PermissionReplyResult(accepted=accepted, by=by)

    # -- Hands (context requests) --

    async def at_hand(self, session_id: str) -> Session:
        """See Hands."""
        choice = await self._choice()
        session = await self._core.session(session_id)
        if not session.running:
            self._adopt(session, choice)
        return session

    def check_rules(self) -> None:
        """See Hands."""
        self._core.reload_config()
        if blocking := self._config().blocking:
            # Without its rules a configuration would allow what the person forbade.
            raise RequestError(
                p.CONFIG_BROKEN, "Nothing is done until this is put right: " + "; ".join(blocking)
            )

    async def info(self, session: Session) -> p.SessionInfo:
        """See Hands."""
        return self._info(session, await self._choice())

    # -- helpers --

    def _config(self) -> Config:
        return self._core.config().overlaid(self._client.settings, "editor", self._client.name)

    async def _choice(self) -> Choice:
        return await self._choose(self._provider_env(), self._config().settings.model)

    def _provider_env(self) -> dict[str, str]:
        """The daemon's own provider variables, and over them the client's."""
        own = {name: value for name, value in os.environ.items() if is_provider_variable(name)}
        return {**own, **self._client.env}

    def _adopt(self, session: Session, choice: Choice) -> None:
        """The session works with this client's settings and keys from now on."""
        session.config = self._config()
        session.env = self._provider_env()
        session.default_model = choice.model

    def _tell_once(self, session: Session, choice: Choice) -> None:
        """What the person should know, when a session's first prompt comes: by then somebody listens."""
        if session.state.messages or session.running:
            return
        for problem in (self._core.storage_notice, *session.config.problems):
            if problem:
                session.notice("warning", problem, "config")
        if choice.notice and session.state.trace.model is None:
            session.notice("info", choice.notice, "demo" if choice.demo else "model")

    def _check_model(self, model: str) -> None:
        try:
            parse_model(model)
        except ValueError as error:
            raise RequestError(p.INVALID_PARAMS, str(error)) from error

    def _info(self, session: Session, choice: Choice) -> p.SessionInfo:
        model = session.state.trace.model or choice.model
        return p.SessionInfo(
            trace=session.state.trace,
            status=session.status,
            model=model,
            demo=model.startswith("demo/"),
            foreign=session.foreign,
        )

    def _trace_info(self, trace: Trace, choice: Choice) -> p.SessionInfo:
        session = self._core.live(trace.trace_id)
        if session is not None:
            return self._info(session, choice)
        foreign = self._core.is_foreign(trace.trace_id)
        model = choice.model if foreign else trace.model or choice.model
        demo = model.startswith("demo/")
        return p.SessionInfo(trace=trace, status="idle", model=model, demo=demo, foreign=foreign)


def _check_budget(budget: Budget) -> None:
    if not budget.model_fields_set:
        # An empty object, or a name that is none: taken as "no limits" it would take those of the settings away.
        names = ", ".join(to_camel(name) for name in Budget.model_fields)
        raise RequestError(
            p.INVALID_PARAMS,
            f"Name a limit: {names}. Null is no limit; those that are not named are none, too.",
        )
    limits = {
        "money": (budget.session_usd, budget.goal_usd),
        "tokens": (budget.session_tokens, budget.goal_tokens),
    }
    for unit, values in limits.items():
        for value in values:
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise RequestError(
                    p.INVALID_PARAMS,
                    f"A limit of {value:g} ({unit}) is not possible: give 0 or more, or null for no limit.",
                )


def _both_sides(file: ProposedFile) -> p.PermissionContentResult:
    base, after = file.base, file.change.after
    try:
        old = None if base is None else decode(base)
        new = None if after is None else decode(after, None if old is None else old.codec)
    except ToolError:
        return p.PermissionContentResult(before=None, after=None, binary=True)
    return p.PermissionContentResult(
        before=None if old is None else old.text, after=None if new is None else new.text
    )
