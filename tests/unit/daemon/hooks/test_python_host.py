"""Functions as hooks: the real process, and all the ways in which a function goes wrong in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.hooks.answer import NOTHING, HookError
from daemon.hooks.entry_points import FoundFunctions, HookFunction, discover
from daemon.hooks.python import Hooks, PythonHook
from tests.support.drivers.waiting import until
from tests.support.fakes.hooks import host_command, is_alive, package, pids

CODE = """
import asyncio, ctypes, os, subprocess, sys, time
from pathlib import Path

def fine(payload):
    return {"context": f"{payload['tool']} in {os.getpid()}"}

async def later(payload):
    await asyncio.sleep(0)
    return {"decision": "deny", "reason": "later"}

def silent(payload):
    print("this is no answer", flush=True)
    os.write(1, b'{"id": 1, "answer": {"decision": "deny"}}\\n')
    sys.stdin.read()

def hang(payload):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    Path(payload["file"]).write_text(str(child.pid))
    Path(payload["file"] + ".own").write_text(str(os.getpid()))
    while True:
        time.sleep(1)

def leave(payload):
    os._exit(7)

def fall(payload):
    os.kill(os.getpid(), 11)

def quit(payload):
    sys.exit("I go")

def fail(payload):
    return payload["missing"]

def strange(payload):
    return object()

def much(payload):
    return {"context": "x" * 10_000_000}

def eat(payload):
    return {"context": str(len(bytes(5 * 1024**3)))}

def wrong(payload):
    return {"decision": "allow"}

def theirs(payload):
    import tools
    return {"context": tools.OWNER}

