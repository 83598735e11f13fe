"""An HTTP client for model servers, over aiohttp: pooled connections, no redirect to another origin, limited answers.

aiohttp is the maintained client that imports and streams fastest. A redirect to another origin is refused, because the
key and the conversation would go there.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from daemon.provider.answer_guard import Allowance, RedirectRefusedError, check_redirect, location_in
from daemon.provider.errors import shown_url
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import aiohttp

CONNECT_S = 10.0
_KEEP_S = 55.0
"""Seconds that an idle connection is kept. Servers close theirs after a minute or more."""
_REDIRECTS = 5
_FAILED_BODY = 1_000_000
"""Bytes read of the answer to a failed request."""
_loading = threading.Lock()


def load() -> None:
    """Import the library and load the certificates. Takes 0.2 s: call it from a thread before the first request."""
    with _loading:  # the start of a daemon and its first request both come here
        # OpenSSL leaves the interpreter to the import.
        certificates = threading.Thread(target=_tls)
        certificates.start()
        import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]

        certificates.join()


class Http:
    """A pool of connections. A change of event loop opens a new pool, because sockets belong to their loop."""

    def __init__(self, *, read_timeout_s: float) -> None:
        """``read_timeout_s``: silence after which an answer counts as dead."""
        self._read_timeout_s = read_timeout_s
        self._session: tuple[aiohttp.ClientSession, asyncio.AbstractEventLoop] | None = None

    async def aclose(self) -> None:
        """Close all connections of this event loop."""
        kept, self._session = self._session, None
        if kept is not None and kept[1] is asyncio.get_running_loop():
            await kept[0].close()

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: Sequence[bytes]
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a request and yield its answer. Leaving the context before the whole answer is read cancels the request.

        ``body``: in pieces, of which large ones are not copied.

        Raises RedirectRefusedError, ``aiohttp.ClientError``, or TimeoutError.
        """
        response = await self._answer(url, headers, body)
        try:
            yield response
        finally:
            response.release() if response.content.at_eof() else response.close()

    async def _answer(
        self, url: str, headers: Mapping[str, str], body: Sequence[bytes]
    ) -> aiohttp.ClientResponse:
        session = await self._opened()
        headers = {**headers, "Content-Length": str(sum(map(len, body)))}
        left = _REDIRECTS
        while True:
            response = await session.post(
                url, headers=headers, data=_each(body), allow_redirects=False, proxy=_proxy(url)
            )
            location = location_in(response.status, response.headers)
            if location is None:
                return response
            response.close()
            target = check_redirect(url, location)
            if left == 0 or response.status not in (307, 308):  # other redirects would turn it into a GET
                raise RedirectRefusedError(
                    t(
                        "{url} redirects to {url2} (status {status}), but requests to a model cannot be "
                        "redirected. Set the base URL to the server's real address.",
                        url=shown_url(url),
                        url2=shown_url(target),
                        status=response.status,
                    )
                )
            url = target
            left -= 1

    async def _opened(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session[1] is not loop:
            await asyncio.to_thread(load)
        # Another request may have opened it meanwhile.
        if self._session is None or self._session[1] is not loop:
            import aiohttp

            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_S, sock_read=self._read_timeout_s
            )
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_S, ssl=_tls())
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar), loop
        return self._session[0]


async def _each(body: Sequence[bytes]) -> AsyncGenerator[bytes]:
    for piece in body:
        yield piece


async def pieces(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield the body as it arrives. Raises AnswerTooLongError, ``aiohttp.ClientError``, or TimeoutError."""
    allowance = Allowance(events=True)
    async for piece in response.content.iter_any():
        yield allowance.take(piece)


async def failed_body(response: aiohttp.ClientResponse) -> str:
    """Return the body of an error answer as text, cut at 1 MB."""
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _FAILED_BODY:
            break
    return body[:_FAILED_BODY].decode("utf-8", errors="replace")


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment or the system sets for ``url``."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return None if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]) else proxy


@functools.cache
def _tls() -> ssl.SSLContext:
    """Trust the certificates of the system and, because some systems have none, those of certifi."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


class EventReader:
    """Decode events from bytes that may be cut anywhere. Keeps only ``data``, which names the event as well."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """Pieces of an unfinished line, joined once: a very long line costs no more than its size."""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Add bytes and return the data of each event that they complete."""
        waits = bool(self._begun) and self._begun[-1].endswith(b"\r")
        if not piece or not (waits or b"\n" in piece or b"\r" in piece):
            self._begun += [piece] if piece else []
            return []
        lines = b"".join([*self._begun, piece]).splitlines(keepends=True)
        # A line that ends in CR may still get the LF that belongs to it.
        self._begun = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        events: list[bytes] = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
