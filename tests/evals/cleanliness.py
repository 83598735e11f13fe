"""The remains of an exploration that is broken off: ``python -m tests.evals.cleanliness`` prints a table.

Each row is the installed command over a nasty repository (staged, unstaged, deleted, untracked, a stash, a second
branch), three branches played by a scripted model, and an end at some stage: kill -9 of the daemon, SIGTERM, ``stop``,
or Ctrl-C of the person. Then the repository is compared with what it was, and what is left is looked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.drivers.process_tree import family, send
from tests.support.drivers.waiting import until
from tests.support.scenarios.branches import git, repository, state_of

How = Literal["kill -9", "SIGTERM", "stop", "Ctrl-C"]
Stage = Literal["copies are made", "tools run", "questions wait", "tests run", "all have ended"]
CASES: tuple[tuple[How, Stage], ...] = (
    ("kill -9", "copies are made"), ("kill -9", "tools run"), ("kill -9", "questions wait"),
    ("kill -9", "tests run"), ("kill -9", "all have ended"),
    ("Ctrl-C", "copies are made"), ("Ctrl-C", "tools run"), ("Ctrl-C", "questions wait"), ("Ctrl-C", "tests run"),
    ("SIGTERM", "tools run"),
    ("stop", "questions wait"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """The findings after one end."""

    how: How
    stage: Stage
    same: tuple[str, ...]
    """The parts of the repository that are unchanged."""
    changed: tuple[str, ...]
    processes: int
    """Left of the daemon and its children."""
    copies: int
    """Left, when the next daemon has started."""
    kept: int
    """Branches whose changes can still be read."""
    opens: bool
    """The session opens, and takes a prompt to its end."""

    @property
    def clean(self) -> bool:
        """Whether nothing is left and nothing was touched."""
        return not self.changed and not self.processes and not self.copies and self.opens


def _script(stage: Stage, pids: Path) -> dict[str, Any]:
    def branch(name: str) -> list[list[dict[str, Any]]]:
        steps: list[dict[str, Any]] = [
            {
                "tool_calls": [
                    {"name": "write", "input": {"file_path": f"${{workspace}}/{name}.txt", "content": name}}
                ]
            }
        ]
        if stage in ("copies are made", "tools run"):
            steps.append({"tool_calls": [{"name": "bash", "input": {"command": f"sh {pids}-two.sh"}}]})
        elif stage == "questions wait":
            steps.append({"tool_calls": [{"name": "bash", "input": {"command": "rm -rf src"}}]})
        return [[*steps, {"text": f"{name} is done."}]]

    last = {"tool_calls": [{"name": "bash", "input": {"command": f"sh {pids}-one.sh"}}]}
    explore = {"tool_calls": [{"name": "explore", "input": {"branches": ["one", "two", "three"]}}]}
    return {
        "name": "ways",
        "turns": [[explore, last, {"text": "Done."}], [{"text": "I am here again."}]],
        "branches": {name: branch(name) for name in "ABC"},
    }


def _events(workspace: Path) -> str:
    return "".join(log.read_text("utf-8") for log in (workspace / ".trace").glob("*/events.jsonl"))


def _reached(goalwright: Goalwright, stage: Stage, pids: Path) -> Callable[[], bool]:
    def numbers() -> int:
        return len(pids.read_text().split()) if pids.exists() else 0

    def reached() -> bool:
        if stage == "copies are made":
            folder = goalwright.home / "gw" / "branches"
            return folder.exists() and sum(len(files) for _, _, files in os.walk(folder)) > 40
        if stage == "tools run":
            return numbers() >= 6
        if stage == "questions wait":
            return _events(goalwright.workspace).count('"permission_asked"') >= 3
        if stage == "tests run":
            return numbers() >= 1
        return '"explore_completed"' in _events(goalwright.workspace) and numbers() >= 1

    return reached


async def check(folder: Path, how: How, stage: Stage) -> Row:
    """Break an exploration off, and look."""
    files = {f"src/{n // 40}/f{n}.py": f"x = {n}\n" for n in range(400)} | {".gitignore": ".trace/\n"}
    workspace = repository(folder, files | {"src/b.py": "b\n", "gone.txt": "x\n", "staged.txt": "x\n"})
    git(workspace, "stash", "push", "-q", "src/b.py")
    git(workspace, "branch", "other")
    (workspace / "staged.txt").write_text("staged\n")
    git(workspace, "add", "staged.txt")
    (workspace / "staged.txt").write_text("and changed again\n")
    (workspace / "gone.txt").unlink()
    pids, script = folder / "pids", folder / "script.json"
    (folder / "pids-one.sh").write_text(f"echo $$ >> {pids}; sleep 600\n")
    (folder / "pids-two.sh").write_text(f"echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; wait\n")
    script.write_text(json.dumps(_script(stage, pids)), "utf-8")
    before = state_of(workspace)
    async with installed(workspace) as goalwright:
        (await goalwright.command("trust")).check()
        rules: dict[str, Any] = {
            "edit": "allow",
            "external_directory": "allow",
            "bash": {"*": "allow", "rm *": "ask", **{f"sh {pids}-{n}.sh": "allow" for n in ("one", "two")}},
        }
        test = f"sh {pids}-one.sh" if stage == "tests run" else ""
        # Outside of the sandbox, where processes have the numbers that are looked for.
        goalwright.configure(permission=rules, test_command=test, sandbox="off")
        argv = goalwright.argv("run", "Try three ways.", "--model", f"scripted/{script}")
        with (folder / "said").open("wb") as said:
            run = await asyncio.create_subprocess_exec(
                *argv,
                env=goalwright.env,
                cwd=workspace,
                stdin=asyncio.subprocess.PIPE,
                stdout=said,
                stderr=said,
            )
        try:
            reached = _reached(goalwright, stage, pids)
            await until(lambda: run.returncode is not None or reached(), stage, within_s=60)
            assert run.returncode is None, (folder / "said").read_text("utf-8", "replace")
            daemon = goalwright.paths.read_pid()
            assert daemon is not None
            members = family(daemon)
            if how == "kill -9":
                send([daemon], signal.SIGKILL)
            elif how == "SIGTERM":
                send([daemon], signal.SIGTERM)
            elif how == "stop":
                await goalwright.stop()
            else:
                run.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                await run.wait()
        finally:
            if run.returncode is None:
                run.kill()
                await run.wait()
        started = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
        expected = {*members, *started} - ({daemon} if how == "Ctrl-C" else set[int]())
        return await _looked_at(goalwright, script, Row(how, stage, (), (), 0, 0, 0, False), before, expected)


async def _looked_at(
    goalwright: Goalwright, script: Path, row: Row, before: dict[str, Any], pids: set[int]
) -> Row:
    def living() -> list[int]:
        return [pid for pid in pids if (Path("/proc") / str(pid)).exists() and not _zombie(pid)]

    try:
        # The daemon's language servers and its jobs go on for a while where only the turn was canceled.
        await until(lambda: row.how == "Ctrl-C" or not living(), "the end of all processes", within_s=20)
    except AssertionError:
        pass  # counted below
    workspace = goalwright.workspace
    now = state_of(workspace)
    kept = 0
    again = await goalwright.run("Are you there?", "--continue", "--model", f"scripted/{script}")
    for name in "ABC":
        shown = await goalwright.command("explore", "patch", name)
        kept += f"b/{name}.txt" in shown.stdout
    folder = goalwright.home / "gw" / "branches"
    left = [entry for entry in folder.glob("*/*")] if folder.exists() else []
    later = state_of(workspace)
    names = [name for name in before if before[name] == now[name] == later[name]]
    return Row(
        row.how, row.stage, tuple(names), tuple(name for name in before if name not in names),
        len([pid for pid in living() if _commanded(pid)]) if row.how == "Ctrl-C" else len(living()),
        len(left), kept, again.code == 0,
    )  # fmt: skip


def _zombie(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[
            0
        ] == "Z"
    except OSError:
        return True


def _commanded(pid: int) -> bool:
    """Whether it is a command of a branch (they all sleep)."""
    try:
        return b"sleep" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


async def main() -> int:
    """Print the table; returns 1 when a row is not clean."""
    print("| end | while | repository as before | processes | copies | branches kept | session goes on |")
    print("|---|---|---|--:|--:|--:|---|")
    bad = 0
    for how, stage in CASES:
        with tempfile.TemporaryDirectory(prefix="gw-clean-") as folder:
            row = await check(Path(folder), how, stage)
        bad += not row.clean
        same = "no: " + ", ".join(row.changed) if row.changed else ", ".join(row.same)
        goes_on = "yes" if row.opens else "NO"
        print(
            f"| {how} | {stage} | {same} | {row.processes} | {row.copies} | {row.kept} | {goes_on} |",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
