"""What a client can ask about traces: ``goalwright/api/open``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from daemon.api.door import ApiError
from daemon.core import Daemon
from daemon.model.base import Model
from lsp_bridge import protocol as p
from lsp_bridge.request_error import RequestError


class TraceRequests:
    """The requests of one connection about traces."""

    def __init__(self, core: Daemon) -> None:
        self._core = core
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/api/open": self.open,
        }

    async def open(self, params: p.ApiOpenParams) -> p.ApiOpenResult:
        """Where the trace API is; opened when it is not."""
        try:
            found = await self._core.api.open(params.port)
        except ApiError as error:
            raise RequestError(p.API_FAILED, str(error)) from error
        return p.ApiOpenResult(url=found.url, token=found.token, page=found.page)
