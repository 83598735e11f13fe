"""``goalwright trace list|show|dump|tail`` beside a real daemon that works, and after it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncGenerator

from daemon.demo import PROMPT, copy_workspace
from daemon.steps.fold import StepFold
from daemon.store.files import FileTraceStore
from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.step_sums import check_sums

REPLIES = (
    Reply(text="I plan.", tool_calls=(Call("goal", {"add": "Look, Report", "focus": "1"}),)),
    Reply(text="", tool_calls=(Call("read", {"file_path": "main.py"}),)),
    Reply(text="", tool_calls=(Call("goal", {"done": "main.py prints 1", "focus": "2"}),)),
    "It prints 1.",
)


@contextlib.asynccontextmanager
async def tail(goalwright: Goalwright, *args: str) -> AsyncGenerator[list[str]]:
    """The lines of ``goalwright trace tail`` as they come; ended by Ctrl+C."""
    process = await asyncio.create_subprocess_exec(
        *goalwright.argv("trace", "tail", *args),
        stdout=asyncio.subprocess.PIPE,
        env=goalwright.env,
        cwd=goalwright.workspace,
    )
    lines: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            lines.append(line.decode().rstrip("\n"))

    reading = asyncio.create_task(read())
    try:
        yield lines
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 30) == 130
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading


async def test_a_trace_is_read_beside_the_daemon_and_without_it() -> None:
    async with (
        ModelServer((*REPLIES, "Once more.")) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        (goalwright.workspace / "main.py").write_text("print(1)\n")
        (await goalwright.run("What does it print?", "--yes")).check()
        listed = (await goalwright.command("trace", "list", "--json")).check().stdout
        meta = json.loads(listed)
        assert (meta["status"], meta["task"], meta["foreign"]) == ("completed", "What does it print?", False)
        trace_id = str(meta["trace_id"])

        last = int(meta["last_event_id"])
        new, all_events = ("--since", str(last)), ("--json", "--since", "0")
        async with tail(goalwright, *new) as lines, tail(goalwright, *all_events) as events:
            await until(lambda: len(events) >= last, "all events so far", 60)
            (await goalwright.run("And again?", "--yes", "--continue")).check()
            await until(lambda: "completed: " in str(lines), "the end", 60)
            assert "response: Once more." in str(lines)
            assert not any("I plan." in line for line in lines)
            await until(lambda: '"event":"trace_completed"' in str(events[last:]), "the last event", 60)
            numbers = [json.loads(line)["event_id"] for line in events]
            assert numbers == list(range(1, len(numbers) + 1))

        await goalwright.stop()
        shown = (await goalwright.command("trace", "show", trace_id[:15])).check().stdout
        for line in (
            "├─ [✓] goal: Look",
            "│  ├─ [✓] action: read(main.py)",
            "│  └─ [✓] evaluation: main.py prints 1",
        ):
            assert line in shown
        dump = (await goalwright.command("trace", "dump", "--format", "json")).check().stdout
        steps = json.loads(dump)["steps"]
        parents = {step["step_id"]: step["parent_id"] for step in steps}
        (result,) = [step for step in steps if step["step_type"] == "result"]
        assert parents[result["parent_id"]] == "goal_1"
        unknown = await goalwright.command("trace", "show", "nothing")
        assert (unknown.code, unknown.stdout) == (2, "")
        assert "goalwright trace list" in unknown.stderr


async def test_what_the_steps_of_the_demo_took_adds_up_to_what_it_took() -> None:
    async with installed(forker=shared_forker()) as goalwright:
        copy_workspace(goalwright.workspace)
        (await goalwright.run(PROMPT, "--yes", "--model", "demo/demo")).check()
        await goalwright.stop()
        store = FileTraceStore(goalwright.workspace / ".trace")
        (trace_id,) = store.trace_ids()
        fold = StepFold(trace_id)
        for event in store.events(trace_id):
            fold.apply(event)
        assert (fold.head.trace.usage.total, fold.head.status) == (
            store.trace(trace_id).usage.total,
            "completed",
        )
        check_sums(fold)
