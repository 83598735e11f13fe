"""The FastAPI application: routes behind the guard of ``daemon.api.security``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from daemon.api import page_files
from daemon.api.listing import ParameterError
from daemon.api.problems import problem_of
from daemon.api.reader import TraceReader
from daemon.api.routes import search_routes, trace_routes, without_empty
from daemon.api.schemas import described
from daemon.api.security import ApiAccess, SecurityMiddleware
from daemon.api.step_views import AnswerTooLargeError, NotFoundError
from daemon.api.watch import WatchServer
from daemon.store.trace_store import StoreError
from tools.text.validation import refused


class TraceApi(FastAPI):
    """FastAPI with the guard around everything, its own error pages included."""

    guard: SecurityMiddleware | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if self.guard is None:
            raise RuntimeError("an API without a guard")
        await self.guard(scope, receive, send)

    async def unguarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request that the security guard has let through."""
        if scope["type"] == "http":
            scope = {**scope, "query_string": without_empty(scope["query_string"])}
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = described(self)
        return self.openapi_schema


def make_app(
    reader_for: Callable[[HTTPConnection], TraceReader],
    access: ApiAccess,
    *,
    watch: WatchServer | None = None,
    asked: Callable[[], None] = lambda: None,
    routes: APIRouter | None = None,
) -> TraceApi:
    """Return the application.

    ``reader_for``: reads what the sender of a request may see; ``watch``: without one there is no WebSocket; ``asked``:
    called for each request let in; ``routes``: others.
    """
    # No /docs, because its scripts and styles come from other servers.
    app = TraceApi(title="Goalwright traces", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.guard = SecurityMiddleware(app.unguarded, access, page_files.LOCKED if access.token else None, asked)
    app.state.reader_for = reader_for
    app.include_router(trace_routes())
    app.include_router(search_routes())
    if routes is not None:
        app.include_router(routes)
    _page(app, access)
    if watch is not None:
        watching = watch

        @app.websocket("/api/traces/{trace_id}/watch")
        async def watched(websocket: WebSocket, trace_id: str) -> None:
            await watching.serve(websocket, trace_id)

    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app


def warm_up(app: TraceApi) -> None:
    """Have FastAPI build now what it would otherwise build within the first request (25 ms). Call it in a thread."""
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/page/-",
        "raw_path": b"/page/-",
        "query_string": b"",
        "root_path": "",
        "headers": [],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        pass

    asyncio.run(app.unguarded(scope, receive, send))


def _page(app: FastAPI, access: ApiAccess) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return await asyncio.to_thread(page_files.index, access)

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        found = await asyncio.to_thread(page_files.file, name)
        return found if found is not None else _problem(404, "The page has no such file.")


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)


def _failed(request: Request, error: Exception) -> Response:
    return _problem(*problem_of(error))


def _invalid(request: Request, error: Exception) -> Response:
    words = [
        refused({**one, "loc": one["loc"][1:]}) for one in cast("RequestValidationError", error).errors()
    ]
    return _problem(422, "; ".join(words)[:2000] or "A parameter is not valid.")


def _http(request: Request, error: Exception) -> Response:
    status = cast("HTTPException", error).status_code
    if status == 404:
        return _problem(404, "There is nothing at this path. /openapi.json lists the paths.")
    return JSONResponse(
        {"detail": cast("HTTPException", error).detail}, status, cast("HTTPException", error).headers
    )


def _bug(request: Request, error: Exception) -> Response:
    return _problem(500, "Goalwright failed here; its log says more (`goalwright doctor` says where it is).")


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    NotFoundError: _failed,
    AnswerTooLargeError: _failed,
    ParameterError: _failed,
    StoreError: _failed,
    RequestValidationError: _invalid,
    HTTPException: _http,
    Exception: _bug,
}
