"""Asking the servers of a file one question: wait for those that start, and take the first real answer."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lsp_bridge.language_client.connection import ServerError, ServerGoneError
from tools.language_ports import NO_SERVER, ToolError
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer

T = TypeVar("T")

_NOT_FOUND = -32601
"""JSON-RPC's MethodNotFoundError."""


@dataclass(frozen=True, slots=True)
class AskingTiming:
    """Waits in seconds: for a server that has never answered a query (including its start), and for the others."""

    cold_s: float = 10.0
    warm_s: float = 5.0
    again_s: float = 0.25
    """Before a server is asked again that found nothing, and has just started or is at work."""
    begun_s: float = 2.0
    """For so long, "nothing" is no answer of a server that has never answered before. Measured: basedpyright
    finds nothing to rename in the first 100 ms or so, when it has not looked for the imported file yet."""


Ask = Callable[["LanguageServer", float], Awaitable[T]]
"""Sends a question to one server, with a timeout in seconds."""


@dataclass(frozen=True, slots=True)
class _ServerReply(Generic[T]):
    """The result of asking one server."""

    value: tuple[T] | None = None
    silent: str = ""
    """Name of the server, if its answer is incomplete."""
    unable: str = ""
    refused: str = ""


class Asking:
    """Asks the language servers of a workspace."""

    def __init__(self, servers: LanguageServers, timing: AskingTiming | None = None) -> None:
        self._servers = servers
        self._timing = timing or AskingTiming()
        self._answered: weakref.WeakSet[LanguageServer] = weakref.WeakSet()

    async def first(
        self, path: Path, provider: str, what: str, ask: Ask[T]
    ) -> tuple[T, tuple[str], tuple[str, ...]]:
        """Ask the servers of ``path``; the first in their order that knows something counts. Returns what it knows
        (empty when none knows anything), its name, and the names of those that were silent.

        ``provider`` is the name of the server capability, e.g. ``definitionProvider``, and ``what`` the feature's in
        "does not support {what}". Raises ToolError when none answers.
        """
        lookup = self._servers.for_path(path)
        if not lookup.servers:
            if lookup.resting:
                raise ToolError(
                    f"{', '.join(lookup.resting)} crashed and will restart in a moment. Use grep."
                )
            raise ToolError(NO_SERVER.format(name=path.name))
        begun = asyncio.get_running_loop().time()
        replies = [_ServerReply[T](silent=name) for name in lookup.resting]
        nothing: list[tuple[T, tuple[str]]] = []
        # In parallel, so that a silent server does not use up the time of another one.
        asked = [asyncio.create_task(self._one(server, provider, ask, begun)) for server in lookup.servers]
        try:
            for server, task in zip(lookup.servers, asked, strict=True):
                said = await task
                replies.append(said)
                if said.value is None:
                    continue
                if said.value[0]:
                    return said.value[0], (server.name,), _silent(replies)
                nothing.append((said.value[0], (server.name,)))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if nothing:
            return *nothing[0], _silent(replies)
        raise ToolError(_explain(what, replies))

    async def _one(self, server: LanguageServer, provider: str, ask: Ask[T], begun: float) -> _ServerReply[T]:
        now = asyncio.get_running_loop().time
        cold = server not in self._answered
        until = begun + (self._timing.cold_s if cold else self._timing.warm_s)
        if not await server.ready(until):
            return _ServerReply(silent=_named(server))
        if server.capabilities.get(provider) in (None, False):  # an empty object is support
            return _ServerReply(unable=server.name)
        try:
            value = await ask(server, max(0.0, until - now()))
            young = now() + self._timing.begun_s if cold else 0.0
            while not value and now() + self._timing.again_s < until:
                if not server.busy and now() >= young:
                    break
                # "Nothing" from a server that is still reading the project is no answer.
                await asyncio.sleep(self._timing.again_s)
                value = await ask(server, max(0.0, until - now()))
        except (TimeoutError, ServerGoneError):
            return _ServerReply(silent=_named(server))
        except ServerError as error:
            if error.code == _NOT_FOUND:
                return _ServerReply(unable=server.name)
            return _ServerReply(refused=f"{server.name}: {short_error(error)}")
        self._answered.add(server)
        return _ServerReply((value,), silent=_named(server) if server.busy else "")


def _silent(replies: Sequence[_ServerReply[Any]]) -> tuple[str, ...]:
    return tuple(one.silent for one in replies if one.silent)


def _explain(what: str, replies: Sequence[_ServerReply[Any]]) -> str:
    if refused := "; ".join(one.refused for one in replies if one.refused):
        return f"The language server returned an error: {refused}"
    if names := ", ".join(_silent(replies)):
        return (
            f"{names} did not answer in time; it may still be indexing the project. The result is "
            "unknown, not empty. Ask again later, or use grep."
        )
    unable = ", ".join(one.unable for one in replies if one.unable)
    return f"{unable} does not support {what}. Use grep and read instead."


def short_error(error: Exception) -> str:
    """Return what a server said, on one line."""
    return head(" ".join(str(error).split()), 500)


def _named(server: LanguageServer) -> str:
    """Return the server's name with its current work."""
    return f"{server.name} ({head(server.busy, 100)})" if server.busy else server.name
