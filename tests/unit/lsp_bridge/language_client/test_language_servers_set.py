from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import FileServers, LanguageServers
from lsp_bridge.language_client.pool.usage import UsageLimits
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.specs.server_spec import Command, Project, ServerSpec
from tests.evals.bad_servers import CASES, Case, play
from tests.support.scenarios.language_workspace import (
    FAKE,
    HANG_S,
    SOON,
    LanguageWorkspace,
    eventually,
    fake_spec,
    process_lives,
)

Make = Callable[..., LanguageServers]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[LanguageServers] = []

    def make_one(*specs: ServerSpec, **options: Any) -> LanguageServers:
        choice = ServerChoice(specs, SOON)
        servers = LanguageServers(tmp_path.resolve(), lambda: choice, **options)
        made.append(servers)
        return servers

    yield make_one
    for servers in made:
        await asyncio.wait_for(servers.close(), HANG_S)


def only(servers: LanguageServers, path: Path) -> LanguageServer:
    [server] = servers.for_path(path).servers
    return server


async def ready(server: LanguageServer) -> LanguageServer:
    assert await server.ready(asyncio.get_running_loop().time() + HANG_S), server.gone_because
    return server


def received(log: Path, method: str) -> list[dict[str, Any]]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    messages = [json.loads(line) for line in lines]
    return [message.get("params") for message in messages if message.get("method") == method]


async def test_programs_of_a_project_run_in_a_read_only_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "home"))
    workspace, outside = tmp_path.resolve() / "project", tmp_path.resolve() / "outside"
    program = workspace / ".venv/bin/theirs"
    program.parent.mkdir(parents=True)
    start = f"exec '{sys.executable}' '{FAKE}' --plan '[[\"fresh\"]]'"
    here = f"test $PWD = {program.parent} || exit 1"
    program.write_text(f"#!/bin/sh\ntouch {outside} {workspace}/made\n{here}\n{start}\n")
    program.chmod(0o755)
    spec = ServerSpec("theirs", {".txt": "plain"}, (Command("theirs", ("theirs",)),))
    choice = ServerChoice((spec,), SOON, trusted=True)
    servers = LanguageServers(workspace, lambda: choice)
    try:
        await ready(only(servers, workspace / "a.txt"))
        assert not outside.exists() and not (workspace / "made").exists()
    finally:
        await asyncio.wait_for(servers.close(), HANG_S)
    (tmp_path / "link").symlink_to(program)
    assert Project(workspace).brings(tmp_path / "link")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
async def test_misbehaving_server_is_never_trusted_or_waited_for(case: Case, tmp_path: Path) -> None:
    assert (await play(case, tmp_path.resolve())).wrong == ""


@pytest.mark.parametrize("flags", [[], ["--ignore-shutdown", "--child", "child"]])
async def test_language_servers_do_not_outlive_a_killed_daemon(tmp_path: Path, flags: list[str]) -> None:
    flags = [str(tmp_path / "child") if flag == "child" else flag for flag in flags]
    command = [sys.executable, "-m", "tests.support.programs.doomed_language_daemon", str(tmp_path), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:  # noqa: ASYNC220 - returns at once
        assert daemon.stdout is not None
        pids = [int(await asyncio.to_thread(daemon.stdout.readline))]
        if flags:
            pids.append(int((tmp_path / "child").read_text()))
        assert all(process_lives(pid) for pid in pids)
        daemon.send_signal(signal.SIGKILL)
    await eventually(lambda: not any(process_lives(pid) for pid in pids), "the end of all processes")


async def test_each_project_has_its_own_server(make: Make, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "project.mark").touch()
    log = tmp_path / "log"
    servers = make(replace(fake_spec("--log", str(log)), roots=("project.mark",)))
    one, two = only(servers, tmp_path / "one/deep/a.txt"), only(servers, tmp_path / "two/a.txt")
    whole = only(servers, tmp_path / "a.txt")
    assert only(servers, tmp_path / "one/b.txt") is one
    assert [server.root for server in (one, two, whole)] == [tmp_path / "one", tmp_path / "two", tmp_path]
    for server in (one, two, whole):
        await ready(server)
    told = {params["rootUri"] for params in received(log, "initialize")}
    assert told == {server.root.as_uri() for server in (one, two, whole)}
    assert set(servers.alive()) == {one, two, whole}


async def test_the_least_recently_used_server_makes_room(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "goalwright.lsp_client")
    clock, found = Clock(), list[LanguageServer]()
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "mark").touch()
    servers = make(replace(fake_spec(), roots=("mark",)), clock=clock, max_alive=3)
    for number in (0, 1, 2, 0, 3):
        clock.now += 1
        found.append(await ready(only(servers, tmp_path / str(number) / "a.txt")))
    await eventually(lambda: found[1].gone, "the end of the second")
    assert [server.gone for server in found] == [False, True, False, False, False]
    assert "was stopped: more than 3 servers were needed" in caplog.text


