"""Turns that code actions start in any LSP editor: progress, questions and the answer are shown by LSP's own means."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from daemon.model.events import (
    Delta,
    Event,
    MessagePartAdded,
    ModelRetry,
    PermissionAsked,
    PermissionReplied,
    QueueChanged,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from daemon.model.meters import Metered
from daemon.store.trace_store import UnknownTraceError
from lsp_bridge.protocol import sessions as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.server.editor.given import SHOW_ANSWER_TITLE
from lsp_bridge.server.editor.prompts import visible_line
from lsp_bridge.server.requests.declaration import refusals
from tools.localization import t
from tools.process.background import Background
from tools.text.truncate import cut_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.loop.session import Session
    from lsp_bridge.server.editor.questions import Questions
    from lsp_bridge.server.editor.show_text import Showing
    from lsp_bridge.server.editor_server import EditorServer
    from lsp_bridge.server.requests.router import Requests

log = logging.getLogger(__name__)

_BRIEF = 300
"""Characters of an answer that a message shows."""
_PATIENCE_S = 5.0
"""For the client to make its progress bar; a client that does not answer gets none."""
_SHOWN = 120
_TELLING = ("file_path", "path", "pattern", "command", "description")
"""Arguments of tools that identify the subject of a call, the best first."""


class Turns:
    """The turns of one connection. They continue when the client has gone, without being shown."""

    def __init__(
        self, server: EditorServer, requests: Requests, questions: Questions, showing: Showing
    ) -> None:
        self._server = server
        self._core = requests.context.core
        self._requests = requests
        self._questions = questions
        self._showing = showing
        self._opening = asyncio.Lock()
        self.session_id: str | None = None
        """The session that this connection has started."""
        self._answer: tuple[str, str] | None = None
        """Name and text of the last answer, as a document."""
        self._turns = Background("following a turn")
        self._waited_for: dict[_Turn, asyncio.Task[Any] | None] = {}
        """Turns whose request is answered when they have ended, with that request's task."""
        self._shown: dict[types.ProgressToken, Callable[[], None]] = {}
        """How to cancel the turn of each progress that is shown, by its token."""
        self._gone = False

        @server.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
        def _(params: types.WorkDoneProgressCancelParams) -> None:
            if (cancel := self._shown.get(params.token)) is not None:
                cancel()

    @property
    def has_answer(self) -> bool:
        """Whether a turn of this connection has said something."""
        return self._answer is not None

    async def show_answer(self) -> None:
        """Open what the last turn said. Raises RequestError."""
        if self._answer is None:
            raise RequestError(t("Goalwright has not answered anything in this editor yet."))
        await self._showing.document(*self._answer)

    async def begin(
        self, title: str, text: str, token: types.ProgressToken | None, *, wants_answer: bool
    ) -> dict[str, Any]:
        """Work on a prompt in this connection's session. ``wants_answer``: the user wants an answer, which is then
        opened; for other work a message reports the result.

        Returns at once, so that no editor times out; but a client that gave a ``token`` of its own waits for the
        answer, because its progress ends with the request. Raises RequestError.
        """
        self._requests.context.check_rules()
        session = await self._session()
        turn = _Turn(self._questions, session, title, wants_answer=wants_answer)
        turn.progress = ProgressBar(self._server, token, turn.cancel, self._shown)
        # The turn is independent: it continues when the client, and everything shown there, has gone.
        working = _WORKING.start(self._work(turn, text))
        if self._gone:
            return {}
        self._core.bus.subscribe(session.session_id, turn.published)
        turn.progress.begin(turn.title, t("waiting for the previous turn") if session.running else "thinking")
        task = self._turns.start(self._follow(turn, working), then=partial(self._followed, turn))
        if token is not None:
            self._waited_for[turn] = asyncio.current_task()
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if turn in self._waited_for:
                    turn.cancel()  # `$/cancelRequest`
                raise
            finally:
                self._waited_for.pop(turn, None)
        return {"sessionId": session.session_id, "promptId": turn.prompt_id}

    def leave(self) -> None:
        """Prepare for the client's exit: its requests are canceled then, but not at the user's wish."""
        for turn, task in list(self._waited_for.items()):
            if task is None or not task.cancelling():
                del self._waited_for[turn]

    def close(self) -> None:
        """The client has gone."""
        self._gone = True
        self.leave()
        self._turns.cancel()

    async def _session(self) -> Session:
        """Return this connection's session, a new one if there is none or it was deleted. Raises RequestError."""
        async with self._opening:  # a second command at the same time waits for the session of the first
            with refusals():
                if self.session_id is not None:
                    with contextlib.suppress(UnknownTraceError):
                        return await self._core.session(self.session_id)
                made = await self._requests.sessions.new(p.SessionNewParams())
                self.session_id = made.session.trace.trace_id
                return await self._core.session(self.session_id)

    async def _work(self, turn: _Turn, text: str) -> p.SessionPromptResult:
        if turn.canceled:
            return p.SessionPromptResult(prompt_id=turn.prompt_id, stop_reason="canceled", removed=True)
        session_id = turn.session.session_id
        return await self._requests.sessions.prompt(
            p.SessionPromptParams(session_id=session_id, text=text, prompt_id=turn.prompt_id)
        )

    async def _follow(self, turn: _Turn, working: asyncio.Task[p.SessionPromptResult]) -> None:
        try:
            result = await asyncio.shield(working)
            turn.progress.end(_ended(result))
            await self._show(turn, result)
        except RequestError as error:
            self._showing.say(str(error), types.MessageType.Error)
        except Exception as error:
            log.exception("a turn of an editor failed")
            name = error.__class__.__name__
            self._showing.say(
                t("Goalwright has a bug ({name}); its log has the details.", name=name),
                types.MessageType.Error,
            )

    def _followed(self, turn: _Turn, task: asyncio.Task[None]) -> None:
        self._core.bus.unsubscribe(turn.published)
        if self._gone:
            turn.progress.drop()
        turn.progress.end("stopped")

    async def _show(self, turn: _Turn, result: p.SessionPromptResult) -> None:
        if result.removed:  # the user canceled before its turn began
            self._showing.say(t("Goalwright was stopped."))
            return
        if answer := turn.answer:
            self._answer = f"{turn.prompt_id}.md", f"# {turn.title}\n\n{answer}\n"
        if result.stop_reason == "end_turn" and answer:
            if turn.wants_answer:
                await self.show_answer()
            else:
                self._showing.say(self._brief(answer))
        elif result.stop_reason == "canceled":
            self._showing.say(t("Goalwright was stopped."))
        elif result.stop_reason != "end_turn":
            detail = result.detail or t(
                "The turn ended with “{stop_reason}”.", stop_reason=result.stop_reason
            )
            self._showing.say(t("Goalwright: {detail}", detail=detail), types.MessageType.Error)

    def _brief(self, answer: str) -> str:
        if len(answer) <= _BRIEF or not self._showing.has_documents:
            return t("Goalwright: {answer}", answer=answer)
        return t(
            "Goalwright: {answer}\nThe code action “{show_answer_title}” opens all of it.",
            answer=cut_text(answer, _BRIEF),
            show_answer_title=t(SHOW_ANSWER_TITLE),
        )


