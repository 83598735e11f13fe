"""Signing in to MCP servers: the SDK's own authorization server on loopback, and servers that lie."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from daemon.mcp import sign_in
from daemon.mcp.configuration import McpServerSpec
from daemon.mcp.connection import Connection
from daemon.mcp.server_log import McpServerLog
from daemon.mcp.server_requests import CallRequests
from daemon.mcp.sign_in import GuardedTransport, SignIn
from daemon.mcp.tokens import TokenStore
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import fake_context
from tests.support.programs import guarded_mcp_server
from tools.redaction.redactor import SECRETS
from tools.tool import ToolError


@asynccontextmanager
async def guarded(how: str = "") -> AsyncGenerator[str]:
    """Yield the URL of a server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        guarded_mcp_server.__file__,
        how,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def control(url: str, what: str = "") -> dict[str, Any]:
    async with httpx2.AsyncClient() as client:
        return (await client.get(url.replace("/mcp", f"/control?do={what}"))).json()


async def visit(page: str) -> httpx2.Response:
    """Do what a browser does, up to the page that it ends on."""
    async with httpx2.AsyncClient(follow_redirects=True) as client:
        return await client.get(page)


async def signed_in(url: str, store: TokenStore) -> None:
    attempt = SignIn(url, store)
    try:
        response = await visit(await attempt.page())
        assert response.status_code == 200 and "You can close this page" in response.text
        await attempt.done()
    finally:
        await attempt.close()


@asynccontextmanager
async def connected(
    folder: Path, url: str, state: str = "ready", headers: tuple[tuple[str, str], ...] = ()
) -> AsyncGenerator[Connection]:
    spec = McpServerSpec("guarded", "config.json", url=url, headers=headers)
    log = McpServerLog(folder / "log")
    server = Connection(spec, folder, {}, log, lambda: None, TokenStore(folder / "tokens.json"))
    server.start()
    try:
        await until(lambda: server.state == state, state, 60)
        yield server
    finally:
        await server.stop()


async def call_secret(server: Connection) -> Any:
    requests = CallRequests("guarded", fake_context(server.log.path.parent))
    (tool,) = server.tools
    return await server.call(tool, {}, 60, _quiet, requests)


async def _quiet(progress: float, total: float | None, message: str | None) -> None:
    """Takes progress that nobody looks at."""


