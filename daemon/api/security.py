"""Access control of the API: the caller may use it, at an address of this server, and not from a page of another site.

``Host`` is checked because another name can be made to resolve to our address (DNS rebinding). ``Origin`` is checked
because any page may open a WebSocket. Who may use it is for an ``ApiAccess`` to say: ``RequiredAccess`` of a daemon
here, ``daemon.api.team_access`` of a shared server.
"""

from __future__ import annotations

import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from urllib.parse import parse_qsl, unquote

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_QUERY = 4096
MAX_PATH = 2048
MAX_HEADERS = 16 * 1024
"""Bytes."""

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine."""
_SECURE = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
"""Headers of every response; the page has a policy of its own."""


class ApiAccess(ABC):
    """The rules of one server: who may send requests, and to which addresses."""

    url: str
    """The address to use, without a slash at its end."""
    authorities: frozenset[str]
    """The accepted values of ``Host``."""
    origins: frozenset[str]
    """The accepted values of ``Origin``."""
    sources: tuple[str, ...]
    """Sources of the page's WebSockets for its content security policy."""
    token: str = ""
    """The token in the addresses of the page's files; empty: they need none."""

    def takes(self, method: str, path: str) -> bool:
        """Return whether a request with a method other than GET is meant. The API is read-only."""
        return False

    @abstractmethod
    async def refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is rejected that names one of our addresses; None: it is let in."""

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer a request that was let in."""
        await app(scope, receive, send)


class RequiredAccess(ApiAccess):
    """The credentials and addresses that a request to a daemon must present.

    The token is required for every path, including the page and its files. There is no cookie, because cookies are
    shared by all ports of a machine.
    """

    def __init__(self, token: str, port: int) -> None:
        """``port``: ``Host`` (and an ``Origin``) must name it, with 127.0.0.1, localhost or [::1] before it."""
        self.token = token
        self.url = f"http://127.0.0.1:{port}"
        with_port = {f"{host}:{port}" for host in HOSTS}
        self.authorities = frozenset(with_port | set(HOSTS) if port == 80 else with_port)
        self.origins = frozenset(f"http://{host}" for host in self.authorities)
        # Policies do not support addresses in brackets: browsers report them on the console and ignore the source.
        self.sources = tuple(f"ws://{host}:{port}" for host in HOSTS if "[" not in host)

    def is_token(self, shown: str) -> bool:
        """Compare the token in constant time."""
        return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), self.token.encode())

    async def refusal(self, scope: Scope) -> Refusal | None:
        """Refuse a request without the token."""
        if self._has_token(scope["headers"], scope["query_string"]):
            return None
        return Refusal(
            401,
            "A token is needed: send `Authorization: Bearer TOKEN`, or add ?token=TOKEN. "
            "`goalwright trace page` prints the address with it.",
            BEARER,
        )

    def _has_token(self, headers: Iterable[tuple[bytes, bytes]], query: bytes) -> bool:
        shown = bearer_tokens(headers)
        try:
            pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return False
        shown += [value for name, value in pairs if name == "token"]
        # All tokens of a request must be valid, because it is unclear which of several counts.
        return bool(shown) and all([self.is_token(token) for token in shown])


class LockedPage(Struct, frozen=True):
    """HTML for a browser that comes without a token."""

    body: bytes
    policy: bytes
    """Its content security policy."""


class Refusal(Struct, frozen=True):
    """Why a request is not let in."""

    status: int
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


BEARER = ((b"www-authenticate", b'Bearer realm="goalwright"'),)
"""Headers of an answer to a request without a valid token."""


UNREACHABLE = "The database cannot be reached now. Try again in a moment."
"""Without the reason, which names hosts and is in the log."""


