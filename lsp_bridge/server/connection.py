"""One pygls language server per connection, over the shared daemon.

Standard LSP for what LSP has (so any LSP editor can attach), ``goalwright/…`` requests for the rest. Handlers validate
with the models of the protocol; every error of the client becomes a JSON-RPC error with a message.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from msgspec import Struct, field
from pydantic import ValidationError
from pygls.exceptions import JsonRpcException

from daemon.gc_tuning import COLLECTOR
from daemon.model.events import Delta, Event, PermissionAsked, TraceCompleted, TurnEnded
from daemon.model.meters import Metered
from daemon.provider.editor_models import EDITORS
from daemon.provider.memo import Latest
from daemon.provider.variables import is_cloud_variable, is_provider_variable
from lsp_bridge.framing import frame
from lsp_bridge.protocol import sessions as p
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode, RequestError
from lsp_bridge.server.documents.attached_editors import AttachedEditors
from lsp_bridge.server.documents.sync import NOTEBOOKS, DocumentSync
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers, editor_with_models, uri_in
from lsp_bridge.server.editor.features import EditorFeatures
from lsp_bridge.server.editor.lenses import Decisions
from lsp_bridge.server.editor_server import EditorServer
from lsp_bridge.server.requests.request_context import ClientState, ModelChooser, RequestContext
from lsp_bridge.server.requests.router import REQUESTS, Requests
from lsp_bridge.server.requests.sessions import Activity
from tools.localization import set_language, t
from tools.text.validation import wrong_values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from daemon.api.lazy_server import LazyApiServer
    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.traces import ViewUpdate

log = logging.getLogger(__name__)

_SLOW_CLIENT = 512 * 1024
"""Bytes waiting for a client above which deltas are dropped for it."""
_WAITED_FOR = (PermissionAsked, TurnEnded, TraceCompleted)
"""Events that a client acts on: they are not held back."""
_DEAD_CLIENT = 64 * 1024 * 1024
"""Unsent bytes above which a client is disconnected; it can reconnect and request the events that it missed."""
_LAST_ANSWERS_S = 0.3
"""Seconds that ``shutdown`` waits for answers to earlier requests. One to a prompt takes as long as its turn."""


class Bridge(Struct):
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
    newest: Latest[bytes] = field(default_factory=Latest[bytes])
    """The encoded newest update, which all clients of its session are sent."""

    def trusts(self, listed: bool) -> bool:
        """Return whether the workspace's own programs may be started; ``listed``: by the user's list of trusted
        folders.

        They are shared by all clients: one in restricted mode is enough to keep them from being started.
        """
        said = {client.options.trusted for client in self.clients} - {None}
        return False not in said and (listed or True in said)


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
        self._client = ClientState()
        self._peer: EditorPeer | None = None
        self._held: list[tuple[Event | Delta | Metered, ViewUpdate | None]] = []
        """Updates that wait until the answer to a request that subscribed is on its way."""
        self._holds = 0
        """How many such answers there are."""
        self._answering = set[asyncio.Task[Any]]()
        """Tasks of Goalwright's own requests that have no answer yet."""
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
                unsubscribe=lambda session_id: core.bus.leave(session_id, self._published),
                stop=stop,
                version=bridge.version,
                clients=lambda: bridge.clients,
            )
        )
        self._server = EditorServer(bridge.version, writer, NOTEBOOKS)
        self._frames = self._server.frames
        self._editor = EditorFeatures(
            self._server, self._requests, bridge.decisions, lambda: self._documents.documents
        )
        self._documents = DocumentSync(
            self._server, bridge.editors, core, options=lambda: self._client.options
        )
        self._register()
        self._born = COLLECTOR.born()
        core.presence.client_attached()

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._server.gone.is_set()

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
        # pygls has no public way to refuse a message, and its types leave out null, the wire's "no id".
        self._write(json.dumps(message).encode())

    def hang_up(self) -> None:
        """End the connection; the daemon keeps running."""
        self._server.gone.set()
        self._frames.close()

    def gone(self) -> None:
        """Forget the ended connection; running work continues."""
        self._server.gone.set()
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
        if self._server.is_gone:
            return
        waiting = self._frames.waiting
        stored = not isinstance(item, Delta | Metered)
        if stored and waiting > _DEAD_CLIENT:
            log.warning("hung up on %s: it does not read", self._client.options.client)
            self._writer.transport.abort()
        elif stored or waiting < _SLOW_CLIENT:
            body = self._bridge.newest.get(lambda: _encoded(_update(item, view)), same=(item, view))
            self._write(body, soon=not isinstance(item, _WAITED_FOR))

    def _notify(self, told: p.Notification) -> None:
        self._write(_encoded(told), soon=True)

    def _write(self, body: bytes, *, soon: bool = False) -> None:
        """Send an encoded message, unless the client has gone."""
        if not self._server.is_gone:
            (self._frames.write_soon if soon else self._frames.write)(frame(body))

    # -- handlers --

    def _register(self) -> None:
        server = self._server
        # Not by ``feature``, which evaluates the annotations of each handler, 3 ms for a connection.
        features = cast("dict[str, Any]", server.protocol.fm.features)  # pyright: ignore[reportUnknownMemberType]  # pygls'
        for method in REQUESTS:
            features[method] = _guarded(method, partial(self._answer, method))
        self._editor.register(_guarded)

        @server.feature(types.INITIALIZE)
        def _(params: types.InitializeParams) -> None:
            self._initialize(params)

        @server.feature(types.SHUTDOWN)
        async def _(params: None) -> None:
            # Then pygls cancels the others. A window connects again when a setting changes, and is still asking.
            if self._answering:
                await asyncio.wait(self._answering, timeout=_LAST_ANSWERS_S)

        @server.feature(types.EXIT)
        def _(params: None) -> None:
            self.hang_up()

    async def _answer(self, method: str, params: object) -> dict[str, Any]:
        """Answer one of Goalwright's own requests. pygls runs each handler as a task."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._answering.add(task)
        try:
            return await self._requests.handle(method, params)
        finally:
            self._answering.discard(task)

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
        self._client.sees_all = not options.chat and _shows_lenses(params.capabilities)
        self._client.env.update({k: v for k, v in options.env.items() if is_provider_variable(k)})
        # SDKs look for these variables only here. Variables set at run time do not show in /proc/…/environ.
        os.environ.update({k: v for k, v in self._client.env.items() if is_cloud_variable(k)})
        self._initialized = True
        self._editor.initialized()
        if options.diagnostics and self._peer is None:
            self._peer = EditorPeer(options.client, self._server.ask, self._uri_of)
            self._bridge.peers.add(self._peer)
        if options.language_models and not self._client.editor:
            editor = editor_with_models(self._server.ask, self._write)
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


def _update(item: Event | Delta | Metered, view: ViewUpdate | None) -> p.Notification:
    """Return the notification for clients that show a session."""
    if isinstance(item, Metered):
        return p.SessionMeter(session_id=item.trace_id, meter=item.meter)
    if isinstance(item, Delta):
        return p.SessionDelta(session_id=item.trace_id, delta=item)
    return p.SessionUpdate(session_id=item.trace_id, event=item, view=view)


def _encoded(told: p.Notification) -> bytes:
    # Not by way of pygls, which looks at each value to find out how to encode it.
    message = {"jsonrpc": "2.0", "method": told.method, "params": told.wire()}
    return json.dumps(message, separators=(",", ":")).encode()


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
