"""The Anthropic models through their own SDK: streaming, thinking, prompt caching.

The SDK takes more than a second and 50 MB to import, so this module does not; ``warm`` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from daemon.provider import answer_guard, anthropic_wire, errors
from daemon.provider.anthropic_stream import MessageBuilder
from daemon.provider.base import ModelRequest, ProviderError, ProviderEvent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"
TOKEN = "ANTHROPIC_AUTH_TOKEN"
BASE_URL = "ANTHROPIC_BASE_URL"

_END_S = 0.2
"""How long the end of an answer may come after its last event; servers send both at once."""
_HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2")
_SIGNATURE_REFUSED = re.compile(r"signature|thinking.{0,40}block", re.IGNORECASE)


def warm() -> None:
    """Import the SDK. Takes about a second: call it from a thread before the first model call needs it."""
    # The package alone finds its resources lazily; this is where they are loaded.
    import anthropic.resources.messages  # noqa: F401  # pyright: ignore[reportUnusedImport]

    # At DEBUG the SDK and its HTTP library log whole requests; the conversation is not for log files.
    for name in ("anthropic", *_HTTP_LIBRARIES):
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class _Access:
    """Who asks whom: the key of a client. Never shown, for what it holds."""

    base_url: str
    api_key: str | None = field(repr=False)
    auth_token: str | None = field(repr=False)

    @classmethod
    def of(cls, env: Mapping[str, str]) -> _Access:
        own_url = env.get(BASE_URL, "").strip()
        base_url = errors.checked_url(own_url, BASE_URL) if own_url else DEFAULT_BASE_URL
        api_key = env.get(KEY, "").strip() or None
        # The SDK takes one of the two; as in the SDK, the key wins.
        auth_token = None if api_key else env.get(TOKEN, "").strip() or None
        if api_key is None and auth_token is None:
            raise ProviderError("no_key", f"No key for Anthropic: set {KEY} or choose another model.")
        return cls(base_url, api_key, auth_token)

    @property
    def key_name(self) -> str:
        return KEY if self.api_key else TOKEN


class AnthropicProvider:
    """Implements ``Provider`` over the Anthropic Messages API (or a server that speaks it)."""

    def __init__(self, *, read_timeout_s: float = 300.0) -> None:
        """``read_timeout_s``: silence after which a stream counts as dead; a living one sends pings."""
        self._read_timeout_s = read_timeout_s
        self._clients: dict[_Access, tuple[AsyncAnthropic, asyncio.AbstractEventLoop | None]] = {}

    def warm(self, env: Mapping[str, str]) -> None:
        """Import the SDK and, with a key in ``env``, prepare the client (TLS). Call it from a thread."""
        warm()
        try:
            access = _Access.of(env)
        except ProviderError:
            return
        self._clients.setdefault(access, (self._new_client(access), None))

    async def aclose(self) -> None:
        """Close all connections."""
        clients = [client for client, _ in self._clients.values()]
        self._clients.clear()
        for client in clients:
            await client.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Play one call; see ``Provider.stream``."""
        access = _Access.of(request.env)
        client = await self._client(access)
        args = anthropic_wire.build(request)
        try:
            stream = await self._open(client, args, request)
        except ProviderError as error:
            # Newer models refuse the thinking of another model or account, e.g. after a change of model.
            refused = error.kind == "bad_request" and _SIGNATURE_REFUSED.search(str(error))
            if not (refused and anthropic_wire.has_thinking(args["messages"])):
                raise
            args = anthropic_wire.build(request, replay_thinking=False)
            stream = await self._open(client, args, request)
        message = MessageBuilder(errors.host_of(access.base_url), request.model)
        try:
            events = stream.__aiter__()
            while not message.ended:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    raise message.broken("it ended before the message did") from None
                except Exception as error:
                    raise _error(error, request) from error
                for out in message.feed(event):
                    yield out
            await _read_to_end(events)
        finally:
            await stream.close()
        yield message.complete()

    async def _open(self, client: AsyncAnthropic, args: dict[str, Any], request: ModelRequest) -> Any:
        # Any: the SDK's overloads do not fit arguments built as a dict; the wire tests check their shape.
        try:
            create: Any = client.messages.create
            return await create(**args, stream=True)
        except Exception as error:
            raise _error(error, request) from error

    async def _client(self, access: _Access) -> AsyncAnthropic:
        loop = asyncio.get_running_loop()
        client, used_by = self._clients.get(access, (None, None))
        if client is None or used_by not in (None, loop):
            # Sockets belong to the loop that opened them. In a thread: it may import, and reads certificates.
            client = await asyncio.to_thread(self._new_client, access)
        self._clients[access] = (client, loop)
        return client

    def _new_client(self, access: _Access) -> AsyncAnthropic:
        warm()
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout

        # Servers that imitate the API often know only the older header; the API itself takes both.
        imitation = access.base_url != DEFAULT_BASE_URL and access.api_key
        return AsyncAnthropic(
            api_key=access.api_key,
            auth_token=access.auth_token,
            base_url=access.base_url,
            max_retries=0,  # daemon.provider.retry does it, and tells the person
            timeout=Timeout(self._read_timeout_s, connect=10.0),
            default_headers={"X-Api-Key": access.api_key} if imitation and access.api_key else None,
            open_telemetry=False,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [answer_guard.guard_async]}),
        )


async def _read_to_end(events: AsyncIterator[Any]) -> None:
    """Read what is left of an answer whose message is complete.

    Nothing of interest comes, but a connection that is closed before the end of an answer cannot be used again:
    each step would pay for a new one, TLS and all.
    """
    with contextlib.suppress(Exception):  # the message is here; a connection that fails now is just not kept
        async with asyncio.timeout(_END_S):
            async for _ in events:
                pass


def _error(error: Exception, request: ModelRequest) -> Exception:
    """The ProviderError for what the SDK or its HTTP library raised; a bug of ours passes unchanged."""
    import anthropic

    if refusal := answer_guard.refusal_in(error):
        return answer_guard.provider_error(refusal)
    access = _Access.of(request.env)
    host, base_url = errors.host_of(access.base_url), access.base_url
    if isinstance(error, anthropic.APIStatusError):
        return errors.error_for(_failure(error), host=host, key_name=access.key_name, env=request.env)
    name = type(error).__name__
    # Once a stream is open the SDK passes on the errors of its HTTP library, and which that is depends on the
    # version of the SDK: so by name.
    library = type(error).__module__.split(".")[0]
    if isinstance(error, anthropic.APITimeoutError) or "Timeout" in name:
        return errors.no_answer(base_url, "try again, or check the network.", timed_out=True)
    if "ProtocolError" in name:
        return errors.malformed(host, errors.redact(str(error), request.env))
    if isinstance(error, anthropic.APIConnectionError) or library in (
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
    ):
        own = base_url != DEFAULT_BASE_URL
        return errors.no_answer(
            base_url, f"is it running? Check {BASE_URL}." if own else "check the network."
        )
    if isinstance(error, ValueError):  # what JSON and UTF-8 errors are
        return errors.malformed(host, "not the JSON that was expected")
    return error


def _failure(error: Any) -> errors.Failure:
    # Any: the body is whatever the server sent.
    body = cast("object", error.body)
    whole = str(error.body)
    inner = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    said = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    return errors.Failure(
        status=error.status_code,
        error_type=str(said.get("type") or ""),
        message=str(said.get("message") or error.message),
        retry_after_s=errors.retry_after(error.response.headers),
        body=whole,
    )
