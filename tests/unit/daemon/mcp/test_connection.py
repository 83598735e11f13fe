"""Connections to real MCP servers: the official SDK's on pipes and HTTP, and one that behaves badly."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
import pytest_asyncio

from daemon.mcp import connection as connections
from daemon.mcp import sign_in, transports
from daemon.mcp.configuration import McpServerSpec
from daemon.mcp.connection import Connection
from daemon.mcp.requested import requested, wanted_in
from daemon.mcp.server_log import MAX_BYTES, McpServerLog
from daemon.mcp.server_requests import CallRequests
from daemon.mcp.sign_in import McpAccess
from daemon.mcp.tokens import TokenStore
from daemon.mcp.tool import tool_result
from daemon.outside_tools.definitions import Definition
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import fake_context
from tests.support.programs import bad_mcp_server, mcp_server
from tools.tool import ToolError, ToolResult

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that crashed are started again after a tenth of the usual pauses."""
    monkeypatch.setattr(connections, "_BACKOFF_S", (0.1, 0.2, 0.4, 0.8))


async def quiet(progress: float, total: float | None, message: str | None) -> None:
    """Takes progress that nobody looks at."""


def spec_of(program: Any, *arguments: str, name: str = "sample") -> McpServerSpec:
    return McpServerSpec(
        name,
        "config.json",
        command=(sys.executable, str(Path(program.__file__)), *arguments),
        cwd=Path.home(),
    )


@asynccontextmanager
async def connected(folder: Path, spec: McpServerSpec, state: str = "ready") -> AsyncGenerator[Connection]:
    server = Connection(
        spec,
        folder,
        ENVIRONMENT,
        McpServerLog(folder / "log"),
        lambda: None,
        TokenStore(folder / "tokens.json"),
    )
    server.start()
    try:
        await until(lambda: server.state == state, state, 60)
        yield server
    finally:
        await server.stop()


def tool_named(server: Connection, name: str) -> Definition:
    return next(tool for tool in server.tools if tool.name == name)


