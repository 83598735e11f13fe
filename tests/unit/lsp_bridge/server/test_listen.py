"""The door: who is let in, and what nonsense costs."""

from __future__ import annotations

import asyncio
import gc
import json
import stat
import weakref
from pathlib import Path

import pytest

from lsp_bridge.protocol.handshake import ErrorCode, preamble
from lsp_bridge.server import listen
from lsp_bridge.server.connection import ClientServer
from tests.support.drivers.bridge import TOKEN, Door, Raw, served
from tests.support.drivers.waiting import until


async def still_serves(door: Door) -> None:
    """Whatever one client did: another is served."""
    client = await door.client()
    status = await client.request("goalwright/daemon/status")
    assert status["clients"] >= 1
    await client.close()


@pytest.mark.parametrize("tcp", [False, True])
async def test_a_client_with_the_token_is_let_in(tcp: bool) -> None:
    async with served(tcp=tcp) as door:
        client = await door.client()
        assert (await client.request("goalwright/daemon/status"))["version"] == "0.0-test"
        if door.socket is not None:
            assert stat.S_IMODE(door.socket.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "line",
    [
        preamble("wrong"),
        preamble(TOKEN[:-1]),
        preamble(TOKEN + "x"),
        b"GOALWRIGHT/1\n",
        b"GOALWRIGHT/2 " + TOKEN.encode() + b"\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"Content-Length: 2\r\n\r\n{}",
        b"\n",
        b"\xff\xfe\x00\n",
        b"x" * 100_000 + b"\n",
    ],
    ids=["wrong", "short", "long", "none", "version", "http", "lsp", "empty", "binary", "endless"],
)
@pytest.mark.parametrize("tcp", [False, True])
async def test_connection_without_a_valid_token_is_refused_and_closed(line: bytes, tcp: bool) -> None:
    async with served(tcp=tcp) as door:
        client = await door.raw()
        client.send_bytes(line)
        message = await client.receive()
        assert message["id"] is None
        assert message["error"]["code"] == ErrorCode.UNAUTHORIZED
        assert "goalwright start --json" in message["error"]["message"]
        assert TOKEN not in json.dumps(message)
        await client.hung_up()
        assert door.bench.core.presence.clients == 0
        await still_serves(door)


async def test_silent_connection_is_closed_after_the_handshake_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen, "HANDSHAKE_S", 0.05)
    async with served() as door:
        client = await door.raw()
        assert (await client.receive())["error"]["code"] == ErrorCode.UNAUTHORIZED
        await client.hung_up()


async def test_connection_closed_before_the_first_line_is_forgotten() -> None:
    async with served() as door:
        client = await door.raw()
        client.send_bytes(b"GOALWRI")
        await client.close()
        await until(lambda: not door.listener._connections)
        await still_serves(door)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b'{"a": }', b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "cut", "words", "hole", "bytes", "deep"],
)
async def test_invalid_json_body_gets_an_error_and_reading_continues(body: bytes) -> None:
    async with served() as door:
        client = await door.client()
        client.send_body(body)
        message = await client.receive()
        assert message["id"] is None
        assert message["error"]["code"] == -32700
        assert await client.request("goalwright/daemon/status")


@pytest.mark.parametrize("message", [[], 5, None, "text", [{"jsonrpc": "2.0", "id": 1, "method": "x"}]])
async def test_non_object_message_gets_an_error(message: object) -> None:
    async with served() as door:
        client = await door.client()
        client.send(message)
        assert (await client.receive())["error"]["code"] == -32600
        assert await client.request("goalwright/daemon/status")


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: many\r\n\r\n",
        b"Content-Length: 99999999999999\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"X: " + b"x" * 200_000 + b"\r\n\r\n",
        b"x" * 200_000,
        b"X: y\r\n\r\n{}",
    ],
    ids=["negative", "words", "huge", "empty", "long-header", "endless", "no-length"],
)
async def test_invalid_header_closes_only_that_connection(
    header: bytes,
) -> None:
    async with served() as door:
        other = await door.client("other")
        client = await door.client()
        client.send_bytes(header)
        message = await client.receive()
        assert (message["id"], message["error"]["code"]) == (None, -32700)
        assert message["error"]["message"].endswith("The connection is closed.")
        await client.hung_up()
        await until(lambda: door.bench.core.presence.clients == 1)
        assert await other.request("goalwright/daemon/status")