async def test_server_over_the_memory_limit_is_restarted_with_a_reason(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = make(fake_spec(plan=[["eat:120", "fresh"]]), limits=UsageLimits(memory_bytes=100 << 20))
    server = await ready(only(servers, tmp_path / "a.txt"))
    await servers.tick()
    assert not server.gone
    server.sync(tmp_path / "a.txt", "x")
    await eventually(lambda: server.answers.has_answered, "the meal")
    await servers.tick()
    assert "MB of memory, more than 100 MB" in caplog.text
    await eventually(lambda: server.gone, "its end")
    again = await ready(only(servers, tmp_path / "a.txt"))
    assert again is not server


async def test_crashing_server_is_paused_with_a_reason_and_retried(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, path = Clock(), tmp_path / "a.txt"
    servers = make(fake_spec("--exit-at-start"), clock=clock)
    for _ in range(40):
        for server in servers.for_path(path).servers:
            await eventually(lambda server=server: server.gone, "the crash")
        servers.for_path(path)
        clock.now += 1.0
    assert servers.for_path(path) == FileServers(())
    assert "exited with 1" in caplog.text
    assert "ended 4 times: not restarted for now" in caplog.text
    clock.now += 600
    assert servers.for_path(path).servers


async def test_unexecutable_server_reports_the_reason(make: Make, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken"
        broken.write_text("#!/nonexistent/interpreter\n", encoding="ascii")
        broken.chmod(0o755)
        servers = make(ServerSpec("broken", {".txt": "plain"}, (Command("broken", (str(broken),)),)))
        server = only(servers, tmp_path / "a.txt")
        await eventually(lambda: server.gone, "the failure")
    assert "could not be started" in server.gone_because
    assert "No such file" in server.gone_because


async def test_chosen_servers_may_change_at_any_time(tmp_path: Path) -> None:
    now = [ServerChoice(specs=(fake_spec(name="first"),), timing=SOON)]
    servers = LanguageServers(tmp_path, choose=lambda: now[0])
    first = await ready(only(servers, tmp_path / "a.txt"))
    now[0] = ServerChoice(specs=(fake_spec(name="second"),), timing=SOON)
    second = only(servers, tmp_path / "a.txt")
    assert (first.name, second.name) == ("first", "second")
    await eventually(lambda: first.gone, "the end of the first")
    await servers.close()


async def test_server_yields_to_an_available_equivalent(make: Make, tmp_path: Path) -> None:
    second = replace(fake_spec(name="second"), yields_to=("first",))
    absent = ServerSpec("first", {".txt": "plain"}, (Command("first", ("/no/such/program",)),))
    assert only(make(fake_spec(name="first"), second), tmp_path / "a.txt").name == "first"
    assert only(make(absent, second), tmp_path / "a.txt").name == "second"


async def test_changes_are_sent_incrementally_as_the_server_wants(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sync = json.dumps({"openClose": True, "change": 2, "save": {"includeText": True}})
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--sync", sync, "--log", str(log))])
    workspace.write({workspace.path("a.txt"): "one\r\n😀 two\r\nthree"})
    await workspace.diagnostics.begin([workspace.path("a.txt")])
    report = await workspace.change(a_txt="one\r\n😀 BAD two\r\nthree")
    assert [problem.message for problem in report.problems] == ["bad: 😀 BAD two"]
    [change] = received(log, "textDocument/didChange")[-1]["contentChanges"]
    place = {"line": 1, "character": 3}
    assert change == {"range": {"start": place, "end": place}, "text": "BAD "}
    assert received(log, "textDocument/didSave")[-1]["text"] == "one\r\n😀 BAD two\r\nthree"
    await workspace.diagnostics.close()


async def test_server_that_syncs_no_changes_gets_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--sync", '{"openClose": true}', "--log", str(log))])
    workspace.write({workspace.path("a.txt"): "one"})
    server = await ready(only(workspace.servers, workspace.path("a.txt")))
    for text in ("one", "two"):
        server.sync(workspace.path("a.txt"), text)
        server.documents.saved(workspace.path("a.txt"))
    server.documents.close(workspace.path("a.txt"))
    await eventually(lambda: bool(received(log, "textDocument/didClose")), "didClose")
    assert len(received(log, "textDocument/didOpen")) == 1
    assert not received(log, "textDocument/didChange") + received(log, "textDocument/didSave")
    await workspace.diagnostics.close()


async def test_server_progress_is_visible(make: Make, tmp_path: Path) -> None:
    servers = make(fake_spec(plan=[["begin:Indexing", "nonsense", "fresh"], ["end", "fresh"]]))
    server = await ready(only(servers, tmp_path / "a.txt"))
    server.sync(tmp_path / "a.txt", "x")
    await eventually(lambda: server.busy is not None, "the beginning")
    assert server.busy == "Indexing"
    # Its nonsense takes changes off and on again; a text in between would never be heard of.
    await eventually(lambda: server.answers.known(tmp_path.resolve() / "a.txt") is not None, "the answer")
    server.sync(tmp_path / "a.txt", "y")
    await eventually(lambda: server.busy is None, "the end")


async def test_servers_do_not_get_the_daemons_keys(make: Make, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "visible"}
    servers = make(fake_spec(), environment=environment)
    server = await ready(only(servers, tmp_path / "a.txt"))
    found = Path(f"/proc/{server.pid}/environ")
    if found.exists():
        assert b"ANTHROPIC" not in found.read_bytes()