async def test_sign_in_use_renewal_and_sign_out(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    store = TokenStore(file)
    async with guarded() as url:
        async with connected(tmp_path, url, "signed_out") as server:
            assert server.error == "it needs a sign-in: goalwright mcp login guarded"
            assert (await control(url))["clients"] == 0, "nothing is registered before the user wants it"
        await signed_in(url, store)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = store.read(url)["tokens"]["access_token"]
        assert token not in SECRETS.text(f"Bearer {token}")
        async with connected(tmp_path, url) as server:
            assert [tool.name for tool in server.tools] == ["secret"]
            await control(url, "revoke")
            with pytest.raises(ToolError, match="ended during the call"):
                await call_secret(server)
            await until(lambda: server.state == "failed", "the end of the connection")
            await until(lambda: server.state == "ready", "the renewed token", 60)
            assert (await call_secret(server)).content[0].text == "the plan"
            assert (await control(url))["renewed"] == 1
            assert store.read(url)["tokens"]["access_token"] != token
            await control(url, "forget")
            await server.restart()
            await until(lambda: server.state == "signed_out", "the end of the sign-in", 60)
        assert token not in (tmp_path / "log").read_text()
        async with connected(tmp_path, url.replace("/mcp", "/mcp/"), "signed_out"):
            pass  # another URL does not get the tokens
        store.write(url, lambda _: None)
        assert "access_token" not in file.read_text()


async def test_tokens_that_expire_are_renewed(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    async with guarded("short") as url:
        await signed_in(url, store)
        async with connected(tmp_path, url):
            assert (await control(url))["renewed"] >= 1


async def test_tokens_of_the_settings_come_first(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    async with guarded() as url:
        await signed_in(url, store)
        async with connected(tmp_path, url, "failed", (("authorization", "Bearer mine"),)) as server:
            assert "does not accept the header Authorization" in server.error


async def test_a_redirect_with_another_state_changes_nothing(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    async with guarded() as url:
        attempt = SignIn(url, store)
        page = await attempt.page()
        (redirect,) = parse_qs(urlsplit(page).query)["redirect_uri"]
        for query in ({"code": "evil", "state": "guess"}, {"code": "evil"}, {"error": "no", "state": ""}):
            assert (await visit(f"{redirect}?{urlencode(query)}")).status_code == 400
        assert (await visit(redirect.replace("/callback", "/other"))).status_code == 404
        assert (await visit(page)).status_code == 200
        await attempt.done()
        assert store.read(url)["tokens"]


@pytest.mark.parametrize(
    ("how", "problem"),
    [("denies", r"it was refused \(access_denied\)"), ("closed", "does not let Goalwright register itself")],
)
async def test_sign_ins_that_the_server_refuses(tmp_path: Path, how: str, problem: str) -> None:
    async with guarded(how) as url:
        attempt = SignIn(url, TokenStore(tmp_path / "tokens.json"))

        async def whole() -> None:
            await visit(await attempt.page())
            await attempt.done()

        with pytest.raises(ToolError, match=problem):
            await whole()
        assert not (tmp_path / "tokens.json").exists()


async def test_nobody_signs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "USER_S", 0.5)
    async with guarded() as url:
        attempt = SignIn(url, TokenStore(tmp_path / "tokens.json"))
        with pytest.raises(ToolError, match="Nobody signed in"):
            await attempt.done()


async def test_a_server_without_sign_in(tmp_path: Path) -> None:
    async with lying({"/mcp": (200, {}, {})}) as url:
        with pytest.raises(ToolError, match="does not ask for a sign-in"):
            await SignIn(url, TokenStore(tmp_path / "tokens.json")).page()


# -- servers that lie --

Answers = dict[str, tuple[int, dict[str, str], Any]]


@asynccontextmanager
async def lying(answers: Answers) -> AsyncGenerator[str]:
    """A server with these answers by path: status, headers and JSON. BASE stands for itself."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        asked.append(path)
        status, headers, body = answers.get(path, (404, {}, {}))
        text = json.dumps(body).replace("BASE", base)
        lines = [f"HTTP/1.1 {status} X", "Connection: close", f"Content-Length: {len(text)}"]
        lines += [f"{name}: {value.replace('BASE', base)}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + f"\r\n\r\n{text}").encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield f"{base}/mcp"
    finally:
        server.close()


RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = {
    "issuer": "BASE",
    "authorization_endpoint": "BASE/authorize",
    "token_endpoint": "BASE/token",
    "registration_endpoint": "BASE/register",
    "response_types_supported": ["code"],
    "code_challenge_methods_supported": ["S256"],
}


def answers(resource: dict[str, Any], **metadata: str) -> Answers:
    return {
        "/mcp": (401, {"WWW-Authenticate": "Bearer"}, {}),
        RESOURCE: (200, {}, {"resource": "BASE/mcp", "authorization_servers": ["BASE"], **resource}),
        "/.well-known/oauth-authorization-server": (200, {}, {**METADATA, **metadata}),
        "/register": (201, {}, {"client_id": "me", "redirect_uris": ["http://127.0.0.1/"]}),
    }


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (answers({"resource": "https://bank.example/mcp"}), "does not match"),
        (answers({"authorization_servers": ["http://192.0.2.1"]}), "not an address"),
        (answers({}, issuer="https://bank.example"), "mismatch"),
        (answers({}, authorization_endpoint="http://192.0.2.1/sign"), "not an address"),
        (answers({}, registration_endpoint="http://10.0.0.1/x"), "not an address"),
    ],
)
async def test_metadata_that_lies(tmp_path: Path, found: Answers, problem: str) -> None:
    async with lying(found) as url:
        with pytest.raises(ToolError, match=problem):
            await SignIn(url, TokenStore(tmp_path / "tokens.json")).page()


@pytest.mark.parametrize(
    ("server", "named", "allowed"),
    [
        ("https://8.8.8.8/mcp", "https://1.1.1.1/token", True),
        ("https://8.8.8.8/mcp", "http://1.1.1.1/token", False),
        ("https://8.8.8.8/mcp", "https://127.0.0.1/token", False),
        ("https://8.8.8.8/mcp", "https://[::1]/token", False),
        ("https://8.8.8.8/mcp", "https://169.254.169.254/latest", False),
        ("https://8.8.8.8/mcp", "https://[::ffff:10.0.0.1]/", False),
        ("https://8.8.8.8/mcp", "https://user@1.1.1.1/token", False),
        ("https://10.0.0.1/mcp", "https://10.0.0.2/token", True),
        ("https://10.0.0.1/mcp", "http://10.0.0.2/token", False),
        ("http://127.0.0.1/mcp", "http://127.0.0.1:99/token", True),
        ("http://127.0.0.1/mcp", "http://10.0.0.2/token", False),
    ],
)
async def test_where_a_sign_in_may_lead(server: str, named: str, allowed: bool) -> None:
    transport = GuardedTransport(server)
    if allowed:
        assert await transport.checked(httpx2.URL(named)) in named
    else:
        with pytest.raises(httpx2.TransportError):
            await transport.checked(httpx2.URL(named))


async def test_unencrypted_servers_get_no_sign_in(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not an address that begins with https"):
        await SignIn("http://192.0.2.7/mcp", TokenStore(tmp_path / "tokens.json")).page()


def test_a_damaged_store_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text("{")
    store = TokenStore(file)
    assert store.read("https://a.example") == {}
    store.write("https://a.example", lambda _: {"tokens": {"access_token": "abc"}})
    store.write("https://b.example", lambda _: {"tokens": {"access_token": 7}})
    assert store.read("https://a.example")["tokens"] == {"access_token": "abc"}
    assert sign_in.Storage(store, "https://b.example").entry == {}
