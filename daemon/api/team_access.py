"""Access to a shared server: every user has a token, sent in a header or, by browsers, in a cookie.

The page's files are for everybody, because nothing of a session is in them. All other paths need a token, so a new
route is closed until somebody opens it here. Scripts of the page cannot read the cookie, other sites cannot have it
sent, and addresses never hold a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from daemon.api.address import ApiError
from daemon.api.security import BEARER, HOSTS, UNREACHABLE, ApiAccess, Refusal, bearer_tokens
from daemon.store.trace_store import StoreError, UnreachableError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from daemon.store.sql.tokens import TokenGrant

log = logging.getLogger(__name__)

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_OPEN = re.compile(r"/|/page/[a-z0-9_.-]+|/sign-in|/sign-out")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REMEMBERED_S = 5.0
"""How long a token that was valid counts as valid without a look at the database."""
_MOST_REMEMBERED = 1000
_LOOKS_S = 15.0
"""How often the token of an open WebSocket is looked at."""
_WINDOW_S = 60.0
_FREE = 3
"""Wrong tokens within a minute that are answered at once."""
_LONGEST_S = 5.0
_MOST_WAITING = 32
"""Wrong tokens whose answers wait; others are answered at once: connections must not run out."""
_LONGEST_COOKIE_S = 30 * 86_400


class TeamPlace(Struct, frozen=True):
    """Where a shared server is reached."""

    url: str
    """The address that browsers use, without a slash at its end."""
    port: int
    """On which it listens."""

    @property
    def secure(self) -> bool:
        """Whether browsers reach it over TLS."""
        return self.url.startswith("https:")

    @property
    def authorities(self) -> frozenset[str]:
        """The accepted values of ``Host``: of the public address, and of this machine."""
        scheme, _, authority = self.url.partition("://")
        with_port = {f"{host}:{self.port}" for host in HOSTS}
        default = _DEFAULT_PORTS[scheme]
        if authority.endswith(f":{default}"):
            authority = authority.removesuffix(f":{default}")
        named = {authority} if re.search(r":\d+$", authority) else {authority, f"{authority}:{default}"}
        return frozenset(with_port | named)

    @property
    def origins(self) -> frozenset[str]:
        """The accepted values of ``Origin``."""
        here = {f"http://{host}:{self.port}" for host in HOSTS}
        scheme, _, authority = self.url.partition("://")
        return frozenset(here | {f"{scheme}://{authority.removesuffix(f':{_DEFAULT_PORTS[scheme]}')}"})

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources of the page's WebSockets."""
        # Policies do not support addresses in brackets.
        hosts = [origin for origin in sorted(self.origins) if "[" not in origin]
        return tuple(re.sub("^http", "ws", origin) for origin in hosts)


def public_place(url: str | None, host: str, port: int, *, plain: bool) -> TeamPlace:
    """Return where a server is that listens on a host and port. ``plain``: tokens may travel without TLS.

    Raises ApiError for an address that would be no safe one.
    """
    here = host if ":" not in host else f"[{host}]"
    is_local = here in HOSTS
    if url is None:
        if is_local:
            return TeamPlace(f"http://{here}:{port}", port)
        raise ApiError(
            t(
                "{host} is an address that others reach. Say with --public-url how they do, e.g. "
                "--public-url https://traces.example.com behind a reverse proxy with TLS.",
                host=host,
            )
        )
    with contextlib.suppress(ValueError):
        found = urlsplit(url)
        if (
            found.scheme in _DEFAULT_PORTS
            and found.hostname
            and re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", found.netloc)
            and found.port != 0
            and found.path in ("", "/")
            and not found.query
            and not found.fragment
        ):
            public = f"{found.scheme}://{found.netloc.lower()}"
            name = found.hostname if ":" not in found.hostname else f"[{found.hostname}]"
            if found.scheme == "http" and name not in HOSTS and not plain:
                raise ApiError(
                    t(
                        "{url} has no TLS, so everybody on the way can read tokens and sessions. Use https://, or add "
                        "--plain-http in a network that you trust.",
                        url=public,
                    )
                )
            return TeamPlace(public, port)
    raise ApiError(t("{url!a} is not an address such as https://traces.example.com.", url=url))


