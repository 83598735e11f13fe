"""Models that attached editors offer: those of other extensions, through VS Code's language model API.

The daemon asks an editor for an answer with one message, and the editor sends the answer in pieces. Whether more is
wanted stands in the reply to each piece, so an editor sends no faster than the daemon takes. Foreign extensions write
the answers: their size is limited here, and an answer is only taken from the editor that was asked.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from pydantic import Field

from daemon.model.stored_model import Count, Model
from daemon.provider.model_calls import ProviderError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

EDITOR = "GOALWRIGHT_EDITOR"
"""The variable in a request's environment that names the editor whose user sent the prompt. The daemon sets it: it is
no provider variable, so clients cannot."""
HOST = "VS Code"
"""For messages."""
RETURN_S = 20.0
"""Seconds for which a call waits for an editor that has just left: a window that is reloaded comes back."""
_MAX_PIECE = 4_000_000
"""Most characters of one piece of an answer."""
_MAX_WAITING = 8_000_000
"""Characters of one answer that may wait to be read."""


class EditorModel(Struct, frozen=True):
    """A model that an editor offers."""

    name: str
    """``VENDOR/ID``."""
    label: str
    """Its name for people; any text."""
    window: int
    """Tokens that it takes; 0: not known."""
    tools: bool = True
    """It can call tools, as far as the editor knows."""


class AnswerPiece(Model):
    """More of an answer: text, reasoning, or a whole tool call."""

    text: str = Field(default="", max_length=_MAX_PIECE)
    reasoning: str = Field(default="", max_length=_MAX_PIECE)
    call_id: str = Field(default="", max_length=1_000)
    call_name: str = Field(default="", max_length=1_000)
    """Name of the tool; empty: no call."""
    call_input: str = Field(default="", max_length=_MAX_PIECE)
    """Its arguments, as JSON."""

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.text) + len(self.reasoning) + len(self.call_name) + len(self.call_input)


class AnswerEnding(Model):
    """The end of an answer."""

    error: str = Field(default="", max_length=100)
    """Name of the error that ended it: ``NoPermissions``, ``NotFound``, ``Blocked``, ``OffTopic``, or another one;
    empty: it is complete."""
    message: str = Field(default="", max_length=10_000)
    input_tokens: Count | None = None
    """As the model's extension counts them; null: not known."""
    output_tokens: Count | None = None


class ModelEditor(Struct, frozen=True):
    """An attached editor with models."""

    models: Callable[[], Awaitable[tuple[EditorModel, ...]]]
    """Return the models that it offers now. Raises NotAnsweredError."""
    ask: Callable[[str, str, Sequence[dict[str, Any]], Sequence[dict[str, Any]]], Awaitable[None]]
    """Have a model answer: the id of the chat, the model (``VENDOR/ID``), messages and tools in the shape of OpenAI's
    chat API."""
    cancel: Callable[[str], None]
    """Report that nothing more of the answer in this chat is wanted."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Unique in the process."""


class ChatAnswer:
    """One answer on its way."""

    def __init__(self, editor: ModelEditor) -> None:
        self.id = secrets.token_hex(8)
        self.editor = editor
        self.ended = False
        """The editor has nothing more to say."""
        self._arrived: asyncio.Queue[tuple[AnswerPiece, ...] | AnswerEnding | None] = asyncio.Queue()
        self._waiting = 0

    async def items(self, silence_s: float) -> AsyncGenerator[AnswerPiece | AnswerEnding]:
        """Yield the pieces, and the ending last. Raises ProviderError when the editor leaves, or is silent for so
        long."""
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    arrived = await self._arrived.get()
            except TimeoutError:
                raise ProviderError(
                    "network", t("The model in VS Code does not answer. Try again, or choose another model.")
                ) from None
            if arrived is None:
                raise ProviderError(
                    "network",
                    t("The VS Code window that was asked has closed. Open it again, and continue the turn."),
                    retryable=True,
                )
            if isinstance(arrived, AnswerEnding):
                yield arrived
                return
            for piece in arrived:
                self._waiting -= piece.size
                yield piece

    def take(self, pieces: tuple[AnswerPiece, ...], ending: AnswerEnding | None) -> None:
        """Add what an editor sent. Raises ValueError when it sends faster than its pieces are read."""
        if self.ended:
            return
        self._waiting += sum(piece.size for piece in pieces)
        if self._waiting > _MAX_WAITING:
            raise ValueError("too much of the answer waits to be read")
        if pieces:
            self._arrived.put_nowait(pieces)
        if ending is not None:
            self.ended = True
            self._arrived.put_nowait(ending)

    def left(self) -> None:
        """The editor has gone."""
        if not self.ended:
            self.ended = True
            self._arrived.put_nowait(None)


class EditorModels(Struct):
    """All attached editors with models, and the answers on their way."""

    clock: Callable[[], float] = time.monotonic
    return_s: float = RETURN_S
    _editors: dict[str, ModelEditor] = field(default_factory=dict[str, ModelEditor])
    _chats: dict[str, ChatAnswer] = field(default_factory=dict[str, ChatAnswer])
    _left_at: float | None = None
    _expected: set[asyncio.Future[None]] = field(default_factory=set["asyncio.Future[None]"])

    def came(self, editor: ModelEditor) -> None:
        """An editor has attached."""
        self._editors[editor.id] = editor
        for waiting in self._expected:
            if not waiting.done():
                waiting.set_result(None)

    def left(self, editor_id: str) -> None:
        """It has gone: its answers end."""
        if self._editors.pop(editor_id, None) is None:
            return
        self._left_at = self.clock()
        for chat in self._chats.values():
            if chat.editor.id == editor_id:
                chat.left()

    def editor(self, env: Mapping[str, str]) -> ModelEditor | None:
        """Return the editor that the environment names, else the one that came first; None when there is none."""
        return self._editors.get(env.get(EDITOR, "")) or next(iter(self._editors.values()), None)

    async def awaited(self, env: Mapping[str, str]) -> ModelEditor | None:
        """Return the editor to ask. Waits a moment for one that has just left, because a window may be reloading."""
        if (found := self.editor(env)) is not None or self._left_at is None:
            return found
        patience = self._left_at + self.return_s - self.clock()
        if patience <= 0:
            return None
        waiting = asyncio.get_running_loop().create_future()
        self._expected.add(waiting)
        try:
            await asyncio.wait({waiting}, timeout=patience)
        finally:
            self._expected.discard(waiting)
        return self.editor(env)

    def begin(self, editor: ModelEditor) -> ChatAnswer:
        """Return a new answer, which the editor may send pieces of until ``finish``."""
        chat = ChatAnswer(editor)
        self._chats[chat.id] = chat
        return chat

    def finish(self, chat: ChatAnswer) -> None:
        """Nothing more of it is wanted."""
        if self._chats.pop(chat.id, None) is not None and not chat.ended:
            chat.ended = True
            chat.editor.cancel(chat.id)

    def take(
        self,
        editor_id: str,
        chat_id: str,
        pieces: tuple[AnswerPiece, ...],
        ending: AnswerEnding | None = None,
    ) -> bool:
        """Take pieces of an answer from an editor. Returns whether more of it is wanted. Raises ValueError."""
        chat = self._chats.get(chat_id)
        if chat is None or chat.editor.id != editor_id:
            return False
        chat.take(pieces, ending)
        return not chat.ended


EDITORS = EditorModels()
"""Those of this process, which is one daemon: the providers are shared by all sessions, too."""
