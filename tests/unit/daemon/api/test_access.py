from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.drivers.core import daemon
from tests.support.drivers.trace_api import client_of, get, raw, upgrade

PATHS = (
    "/",
    "/page/page.js",
    "/openapi.json",
    "/docs",
    "/nothing",
    "/api/traces",
    "/api/traces/x",
    "/api/traces/x/messages",
    "/api/traces/x/tree",
    "/api/traces/x/node/root",
    "/api/traces/x/branches/A",
    "/api/traces/x/watch",
)


@dataclass(frozen=True, slots=True)
class Api:
    port: int
    token: str
    trace_id: str

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with daemon(tmp_path, "ok") as bench:
        session = bench.session()
        await session.prompt("go")
        found = await bench.api.open(0)
        yield Api(int(found.url.rpartition(":")[2]), found.token, session.session_id)


async def test_every_path_requires_the_token(api: Api) -> None:
    for path in PATHS:
        for answer in (await get(api.port, path), await upgrade(api.port, path)):
            assert answer.status == 401, path
            assert answer.header("www-authenticate").startswith("Bearer")
            assert b"token" in answer.body
        assert (await get(api.port, path, api.bearer)).status != 401
        assert (await get(api.port, f"{path}?token={api.token}")).status != 401


async def test_only_the_exact_token_in_header_or_query_is_accepted(api: Api) -> None:
    token = api.token
    wrong = ["", "x", token[:-1], token + "x", token.swapcase(), f" {token[1:]}", "ü" * 43, "\xff"]
    for value in wrong:
        assert (await get(api.port, "/api/traces", f"Authorization: Bearer {value}")).status == 401
    for value in ("", "x", token[:-1], token + "x", f"{token}%00", f"%20{token}", "%FF"):
        assert (await get(api.port, f"/api/traces?token={value}")).status == 401
    for lines in (
        [f"Authorization: Basic {token}"],
        [f"Authorization: {token}"],
        [f"Cookie: token={token}"],
        [f"X-Token: {token}"],
        [f"Referer: http://127.0.0.1:{api.port}/?token={token}"],
        [api.bearer, "Authorization: Bearer wrong"],
    ):
        assert (await get(api.port, "/api/traces", *lines)).status == 401, lines
    assert (await get(api.port, f"/api/traces?token={token}&token=wrong")).status == 401
    assert (await get(api.port, "/api/traces?token=wrong", api.bearer)).status == 401
    assert (await get(api.port, f"/api/traces;token={token}")).status == 401
    assert (await get(api.port, "/api/traces", f"authorization: bearer  {token} ")).status == 200


async def test_other_host_headers_are_refused_even_with_the_token(api: Api) -> None:
    port = api.port
    foreign = [
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        f"127.0.0.1:{port}.evil.example",
        f"127.0.0.1:{port}@evil.example",
        f"localhost.:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"0.0.0.0:{port}",
        f"127.0.0.2:{port}",
        f"[::]:{port}",
        f"127.0.0.1:{port}, evil.example",
    ]
    for host in foreign:
        for answer in (
            await get(port, "/api/traces", api.bearer, host=host),
            await upgrade(port, f"/api/traces/{api.trace_id}/watch", api.bearer, host=host),
        ):
            assert answer.status in (400, 403), host
            assert b'traces"' not in answer.body
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert (await get(port, "/api/traces", api.bearer, host=host)).status == 200
    two = f"GET /api/traces HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: evil.example\n{api.bearer}\n\n"
    assert (await raw(port, two)).status in (400, 403)
    assert (await raw(port, f"GET /api/traces HTTP/1.0\n{api.bearer}\n\n")).status in (400, 403)


async def test_cross_origin_requests_are_refused_without_cors_headers(api: Api) -> None:
    port = api.port
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "file://",
        "",
    ):
        for answer in (
            await get(port, "/api/traces", api.bearer, f"Origin: {origin}"),
            await upgrade(port, f"/api/traces/{api.trace_id}/watch", api.bearer, f"Origin: {origin}"),
        ):
            assert answer.status == 403, origin
    own = await get(port, "/api/traces", api.bearer, f"Origin: http://localhost:{port}")
    asked = await get(
        port,
        "/api/traces",
        "Origin: http://evil.example",
        "Access-Control-Request-Method: GET",
        "Access-Control-Request-Headers: authorization",
        method="OPTIONS",
    )
    assert (own.status, asked.status) == (200, 403)
    assert not [
        name for answer in (own, asked) for name, _ in answer.headers if name.startswith("access-control")
    ]