class Brake:
    """Slows down answers to wrong tokens. Right ones are never slowed down, so nobody can keep others out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=100)
        self._waiting = 0

    def failed(self) -> float | None:
        """Count a wrong token; returns the seconds that its answer waits, or None: too many wait already."""
        now = self._clock()
        while self._failures and now - self._failures[0] > _WINDOW_S:
            self._failures.popleft()
        self._failures.append(now)
        if self._waiting >= _MOST_WAITING:
            return None
        return (
            min(_LONGEST_S, 0.25 * 2 ** (len(self._failures) - _FREE)) if len(self._failures) > _FREE else 0.0
        )

    async def slow_down(self) -> bool:
        """Count a wrong token and wait; returns False when too many wait already."""
        wait_s = self.failed()
        if wait_s is None:
            return False
        self._waiting += 1
        try:
            await asyncio.sleep(wait_s)
        finally:
            self._waiting -= 1
        return True


class TeamAccess(ApiAccess):
    """The users of a shared server. Use it on the event loop."""

    def __init__(
        self,
        place: TeamPlace,
        check: Callable[[str], Awaitable[TokenGrant | None]],
        brake: Brake | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``check``: what a token allows now, None: nothing; raises StoreError."""
        self.place = place
        self.url = place.url
        self.authorities = place.authorities
        self.origins = place.origins
        self.sources = place.sources
        # Browsers refuse a cookie of this name that a page of another site, or one without TLS, tries to set.
        self._cookie = "__Host-goalwright" if place.secure else f"goalwright-{place.port}"
        self._check = check
        self.brake = brake or Brake()
        self._clock = clock
        self._fails = False
        self._looking: dict[str, asyncio.Task[TokenGrant | None]] = {}
        self._remembered: OrderedDict[str, tuple[float, TokenGrant]] = OrderedDict()

    def takes(self, method: str, path: str) -> bool:
        """Signing in and out, and deleting a session."""
        if method == "DELETE":
            return path.startswith("/api/traces/")
        return method == "POST" and path in (SIGN_IN, SIGN_OUT)

    async def refusal(self, scope: Scope) -> Refusal | None:
        """Refuse a request without a valid token to all but the page's files; note the user of others."""
        if scope["type"] == "http" and _OPEN.fullmatch(scope["path"]):
            return None
        token = self._shown(scope["headers"])
        if token is None:
            return Refusal(401, "Sign in, or send `Authorization: Bearer TOKEN`.", BEARER)
        found = await self.signed_in(token)
        if isinstance(found, Refusal):
            return found
        scope.setdefault("state", {})["grant"] = found
        return None

    async def signed_in(self, token: str) -> TokenGrant | Refusal:
        """Return what a token allows, or why a request with it is rejected, which takes its time."""
        try:
            grant = await self._grant(token)
        except UnreachableError:
            return Refusal(503, UNREACHABLE)
        except StoreError:
            return Refusal(500, "Tokens cannot be read. The log of the server says more.")
        if grant is not None:
            return grant
        if not await self.brake.slow_down():
            return Refusal(429, "Too many wrong tokens. Try again later.", ((b"retry-after", b"60"),))
        return Refusal(401, "This token is not valid, or no longer. Ask for a new one.", BEARER)

    def cookie(self, grant: TokenGrant, token: str, now_s: float) -> str:
        """Return the header with which a browser keeps a token, as long as it is valid and a month at most."""
        left = _LONGEST_COOKIE_S
        if grant.expires_at is not None:
            left = min(left, int(grant.expires_at.timestamp() - now_s))
        return self._header(token, left)

    def no_cookie(self) -> str:
        """Return the header with which a browser forgets its token."""
        return self._header("", 0)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer; a WebSocket ends when its token is no longer valid."""
        if scope["type"] != "websocket":
            await app(scope, receive, send)
            return
        token = self._shown(scope["headers"]) or ""
        served = asyncio.ensure_future(app(scope, receive, send))
        over = asyncio.create_task(self._until_over(token))
        try:
            await asyncio.wait((served, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_served = served.done()
            served.cancel()
            over.cancel()
            await asyncio.gather(served, over, return_exceptions=True)
        if was_served:
            await served  # raises what it raised
        else:
            with contextlib.suppress(RuntimeError, OSError):  # the client left at the same moment
                await send(
                    {"type": "websocket.close", "code": 1008, "reason": "Your token is no longer valid."}
                )

    def _header(self, value: str, seconds: int) -> str:
        secure = "; Secure" if self.place.secure else ""
        return f"{self._cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    async def _until_over(self, token: str) -> None:
        while True:
            await asyncio.sleep(_LOOKS_S)
            with contextlib.suppress(StoreError):  # the database is away, and says so elsewhere
                if await self._grant(token) is None:
                    return

    async def _grant(self, token: str) -> TokenGrant | None:
        """Return what a token allows, from a moment ago or from the database. Raises StoreError."""
        now = self._clock()
        known = self._remembered.get(token)
        if known is not None and now - known[0] < _REMEMBERED_S:
            return known[1]
        self._remembered.pop(token, None)
        grant = await self._shared(token)
        if grant is not None:
            self._remembered[token] = now, grant
            while len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return grant

    async def _shared(self, token: str) -> TokenGrant | None:
        """Ask the database once for all requests that wait for the same token. Raises StoreError."""
        looking = self._looking.get(token)
        if looking is None:
            looking = self._looking[token] = asyncio.create_task(self._looked_up(token))
            looking.add_done_callback(lambda done: self._known_now(token, done))
        return await asyncio.shield(looking)

    def _known_now(self, token: str, looking: asyncio.Task[TokenGrant | None]) -> None:
        self._looking.pop(token, None)
        if not looking.cancelled():
            looking.exception()  # nobody may wait for it any more

    async def _looked_up(self, token: str) -> TokenGrant | None:
        """Ask the database, and log when it begins or ceases to fail. Raises StoreError."""
        try:
            grant = await self._check(token)
        except StoreError as error:
            if not self._fails:
                log.warning("nobody is let in: %s", error)
            self._fails = True
            raise
        if self._fails:
            log.info("tokens are read again")
        self._fails = False
        return grant

    def _shown(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return the token of a request: of the header, else of the cookie; None: there is none, or it is unclear."""
        shown = bearer_tokens(headers)
        if not shown:
            cookies = b";".join(value for name, value in headers if name == b"cookie").decode("latin-1")
            pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
            shown = [value for name, _, value in pairs if name == self._cookie]
        return shown[0] if len(shown) == 1 and shown[0] else None