class _Turn:
    """One prompt, from the moment it is sent."""

    progress: ProgressBar

    def __init__(self, questions: Questions, session: Session, title: str, *, wants_answer: bool) -> None:
        self._questions = questions
        self.session = session
        self.title = title
        self.wants_answer = wants_answer
        self.prompt_id = f"editor_{uuid.uuid4().hex[:12]}"
        self.canceled = False
        self.answer = ""
        """The agent's last text in this turn, when it has ended: by then the next one may have begun."""
        self._active = False
        self._since = 0
        """Sequence of the last message before the turn."""

    def published(self, item: Event | Delta | Metered) -> None:
        """Something happens in the session."""
        if isinstance(item, Delta | Metered):
            return
        if isinstance(item, TurnStarted):
            self._active = item.prompt_id == self.prompt_id
            if self._active:
                messages = self.session.state.messages
                self._since = messages[-1].sequence if messages else 0
            if self._active and self.canceled:
                self.session.cancel()
        elif isinstance(item, QueueChanged) and self.canceled and not self._active:
            # It was canceled before it was in the queue. Not within this event, which others have not heard yet.
            asyncio.get_running_loop().call_soon(self.session.edit_queued, self.prompt_id, None)
        if not self._active:
            return
        self.progress.follow(item)
        if isinstance(item, TurnEnded):
            self.answer = self._last_text()
        elif isinstance(item, PermissionAsked):
            self._questions.ask(item.request)
        elif isinstance(item, PermissionReplied):
            self._questions.answered(item.request_id)

    def cancel(self) -> None:
        """Cancel at the user's request."""
        self.canceled = True
        if self._active:
            self.session.cancel()
        else:
            self.session.edit_queued(self.prompt_id, None)

    def _last_text(self) -> str:
        for message in reversed(self.session.state.messages):
            if message.sequence <= self._since:
                break
            if message.role == "assistant" and (text := message.text().strip()):
                return text
        return ""


