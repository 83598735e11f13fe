"""Declare requests of the protocol with ``@request`` on their handlers.

The models of its params and result are those of the handler's signature, and its description is the docstring. The
available methods, those that a read-only session rejects, the types of the VS Code extension and ``docs/protocol.md``
are derived from here.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from daemon.agents.loader import UnknownAgentError
from daemon.api.address import ApiError
from daemon.files.restore import RestoreRefusedError
from daemon.loop.forking import ForkError
from daemon.loop.session import BusyError, ReadOnlySessionError
from daemon.loop.undo import UnknownChangeError
from daemon.model.stored_model import Model
from daemon.plan.changes import PlanError
from daemon.store.trace_store import StoreError, UnknownTraceError
from daemon.trace_maintenance import InUseError
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from tools.errors import ToolError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from lsp_bridge.server.requests.request_context import RequestContext

Area = TypeVar("Area")
Params = TypeVar("Params", bound=Model)
Result = TypeVar("Result", bound=Model)

CODES: dict[type[Exception], ErrorCode] = {
    BusyError: ErrorCode.BUSY,
    InUseError: ErrorCode.BUSY,
    UnknownTraceError: ErrorCode.UNKNOWN_SESSION,
    UnknownChangeError: ErrorCode.UNKNOWN_REQUEST,
    StoreError: ErrorCode.STORE_FAILED,
    RestoreRefusedError: ErrorCode.HISTORY_CONFLICT,
    ReadOnlySessionError: ErrorCode.SEALED,
    ApiError: ErrorCode.API_FAILED,
    ForkError: ErrorCode.INVALID_PARAMS,
    PlanError: ErrorCode.INVALID_PARAMS,
    UnknownAgentError: ErrorCode.INVALID_PARAMS,
}
"""Error codes of the daemon's exceptions on the wire. A ``ToolError`` has no kind of its own: see ``request``."""


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    method: str
    area: str
    """The class whose method ``handler`` is."""
    handler: Callable[[Any, Any], Awaitable[Model]]
    changes: bool
    """It changes the session that it names."""

    @cached_property
    def models(self) -> tuple[type[Model], type[Model]]:
        """Return the models of its params and its result."""
        params, result = get_type_hints(self.handler).values()
        return params, result


class RequestArea:
    """The requests of one connection about one subject."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._core = context.core


REQUESTS: dict[str, Request] = {}
"""By method. Complete when ``router`` was imported, which imports all handlers."""


def request(
    method: str, *, changes: bool, failed: ErrorCode | None = None
) -> Callable[[Callable[[Area, Params], Awaitable[Result]]], Callable[[Area, Params], Awaitable[Result]]]:
    """Declare a handler. Exceptions in ``CODES`` become a RequestError.

    ``changes``: it changes the session that it names, so a read-only one rejects it. ``failed``: the code of a
    ToolError.
    """

    def declare(
        handler: Callable[[Area, Params], Awaitable[Result]],
    ) -> Callable[[Area, Params], Awaitable[Result]]:
        @functools.wraps(handler)
        async def answer(area: Area, params: Params) -> Result:
            with refusals(failed):
                return await handler(area, params)

        REQUESTS[method] = Request(method, handler.__qualname__.partition(".")[0], answer, changes)
        return answer

    return declare


@contextmanager
def refusals(failed: ErrorCode | None = None) -> Generator[None]:
    """Turn what the daemon raises of ``CODES`` into RequestError; a ToolError, too, when ``failed`` is its code."""
    try:
        yield
    except (*CODES, ToolError) as error:
        code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), failed)
        if code is None:
            raise
        words = str(error)
        if isinstance(error, UnknownTraceError):
            words = t("{error} List the sessions with `goalwright sessions`.", error=error)
        raise RequestError(words, code) from error