async def test_headers_in_other_spellings_are_read() -> None:
    async with served() as door:
        client = await door.client()
        body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "goalwright/daemon/status"}).encode()
        kind = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
        client.send_bytes(kind + b"content-length:%d\r\n\r\n" % len(body) + body)
        assert await client.answer(77)


async def test_messages_may_come_in_any_pieces() -> None:
    async with served() as door:
        client = await door.client()
        body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "goalwright/daemon/status"}).encode()
        frame = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        for byte in frame:
            client.send_bytes(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.answer(77)
        client.send_bytes(frame.replace(b"77", b"78") + frame.replace(b"77", b"79"))
        assert await client.answer(79)
        assert await client.answer(78)


@pytest.mark.parametrize("cut", [1, 10, 18, 25, 40])
async def test_partial_frame_and_disconnect_do_not_affect_others(cut: int) -> None:
    async with served() as door:
        other = await door.client("other")
        client = await door.client()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "goalwright/session/new"}).encode()
        client.send_bytes((b"Content-Length: %d\r\n\r\n%s" % (len(body), body))[:cut])
        await client.close()
        await until(lambda: door.bench.core.presence.clients == 1)
        assert await other.request("goalwright/daemon/status")


async def test_closing_the_listener_closes_all_connections() -> None:
    async with served() as door:
        clients = [await door.client(), await door.connect(), await door.raw()]
        await until(lambda: len(door.listener._connections._tasks) == 3)
        await door.listener.close()
        for client in clients:
            await client.hung_up()
        assert door.bench.core.presence.clients == 0


async def test_many_clients_come_and_go() -> None:
    async with served() as door:

        async def visit(number: int) -> None:
            client: Raw = await door.client(f"c{number}")
            await client.request("goalwright/daemon/status")
            await client.close()

        await asyncio.gather(*(visit(n) for n in range(40)))
        await until(lambda: door.bench.core.presence.clients == 0)
        assert not door.bridge.editors._editors and not door.bridge.clients
        await until(lambda: not door.listener._connections)


async def test_the_core_does_not_know_of_clients_that_never_got_in(tmp_path: Path) -> None:
    async with served() as door:
        for line in (b"x\n", preamble("wrong")):
            client = await door.raw()
            client.send_bytes(line)
            await client.hung_up()
        assert door.bench.core.presence.clients == 0


@pytest.mark.parametrize("said", [b"", b"GOALWRI", preamble(TOKEN), preamble(TOKEN) + b"Content-Le"])
async def test_silent_connections_do_not_block_new_clients(said: bytes) -> None:
    async with served() as door:
        silent: list[Raw] = []
        for _ in range(listen.MAX_SILENT + 20):
            silent.append(await door.raw())
            silent[-1].send_bytes(said)
        await still_serves(door)
        for client in silent[:20]:
            await client.hung_up()
        await until(lambda: door.bench.core.presence.clients == 0)
        await until(lambda: len(door.listener._connections._tasks) <= listen.MAX_SILENT)


async def test_active_connection_is_not_closed_for_silent_ones() -> None:
    async with served() as door:
        client = await door.client()
        for _ in range(listen.MAX_SILENT + 5):
            await door.raw()
        assert (await client.request("goalwright/daemon/status"))["clients"] == 1


async def test_closed_connection_leaves_no_objects_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[object]] = []

    class Watched(ClientServer):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            made.extend(map(weakref.ref, (self, self._server, self._server.protocol, self._requests)))

    monkeypatch.setattr(listen, "ClientServer", Watched)
    async with served() as door:

        async def come_and_go() -> None:
            client = await door.client(settings={"model": "fake/model"})
            await client.request("goalwright/daemon/status")
            session = (await client.request("goalwright/session/new", {}))["session"]["trace"]["traceId"]
            await client.request("goalwright/session/load", {"sessionId": session})
            await client.refused("textDocument/nothing", {})
            await client.close()
            door._clients.clear()
            await until(lambda: not door.listener._connections)

        for _ in range(3):
            await come_and_go()
        gc.collect()
        assert len(made) == 12
        assert not [ref for ref in made if ref() is not None]


async def test_connections_share_one_converter() -> None:
    async with served() as door:
        one, other = await door.client(), await door.client()
        await until(lambda: door.bench.core.presence.clients == 2)
        servers = [found for found in gc.get_objects() if isinstance(found, ClientServer)]
        assert len({id(server._server.protocol._converter) for server in servers}) == 1
        await one.close()
        await other.close()
