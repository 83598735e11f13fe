"""Sign-in to MCP servers with OAuth, by the SDK: authorization code with PKCE, registration of the client, renewal.

Servers are untrusted: what they say about their sign-in may lead to other public hosts, encrypted, and nowhere else.
Import this in a thread: it loads the SDK.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

from daemon.mcp.failures import brief
from daemon.mcp.transports import BoundedTransport
from tools.json_access import mapping, number
from tools.localization import t
from tools.text.terminal import shown_brief
from tools.tool import ToolError
from tools.webfetch import is_public

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.mcp.tokens import TokenStore

USER_S = 300.0
"""Seconds that the user has to sign in."""
_REQUEST_S = 30.0
_EARLY_S = 10.0
"""Tokens are renewed so long before they end."""
_HEAD = 16 * 1024
_LOOPBACK = "127.0.0.1"
_PAGE = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'\r\n"
    "Connection: close\r\n\r\n<!doctype html><title>Goalwright</title><p>{text}</p>"
)


class _NotAllowedError(httpx2.TransportError):
    """A request of a sign-in that is not made; the message says why, for the user."""


class Storage:
    """The SDK's storage of one server. ``fresh``: begins without what is known, for a new sign-in."""

    def __init__(self, store: TokenStore, url: str, *, fresh: bool = False) -> None:
        self._store = store
        self._url = url
        self.entry: dict[str, Any] = {} if fresh else _valid(store.read(url))

    async def get_tokens(self) -> OAuthToken | None:
        found = mapping(self.entry.get("tokens"))
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._keep(
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=0 if tokens.expires_in is None else time.time() + tokens.expires_in - _EARLY_S,
            stale=False,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = mapping(self.entry.get("client"))
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        # Written with the tokens: without them it is of no use.
        self.entry["client"] = client_info.model_dump(mode="json", exclude_none=True)

    def about(self, provider: OAuthClientProvider) -> None:
        """Remember where tokens are renewed: the SDK forgets that with the process."""
        metadata = provider.context.oauth_metadata
        self.entry["metadata"] = (
            None if metadata is None else metadata.model_dump(mode="json", exclude_none=True)
        )

    async def _keep(self, **changes: object) -> None:
        self.entry |= changes
        entry = dict(self.entry)
        await asyncio.to_thread(self._store.write, self._url, lambda _: entry)
        await asyncio.to_thread(self._store.read, self._url)  # its secrets are new


def _valid(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry that the SDK can read; an empty one in place of a damaged one."""
    try:
        OAuthToken.model_validate(mapping(entry.get("tokens")))
        OAuthClientInformationFull.model_validate(mapping(entry.get("client")))
        if entry.get("metadata"):
            OAuthMetadata.model_validate(entry["metadata"])
    except ValueError:
        return {}
    return entry


class McpAccess:
    """The access of one connection to a server over HTTP, with the tokens that are stored for its URL."""

    def __init__(self, url: str, store: TokenStore, ended: Callable[[], None], *, own: bool = False) -> None:
        """``ended``: called when the server does not take the tokens, or wants some. ``own``: the server's settings
        have a token, which is sent instead of a stored one. Blocking."""
        _silence_sdk()
        self._url = url
        self._store = store
        self._ended = ended
        self._storage = Storage(store, url)
        self.refused = False
        """The server wants a new sign-in."""
        endpoint = mapping(self._storage.entry.get("metadata")).get("token_endpoint")
        self.transport = GuardedTransport(url, str(endpoint or ""), self._unauthorized)
        self.auth = self._provider() if self._storage.entry and not own else None

    def _provider(self) -> OAuthClientProvider:
        entry = self._storage.entry
        provider = OAuthClientProvider(self._url, _metadata(f"http://{_LOOPBACK}/"), self._storage)
        expires = 1.0 if entry.get("stale") else number(entry.get("expires_at"))
        provider.context.token_expiry_time = expires or None
        if metadata := mapping(entry.get("metadata")):
            provider.context.oauth_metadata = OAuthMetadata.model_validate(metadata)
        return provider

    def _unauthorized(self) -> None:
        """Decide what a refusal means: tokens that another daemon renewed, some to be renewed, or a new sign-in."""
        used, now = self._storage.entry, self._store.read(self._url)
        renewed = now.get("tokens") and now["tokens"] != used.get("tokens")
        if self.auth is None or not (renewed or self._marked_stale(now)):
            self.refused = True
        self._ended()

    def _marked_stale(self, entry: dict[str, Any]) -> bool:
        """Have the tokens renewed by the next connection, if they can be and have not been for this refusal."""
        if entry.get("stale") or not mapping(entry.get("tokens")).get("refresh_token"):
            return False
        try:
            self._store.write(self._url, lambda known: {**known, "stale": True} if known else None)
        except ToolError:
            return False
        return True


class GuardedTransport(BoundedTransport):
    """Sends requests to a server, and what its sign-in needs to other hosts, if these may be asked."""

    def __init__(
        self,
        url: str,
        endpoint: str | None = None,
        unauthorized: Callable[[], None] = lambda: None,
    ) -> None:
        """``endpoint``: where tokens are renewed, requested beside the server alone; None: all that a sign-in leads to.
        ``unauthorized``: called in a thread when the server itself answers 401.
        """
        super().__init__()
        self._url = httpx2.URL(url)
        self._endpoint = endpoint
        self._unauthorized = unauthorized
        self.error_status = 0
        """The status of the server's last answer to a message, if it was an error."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        renews = str(url) == self._endpoint
        own = _origin(url) == _origin(self._url) and not url.path.startswith("/.well-known/") and not renews
        if self._endpoint is not None and not own and not renews:
            raise _NotAllowedError("the server wants another sign-in")
        if _origin(url) != _origin(self._url):
            request = await self._pinned(request)
        response = await super().handle_async_request(request)
        if own and request.method == "POST":
            self.error_status = response.status_code if response.status_code >= 400 else 0
        if response.status_code == 401 and own:
            await asyncio.to_thread(self._unauthorized)
        return response

    async def checked(self, url: httpx2.URL) -> str:
        """Return an address of the host of a URL that the server named. Raises an error that says what is wrong."""
        name = shown_brief(str(url.copy_with(query=None, fragment=None)), 200)
        own = await _addresses(self._url)
        private = not all(map(is_public, own))
        plain = url.scheme == "http" and all(address.is_loopback for address in own)
        if (url.scheme != "https" and not plain) or not url.host or url.userinfo:
            raise _NotAllowedError(t("{url} is not an address that begins with https://", url=name))
        addresses = await _addresses(url)
        if plain and not all(address.is_loopback for address in addresses):
            raise _NotAllowedError(t("{url} is not an address that begins with https://", url=name))
        if not private and not all(map(is_public, addresses)):
            raise _NotAllowedError(t("{url} leads into a private network", url=name))
        return str(addresses[0])

    async def _pinned(self, request: httpx2.Request) -> httpx2.Request:
        """Return a request to the address that was checked, so that another look at the DNS cannot change it."""
        address = await self.checked(request.url)
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )


class SignIn:
    """One attempt to sign in to a server, with the browser of the user."""

    def __init__(self, url: str, store: TokenStore) -> None:
        self._url = url
        self._store = store
        self._transport = GuardedTransport(url)
        self._page: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._returned: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._state = ""
        self._work = asyncio.create_task(self._run(), name="mcp sign-in")
        self._work.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def page(self) -> str:
        """Return the page that the user's browser must open. Raises ToolError."""
        await asyncio.wait({self._work, self._page}, return_when=asyncio.FIRST_COMPLETED)
        if self._page.done():
            return self._page.result()
        await self.done()
        raise ToolError(t("The server does not ask for a sign-in."))

    async def done(self) -> None:
        """Wait until the user has signed in. Raises ToolError when that fails or takes too long."""
        await asyncio.wait({self._work})
        if self._work.cancelled():
            raise ToolError(t("The sign-in was canceled."))
        self._work.result()

    async def close(self) -> None:
        """Give up, if it is not done."""
        self._work.cancel()
        await asyncio.wait({self._work})

    # -- internals --

    async def _run(self) -> None:
        _silence_sdk()
        listener = await asyncio.start_server(self._visited, _LOOPBACK, 0, limit=_HEAD)
        try:
            async with asyncio.timeout(USER_S):
                await self._signed_in(listener.sockets[0].getsockname()[1])
        except TimeoutError as error:
            raise ToolError(t("Nobody signed in within {seconds:g} s.", seconds=USER_S)) from error
        except OAuthTokenError as error:
            # The SDK's message may hold the answer, and the answer a token.
            raise ToolError(t("The sign-in failed: the server gave no token.")) from error
        except OAuthRegistrationError as error:
            raise ToolError(
                t(
                    "The sign-in failed: the server does not let Goalwright register itself. Put a token into the "
                    "headers of the server instead. ({error})",
                    error=brief(str(error)),
                )
            ) from error
        except (OAuthFlowError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError) as error:
            raise ToolError(t("The sign-in failed: {error}", error=brief(str(error)))) from error
        finally:
            listener.close()

    async def _signed_in(self, port: int) -> None:
        parts = urlsplit(self._url)
        own = await _addresses(httpx2.URL(self._url))
        if parts.scheme != "https" and not all(address.is_loopback for address in own):
            raise ValueError(t("{url} is not an address that begins with https://", url=parts.netloc))
        storage = Storage(self._store, self._url, fresh=True)
        provider = OAuthClientProvider(
            self._url,
            _metadata(f"http://{_LOOPBACK}:{port}/callback"),
            storage,
            self._opened,
            self._callback,
        )
        timeout = httpx2.Timeout(_REQUEST_S)
        async with httpx2.AsyncClient(transport=self._transport, timeout=timeout) as client:
            # No more than a request that the server refuses before it looks at it.
            request = client.build_request(
                "POST",
                self._url,
                json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
                headers={
                    "Accept": "application/json, text/event-stream",
                    "Accept-Encoding": "identity",
                    "MCP-Protocol-Version": "2025-06-18",
                },
            )
            response = await client.send(request, auth=provider, stream=True)
            await response.aclose()
        tokens = await storage.get_tokens()
        if tokens is None:
            return
        if response.status_code in (401, 403):
            await asyncio.to_thread(self._store.write, self._url, lambda _: None)
            raise ValueError(t("the server does not take the new token"))
        storage.about(provider)
        await storage.set_tokens(tokens)

    async def _opened(self, page: str) -> None:
        """Called by the SDK with the page for the browser."""
        await self._transport.checked(httpx2.URL(page))
        self._state = next(iter(parse_qs(urlsplit(page).query).get("state", [])), "")
        if not self._page.done():
            self._page.set_result(page)

    async def _callback(self) -> AuthorizationCodeResult:
        return await self._returned

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request of the browser. One without this sign-in's state changes nothing."""
        status, text = "404 Not Found", t("This page does not exist.")
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split(b" ", 2)[1].decode("ascii"))
            if target.path == "/callback" and head.startswith(b"GET "):
                status, text = self._answered(parse_qs(target.query))
            writer.write(_PAGE.format(status=status, text=text).encode())
            await writer.drain()
        except (OSError, ValueError, IndexError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # some other program, or a browser that went away
        finally:
            writer.close()

    def _answered(self, query: dict[str, list[str]]) -> tuple[str, str]:
        given = {name: values[0] for name, values in query.items()}
        state = given.get("state", "")
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return "400 Bad Request", t("This sign-in is not the one that Goalwright waits for.")
        if not self._returned.done():
            if code := given.get("code"):
                found = AuthorizationCodeResult(code=code, state=state, iss=given.get("iss"))
                self._returned.set_result(found)
            else:
                why = given.get("error", "")
                self._returned.set_exception(OAuthFlowError(t("it was refused ({why})", why=why)))
        return "200 OK", t("Goalwright goes on. You can close this page.")


def _silence_sdk() -> None:
    """Keep the SDK from logging answers, which may hold tokens. We report its errors ourselves."""
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


def _metadata(redirect: str) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate(
        {
            "client_name": "Goalwright",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _addresses(url: httpx2.URL) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses of a host. Raises _NotAllowedError when it is not found."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            url.host, url.port or 443, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise _NotAllowedError(t("{host} is not found", host=shown_brief(url.host, 100))) from error
    return [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
