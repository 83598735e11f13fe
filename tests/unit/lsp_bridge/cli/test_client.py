from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.cli.client import Client, ConnectionLostError, Greeting, RequestTimeoutError, RpcError
from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, FakeDaemon, RefuseError


@contextlib.asynccontextmanager
async def connected(fake: FakeDaemon) -> AsyncGenerator[Client]:
    client = await Client.connect(fake.address)
    try:
        await client.initialize(fake.paths.workspace, Greeting(env={"X_API_KEY": "k"}))
        yield client
    finally:
        await client.close()


async def test_initialize_sends_client_workspace_and_keys(fake: FakeDaemon) -> None:
    async with connected(fake) as client:
        await client.request("goalwright/daemon/status")
    (params,) = fake.params("initialize")
    assert params["rootUri"] == fake.paths.workspace.as_uri()
    assert params["initializationOptions"]["client"] == "terminal"
    assert params["initializationOptions"]["env"] == {"X_API_KEY": "k"}
    assert [name for name, _ in fake.seen][:2] == ["initialize", "initialized"]


async def test_initialization_options_are_those_of_the_protocol(fake: FakeDaemon) -> None:
    from lsp_bridge.protocol.sessions import InitializationOptions

    async with connected(fake):
        (params,) = fake.params("initialize")
    options = params["initializationOptions"]
    assert InitializationOptions.model_validate(options).wire() == options


async def test_wrong_token_error_of_the_daemon_is_passed_on(fake: FakeDaemon) -> None:
    client = await Client.connect(fake.address._replace(token="wrong"))
    with pytest.raises(RpcError, match="wrong token") as caught:
        await client.request("initialize")
    assert caught.value.code == ErrorCode.UNAUTHORIZED
    with pytest.raises(RpcError, match="wrong token"):
        await client.request("initialize")
    await client.close()


async def test_missing_listener_is_a_lost_connection(fake: FakeDaemon, tmp_path: Path) -> None:
    for socket in (tmp_path / "missing", tmp_path / "home"):
        with pytest.raises(ConnectionLostError, match="No daemon answers"):
            await Client.connect(fake.address._replace(socket=str(socket)))


async def test_error_answer_keeps_code_and_message(fake: FakeDaemon) -> None:
    async with connected(fake) as client:
        with pytest.raises(RpcError, match="no such method") as caught:
            await client.request("nonsense")
        assert caught.value.code == -32601
        assert (await client.request("goalwright/daemon/status"))["model"] == "fake/model"