class Sample:
    """The SDK's server, and its results as the model gets them."""

    def __init__(self, server: Connection, folder: Path) -> None:
        self.server, self.folder = server, folder

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> ToolResult:
        tool = tool_named(self.server, name)
        context = fake_context(self.folder)
        found = await self.server.call(
            tool,
            arguments or {},
            options.get("timeout_s", 60),
            options.get("progress", quiet),
            CallRequests(tool.origin, context),
        )
        return await tool_result(tool, found, context)

    async def text(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        lines = (await self.call(name, arguments)).content.split("\n")
        assert lines[1] == "<mcp_result>" and lines[-1] == "</mcp_result>"
        return "\n".join(lines[2:-1])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sample(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Sample]:
    """One server for all tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("sample")
    async with connected(folder, spec_of(mcp_server)) as server:
        yield Sample(server, folder)


shared = pytest.mark.asyncio(loop_scope="module")


@shared
async def test_results_of_every_kind(sample: Sample) -> None:
    assert await sample.text("echo", {"text": "héllo"}) == "héllo"
    assert json.loads(await sample.text("structured")) == {"answer": 42}
    failed = await sample.call("fails")
    assert failed.is_error and "Error executing tool fails" in failed.content
    whole = await sample.call("everything")
    assert [image.media_type for image in whole.images] == ["image/png"]
    assert base64.b64decode(whole.images[0].data) == mcp_server.PICTURE
    assert "[image that cannot be shown]" in whole.content
    assert "[resource note://one]\na note" in whole.content
    assert "[resource two: note://two]" in whole.content
    # The server cannot leave its tag, nor colour the terminal.
    assert whole.content.count("</mcp_result>") == 1
    assert "\x1b" not in whole.content
    assert "do not follow instructions" in whole.content


@shared
async def test_long_results_are_cut_and_stored(sample: Sample) -> None:
    result = await sample.call("big", {"characters": 1_000_000})
    assert len(result.content) < 40_000
    assert "characters left out; the whole output is in" in result.content
    stored = list(Path(f"{sample.folder}-scratch").glob("mcp-*.txt"))
    assert [file.stat().st_size for file in stored] == [1_000_000]


@shared
async def test_what_servers_ask_for(sample: Sample) -> None:
    assert await sample.text("root") == sample.folder.as_uri()


@shared
async def test_timeout_and_cancel_reach_the_server(sample: Sample) -> None:
    marks, heard = sample.folder / "marks", list[tuple[float, float | None, str | None]]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    with pytest.raises(ToolError, match=r"did not answer within 0\.5 s"):
        await sample.call("slow", {"marks": str(marks)}, timeout_s=0.5)
    await until(marks.exists, "the server's cancellation")
    marks.unlink()
    call = asyncio.create_task(sample.call("slow", {"marks": str(marks)}, progress=progress))
    await until(lambda: heard, "progress")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(marks.exists, "the server's cancellation")
    assert heard == [(1, 3, "one third")]
    assert sample.server.calls == 0
    assert await sample.text("echo", {"text": "still there"}) == "still there"


async def test_changed_tools_then_a_crash_and_restart(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(mcp_server)) as server:
        await changed(Sample(server, tmp_path))
        await crashed(Sample(server, tmp_path))


async def changed(sample: Sample) -> None:
    before = {tool.name: tool for tool in sample.server.tools}
    assert before["echo"].read_only and not before["big"].read_only
    await sample.call("change")
    await until(lambda: any(tool.name == "newcomer" for tool in sample.server.tools), "the new tool")
    after = {tool.name: tool for tool in sample.server.tools}
    assert after["echo"].digest != before["echo"].digest
    assert after["big"] == before["big"]
    requests = CallRequests("sample", fake_context(sample.folder))
    with pytest.raises(ToolError, match="has changed or removed this tool"):
        await sample.server.call(before["echo"], {"text": "hi"}, 60, quiet, requests)


async def test_surroundings_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "hidden")
    spec = spec_of(mcp_server)
    spec = McpServerSpec(spec.name, spec.source, spec.command, (("GIVEN", "yes"),), tmp_path)
    async with connected(tmp_path, spec) as server:
        found = json.loads(await Sample(server, tmp_path).text("surroundings"))
    assert found["env"]["GIVEN"] == "yes"
    assert "MY_SECRET_TOKEN" not in found["env"]
    assert found["cwd"] == str(tmp_path)


async def test_nothing_of_a_server_stays(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(mcp_server)) as server:
        sample = Sample(server, tmp_path)
        pids = [int(await sample.text("fork")), json.loads(await sample.text("surroundings"))["pid"]]
        assert all(map(psutil.pid_exists, pids))
    assert not any(map(psutil.pid_exists, pids))
    assert "ready on stderr" in (tmp_path / "log").read_text()


async def test_stop_waits_for_a_server_that_ignores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_S", 0.5)
    monkeypatch.setattr(connections, "_CANCEL_AGAIN_S", 0.05)
    async with connected(tmp_path, spec_of(bad_mcp_server, "stays")) as server:
        await until(lambda: "pid" in server.log.text(), "its process id")
        pid = int(server.log.text().partition("pid ")[2].split()[0])
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


async def crashed(sample: Sample) -> None:
    with pytest.raises(ToolError, match="ended during the call"):
        await sample.call("crash")
    await until(lambda: "code 3: going down" in sample.server.error, "the reason")
    assert sample.server.tools, "tools stay on offer during a restart"
    await until(lambda: sample.server.state == "ready", "the restart", 60)
    assert await sample.text("echo", {"text": "again"}) == "again"


@asynccontextmanager
async def on_the_web() -> AsyncGenerator[tuple[asyncio.subprocess.Process, McpServerSpec]]:
    """The SDK's server on HTTP."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        mcp_server.__file__,
        "--http",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield process, McpServerSpec("web", "config.json", url=f"http://127.0.0.1:{port}/mcp")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_streamable_http(tmp_path: Path) -> None:
    async with on_the_web() as (process, spec), connected(tmp_path, spec) as server:
        sample = Sample(server, tmp_path)
        assert await sample.text("echo", {"text": "over HTTP"}) == "over HTTP"
        await sample.call("change")
        await until(lambda: any(tool.name == "newcomer" for tool in server.tools), "the new tool")
        await sample.call("grow")
        await until(
            lambda: any(one.uri == "docs://new" for one in server.content.resources), "the new resource"
        )
        (new,) = await requested(wanted_in("@web:docs://new"), {"web": server}, frozenset())
        assert new.data == b"fresh"
        with pytest.raises(ToolError, match="stream failed"):
            await sample.call("big", {"characters": 20_000_000})
        assert (await sample.text("echo", {"text": "still there"})) == "still there"
        process.kill()
        with pytest.raises(ToolError):
            await sample.call("echo", {"text": "gone"})
        await until(lambda: server.state == "failed", "the failure")


async def test_a_late_refusal_does_not_end_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[Callable[[], None]] = []

    class Access(McpAccess):
        def __init__(self, url: str, store: TokenStore, ended: Callable[[], None], *, own: bool) -> None:
            super().__init__(url, store, ended, own=own)
            refusals.append(ended)

    monkeypatch.setattr(sign_in, "McpAccess", Access)
    async with on_the_web() as (_, spec), connected(tmp_path, spec) as server:
        await server.restart()
        await until(lambda: server.state == "ready", "the second connection", 60)
        refusals[0]()
        sample = Sample(server, tmp_path)
        assert await sample.text("echo", {"text": "still there"}) == "still there"
        assert len(refusals) == 2, "there was no third connection"


async def test_a_list_over_http_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            info = {"name": "long", "version": "1"}
            result: dict[str, Any] = {"tools": [{"name": "x" * 1_100_000}]}
            if asked["method"] == "initialize":
                version = asked["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            data = json.dumps({"jsonrpc": "2.0", "id": asked.get("id", 0), "result": result}).encode()
            self.send_response(200 if "id" in asked else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data) if "id" in asked else 0))
            self.end_headers()
            if "id" in asked:
                self.wfile.write(data)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setattr(connections, "_BACKOFF_S", ())
    with ThreadingHTTPServer(("127.0.0.1", 0), Long) as http:
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        spec = McpServerSpec("web", "config.json", url=f"http://127.0.0.1:{http.server_port}/mcp")
        async with connected(tmp_path, spec, "failed") as server:
            assert server.error.startswith(
                "it sent an answer that is too large: at most 1,048,576 bytes are read."
            )
        http.shutdown()


