"""Language servers that misbehave, and the report that a change receives: ``python -m tests.evals.bad_servers`` prints
a table.

Each case is a real process (tests/support/programs/language_server.py) with a baseline "fine", then a change to "BAD
new", then one back to "fine". Whatever the server does: what is reported belongs to the newest text, the wait ends,
and the daemon's loop lives.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tests.support.scenarios.language_workspace import (
    HANG_S,
    NEVER,
    SOON,
    LanguageWorkspace,
    eventually,
    fake_spec,
    process_lives,
)

FRESH, NONE = "problems", "no_fresh_answer"
PATIENCE = replace(SOON, answer_s=4.0, silent_answer_s=4.0)
"""For servers that do answer in the end; those that do not are given NEVER's wait."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to misbehave: what it does at a change to "BAD new", and what may be said about that."""

    what: str
    steps: Sequence[str] = ("nothing",)
    verdicts: tuple[str, ...] = (FRESH,)
    flags: tuple[str, ...] = ()
    first: Sequence[str] = ("fresh",)


CASES: tuple[Case, ...] = (
    Case("answers at once", ["fresh"]),
    Case("answers after 2 s", ["wait:2", "fresh"]),
    Case("answers after 10 s", ["wait:10", "fresh"], (NONE,)),
    Case("never answers", ["nothing"], (NONE,)),
    Case("answers twice", ["fresh", "fresh"]),
    Case("out of order: the old text after the new", ["fresh", "stale"]),
    Case("out of order: the old text first", ["stale", "fresh"]),
    Case("only about the old text", ["stale"], (NONE,)),
    Case("a version never sent", ["future"], (NONE,)),
    Case("a version never sent, then the right one", ["future", "fresh"]),
    Case("no versions", ["unversioned"], (FRESH,), (), ["unversioned"]),
    Case(
        "no versions, the old text first", ["unversioned-stale", "unversioned"], (FRESH,), (), ["unversioned"]
    ),
    Case("dies", ["die"], (NONE,)),
    Case("dies in the middle of a message", ["half", "die"], (NONE,)),
    Case("half a message, then silence", ["half"], (NONE,)),
    Case("10 000 diagnostics, then the truth", ["flood", "fresh"]),
    Case("invalid JSON around the answer", ["garbage", "fresh", "garbage"]),
    Case("text between the messages", ["junk-lines", "fresh"]),
    Case("Content-Length too small, then the answer", ["short", "fresh"]),
    Case("Content-Length too large, then the answer twice", ["long", "fresh", "fresh"]),
    Case("a body without Content-Length, then the answer", ["no-length", "fresh"]),
    Case("a header of 3 MB", ["giant-header", "fresh"], (NONE,)),
    Case("Content-Length of 99 GB", ["giant-length"], (NONE,)),
    Case("closes its output", ["close"], (NONE,)),
    Case("answers to unknown ids", ["unknown-ids", "fresh"]),
    Case("the same id three times", ["same-id", "fresh"]),
    Case("requests and notifications full of junk", ["nonsense", "fresh"]),
    Case("reads no more", ["deaf"], (NONE,)),
    Case("8 MB on stderr", ["stderr", "fresh"]),
    Case("nested jsonrpc keys", ["nested"]),
    Case("empty, while it loads", ["begin:Loading", "empty"], (NONE,)),
    Case("empty, while it loads, then the truth", ["begin:Loading", "empty", "wait:0.5", "end", "fresh"]),
    Case("progress that never ends, and the truth", ["begin:For ever", "fresh"]),
    Case("a child that holds its pipes, then dies", ["die"], (NONE,), ("--child", "{folder}/child")),
    Case("ignores its end, TERM included", ["fresh"], (FRESH,), ("--ignore-shutdown",)),
    Case("never initializes", ["fresh"], (NONE,), ("--never-initialize",)),
    Case(
        "pulled: unchanged, never given",
        (),
        (NONE,),
        ("--pull", "static", "--pull-plan", '["fresh", "unchanged"]'),
    ),
    Case(
        "pulled: put off for ever", (), (NONE,), ("--pull", "static", "--pull-plan", '["fresh", "cancelled"]')
    ),
    Case("pulled: junk", (), (NONE,), ("--pull", "static", "--pull-plan", '["fresh", "junk"]')),
    Case("pulled: only a part", (), (NONE,), ("--pull", "static", "--pull-plan", '["fresh", "partial"]')),
    Case("pulled: no answer", (), (NONE,), ("--pull", "static", "--pull-plan", '["fresh", "never"]')),
    Case("pulled: dies", (), (NONE,), ("--pull", "static", "--pull-plan", '["fresh", "die"]')),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a case. ``wrong`` is empty after a success."""

    verdict: str
    then: str
    wrong: str


async def play(case: Case, folder: Path) -> Outcome:
    """Run one case in an empty folder. A hang ends in TimeoutError."""
    flags = tuple(flag.format(folder=folder) if flag.startswith("{folder}") else flag for flag in case.flags)
    pulled = "--pull" in flags
    plan = [["nothing"]] if pulled else [list(case.first), list(case.steps), ["fresh"]]
    if case.steps and case.first == ["unversioned"]:
        plan[2] = ["unversioned"]
    timing = NEVER if case.verdicts == (NONE,) else PATIENCE
    workspace = LanguageWorkspace(folder, [fake_spec(*flags, plan=plan)], timing)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    beating = asyncio.create_task(tick())
    path = workspace.path("a.txt")
    pids: list[int] = []
    try:
        workspace.write({path: "fine"})
        workspace.diagnostics.warm(path)
        await eventually(lambda: bool(workspace.servers.running()), "the start")
        pids = [pid for _, pid in workspace.servers.running()]
        if "--never-initialize" not in flags:
            await eventually(
                lambda: any(server.answers.known(path) is not None for server in workspace.servers.alive()),
                "the baseline",
            )
        first = await workspace.change(a_txt="BAD new")
        before = ticks
        second = await workspace.change(a_txt="fine")
        await eventually(lambda: ticks > before, "a turn of the loop")
        pids += [pid for _, pid in workspace.servers.running()]
    finally:
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
        beating.cancel()
    told = {problem.message for problem in first.problems}
    wrong = ""
    if first.verdict not in case.verdicts:
        wrong = f"the verdict should be {' or '.join(case.verdicts)}"
    elif told - {"bad: BAD new"}:
        wrong = f"stale or invented: {sorted(told - {'bad: BAD new'})[:3]}"
    elif second.problems:
        wrong = f"the text is fine, and this was said: {second.problems[:2]}"
    elif any(process_lives(pid) for pid in pids):
        wrong = "a process is left"
    return Outcome(first.verdict, second.verdict, wrong)


async def main() -> int:
    """Print the table. The exit code is the number of cases that went wrong."""
    print("| the server | verdict | after the next change | ok |\n|---|---|---|---|")
    bad = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = await play(case, Path(folder).resolve())
            except Exception as error:  # the table shows what happened to this case, and goes on
                outcome = Outcome("-", "-", f"{type(error).__name__}: {error}")
        bad += bool(outcome.wrong)
        row = (case.what, outcome.verdict, outcome.then, outcome.wrong or "✓")
        print("| " + " | ".join(cell.replace("_", " ") for cell in row) + " |", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
