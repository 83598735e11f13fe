"""The daemon's real door in this process, and clients that may say anything they like."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from daemon.provider.choose import ModelChoice
from lsp_bridge.protocol.handshake import preamble
from lsp_bridge.server.connection import Bridge
from lsp_bridge.server.listen import Listener
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import FakeModels, Step

TOKEN = "token-of-the-test"
DEADLINE_S = 20.0


class ClosedError(Exception):
    """The daemon hung up."""


class RpcError(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]


class Raw:
    """A client that speaks bytes. ``seen`` is everything that came, in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last_id = 0
        self.seen: list[dict[str, Any]] = []

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def send_body(self, body: bytes) -> None:
        self.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def send(self, message: object) -> None:
        self.send_body(json.dumps(message).encode())

    def notify(self, method: str, params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: object) -> int:
        """Send a request; its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises ClosedError."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                length = 0
                while line := (await self._reader.readuntil(b"\r\n")).strip():
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                message: dict[str, Any] = json.loads(await self._reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise ClosedError from error
        self.seen.append(message)
        return message

    async def answer(self, request_id: int | None) -> dict[str, Any]:
        """Wait for the answer with this id. Raises RpcError."""
        message = next((m for m in self.seen if m.get("id", 0) == request_id and "method" not in m), None)
        while message is None:
            received = await self.receive()
            if "method" not in received and received.get("id") == request_id:
                message = received
        if "error" in message:
            raise RpcError(message["error"])
        result: dict[str, Any] = message["result"]
        return result

    async def request(self, method: str, params: object = None) -> dict[str, Any]:
        return await self.answer(self.ask(method, params))

    async def refused(self, method: str, params: object = None) -> RpcError:
        """The error of a request that must fail."""
        try:
            result = await self.request(method, params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} was not refused but answered {result}")

    async def initialize(
        self, client: str = "test", capabilities: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        result = await self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "capabilities": capabilities or {},
                "initializationOptions": {"client": client, **options},
            },
        )
        self.notify("initialized", {})
        return result

    async def event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first event of this name (and with these fields), received already or not."""

        def fits(message: dict[str, Any]) -> bool:
            if message.get("method") != "goalwright/session/update":
                return False
            event = message["params"]["event"]
            return event["event"] == name and all(event[key] == value for key, value in fields.items())

        found = next((m for m in self.seen if fits(m)), None)
        while found is None:
            message = await self.receive()
            found = message if fits(message) else None
        event: dict[str, Any] = found["params"]["event"]
        return event

    def events(self) -> list[dict[str, Any]]:
        """Events received so far."""
        return [m["params"]["event"] for m in self.seen if m.get("method") == "goalwright/session/update"]

    async def hung_up(self) -> None:
        """Return when the daemon has closed the connection; what comes before is taken in."""
        try:
            while True:
                await self.receive()
        except ClosedError:
            pass

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass


class Door:
    """A listening daemon. ``bench`` is what is behind the door."""

    def __init__(self, bench: Bench, bridge: Bridge, listener: Listener, stop: asyncio.Event) -> None:
        self.bench = bench
        self.bridge = bridge
        self.listener = listener
        self.stopping = stop
        self.socket: Path | None = None
        self.port: int | None = None
        self._clients: list[Raw] = []

    async def raw(self) -> Raw:
        """A connection that has not said anything yet."""
        if self.socket is not None:
            reader, writer = await asyncio.open_unix_connection(self.socket)
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._clients.append(Raw(reader, writer))
        return self._clients[-1]

    async def connect(self) -> Raw:
        """A connection with the right first line."""
        client = await self.raw()
        client.send_bytes(preamble(TOKEN))
        return client

    async def client(self, name: str = "test", **options: Any) -> Raw:
        """An initialized client."""
        client = await self.connect()
        await client.initialize(name, **options)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self.listener.close()


async def choose(env: dict[str, str], configured: str | None) -> ModelChoice:
    """The model chooser: what is configured, else the fake."""
    return ModelChoice(configured or "fake/model", False, "")


@asynccontextmanager
async def served(
    *steps: Step,
    settings: Mapping[str, Any] | None = None,
    tcp: bool = False,
    check: bool = True,
    chooser: Callable[..., Any] = choose,
    at: Path | None = None,
    models: FakeModels | None = None,
) -> AsyncGenerator[Door]:
    """A daemon behind its door, over an empty workspace. Every record is checked at the end.

    ``at``: a folder that stays, so that another daemon can follow; its path must be short, for the socket's sake.
    """
    # Not pytest's folder: a socket's path must be short.
    folder = at or Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    bridge = Bridge("0.0-test", chooser)
    stop = asyncio.Event()
    try:
        async with daemon(
            folder,
            *steps,
            command_line=settings,
            editors=bridge.editors,
            check=check,
            models=models,
        ) as bench:
            listener = Listener(bench.core, bridge, bench.api, TOKEN, stop.set)
            door = Door(bench, bridge, listener, stop)
            if tcp:
                door.port = await listener.open(None)
            else:
                door.socket = folder / "socket"
                door.socket.unlink(missing_ok=True)
                await listener.open(door.socket)
            try:
                yield door
            finally:
                await door.close()
    finally:
        if at is None:
            shutil.rmtree(folder)


async def new_session(client: Raw, **params: Any) -> str:
    """A new session that the client has loaded, as an editor does."""
    result = await client.request("goalwright/session/new", params)
    session_id: str = result["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id})
    return session_id


def prompt(client: Raw, session_id: str, text: str = "go", **params: Any) -> int:
    return client.ask("goalwright/session/prompt", {"sessionId": session_id, "text": text, **params})
