"""A daemon without a mind: speaks the protocol on the real socket, and plays what a test tells it to.

In a test: ``async with FakeDaemon(workspace, home) as fake``. As a process (for tests of starting, stopping and
killing): ``python tests/support/fakes/daemon_server.py serve --workspace W``, which takes the lock like the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from daemon.runtime import Address, AlreadyRunningError, RuntimePaths, new_token  # noqa: E402
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode, preamble  # noqa: E402

Handler = Callable[["Connection", dict[str, Any]], Awaitable[Any]]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class RefuseError(Exception):
    """Answer a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One client of the fake."""

    def __init__(self, fake: FakeDaemon, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.fake = fake
        self.reader = reader
        self.writer = writer
        self.name = ""

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    async def receive(self) -> dict[str, Any] | None:
        length = 0
        while line := (await self.reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(await self.reader.readexactly(length)) if length else None


class Turn:
    """The actions of a scripted turn. ``canceled`` is set by ``session/cancel``."""

    def __init__(self, fake: FakeDaemon, session_id: str, params: dict[str, Any]) -> None:
        self.fake = fake
        self.session_id = session_id
        self.text = params["text"]
        self.prompt_id = params["promptId"]
        self.canceled = asyncio.Event()

    def event(self, name: str, view: dict[str, Any] | None = None, **fields: Any) -> None:
        self.fake.event(self.session_id, name, view, **fields)

    def delta(self, kind: str, text: str, message_id: str = "m1", index: int = 0, **fields: Any) -> None:
        delta = {
            "traceId": self.session_id,
            "kind": kind,
            "messageId": message_id,
            "index": index,
            "text": text,
        }
        self.fake.notify(
            "goalwright/session/delta", {"sessionId": self.session_id, "delta": {**delta, **fields}}
        )

    def message(
        self,
        role: str,
        *content: dict[str, Any],
        message_id: str = "m1",
        view: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        message = {
            "messageId": message_id,
            "traceId": self.session_id,
            "role": role,
            "content": list(content),
        }
        self.event("message_added", view, message={**message, **fields})

    def say(self, text: str, message_id: str = "m1") -> None:
        usage = {"input": 100, "output": 20, "cacheRead": 1000, "cacheWrite": 0}
        view = {"usage": usage, "totalCost": 0.001}
        part = {"type": "text", "text": text}
        self.message("assistant", part, message_id=message_id, view=view, usage=usage, cost=0.001)

    async def ask(self, request_id: str = "r1", **fields: Any) -> dict[str, Any]:
        """Ask for permission; the reply, or ``{"reply": "canceled"}``."""
        rule = {"permission": "edit", "pattern": "*", "action": "ask", "source": "shipped"}
        request = {
            "requestId": request_id,
            "permission": "edit",
            "targets": ["a.py"],
            "title": "edit a.py",
            "suggestions": [{"permission": "edit", "pattern": "src/**"}],
            "rule": rule,
            **fields,
        }
        self.fake.requests_pending[request_id] = asyncio.get_running_loop().create_future()
        self.event("permission_asked", request=request)
        canceled = asyncio.create_task(self.canceled.wait())
        answer = self.fake.requests_pending[request_id]
        await asyncio.wait({canceled, answer}, return_when=asyncio.FIRST_COMPLETED)
        canceled.cancel()
        reply = answer.result() if answer.done() else {"reply": "canceled"}
        self.event("permission_replied", requestId=request_id, reply=reply["reply"], by=reply.get("by", ""))
        return reply


Script = Callable[[Turn], Awaitable[str]]
"""Plays a turn and returns its stop reason."""


async def hello(turn: Turn) -> str:
    """The script unless told otherwise."""
    turn.say("Hello.")
    return "end_turn"


class FakeDaemon:
    """Listens for ``workspace`` in ``home``; ``script`` plays each prompt."""

    def __init__(self, workspace: Path, home: Path | None = None, script: Script = hello) -> None:
        self.paths = RuntimePaths.for_workspace(workspace, home)
        self.demo = False
        """The built-in demo answers."""
        self.script = script
        self.token = new_token()
        self.protocol_version = PROTOCOL_VERSION
        self.seen: list[tuple[str, dict[str, Any]]] = []
        """Requests and notifications of all clients, in order."""
        self.connections: list[Connection] = []
        self.goal_tree: dict[str, Any] = {"mission": "", "goals": []}
        self.sessions: list[dict[str, Any]] = []
        self.pending: list[dict[str, Any]] = []
        self.requests_pending: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.turns: list[Turn] = []
        self.stop = asyncio.Event()
        self.event_ids = itertools.count(1)
        self.handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "goalwright/config/problems": self._problems,
            "goalwright/daemon/status": self._status,
            "goalwright/daemon/stop": self._stop,
            "goalwright/session/new": self._new,
            "goalwright/session/list": self._list,
            "goalwright/session/load": self._load,
            "goalwright/session/prompt": self._prompt,
            "goalwright/session/cancel": self._cancel,
            "goalwright/permission/reply": self._reply,
        }
        self._stack = contextlib.AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        return Address(
            pid=os.getpid(),
            token=self.token,
            version="0.0-fake",
            protocol_version=self.protocol_version,
            workspace=str(self.paths.workspace),
            started_at=NOW.isoformat(),
            socket=str(self.paths.socket_path),
        )

    async def __aenter__(self) -> FakeDaemon:
        self._stack.enter_context(self.paths.hold_lock())
        self.server = await asyncio.start_unix_server(self._accept, self.paths.prepare_socket())
        self.paths.write_address(self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for connection in self.connections:
            connection.writer.close()
        for task in set(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def params(self, method: str) -> list[dict[str, Any]]:
        """Params of all requests or notifications of this method so far."""
        return [params for name, params in self.seen if name == method]

    def notify(self, method: str, params: dict[str, Any]) -> None:
        for connection in self.connections:
            if connection.name != "launcher":
                connection.send({"method": method, "params": params})

    def event(self, session_id: str, name: str, view: dict[str, Any] | None = None, **fields: Any) -> None:
        event = {
            "event": name,
            "eventId": next(self.event_ids),
            "traceId": session_id,
            "time": NOW.isoformat(),
        }
        self.notify(
            "goalwright/session/update", {"sessionId": session_id, "event": {**event, **fields}, "view": view}
        )

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if await reader.readline() != preamble(self.token):
                connection.send(
                    {"id": None, "error": {"code": ErrorCode.UNAUTHORIZED, "message": "wrong token"}}
                )
                writer.close()
                return
            self.connections.append(connection)
            while message := await connection.receive():
                task = asyncio.create_task(self._handle(connection, message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        writer.close()

    async def _handle(self, connection: Connection, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        method, params = message["method"], message.get("params") or {}
        self.seen.append((method, params))
        if "id" not in message:
            return
        try:
            if method not in self.handlers:
                raise RefuseError(-32601, f"no such method: {method}")
            connection.send({"id": message["id"], "result": await self.handlers[method](connection, params)})
        except RefuseError as error:
            connection.send({"id": message["id"], "error": {"code": error.code, "message": str(error)}})

    async def _initialize(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        connection.name = params["initializationOptions"]["client"]
        return {"capabilities": {}}

    async def _problems(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {"problems": []}

    async def _status(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "version": "0.0-fake",
            "protocolVersion": self.protocol_version,
            "pid": os.getpid(),
            "workspace": str(self.paths.workspace),
            "uptimeS": 61.0,
            "clients": 1,
            "running": 0,
            "model": "fake/model",
            "demo": False,
            "notice": "",
            "traceFolder": str(self.paths.workspace / ".trace"),
            "memoryMb": 12.5,
        }

    async def _stop(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        self.stop.set()
        return {}

    async def _new(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        trace = {"traceId": f"s{len(self.sessions) + 1}", "title": ""}
        session = {"trace": trace, "status": "idle", "demo": self.demo}
        self.sessions.insert(0, session)
        return {"session": session}

    async def _list(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {"sessions": self.sessions[: params.get("limit", 50)], "more": False}

    async def _load(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        found = [s for s in self.sessions if s["trace"]["traceId"] == params["sessionId"]]
        if not found:
            raise RefuseError(-32011, f"There is no session {params['sessionId']}.")
        return {
            "session": found[0],
            "messages": [],
            "hasEarlier": False,
            "streaming": None,
            "goalTree": self.goal_tree,
            "goalNumbers": {},
            "pending": self.pending,
            "queue": [],
            "lastEventId": next(self.event_ids) - 1,
        }

    async def _prompt(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        turn = Turn(self, params["sessionId"], params)
        self.turns.append(turn)
        turn.event("turn_started", promptId=turn.prompt_id)
        turn.message("user", {"type": "text", "text": turn.text}, message_id="u1")
        reason = await self.script(turn)
        turn.event("turn_ended", promptId=turn.prompt_id, stopReason=reason, detail="")
        return {"promptId": turn.prompt_id, "stopReason": reason, "detail": "", "removed": False}

    async def _cancel(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        for turn in self.turns:
            turn.canceled.set()
        return {"canceled": bool(self.turns)}

    async def _reply(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        future = self.requests_pending.get(params["requestId"])
        if future is None:
            raise RefuseError(-32012, "no such request")
        if future.done():
            return {"accepted": False, "by": future.result().get("by", "")}
        future.set_result({**params, "by": connection.name})
        return {"accepted": True, "by": connection.name}


async def _serve(workspace: Path) -> int:
    fake = FakeDaemon(workspace)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, fake.stop.set)
    try:
        async with fake:
            await fake.stop.wait()
            await asyncio.sleep(0)  # let the answer to `stop` out
    except AlreadyRunningError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--fail", help="end at once with these words on stderr")
    parser.add_argument("--deaf", action="store_true", help="start, but never listen")
    options = parser.parse_args()
    if options.fail:
        sys.exit(options.fail)
    if options.deaf:
        signal.pause()
    sys.exit(asyncio.run(_serve(options.workspace)))