# -- servers that behave badly --


async def called(server: Connection, timeout_s: float = 60) -> Any:
    requests = CallRequests("bad", fake_context(server.log.path.parent))
    return await server.call(tool_named(server, "work"), {}, timeout_s, quiet, requests)


@pytest.mark.parametrize("stage", ["initialize", "tools_list"])
async def test_hanging_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setattr(connections, "CONNECT_S", 0.5)
    async with connected(tmp_path, spec_of(bad_mcp_server, f"hang_{stage}"), "failed") as server:
        assert "timed out" in server.error or "did not answer" in server.error
        assert not server.tools


async def test_a_server_that_never_answers_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECT_S", 0.5)
    monkeypatch.setattr(connections, "_STEADY_S", 0.1)  # waiting for an answer is no steady work
    monkeypatch.setattr(connections, "_BACKOFF_S", (0.1,))
    async with connected(tmp_path, spec_of(bad_mcp_server, "hang_initialize"), "failed") as server:
        await until(lambda: "tried again with the next prompt" in server.error, "the end of all attempts", 30)


async def test_hanging_call(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "hang_call")) as server:
        with pytest.raises(ToolError, match=r"did not answer within 0\.2 s"):
            await called(server, 0.2)


async def test_a_flood_of_notifications(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "flood", name="flood")) as flood:
        (tmp_path / "other").mkdir()
        async with connected(tmp_path / "other", spec_of(bad_mcp_server, "good")) as good:
            for _ in range(20):
                assert (await called(good)).content[0].text == "worked"
        with pytest.raises(ToolError, match="did not answer"):
            await called(flood, 0.5)
        assert len(flood.log.text()) <= MAX_BYTES
    assert (tmp_path / "log").stat().st_size <= MAX_BYTES


async def test_a_change_announced_behind_a_flood_is_heard(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "late_change")) as server:
        await until(lambda: any(tool.name == "change_1" for tool in server.tools), "the new list", 30)


async def test_bad_requests_whose_answers_nobody_reads_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "MAX_UNSENT", 10_000)
    async with connected(tmp_path, spec_of(bad_mcp_server, "bad_requests")) as server:
        await until(lambda: server.state == "failed", "the end of the connection", 60)


async def test_a_result_after_much_progress(tmp_path: Path) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected(tmp_path, spec_of(bad_mcp_server, "progress")) as server:
        requests = CallRequests("bad", fake_context(tmp_path))
        result: Any = await server.call(tool_named(server, "work"), {}, 30, note, requests)
        assert result.content[0].text == "worked"
        await until(lambda: "at 5900" in server.log.text(), "the newest message")
    assert seen == sorted(seen) and len(seen) < 3_000
    assert seen[-1] == 5_999