nothing = None
"""


def entry(function: str) -> HookFunction:
    return HookFunction("tool.execute.before", f"my_hooks:{function}", "my-hooks")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Bench:
    def __init__(self, hooks: Hooks, clock: Clock) -> None:
        self.hooks = hooks
        self.clock = clock

    def hook(self, function: str) -> PythonHook:
        return PythonHook(entry(function), self.hooks)

    async def ask(self, function: str, **payload: Any) -> Any:
        async with asyncio.timeout(60):
            return await self.hook(function).ask("tool.execute.before", {"tool": "bash", **payload})

    async def failure(self, function: str, **payload: Any) -> HookError:
        with pytest.raises(HookError) as failed:
            await self.ask(function, **payload)
        return failed.value

    async def pid(self) -> int:
        return int((await self.ask("fine")).context.split()[-1])

    @property
    def started(self) -> int:
        return self.hooks.started


@asynccontextmanager
async def bench(
    tmp_path: Path, *, timeout_s: float = 30.0, command: tuple[str, ...] | None = None
) -> AsyncGenerator[Bench]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    site = package(tmp_path / "site", CODE, {})
    (site / "tools.py").write_text("OWNER = 'the environment'")
    clock = Clock()
    hooks = Hooks(
        workspace,
        tmp_path,
        find=FoundFunctions,
        command=command or host_command(site, workspace),
        timeout_s=timeout_s,
        clock=clock,
    )
    try:
        yield Bench(hooks, clock)
    finally:
        await hooks.close()


async def test_hook_function_imports_its_own_environment(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert (await on.ask("theirs")).context == "the environment"


async def test_functions_answer_one_after_the_other_from_one_process(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert on.started == 0
        answers = await asyncio.gather(*(on.ask("fine") for _ in range(20)))
        assert len({answer.context for answer in answers}) == 1
        assert answers[0].context.startswith("bash in ")
        assert (await on.ask("later")).reason == "later"
        assert on.started == 1


async def test_output_and_input_of_a_function_are_isolated(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert await on.ask("silent") == NOTHING
        assert on.started == 1


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("fail", "error", "KeyError: 'missing'"),
        ("quit", "error", "SystemExit: I go"),
        ("strange", "error", "not JSON serializable"),
        ("much", "error", "larger than 64 KB"),
        ("eat", "error", "MemoryError"),
        ("gone", "error", "has no attribute 'gone'"),
        ("nothing", "error", "is not a function"),
        ("wrong", "answer", "cannot allow"),
    ],
)
async def test_failing_function_reports_why_and_host_survives(
    tmp_path: Path, function: str, kind: str, words: str
) -> None:
    async with bench(tmp_path) as on:
        failed = await on.failure(function)
        assert failed.kind == kind
        assert words in str(failed)
        assert len(str(failed)) < 500
        await on.ask("fine")
        assert on.started == 1


async def test_a_package_that_is_broken_is_a_failure(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        (tmp_path / "site" / "my_hooks.py").write_text("import nothing_of_that_name")
        failed = await on.failure("fine")
        assert "nothing_of_that_name" in str(failed)


@pytest.mark.parametrize(
    ("function", "words"),
    [("leave", "ended its process with exit code 7"), ("fall", "ended its process by signal 11")],
)
async def test_function_that_exits_restarts_the_host(tmp_path: Path, function: str, words: str) -> None:
    async with bench(tmp_path) as on:
        first = await on.pid()
        failed = await on.failure(function)
        assert (failed.kind, str(failed)) == ("crash", words)
        assert await on.pid() != first
        assert not is_alive(first)
        assert on.started == 2


async def test_hanging_function_is_killed_with_its_children(tmp_path: Path) -> None:
    async with bench(tmp_path, timeout_s=5) as on:
        file = tmp_path / "pid"
        failed = await on.failure("hang", file=str(file))
        assert (failed.kind, str(failed)) == ("timeout", "took longer than 5 s and was stopped")
        assert not any(map(is_alive, pids(file, tmp_path / "pid.own")))
        await on.ask("fine")


async def test_cancellation_leaves_no_process(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        file = tmp_path / "pid"
        own = tmp_path / "pid.own"
        hanging = asyncio.create_task(on.ask("hang", file=str(file)))
        waiting = asyncio.create_task(on.ask("fine"))
        await until(lambda: own.exists() and own.read_text(), "the hook")
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert not any(map(is_alive, pids(file, own)))
        assert (await waiting).context


async def test_function_that_keeps_crashing_is_paused_with_backoff(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert "exit code 7" in str(await on.failure("leave"))  # once is an accident
        for pause_s in (1, 2, 4):
            assert "exit code 7" in str(await on.failure("leave"))
            started = on.started
            on.clock.now += pause_s - 0.5
            paused = await on.failure("leave")
            assert paused.kind == "crash"
            assert "times in a row" in str(paused)
            assert on.started == started, "it was called all the same"
            assert (await on.ask("fine")).context, "the others are called"
            on.clock.now += 0.6


async def test_the_end_of_the_daemon_ends_the_process(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        pid = await on.pid()
        await on.hooks.close()
        assert not is_alive(pid)


async def test_host_process_exits_when_its_stdin_closes(tmp_path: Path) -> None:
    site = package(tmp_path / "site", CODE, {})
    process = await asyncio.create_subprocess_exec(
        *host_command(site, tmp_path / "workspace"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    call = {"id": 1, "function": "my_hooks:hang", "payload": {"file": str(tmp_path / "pid")}}
    process.stdin.write(json.dumps(call).encode() + b"\n")
    await until((tmp_path / "pid.own").exists, "the hook")
    process.stdin.close()
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    (child,) = pids(tmp_path / "pid")
    os.kill(child, signal.SIGKILL)  # nobody saw to it that it ends with the process


async def test_a_process_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    async with bench(tmp_path, command=("/nowhere/python",)) as on:
        assert (await on.failure("fine")).kind in ("start", "crash")


async def test_unexpected_host_output_is_ignored(tmp_path: Path) -> None:
    code = 'import sys\nfor line in sys.stdin: print(\'[]\\nno\\n{"id": 99, "answer": {}}\\n{"id": 1}\', flush=True)'
    async with bench(tmp_path, command=(sys.executable, "-c", code)) as on:
        assert await on.ask("fine") == NOTHING


async def test_excessive_host_output_stops_the_host(tmp_path: Path) -> None:
    code = "import sys\nsys.stdin.readline()\nwhile True: sys.stdout.write('x' * 9999)"
    async with bench(tmp_path, command=(sys.executable, "-c", code)) as on:
        assert (await on.failure("fine")).kind == "output"


def test_discovery_lists_entry_points_in_order_and_bad_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = package(tmp_path / "b", "", {"tool.execute.before": "x", "tool.before": "y"}, "b_hooks")
    a = package(tmp_path / "a", "", {"tool.execute.before.strict": "x", "session.end": "z"}, "a_hooks")
    monkeypatch.setattr(sys, "path", [str(b), str(a), *sys.path])
    found = discover()
    assert found.entries == {
        "tool.execute.before": (
            HookFunction("tool.execute.before", "a_hooks:x", "a_hooks", strict=True),
            HookFunction("tool.execute.before", "b_hooks:x", "b_hooks"),
        ),
        "session.end": (HookFunction("session.end", "a_hooks:z", "a_hooks"),),
    }
    (problem,) = found.problems
    assert "'tool.before'" in problem
    assert "a_hooks" not in sys.modules
