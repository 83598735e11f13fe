"""pygls' server of one connection: requests to the editor, and what differs from pygls."""

from __future__ import annotations

import asyncio
import functools
import uuid
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import converters, types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    import cattrs


_TICK_S = 0.008
"""Seconds that a notification waits for others: half a frame of a screen."""


class Frames:
    """Collects messages and hands them to the connection together, in their order.

    Each piece wakes the client up, which then competes with us for the processor, several times in each step.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._held: list[bytes] = []
        self._size = 0
        self._due: asyncio.Handle | None = None
        self._soon = False

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._size + self._writer.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send whole messages in this round of the event loop, after those that wait."""
        self._hold(data)
        if not self._soon:
            if self._due is not None:
                self._due.cancel()
            self._due = asyncio.get_running_loop().call_soon(self.flush)
            self._soon = True

    def write_soon(self, data: bytes) -> None:
        """Send whole messages that nobody waits for."""
        self._hold(data)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_TICK_S, self.flush)

    def flush(self) -> None:
        """Send what there is now."""
        if self._due is not None:
            self._due.cancel()
        held, self._held, self._size, self._due, self._soon = self._held, [], 0, None, False
        if held and not self._writer.is_closing():
            self._writer.write(b"".join(held))

    def close(self) -> None:
        """Send what there is, and end the connection."""
        self.flush()
        self._writer.close()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)


class EditorLeftError(Exception):
    """The editor went away while it was asked."""


class EditorServer(LanguageServer):
    """The pygls server of one connection, over ``writer``."""

    def __init__(
        self, version: str, writer: asyncio.StreamWriter, notebooks: types.NotebookDocumentSyncOptions
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # pygls'
            "goalwright",
            version,
            protocol_cls=_Protocol,
            converter_factory=converter,
            notebook_document_sync=notebooks,
            max_workers=1,
        )
        self.frames = Frames(writer)
        self.gone = asyncio.Event()
        """Set when the connection has ended, and no answers will come."""
        self._writer = writer
        self.protocol.set_writer(self.frames)

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.gone.is_set() or self._writer.is_closing()

    async def ask(
        self,
        method: str,
        params: object,
        timeout_s: float | None = None,
        *,
        late: Callable[[asyncio.Future[Any]], object] | None = None,
    ) -> Any:
        """Return the editor's answer to a request. Raises TimeoutError, EditorLeftError, and the editor's errors.

        When the caller no longer needs the answer (cancellation, no answer in time), ``late`` gets it if it comes yet;
        without ``late``, the editor is notified. pygls' own future is never canceled: it could take no answer then.
        """
        message_id = str(uuid.uuid4())
        answer = asyncio.wrap_future(self.protocol.send_request(method, params, msg_id=message_id))
        answer.add_done_callback(_seen)
        try:
            await answer_or_end(answer, self.gone, timeout_s)
        finally:
            if not answer.done() and late is not None:
                answer.add_done_callback(late)
            elif not answer.done() and not self.gone.is_set():
                self.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=message_id))
        if answer.cancelled() or (self.gone.is_set() and not answer.done()):
            # pygls cancels its requests, too, when the client shuts down.
            raise EditorLeftError
        if not answer.done():
            raise TimeoutError
        return answer.result()


async def answer_or_end(
    asked: asyncio.Future[Any], gone: asyncio.Event, timeout_s: float | None = None
) -> None:
    """Wait until ``asked`` is done, the editor has ``gone``, or the time is over; ``asked`` is never canceled."""
    left = asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait({asked, left}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()


def _seen(answer: asyncio.Future[Any]) -> None:
    """Retrieve an error that nothing waits for."""
    if not answer.cancelled():
        answer.exception()


class _Protocol(LanguageServerProtocol):
    """pygls' protocol, with handlers of our own in the place of pygls' own."""

    def _get_handler(self, feature_name: str) -> Callable[[Any], Any]:
        """Prefer our handlers. pygls keeps documents in a slow store (see ``documents.sync``), hides the token of a
        command's progress and cancels none, and ends the process on ``exit``, because it has one client
        (https://github.com/openlawlibrary/pygls/issues/118). Its ``initialize`` calls ours.
        """
        ours = cast("dict[str, Any]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]  # pygls'
        if feature_name in ours and feature_name != types.INITIALIZE:
            return ours[feature_name]
        return super()._get_handler(feature_name)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Structure a message; an answer that does not fit becomes an error for its caller, who would wait forever
        otherwise."""
        try:
            return super().structure_message(data)
        except Exception as error:
            if "id" not in data or "method" in data:
                raise
            found = types.ResponseError(
                types.ErrorCodes.InvalidParams, f"the answer does not fit the protocol ({error})"
            )
            return types.ResponseErrorMessage(id=data["id"], error=found)

    # pygls has ``lru_cache`` on these two methods, which keeps hundreds of ended connections alive:
    # https://docs.python.org/3/faq/programming.html#how-do-i-cache-method-calls

    def get_message_type(  # pyright: ignore[reportIncompatibleVariableOverride]  # a method is what pygls calls
        self, method: str
    ) -> type[Any] | None:
        """Return the type of a method's message, if LSP has the method."""
        if method == types.TEXT_DOCUMENT_CODE_ACTION:
            return None  # each of its problems is checked by itself, before it is converted into an object
        return types.METHOD_TO_TYPES.get(method, (None,))[0]

    def get_result_type(  # pyright: ignore[reportIncompatibleVariableOverride]  # a method is what pygls calls
        self, method: str
    ) -> type[Any] | None:
        """Return the type of a method's answer, if LSP has the method."""
        return types.METHOD_TO_TYPES.get(method, (None, None))[1]


@functools.cache
def converter() -> cattrs.Converter:
    """Return the converter of all connections; making one takes 50 ms and 0.2 MB.

    It is pygls' own, except that params and results of our own methods stay unchanged, in both directions.
    """
    made = converters.get_converter()

    def keep_fields(value: Any, cls: type[Any]) -> Any:
        fields = {name: value.get(name) for name in ("id", "method", "jsonrpc", "params", "result")}
        names = [attribute.name for attribute in cls.__attrs_attrs__]
        return cls(**{name: fields[name] for name in names})

    def fields_alone(message: Any) -> dict[str, Any]:
        # pygls receives non-JSON values in them one by one, from the encoder.
        return {attribute.name: getattr(message, attribute.name) for attribute in message.__attrs_attrs__}

    for cls in (JsonRPCRequestMessage, JsonRPCNotification, JsonRPCResponseMessage):
        made.register_structure_hook(cls, keep_fields)
        made.register_unstructure_hook(cls, fields_alone)
    return made
