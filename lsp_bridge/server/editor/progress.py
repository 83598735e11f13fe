"""LSP's progress of one turn: what the agent does now, and cancel."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from daemon.model.events import Event, MessagePartAdded, ModelRetry, PermissionAsked, ToolStarted, TurnStarted
from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from lsp_bridge.server.editor.prompts import one_line
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from lsp_bridge.server.editor_server import EditorServer

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
