"""One pygls language server per connection, over the shared daemon.

Standard LSP for what LSP has (so any LSP editor can attach), ``goalwright/…`` requests for the rest. Handlers validate
with the models of the protocol; every error of the client becomes a JSON-RPC error with a message.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import converters, types
from pydantic import ValidationError
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage

from daemon.gc_tuning import COLLECTOR
from daemon.model.events import Delta, Event, PermissionAsked, TraceCompleted, TurnEnded
from daemon.model.meters import Metered
from daemon.provider.editor_models import EDITORS
from daemon.provider.variables import is_cloud_variable, is_provider_variable
from lsp_bridge.protocol import sessions as p
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode, RequestError
from lsp_bridge.server.documents.attached_editors import AttachedEditors
from lsp_bridge.server.documents.sync import NOTEBOOKS, DocumentSync
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers, uri_in
from lsp_bridge.server.editor.editor_models import EditorWithModels
from lsp_bridge.server.editor.features import EditorFeatures
from lsp_bridge.server.editor.hunk_decisions import Decisions
from lsp_bridge.server.editor.sanitize import code_action_params
from lsp_bridge.server.requests.activity import Activity
from lsp_bridge.server.requests.request_context import ClientState, ModelChooser, RequestContext
from lsp_bridge.server.requests.router import REQUESTS, Requests
from tools.localization import set_language, t
from tools.text.validation import wrong_values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    import cattrs

    from daemon.api.lazy_server import LazyApiServer
    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.traces import ViewUpdate

log = logging.getLogger(__name__)

_TICK_S = 0.008
"""Seconds that a notification waits for others: half a frame of a screen."""
_SLOW_CLIENT = 512 * 1024
"""Bytes waiting for a client above which deltas are dropped for it."""
_WAITED_FOR = (PermissionAsked, TurnEnded, TraceCompleted)
"""Events that a client acts on: they are not held back."""
_DEAD_CLIENT = 64 * 1024 * 1024
"""Unsent bytes above which a client is disconnected; it can reconnect and request the events that it missed."""
_OURS = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_EXECUTE_COMMAND,
    types.EXIT,
)
"""Methods that pygls would handle itself. It keeps documents in a slow store (see ``documents.sync``), hides the token
of a command's progress and cancels none, and ends the process on ``exit``, because it has one client
(https://github.com/openlawlibrary/pygls/issues/118)."""


@dataclass(slots=True)
class Bridge:
    """The state that connections share."""

    version: str
    choose: ModelChooser
    decisions: Decisions = field(default_factory=Decisions)
    """Decisions hunk by hunk in any of the editors."""
    editors: AttachedEditors = field(default_factory=AttachedEditors)
    """Open documents of all editors."""
    peers: EditorPeers = field(default_factory=EditorPeers)
    """Editors that share their extensions' diagnostics."""
    clients: list[ClientState] = field(default_factory=list[ClientState])
    """The states of all attached clients."""

    def trusts(self, listed: bool) -> bool:
        """Return whether the workspace's own programs may be started; ``listed``: by the user's list of trusted
        folders.

        They are shared by all clients: one in restricted mode is enough to keep them from being started.
        """
        said = {client.options.trusted for client in self.clients} - {None}
        return False not in said and (listed or True in said)


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


class ClientServer:
    """Serves one connection. Not thread-safe: everything happens on the daemon's event loop."""

    def __init__(
        self,
        core: Daemon,
        bridge: Bridge,
        api: LazyApiServer,
        writer: asyncio.StreamWriter,
        stop: Callable[[], None],
    ) -> None:
        self._core = core
        self._bridge = bridge
        self._writer = writer
        self._frames = Frames(writer)
        self._client = ClientState()
        self._peer: EditorPeer | None = None
        self._held: list[tuple[Event | Delta | Metered, ViewUpdate | None]] = []
        """Updates that wait until the answer to a request that subscribed is on its way."""
        self._holds = 0
        """How many such answers there are."""
        self.closed = False
        self._initialized = False
        self._shut_down = False
        self._activity: Activity | None = None
        self._requests = Requests(
            RequestContext(
                core,
                self._client,
                api,
                choose=bridge.choose,
                subscribe=self._subscribe,
                stop=stop,
                version=bridge.version,
                clients=lambda: bridge.clients,
            )
        )
        self._server = LanguageServer(
            "goalwright",
            bridge.version,
            protocol_cls=_Protocol,
            converter_factory=converter,
            notebook_document_sync=NOTEBOOKS,
            max_workers=1,
        )
        self._server.protocol.set_writer(self._frames)
        self._editor = EditorFeatures(
            self._server, self._requests, bridge.decisions, lambda: self._documents.documents
        )
        self._documents = DocumentSync(
            self._server,
            bridge.editors,
            core,
            options=lambda: self._client.options,
            gone=lambda: self.closed or writer.is_closing(),
        )
        self._register()
        self._born = COLLECTOR.born()
        core.presence.client_attached()

    def handle(self, message: object) -> None:
        """Take one decoded message in."""
        if not isinstance(message, dict):
            self.refuse(None, -32600, "A message must be a JSON object; batches are not supported.")
            return
        fields = cast("dict[str, Any]", message)
        message_id, method = fields.get("id"), fields.get("method")
        if wrong := _malformed(fields):
            self.refuse(message_id, -32600, wrong)
            return
        if method is not None and method != "exit":
            if self._shut_down:
                if message_id is not None:
                    self.refuse(message_id, -32600, "This connection was shut down: send `exit`.")
                return
            if method != "initialize" and not self._initialized:
                if message_id is not None:
                    self.refuse(message_id, -32002, "Send `initialize` first.")
                return
            self._shut_down = method == "shutdown"
            if self._shut_down:
                self._editor.leave()
        if method == types.TEXT_DOCUMENT_CODE_ACTION:
            # Check before each problem is converted into an object.
            fields = fields | {"params": code_action_params(fields.get("params"))}
        try:
            structured: Any = self._server.protocol.structure_message(fields)
        except Exception as error:
            # cattrs' errors are nested groups; the outermost text is what a client can use.
            self._documents.malformed(fields)
            self.refuse(message_id, ErrorCode.INVALID_PARAMS, f"{method or 'message'}: {error}")
            return
        try:
            self._server.protocol.handle_message(structured)
        except Exception:
            # The message only resembles JSON-RPC.
            log.exception("a message could not be handled")
            self.refuse(message_id, -32600, "The message is not valid JSON-RPC.")

    def refuse(self, message_id: object, code: int, text: str) -> None:
        """Answer with an error outside of any handler."""
        known = message_id if _is_id(message_id) else None
        message = {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": text}}
        # null is the wire's "no id", which pygls' types leave out; it has no public way to refuse such a message
        # either.
        self._server.protocol._send_data(message)  # pyright: ignore[reportPrivateUsage]

    def hang_up(self) -> None:
        """End the connection; the daemon keeps running."""
        self.closed = True
        self._frames.close()

    def gone(self) -> None:
        """Forget the ended connection; running work continues."""
        self.closed = True
        self._frames.flush()
        self._core.bus.unsubscribe(self._published)
        if self._activity is not None:
            self._activity.close()
        self._editor.close()
        self._documents.close()
        if self._peer is not None:
            self._bridge.peers.remove(self._peer)
        EDITORS.left(self._client.editor)
        self._bridge.clients = [client for client in self._bridge.clients if client is not self._client]
        self._core.mcp.withdraw(self._client)
        self._core.presence.client_left()
        COLLECTOR.died(self._born)

    # -- updates to the client --

    def _subscribe(self, session: Session) -> None:
        self._core.bus.subscribe(session.session_id, self._published)
        self._holds += 1
        loop = asyncio.get_running_loop()
        # The answer is sent by a callback that runs one round after the handler returns, so wait for two rounds.
        loop.call_soon(loop.call_soon, self._release)

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds:
            held, self._held = self._held, []
            for item in held:
                self._send(*item)

    def _published(self, item: Event | Delta | Metered) -> None:
        session = None if isinstance(item, Delta | Metered) else self._core.live(item.trace_id)
        view = None if session is None else session.record.view
        if self._holds:
            self._held.append((item, view))
        else:
            self._send(item, view)

    def _send(self, item: Event | Delta | Metered, view: ViewUpdate | None) -> None:
        if self.closed or self._writer.is_closing():
            return
        waiting = self._frames.waiting
        if not isinstance(item, Delta | Metered):
            if waiting > _DEAD_CLIENT:
                log.warning("hung up on %s: it does not read", self._client.options.client)
                self._writer.transport.abort()
                return
            self._notify(p.SessionUpdate(session_id=item.trace_id, event=item, view=view))
        elif waiting < _SLOW_CLIENT:
            if isinstance(item, Metered):
                self._notify(p.SessionMeter(session_id=item.trace_id, meter=item.meter))
            else:
                self._notify(p.SessionDelta(session_id=item.trace_id, delta=item))

    def _notify(self, told: p.Notification) -> None:
        if not (self.closed or self._writer.is_closing()):
            # Not by way of pygls, which looks at each value to find out how to encode it.
            message = {"jsonrpc": "2.0", "method": told.method, "params": told.wire()}
            body = json.dumps(message, separators=(",", ":")).encode()
            waited_for = isinstance(told, p.SessionUpdate) and isinstance(told.event, _WAITED_FOR)
            self._write(body, soon=not waited_for)

    def _write(self, body: bytes, *, soon: bool = False) -> None:
        """Send an encoded message, unless the client has gone."""
        if not (self.closed or self._writer.is_closing()):
            frame = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            (self._frames.write_soon if soon else self._frames.write)(frame)

    # -- handlers --

    def _register(self) -> None:
        server = self._server
        # Not by ``feature``, which evaluates the annotations of each handler, 3 ms for a connection.
        features = cast("dict[str, Any]", server.protocol.fm.features)  # pyright: ignore[reportUnknownMemberType]  # pygls'
        for method in REQUESTS:
            features[method] = _guarded(method, partial(self._requests.handle, method))
        self._editor.register(_guarded)

        @server.feature(types.INITIALIZE)
        def _(params: types.InitializeParams) -> None:
            self._initialize(params)

        @server.feature(types.EXIT)
        def _(params: None) -> None:
            self.hang_up()

    def _initialize(self, params: types.InitializeParams) -> None:
        raw = params.initialization_options
        try:
            options = p.InitializationOptions.model_validate(raw if isinstance(raw, dict) else {})
        except ValidationError as error:
            raise _wrong_params("initializationOptions", error) from None  # the error itself repeats keys
        if options.protocol_version != PROTOCOL_VERSION:
            raise JsonRpcException(
                message=(
                    t(
                        "The client uses protocol version {protocol_version}, this daemon "
                        "{protocol_version2}. Update the older one, then run `goalwright stop` once.",
                        protocol_version=options.protocol_version,
                        protocol_version2=PROTOCOL_VERSION,
                    )
                ),
                code=ErrorCode.INCOMPATIBLE,
            )
        self._client.options = options.model_copy(update={"env": {}})  # it may have keys of others
        self._bridge.clients.append(self._client)
        if options.chat and self._activity is None:
            self._activity = Activity(self._core, self._notify)
        self._client.there.unattended = options.unattended
        self._client.there.everywhere = not options.chat and _shows_lenses(params.capabilities)
        self._client.env.update({k: v for k, v in options.env.items() if is_provider_variable(k)})
        # SDKs look for these variables only here. Variables set at run time do not show in /proc/…/environ.
        os.environ.update({k: v for k, v in self._client.env.items() if is_cloud_variable(k)})
        self._initialized = True
        self._editor.initialized()
        if options.diagnostics and self._peer is None:
            self._peer = EditorPeer(options.client, self._server.protocol.send_request_async, self._uri_of)
            self._bridge.peers.add(self._peer)
        if options.language_models and not self._client.editor:
            editor = EditorWithModels(self._server.protocol.send_request_async, self._write)
            self._client.editor = editor.id
            EDITORS.came(editor)
        if "language" in options.settings:
            # The whole daemon has one language: that of the editor that connected last.
            set_language(self._requests.context.client_config().settings.daemon.language)

    def _uri_of(self, path: Path) -> str:
        documents, folders = self._documents.documents, self._server.workspace.folders
        return uri_in([document.uri for document in documents.at(path)], list(folders), path)


def _shows_lenses(capabilities: types.ClientCapabilities) -> bool:
    """Return whether the client shows Accept and Reject as code lenses, for requests of any session."""
    documents = capabilities.text_document
    return documents is not None and documents.code_lens is not None


def _is_id(value: object) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _malformed(message: Mapping[str, Any]) -> str:
    """Return why a message is not JSON-RPC, as text; empty when it is."""
    if message.get("jsonrpc") != "2.0":
        return 'A message must have "jsonrpc": "2.0".'
    if message.get("id") is not None and not _is_id(message["id"]):
        return "The id of a message must be a string or a number."
    if "method" in message:
        return "" if isinstance(message["method"], str) else "The method of a message must be a string."
    if "result" in message or "error" in message:
        return ""
    return "A message must have a method, or be the answer to a request."


def _guarded(method: str, call: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Any]:
    """Return ``call`` as a handler: errors of the client, and bugs, become JSON-RPC errors with a message."""

    async def handle(params: Any) -> Any:
        try:
            return await call(params)
        except RequestError as error:
            raise JsonRpcException(message=str(error), code=error.code) from error
        except ValidationError as error:
            raise _wrong_params(method, error) from None
        except Exception as error:
            log.exception("%s failed", method)
            name = error.__class__.__name__
            raise JsonRpcException(
                message=t("Goalwright has a bug ({name}); its log has the details.", name=name)
            ) from None

    return handle


def _wrong_params(what: str, error: ValidationError) -> JsonRpcException:
    """Describe the invalid params and where they are, without the values, which may be keys."""
    log.info("%s was refused: %s", what, [(one["loc"], one["type"]) for one in error.errors()])
    return JsonRpcException(
        message=t("Invalid params: {why}.", why=wrong_values(error)), code=ErrorCode.INVALID_PARAMS
    )


class _Protocol(LanguageServerProtocol):
    """pygls' protocol, with handlers of our own in the place of some of pygls'."""

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()
        for method in _OURS:
            del cast("dict[str, Any]", self.fm.builtin_features)[method]  # pyright: ignore[reportUnknownMemberType]  # pygls'

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
