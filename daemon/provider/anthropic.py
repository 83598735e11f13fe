"""A client for the Anthropic Messages API: streaming, thinking, prompt caching.

It does not use the Anthropic SDK for requests: importing the SDK takes more than a second, and its copying of the
conversation and its objects for each piece of an answer took a third of a turn. The SDK signs in
(``anthropic_sign_in``), and tests compare its requests and parsed answers with ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from daemon.provider import anthropic_wire, errors, http
from daemon.provider.answer_guard import AnswerRefusedError, provider_error
from daemon.provider.anthropic_sign_in import BASE_URL, AnthropicSignIn, Credential
from daemon.provider.anthropic_stream import MessageBuilder, joined
from daemon.provider.http import EventReader
from daemon.provider.model_calls import ModelRequest, ProviderError, ProviderEvent, ProviderEvents
from daemon.version import product_version
from tools.json_access import mapping
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

_END_S = 0.2
"""How long the end of an answer may come after its last event; servers send both at once."""
_SIGNATURE_REFUSED = re.compile(r"signature|thinking.{0,40}block", re.IGNORECASE)


class AnthropicProvider:
    """Implements ``Provider`` over the Anthropic Messages API (or a server that speaks it)."""

    def __init__(self, *, read_timeout_s: float = 300.0) -> None:
        """``read_timeout_s``: silence after which a stream counts as dead; a living one sends pings."""
        self._http = http.Http(read_timeout_s=read_timeout_s)
        self._sign_in = AnthropicSignIn()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def stream(self, request: ModelRequest) -> ProviderEvents:
        """Play one call; see ``Provider.stream``."""
        access = Credential.of(request.env)
        for replay_thinking in (True, False):
            args = anthropic_wire.build(request, replay_thinking=replay_thinking)
            try:
                async with aclosing(self._played(access, args, request)) as events:
                    async for event in events:
                        yield event
                return
            except ProviderError as error:
                # Newer models reject the thinking of another model or account, e.g. after a change of model.
                refused = error.kind == "bad_request" and _SIGNATURE_REFUSED.search(str(error))
                if not (refused and replay_thinking and anthropic_wire.has_thinking(args["messages"])):
                    raise

    async def _played(
        self, access: Credential, args: dict[str, Any], request: ModelRequest
    ) -> ProviderEvents:
        """Yield the events of an answer. Raises ProviderError when it breaks the protocol or reports an error."""
        headers = {
            **await self._sign_in.headers(access),
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": f"goalwright/{product_version()}",
            "anthropic-version": anthropic_wire.version_for(args),
        }
        body = anthropic_wire.encode({**args, "stream": True})
        try:
            async with self._http.post(f"{access.base_url}/v1/messages", headers, body) as response:
                if response.status != 200:
                    raise await self._refusal(response, access, request)
                reader, message = (
                    EventReader(),
                    MessageBuilder(errors.host_of(access.base_url), request.model),
                )

                def fed(data: bytes) -> list[ProviderEvent]:
                    event = _decoded(data, message)
                    if event.get("type") == "error":
                        text = data.decode(errors="replace")
                        raise _reported_error(event, text, response, access, request)
                    return message.feed(event)

                async with aclosing(http.pieces(response)) as pieces:
                    async for piece in pieces:
                        for out in joined(out for data in reader.feed(piece) for out in fed(data)):
                            yield out
                        if message.ended:
                            break
                    else:
                        raise message.broken(t("it ended in the middle of a message"))
                    await _read_to_end(pieces)
                yield message.complete()
        except ProviderError:
            raise
        except AnswerRefusedError as refusal:
            raise provider_error(refusal) from refusal
        except Exception as error:
            raise _error(error, access, request) from error

    async def _refusal(
        self, response: aiohttp.ClientResponse, access: Credential, request: ModelRequest
    ) -> ProviderError:
        if response.status == 401:
            self._sign_in.refused(access)
        text = await http.failed_body(response)
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        return _reported_error(body, text, response, access, request)


def _decoded(data: bytes, message: MessageBuilder) -> dict[str, Any]:
    """Decode one event. Any: a server may send anything."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        if data == b"[DONE]":  # some compatible servers end with it, as another API does
            return {}
        raise message.broken(t("it was not the expected JSON")) from None
    return mapping(event)


async def _read_to_end(pieces: AsyncIterator[bytes]) -> None:
    """Read the rest of an answer whose message is complete.

    The rest is irrelevant, but a connection that is closed before the end of an answer cannot be used again: each step
    would pay for a new one, including TLS.
    """
    with contextlib.suppress(Exception):  # the message is complete; the connection is only not reused
        async with asyncio.timeout(_END_S):
            async for _ in pieces:
                pass


def _error(error: Exception, access: Credential, request: ModelRequest) -> Exception:
    """Return the ProviderError for an exception of the HTTP library. Other exceptions are bugs and pass unchanged."""
    import aiohttp

    base_url = access.base_url
    if isinstance(error, TimeoutError):
        return errors.no_answer(base_url, t("try again, or check the network."), timed_out=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        return errors.malformed(errors.host_of(base_url), t("it ended too early"))
    if isinstance(error, aiohttp.ClientResponseError):
        return errors.malformed(errors.host_of(base_url), errors.redact(str(error), request.env))
    if isinstance(error, aiohttp.ClientError | OSError):
        how = (
            t("is it running? Check {base_url}.", base_url=BASE_URL)
            if access.imitated
            else t("check the network.")
        )
        return errors.no_answer(base_url, how)
    return error


def _reported_error(
    body: object, text: str, response: aiohttp.ClientResponse, access: Credential, request: ModelRequest
) -> ProviderError:
    """Return the ProviderError for an error that the server reported by status or within an answer."""
    whole = mapping(body)
    inner = whole.get("error")
    said = mapping(inner)
    words = said.get("message") or (inner if isinstance(inner, str) else "") or whole.get("message") or text
    failure = errors.Failure(
        status=response.status,
        error_type=str(said.get("type") or ""),
        message=str(words),
        retry_after_s=errors.retry_after(response.headers),
        body=text,
    )
    host = errors.host_of(access.base_url)
    return errors.error_for(failure, host=host, key_name=access.variable, env=request.env)