class SecurityMiddleware:
    """Middleware around the application: admits allowed requests, and makes responses safe for browsers."""

    def __init__(
        self,
        app: ASGIApp,
        access: ApiAccess,
        locked: LockedPage | None = None,
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """``asked``: called for each request that is let in."""
        self._app = app
        self._access = access
        self._hosts = access.authorities
        self._origins = access.origins
        self._locked = locked
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        scope, authority = _in_origin_form(scope)
        refusal = (
            self._refusal(scope, authority) or await self._access.refusal(scope) or self._unwanted(scope)
        )
        if refusal is None:
            self._asked()
            await self._access.serve(
                self._app, scope, receive, _secured(send) if scope["type"] == "http" else send
            )
        elif scope["type"] == "http":
            await self._refuse(scope, _secured(send), refusal, "http.response")
        else:
            await self._refuse_websocket(scope, receive, send, refusal)

    def _refusal(self, scope: Scope, authority: str | None) -> Refusal | None:
        """Return why a request is rejected. ``authority``: named by the request line beside ``Host``; both must be
        ours."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = _values(headers, b"host")
        named = [*hosts, authority] if authority is not None else hosts
        # Another Host is a name that was made to resolve to this machine, so reveal nothing more.
        if len(hosts) != 1 or any(host.lower() not in self._hosts for host in named):
            return Refusal(403, f"Use the API by its own address: {self._access.url}.")
        origins = _values(headers, b"origin")
        if any(origin.lower() not in self._origins for origin in origins):
            return Refusal(403, "Pages of other sites may not use this API.")
        query: bytes = scope["query_string"]
        if len(query) > MAX_QUERY:
            return Refusal(414, f"The query has {len(query)} bytes; at most {MAX_QUERY}.")
        if len(scope["path"].encode(errors="replace")) > MAX_PATH:
            return Refusal(414, f"The path is longer than {MAX_PATH} bytes.")
        if sum(len(name) + len(value) for name, value in headers) > MAX_HEADERS:
            return Refusal(431, f"The headers are longer than {MAX_HEADERS} bytes.")
        return None

    def _unwanted(self, scope: Scope) -> Refusal | None:
        """Return why a request of somebody who may send some is none that the API takes."""
        if scope["type"] != "http":
            return None
        method, headers = scope["method"], scope["headers"]
        if method != "GET":
            if not self._access.takes(method, scope["path"]):
                return Refusal(405, "The API is read-only: use GET.", ((b"allow", b"GET"),))
            # A page of another site cannot set this header.
            if not (_values(headers, b"origin") or _values(headers, b"authorization")):
                return Refusal(403, "This request must name its origin.")
            return None
        lengths = _values(headers, b"content-length")
        if any(length.strip() != "0" for length in lengths) or _values(headers, b"transfer-encoding"):
            # The body is not read, so the connection cannot be used again.
            return Refusal(413, "A GET request must not have a body here.", ((b"connection", b"close"),))
        return None

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal, kind: str) -> None:
        accepts = b",".join(value for name, value in scope["headers"] if name == b"accept")
        body = json.dumps({"detail": refusal.detail}).encode()
        headers = [(b"content-type", b"application/json"), *refusal.headers]
        if refusal.status == 401 and self._locked is not None and b"text/html" in accepts:
            body = self._locked.body
            headers = [(b"content-type", b"text/html; charset=utf-8"), *refusal.headers]
            headers.append((b"content-security-policy", self._locked.policy))
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
        await send({"type": f"{kind}.body", "body": body})

    async def _refuse_websocket(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
        await receive()  # websocket.connect
        if "websocket.http.response" in scope.get("extensions", {}):
            await self._refuse(scope, send, refusal, "websocket.http.response")
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})


def _in_origin_form(scope: Scope) -> tuple[Scope, str | None]:
    """Return a request as most clients send it, and the authority of one whose line has the whole address.

    Servers have to take those, too (RFC 9112, 3.2.2: the absolute form).
    """
    raw: bytes = scope.get("raw_path") or b""
    scheme, slashes, rest = raw.partition(b"://")
    if not slashes or scheme.lower() != b"http":
        return scope, None
    authority, slash, path = rest.partition(b"/")
    raw = slash + path or b"/"
    asked = {**scope, "raw_path": raw, "path": unquote(raw.decode("latin-1"))}
    return asked, authority.decode("latin-1")


def bearer_tokens(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return the tokens in headers; an empty one for credentials of another kind."""
    shown: list[str] = []
    for value in _values(headers, b"authorization"):
        scheme, _, token = value.partition(" ")
        shown.append(token.strip() if scheme.lower() == "bearer" else "")
    return shown


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for found, value in headers if found == name]


def _secured(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            there = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in _SECURE.items() if name not in there]
            message = {**message, "headers": headers}
        await send(message)

    return secured