async def test_large_messages_pass_both_ways(fake: FakeDaemon) -> None:
    async def echo(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return params

    fake.handlers["echo"] = echo
    text = "häß\u2028😀" * 600_000
    async with connected(fake) as client:
        assert await client.request("echo", {"text": text}) == {"text": text}


async def test_many_requests_at_once_get_their_own_answers(fake: FakeDaemon) -> None:
    first = asyncio.Event()

    async def echo(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        if params["n"] == 0:
            await first.wait()
        else:
            first.set()
        return params

    fake.handlers["echo"] = echo
    async with connected(fake) as client:
        answers = await asyncio.gather(*(client.request("echo", {"n": n}) for n in range(50)))
    assert [answer["n"] for answer in answers] == list(range(50))


async def test_message_in_single_bytes_is_put_together(tmp_path: Path) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        body = b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xc3\xa4"}}'
        head = b"content-type: x\r\ncontent-length:  %d\r\n\r\n" % len(body)
        for byte in head + body:
            writer.write(bytes([byte]))
            await writer.drain()
        await reader.read()
        writer.close()

    async with raw_server(tmp_path, drip) as client:
        assert await client.request("x") == {"a": "ä"}


async def test_notifications_come_in_order_and_before_a_later_answer(fake: FakeDaemon) -> None:
    async def count(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        for n in range(20):
            connection.send({"method": "tick", "params": {"n": n}})
        return {}

    fake.handlers["count"] = count
    seen: list[int] = []
    async with connected(fake) as client:
        client.on_notification(lambda method, params: seen.append(params["n"]))
        await client.request("count")
        assert seen == list(range(20))


async def test_request_of_the_server_is_answered_with_method_not_found(tmp_path: Path) -> None:
    answers: list[bytes] = []

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        frame(writer, b'{"jsonrpc":"2.0","id":"q","method":"workspace/configuration","params":{}}')
        answers.append(await reader.readuntil(b"}}"))
        frame(writer, b'{"jsonrpc":"2.0","method":"done"}')
        writer.close()

    async with raw_server(tmp_path, ask) as client:
        await until(lambda: client.closed, "the end of the connection")
    assert b'"id":"q"' in answers[0]
    assert b"-32601" in answers[0]


async def test_daemon_death_fails_pending_and_later_requests(fake: FakeDaemon) -> None:
    async def die(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        connection.writer.transport.abort()
        return {}

    fake.handlers["die"] = die
    async with connected(fake) as client:
        with pytest.raises(ConnectionLostError, match="connection to the daemon was lost"):
            await client.request("die")
        with pytest.raises(ConnectionLostError, match="connection to the daemon was lost"):
            await client.request("goalwright/daemon/status")
        with pytest.raises(ConnectionLostError):
            await client.notify("anything")


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 1\r\n\r\n{",
        b"Content-Length: 99999999999\r\n\r\n",
        b"x" * 200_000,
    ],
)
async def test_invalid_json_rpc_is_a_lost_connection(tmp_path: Path, garbage: bytes) -> None:
    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(garbage)
        await reader.read()
        writer.close()

    async with raw_server(tmp_path, send) as client:
        with pytest.raises(ConnectionLostError, match="not JSON-RPC"):
            await client.request("x")


async def test_timed_out_request_is_canceled_and_late_answer_ignored(fake: FakeDaemon) -> None:
    release = asyncio.Event()

    async def slow(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        await release.wait()
        return {"late": True}

    fake.handlers["slow"] = slow
    async with connected(fake) as client:
        with pytest.raises(RequestTimeoutError, match=r"did not answer within 0\.01 s"):
            await client.request("slow", timeout=0.01)
        release.set()
        assert (await client.request("goalwright/daemon/status"))["pid"]
        assert len(fake.params("$/cancelRequest")) == 1


async def test_a_daemon_that_reads_nothing_holds_up_nobody(fake: FakeDaemon) -> None:
    async def asleep(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        connection.writer.transport.pause_reading()  # pyright: ignore
        return {}

    fake.handlers["sleep"] = asleep
    async with asyncio.timeout(20), connected(fake) as client:
        await client.request("sleep")
        large = {"text": "x" * 10_000_000}
        with pytest.raises(RequestTimeoutError):
            await client.request("large", large, 0.05)
        waiting = asyncio.create_task(client.request("large", large))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.close()  # and again at the end


async def test_failing_handler_shows_in_the_next_answer(fake: FakeDaemon) -> None:
    async def tick(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        connection.send({"method": "tick"})
        return {}

    def fail(method: str, params: dict[str, Any]) -> None:
        raise ValueError("bug in a handler")

    fake.handlers["tick"] = tick
    async with connected(fake) as client:
        client.on_notification(fail)
        with pytest.raises(ValueError, match="bug in a handler"):
            await client.request("tick")


async def test_null_and_odd_results_read_as_empty(fake: FakeDaemon) -> None:
    async def null(connection: Connection, params: dict[str, Any]) -> None:
        return None

    async def refuse(connection: Connection, params: dict[str, Any]) -> None:
        raise RefuseError(1, "")

    fake.handlers |= {"null": null, "refuse": refuse}
    async with connected(fake) as client:
        assert await client.request("null") == {}
        with pytest.raises(RpcError):
            await client.request("refuse")


async def test_closing_fails_what_is_pending(fake: FakeDaemon) -> None:
    async def never(connection: Connection, params: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    fake.handlers["never"] = never
    async with connected(fake) as client:
        pending = asyncio.create_task(client.request("never"))
        await until(lambda: fake.params("never"))
        await client.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            await pending
        assert not fake.params("$/cancelRequest")


def frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


@contextlib.asynccontextmanager
async def raw_server(tmp_path: Path, serve: Any) -> AsyncGenerator[Client]:
    fake = FakeDaemon(tmp_path, tmp_path / "home")
    fake.paths.prepare()
    tasks: list[asyncio.Task[None]] = []

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_unix_server(accepted, fake.paths.prepare_socket())
    client = await Client.connect(fake.address)
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)