_WORKING = Background("a turn of an editor", level=logging.INFO)  # connected clients see failures


def _ended(result: p.SessionPromptResult) -> str:
    if result.removed or result.stop_reason == "canceled":
        return "stopped"
    return (
        "done" if result.stop_reason == "end_turn" else visible_line(result.detail, 100) or result.stop_reason
    )


class ProgressBar:
    """One progress bar, or none where the client can show none. Nothing waits for it."""

    def __init__(
        self,
        server: EditorServer,
        token: types.ProgressToken | None,
        cancel: Callable[[], None],
        shown: dict[types.ProgressToken, Callable[[], None]],
    ) -> None:
        """``shown``: how to cancel the work of each token of this connection. One that a client uses twice is the
        first's."""
        self._server = server
        self._given = token
        self._cancel = cancel
        self._all = shown
        self._token: types.ProgressToken | None = None
        self._said = ""
        self._ended: str | None = None
        self._making: asyncio.Task[None] | None = None
        self._calls: dict[str, str] = {}

    def begin(self, title: str, message: str) -> None:
        """Show it. The client's own token is used; else one is made, where the client can."""
        self._said = message
        if self._given is not None:
            if self._given not in self._all:
                self._all[self._given] = self._cancel
                self._show(self._given, title)
            return
        window = self._server.client_capabilities.window
        if window is not None and window.work_done_progress:
            self._making = asyncio.create_task(self._make(title))

    async def _make(self, title: str) -> None:
        token = str(uuid.uuid4())
        self._all[token] = self._cancel  # it can come as soon as the client knows the token
        try:
            made = types.WorkDoneProgressCreateParams(token)
            await self._server.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, made, _PATIENCE_S)
        except Exception as error:  # a client error, no answer, or a lost client: work continues
            log.info("no progress is shown: %s", error)
            self._all.pop(token, None)
            return
        self._show(token, title)
        if self._ended is not None:
            self.end(self._ended)

    def _show(self, token: types.ProgressToken, title: str) -> None:
        self._token = token
        self._report(types.WorkDoneProgressBegin(title=title, cancellable=True, message=self._said))

    def follow(self, event: Event) -> None:
        """Say what happens now."""
        message = self._words(event)
        if message and message != self._said:
            self.say(message)

    def say(self, message: str) -> None:
        """Show a message."""
        self._said = message
        self._report(types.WorkDoneProgressReport(cancellable=True, message=message))

    def end(self, message: str) -> None:
        """Take it away; once is enough."""
        if self._ended is None:
            self._ended = message
        self._report(types.WorkDoneProgressEnd(message=self._ended))
        self._forget()

    def drop(self) -> None:
        """Nobody looks any more."""
        if self._making is not None:
            self._making.cancel()
        self._forget()

    def _forget(self) -> None:
        if self._token is not None:
            self._all.pop(self._token, None)
            self._token = None

    def _report(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        if self._token is not None:
            self._server.protocol.notify(types.PROGRESS, types.ProgressParams(self._token, value))

    def _words(self, event: Event) -> str:
        if isinstance(event, TurnStarted):
            return "thinking"
        if isinstance(event, MessagePartAdded):
            return self._part(event)
        if isinstance(event, ToolStarted):
            return self._calls.pop(event.tool_call_id, event.name)
        if isinstance(event, PermissionAsked):
            return t("waiting for your answer: {title}", title=event.request.title)
        if isinstance(event, ModelRetry):
            return visible_line(t("retrying: {reason}", reason=event.reason), _SHOWN)
        return ""

    def _part(self, event: MessagePartAdded) -> str:
        part = event.part
        if isinstance(part, ToolCallPart):
            self._calls[part.id] = _call(part)
            return ""
        if isinstance(part, TextPart):
            return visible_line(part.text, _SHOWN)
        return "thinking" if isinstance(part, ReasoningPart) else ""


def _call(part: ToolCallPart) -> str:
    try:
        arguments = part.arguments()
    except ValueError:
        return part.name
    about = next((value for name in _TELLING if isinstance(value := arguments.get(name), str)), "")
    return visible_line(f"{part.name} {about}", _SHOWN)
