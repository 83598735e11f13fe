"""Language servers look at a branch's copy: by the workspace's settings and trust, and nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from daemon.files.folder_language_services import NoLanguageServices, OpenLanguageServices
from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.language_services import BranchLanguageServices, CopyLanguageServices
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.specs.server_spec import Command, ServerSpec
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.support.scenarios.language_workspace import (
    FAKE,
    HANG_S,
    SOON,
    eventually,
    fake_spec,
    process_lives,
)
from tools.language_ports import DiagnosticsReport, Position

# A busy machine may be slow; what is tested is the verdict, and waiting ends when the server has answered.
PATIENT = Timing(answer_s=30.0, around_s=5.0, quiet_s=2.0)
CART = "def total(prices: list[int]) -> int:\n    return sum(prices)\n"

Open = Callable[..., BranchLanguageServices]


@pytest.fixture
async def made() -> AsyncIterator[list[BranchLanguageServices]]:
    opened: list[BranchLanguageServices] = []
    yield opened
    for services in opened:
        await asyncio.wait_for(services.close(), HANG_S)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A workspace, and a copy of it with its environment linked."""
    workspace, copy = tmp_path.resolve() / "proj", tmp_path.resolve() / "state/A/tree"
    (workspace / ".venv/bin").mkdir(parents=True)
    copy.mkdir(parents=True)
    for folder in (workspace, copy):
        (folder / "cart.py").write_text(CART)
        (folder / "user.py").write_text("from cart import total\n\nprint(total([1, 2]))\n")
        (folder / "a.txt").write_text("fine\n")
    (copy / ".venv").symlink_to(workspace / ".venv")
    return workspace, copy


async def change(services: CopyLanguageServices, path: Path, text: str) -> DiagnosticsReport:
    run = await services.diagnostics.begin([path])
    path.write_text(text)
    return await asyncio.wait_for(run.report(), HANG_S)


def chosen(*specs: ServerSpec, timing: Timing = SOON, trusted: bool = False) -> Callable[[], ServerChoice]:
    choice = ServerChoice(specs, timing, "hint", trusted)
    return lambda: choice


async def ready(server: LanguageServer) -> int:
    assert await server.ready(asyncio.get_running_loop().time() + HANG_S), server.gone_because
    assert server.pid is not None
    return server.pid


async def test_change_in_a_copy_is_judged_there_not_in_the_workspace(
    folders: tuple[Path, Path], made: list[BranchLanguageServices]
) -> None:
    workspace, copy = folders
    pyright = next(spec for spec in DEFAULT_SPECS if spec.name == "pyright")
    choose = chosen(pyright, timing=PATIENT)
    own = LanguageServers(workspace, choose=choose)
    at_home = DiagnosticsService(workspace, [ServerSource(own)])
    branches = BranchLanguageServices(workspace, choose=choose)
    made.append(branches)
    services = branches.open(copy)
    assert not list(services.servers.alive()), "nothing has been looked at yet"
    try:
        await at_home.begin([workspace / "user.py"])
        report = await change(services, copy / "user.py", "from cart import total\n\nprint(total('x'))\n")
        assert report.verdict == "problems"
        assert {problem.path for problem in report.problems} == {copy / "user.py"}
        places = await services.navigation.definition(Position(copy / "user.py", 3, 1))
        assert places.servers
        [server] = own.alive()
        assert not any(path.is_relative_to(copy) for path in server.answers.documents)
        now = await asyncio.wait_for(at_home.current([workspace / "user.py"], "error"), HANG_S)
        assert now.problems == ()
        [pid] = [pid for _, pid in services.servers.running()]
        await asyncio.wait_for(services.close(), HANG_S)
        assert not process_lives(pid)
        assert not services.servers.for_path(copy / "cart.py").servers, "closed for good"
        await services.close()
    finally:
        await asyncio.wait_for(at_home.close(), HANG_S)


