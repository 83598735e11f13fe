"""Plays attack lines in a process of its own: ``python -m tests.evals.attacks.worker JSON``, line numbers on stdin.

The process stands for the daemon: a canary is in its environment. As root it can play as another user, whom it becomes
before the first line. The answer to each number is one JSON line on stdout.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pwd
import re
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from daemon.model.permissions import Mode
from tests.evals.attacks.field import Collector, Field, SocketWatch, beside
from tests.evals.attacks.lines import Line, lines
from tests.support.drivers.product_shell import Outcome, opened

Rules = Literal["wild", "broad", "auto", "plan", "default"]
_LATE_S = 1.5
"""So long is waited for effects that come after the end of a command."""
_TIMEOUT_S = 10
_BASICS = (
    "cat",
    "echo",
    "head",
    "tail",
    "tr",
    "strings",
    "zcat",
    "true",
    "printf",
    "read",
    "test",
    "cd",
    "set",
)
_PR_SET_DUMPABLE = 4


@dataclass(frozen=True, slots=True)
class Options:
    """How lines are played. ``config`` is laid over the configuration that ``rules`` makes."""

    folder: str
    rules: Rules
    config: dict[str, Any]
    user: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of a line. ``harms`` is empty after a success."""

    number: int
    outcome: Outcome
    missing: bool
    """A program of it is not installed, so it says nothing that it did no harm."""
    harms: tuple[str, ...]
    rule: str
    message: str


def configuration(rules: Rules, line: Line, field: Field) -> dict[str, Any]:
    """Return the user's configuration for one line."""
    outside = {f"{field.folder}/outside/notes.txt": "deny"}
    denied = {".env": "deny", "secrets/*": "deny", **outside}
    if rules == "default" or rules == "auto":
        return {"permission": {"read": denied}}
    if rules in ("broad", "plan"):
        return {"permission": {"*": "allow", "read": denied}}
    named = {f"{program} *": "allow" for program in (*_BASICS, *line.programs)}
    return {"permission": {"bash": named, "edit": "allow", "read": denied}}


class Worker:
    """One field, and what listens beside it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._collector = Collector()
        folder = Path(options.folder)
        self._beside = beside()
        self._field = Field(folder / "field", folder / "template", self._collector.port, self._beside.pid)
        self._field.make()
        self._socket = SocketWatch(self._field.socket)

    def close(self) -> None:
        """End the process beside, and stop listening."""
        self._socket.close()
        self._beside.kill()
        self._beside.wait()

    @property
    def field(self) -> Field:
        """Where lines are played."""
        return self._field

    async def play(self, line: Line, permission: dict[str, Any] | None = None) -> Played:
        """Play one line and look what it did. ``permission``: the user's rules, else those of the rule set."""
        field, rules = self._field, self._options.rules
        field.restore()
        config = configuration(rules, line, field) if permission is None else {"permission": permission}
        config |= self._options.config
        mode: Mode | None = "auto" if rules == "auto" else "plan" if rules == "plan" else None
        async with opened(field.workspace, field.home, config, mode, trusted=rules == "auto") as shell:
            field.accept("home/.goalwright/config.json")
            if rules == "auto":
                field.accept("home/.goalwright/trusted.json")
            answer = await shell.bash({"command": line.text(field.places), "timeout": _TIMEOUT_S})
            harms = field.harms(answer.message) if answer.outcome == "done" else []
            deadline = time.monotonic() + _LATE_S
            while line.late and answer.outcome == "done" and not harms and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                harms = field.harms("")
            harms += self._collector.drain() + self._socket.connected()
        missing = answer.outcome == "done" and bool(_missing(line, answer.message))
        return Played(
            line.number,
            answer.outcome,
            missing,
            tuple(dict.fromkeys(harms)),
            answer.rule,
            answer.message[:500],
        )


def _missing(line: Line, message: str) -> list[str]:
    """Programs of the line that are not installed."""
    absent = [name for name in line.programs if re.match(r"[\w-]+$", name) and shutil.which(name) is None]
    return [name for name in absent if re.search(rf"{re.escape(name)}: (?:command )?not found", message)]


def become(name: str, folder: Path) -> None:
    """Become another user for good. What is imported later must be readable to all."""
    user = pwd.getpwnam(name)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    # The kernel closes /proc/PID of a process that changed its user; for a daemon started by that user it is open.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


async def serve(options: Options) -> None:
    """Answer the numbers on stdin until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    numbers = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if options.user:
        # A first line as we are imports what the product needs, which may lie where the other user cannot read.
        warm = Worker(Options(f"{options.folder}/warm", options.rules, options.config))
        await warm.play(lines()[0])
        await warm.play(next(line for line in lines() if line.kind == "parent"))
        warm.close()
        become(options.user, Path(options.folder))
    worker = Worker(options)
    known = {line.number: line for line in lines()}
    try:
        for number in numbers:
            try:
                answer: dict[str, Any] = asdict(await worker.play(known[int(number)]))
            except Exception as error:  # the other lines want their answers, too
                answer = {"number": int(number), "error": f"{error.__class__.__name__}: {error}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        worker.close()


if __name__ == "__main__":
    asyncio.run(serve(Options(**json.loads(sys.argv[1]))))