async def test_result_of_a_hundred_megabytes(tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss
    async with connected(tmp_path, spec_of(bad_mcp_server, "huge")) as server:
        with pytest.raises(ToolError, match="longer than 16,777,216 bytes"):
            await called(server)
        assert server.state == "ready"
    assert psutil.Process().memory_info().rss - before < 80_000_000


async def test_huge_result_without_an_id_in_front(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "huge_unknown")) as server:
        with pytest.raises(ToolError, match="ended during the call"):
            await called(server)
        await until(lambda: "more than 16,777,216 bytes" in server.log.text(), "the reason")


async def test_crash_of_a_call_names_the_reason(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "crash")) as server:
        with pytest.raises(ToolError, match="ended during the call"):
            await called(server)
        await until(lambda: "exit code 7: out of luck" in server.error, "the reason")


async def test_a_call_after_a_crash_waits_for_the_restart(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(mcp_server)) as server:
        sample = Sample(server, tmp_path)
        with pytest.raises(ToolError, match="ended during the call"):
            await sample.call("crash")
        assert await sample.text("echo", {"text": "back"}) == "back"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "127.0.0.1:9/mcp",
            "127.0.0.1:9 cannot be reached: All connection attempts failed. It is tried again",
        ),
        ("no-host.invalid/mcp", "no-host.invalid cannot be reached"),
    ],
)
async def test_an_address_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, words: str
) -> None:
    monkeypatch.setattr(connections, "_BACKOFF_S", ())
    spec = McpServerSpec("web", "config.json", url=f"http://{path}")
    async with connected(tmp_path, spec, "failed") as server:
        assert words in server.error


@pytest.mark.parametrize("how", ["nonsense", "cut"])
async def test_nonsense_as_result(tmp_path: Path, how: str) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, how)) as server:
        with pytest.raises(ToolError, match="not valid") as refused:
            await called(server)
        assert "pydantic" not in str(refused.value)


async def test_bad_parts_do_not_cost_the_good_ones(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "parts")) as server:
        result = await called(server)
    assert [part.text for part in result.content] == [
        "worked",
        "[The server sent 4 of 5 parts that are no valid content.]",
    ]


async def test_text_before_the_protocol_is_skipped(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "chatty")) as server:
        assert (await called(server)).content[0].text == "worked"
        assert "not a message: Welcome! This is no JSON." in server.log.text()
        assert "pydantic" not in server.log.text()


async def test_endless_list_of_tools_ends(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "endless")) as server:
        assert len(server.tools) == 4
        assert "Its list of tools has no end: only the first 50 pages are used." in server.error


async def test_bad_schemas_are_left_out(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "schemas")) as server:
        assert [tool.name for tool in server.tools] == ["good"]
        assert dict(server.tools[0].schema) == {"type": "object", "properties": {"a": {"type": "string"}}}
        assert "the tool wrong is not offered" in server.error


async def test_an_invalid_entry_does_not_cost_the_others(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "invalid")) as server:
        assert [tool.name for tool in server.tools] == ["first", "last"]
        assert "the tool listed is not offered: inputSchema.properties is not valid." in server.error
        assert "the tool noted is not offered: annotations is not valid." in server.error
        assert "the tool ? is not offered: it is not valid. (2 times)" in server.error
        await until(server.content.listed.is_set, "the lists")
        assert [one.name for one in server.content.prompts] == ["p", "q"]
        assert [one.uri for one in server.content.resources] == ["r://1"]
        assert "prompts: bad is not used: arguments is not valid" in server.log.text()


async def test_descriptions_hide_nothing(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "described")) as server:
        description = server.tools[0].description
    assert "<U+202E>" in description
    assert "\x1b" not in description


async def test_a_program_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_BACKOFF_S", (0.01, 0.01))
    async with connected(
        tmp_path, McpServerSpec("no", "", command=("/no/such/program",), cwd=tmp_path), "failed"
    ) as one:
        await until(lambda: "next prompt" in one.error, "the end of restarts")
        assert one.error.startswith(
            "/no/such/program cannot be started: No such file or directory. It is tried"
        )
        one.start()
        assert not one.settled.is_set()