@pytest.mark.parametrize("trusted", [False, True])
async def test_linked_server_is_used_in_a_copy_only_if_trusted(
    folders: tuple[Path, Path],
    made: list[BranchLanguageServices],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trusted: bool,
) -> None:
    workspace, copy = folders
    theirs = workspace / ".venv/bin/their-server"
    theirs.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" --plan \'[["fresh"]]\'\n')
    theirs.chmod(0o755)
    usr = tmp_path / "usr"
    usr.mkdir()
    # Two ways by which it could be found without the copy's own name for it.
    (usr / "their-server").symlink_to(theirs)
    entries = [str(usr), str(workspace / ".venv/bin"), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(entries))
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "state"))
    spec = ServerSpec("theirs", {".txt": "plain"}, (Command("theirs", ("their-server",)),))
    branches = BranchLanguageServices(workspace, choose=chosen(spec, trusted=trusted))
    made.append(branches)
    servers = branches.open(copy).servers.for_path(copy / "a.txt").servers
    if not trusted:
        assert not servers
        return
    [server] = servers
    await ready(server)
    assert server.root == copy


async def test_copies_share_one_server_limit_with_lru_eviction(
    folders: tuple[Path, Path], made: list[BranchLanguageServices]
) -> None:
    workspace, copy = folders
    branches = BranchLanguageServices(workspace, choose=chosen(fake_spec()), max_alive=2)
    made.append(branches)
    copies = [copy, copy.parent / "B", copy.parent / "C"]
    pids: list[int] = []
    for folder in copies:
        folder.mkdir(exist_ok=True)
        (folder / "a.txt").write_text("fine\n")
        [server] = branches.open(folder).servers.for_path(folder / "a.txt").servers
        pids.append(await ready(server))
    await eventually(lambda: not process_lives(pids[0]), "the end of the first")
    assert [process_lives(pid) for pid in pids] == [False, True, True]
    await asyncio.wait_for(branches.close(), HANG_S)
    assert not any(process_lives(pid) for pid in pids)


async def test_a_closed_copy_leaves_its_place_to_others(
    folders: tuple[Path, Path], made: list[BranchLanguageServices]
) -> None:
    workspace, copy = folders
    branches = BranchLanguageServices(workspace, choose=chosen(fake_spec()), max_alive=1)
    made.append(branches)
    first = branches.open(copy)
    await ready(first.servers.for_path(copy / "a.txt").servers[0])
    await first.close()
    other = copy.parent / "B"
    shutil.copytree(copy, other, symlinks=True)
    report = await change(branches.open(other), other / "a.txt", "BAD\n")
    assert [problem.path for problem in report.problems] == [other / "a.txt"]


async def test_a_close_that_is_canceled_leaves_no_process(
    folders: tuple[Path, Path], made: list[BranchLanguageServices]
) -> None:
    workspace, copy = folders
    branches = BranchLanguageServices(workspace, choose=chosen(fake_spec("--ignore-shutdown")))
    made.append(branches)
    services = branches.open(copy)
    pid = await ready(services.servers.for_path(copy / "a.txt").servers[0])
    closing = asyncio.create_task(services.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    await eventually(lambda: not process_lives(pid), "the end of the server")


async def test_server_of_a_copy_does_not_outlive_a_killed_daemon(folders: tuple[Path, Path]) -> None:
    workspace, copy = folders
    command = [
        sys.executable,
        "-m",
        "tests.support.programs.killed_branch_services",
        str(workspace),
        str(copy),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:  # noqa: ASYNC220 - returns at once
        assert daemon.stdout is not None
        pid = int(await asyncio.to_thread(daemon.stdout.readline))
        assert process_lives(pid)
        daemon.send_signal(signal.SIGKILL)
    await eventually(lambda: not process_lives(pid), "the end of the server")


async def test_copy_without_language_servers_reports_no_server(tmp_path: Path) -> None:
    for open_language_services in (NoLanguageServices, BranchLanguageServices(tmp_path, ServerChoice).open):
        opened: OpenLanguageServices = open_language_services
        services = opened(tmp_path)
        run = await services.diagnostics.begin([tmp_path / "a.txt"])
        assert (await run.report()).verdict == "no_server"
        assert (await services.diagnostics.current([tmp_path / "a.txt"])).problems == ()
        await services.close()