async def test_every_answer_is_safe_to_be_shown_by_a_browser(api: Api) -> None:
    for path in (*PATHS, f"/api/traces/{api.trace_id}", "/api/traces?limit=none"):
        for lines in ((), (api.bearer,)):
            answer = await get(api.port, path, *lines)
            assert answer.header("x-content-type-options") == "nosniff", path
            assert answer.header("cache-control") == "no-store"
            assert answer.header("referrer-policy") == "no-referrer"
            assert answer.header("x-frame-options") == "DENY"
            assert answer.header("server") == ""
            policy = answer.header("content-security-policy")
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "http:" not in policy
            assert answer.header("set-cookie") == ""


async def test_the_api_is_only_read_and_takes_no_bodies(api: Api) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FROB"):
        answer = await get(api.port, "/api/traces", api.bearer, method=method)
        assert (answer.status, answer.header("allow")) == (405, "GET"), method
    assert (await get(api.port, "/api/traces", api.bearer, "Content-Length: 0")).status == 200
    assert (await get(api.port, "/api/traces", api.bearer, "Content-Length: 5\n\nhello")).status == 413
    chunked = await get(api.port, "/api/traces", api.bearer, "Transfer-Encoding: chunked\n\n5\nhello\n0\n")
    assert chunked.status == 413


async def test_overlong_requests_are_refused(api: Api) -> None:
    long = await get(api.port, f"/api/traces?q={'x' * 5000}", api.bearer)
    assert (long.status, b"4096" in long.body) == (414, True)
    assert (
        await get(api.port, "/api/traces?" + "a=1&" * 900, api.bearer)
    ).status == 401  # nobody counts so many
    assert (await get(api.port, f"/{'x' * 100_000}", api.bearer)).status in (400, 414, 431, 0)
    assert (await get(api.port, "/api/traces", api.bearer, f"X-Long: {'x' * 100_000}")).status in (
        400,
        431,
        0,
    )
    assert (await get(api.port, "/api/traces", api.bearer)).status == 200


async def test_browser_without_token_gets_a_page_that_reads_storage(api: Api) -> None:
    answer = await get(api.port, "/", "Accept: text/html,*/*")
    assert answer.status == 401
    assert answer.header("content-type").startswith("text/html")
    assert b"sessionStorage" in answer.body
    assert api.token.encode() not in answer.body
    assert "script-src 'sha256-" in answer.header("content-security-policy")


async def test_the_token_is_never_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for path in (*PATHS, f"/api/traces/{api.trace_id}/watch"):
            await get(api.port, f"{path}?token={api.token}")
            await get(api.port, f"{path}?token={api.token}", host="evil.example")
            await upgrade(api.port, f"{path}?token={api.token}", host="evil.example")
            await upgrade(api.port, f"{path}?token={api.token}&since_event_id=x")
        await raw(api.port, f"GET /?token={api.token} FROB/1\n\n")
        await raw(api.port, f"GET /?token={api.token}\n nonsense\n\n")
    assert api.token not in caplog.text


async def test_unfinished_requests_time_out_and_keep_alive_works(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("daemon.api.serving"), "HEAD_S", 0.05)
    silent = [asyncio.create_task(raw(api.port, "")) for _ in range(20)]
    slow = [
        asyncio.create_task(raw(api.port, f"GET / HTTP/1.1\nHost: 127.0.0.1:{api.port}\n")) for _ in range(20)
    ]
    assert {answer.status for answer in await asyncio.gather(*silent, *slow)} == {0}
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    request = f"GET /api/traces HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\n{api.bearer}\r\n\r\n".encode()
    for _ in range(3):
        writer.write(request)
        assert b"200" in await reader.readline()
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split()[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")
        )
        await reader.readexactly(length)
    writer.close()


async def test_secrets_of_a_live_session_are_in_no_answer(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Zq7" * 30
    async with daemon(tmp_path, f"the key is {key}", check=False) as bench:
        session = bench.session()
        await session.prompt(f"use {key}")
        assert key in session.state.messages[-1].text()
        async with client_of(await bench.api.open(0)) as client:
            for path in ("", "/messages", "/tree", "/node/root"):
                answer = await client.get(f"/api/traces/{session.session_id}{path}")
                assert answer.status_code == 200
                assert key not in answer.text
                assert "[redacted" in answer.text or path == "/node/root"


async def test_connections_over_the_limit_get_503_until_some_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = importlib.import_module("daemon.api.serving")
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 8)
    async with daemon(tmp_path) as bench:
        found = await bench.api.open(0)
        port, bearer = int(found.url.rpartition(":")[2]), f"Authorization: Bearer {found.token}"
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        assert (await get(port, "/api/traces", bearer)).status == 503
        for _, writer in held:
            writer.close()
        while (await get(port, "/api/traces", bearer)).status == 503:
            continue  # until the server has noticed that they went
        assert (await get(port, "/api/traces", bearer)).status == 200
