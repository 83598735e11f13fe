"""LSP's progress of one turn: what the agent does now, and cancel."""

from __future__ import annotations

import asyncio
import logging
import uuid
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from daemon.model.events import Event, MessagePartAdded, ModelRetry, PermissionAsked, ToolStarted, TurnStarted
from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from lsp_bridge.server.editor.prompts import one_line
from lsp_bridge.server.editor.show_text import ask
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from pygls.lsp.server import LanguageServer

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""For the client to make its progress bar; a client that does not answer gets none."""
_SHOWN = 120
_TELLING = ("file_path", "path", "pattern", "command", "description")
"""Arguments of tools that identify the subject of a call, the best first."""


class ProgressBar:
    """One progress bar, or none where the client can show none. Nothing waits for it."""

    def __init__(
        self,
        server: LanguageServer,
        token: types.ProgressToken | None,
        cancel: Callable[[], None],
        in_use: set[types.ProgressToken],
    ) -> None:
        """``in_use``: the tokens of this connection's other progress. One that a client uses twice is the first's."""
        self._server = server
        self._given = token
        self._cancel = cancel
        self._in_use = in_use
        self._token: types.ProgressToken | None = None
        self._said = ""
        self._ended: str | None = None
        self._making: asyncio.Task[None] | None = None
        self._calls: dict[str, str] = {}

    def begin(self, title: str, message: str) -> None:
        """Show it. The client's own token is used; else one is made, where the client can."""
        self._said = message
        if self._given is not None:
            if self._given not in self._in_use:
                self._expect_cancel(self._given)
                self._show(self._given, title)
            return
        window = self._server.client_capabilities.window
        if window is not None and window.work_done_progress:
            self._making = asyncio.create_task(self._make(title))

    async def _make(self, title: str) -> None:
        token = str(uuid.uuid4())
        self._expect_cancel(token)
        try:
            made = types.WorkDoneProgressCreateParams(token)
            await ask(self._server, types.WINDOW_WORK_DONE_PROGRESS_CREATE, made, _PATIENCE_S)
        except Exception as error:  # a client error, no answer, or a lost client: work continues
            log.info("no progress is shown: %s", error)
            self._tokens().pop(token, None)
            return
        self._show(token, title)
        if self._ended is not None:
            self.end(self._ended)

    def _show(self, token: types.ProgressToken, title: str) -> None:
        self._token = token
        self._in_use.add(token)
        self._server.work_done_progress.begin(
            token, types.WorkDoneProgressBegin(title=title, cancellable=True, message=self._said)
        )

    def follow(self, event: Event) -> None:
        """Say what happens now."""
        message = self._words(event)
        if message and message != self._said:
            self.say(message)

    def say(self, message: str) -> None:
        """Show a message."""
        self._said = message
        if self._token is not None:
            report = types.WorkDoneProgressReport(cancellable=True, message=message)
            self._server.work_done_progress.report(self._token, report)

    def end(self, message: str) -> None:
        """Take it away; once is enough."""
        if self._ended is None:
            self._ended = message
        token, self._token = self._token, None
        if token is not None:
            self._server.work_done_progress.end(token, types.WorkDoneProgressEnd(message=self._ended))
            self._forget(token)

    def drop(self) -> None:
        """Nobody looks any more."""
        if self._making is not None:
            self._making.cancel()
        token, self._token = self._token, None
        if token is not None:
            self._forget(token)

    def _forget(self, token: types.ProgressToken) -> None:
        self._tokens().pop(token, None)
        self._in_use.discard(token)

    def _expect_cancel(self, token: types.ProgressToken) -> None:
        """From now on: it can come as soon as the client knows the token."""
        canceled = self._tokens().setdefault(token, Future())
        canceled.add_done_callback(lambda future: self._cancel() if future.cancelled() else None)

    def _tokens(self) -> dict[types.ProgressToken, Future[Any]]:
        """Return pygls' futures, which the client cancels; their type does not include their content."""
        return self._server.work_done_progress.tokens  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

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
            return one_line(t("retrying: {reason}", reason=event.reason), _SHOWN)
        return ""

    def _part(self, event: MessagePartAdded) -> str:
        part = event.part
        if isinstance(part, ToolCallPart):
            self._calls[part.id] = _call(part)
            return ""
        if isinstance(part, TextPart):
            return one_line(part.text, _SHOWN)
        return "thinking" if isinstance(part, ReasoningPart) else ""


def _call(part: ToolCallPart) -> str:
    try:
        arguments = part.arguments()
    except ValueError:
        return part.name
    about = next((value for name in _TELLING if isinstance(value := arguments.get(name), str)), "")
    return one_line(f"{part.name} {about}", _SHOWN)
