"""A daemon core in a process of its own, made to be killed in the middle of its work.

``python tests/support/programs/crash_child.py`` reads one JSON object a line, ``{"folder", "die_at", "how", "ask"}``,
and for each forks a child that works on ``folder/workspace``; it answers with the child's pid. With ``die_at`` the
child kills itself (SIGKILL) at that event: ``after`` the line was written, or with only ``half`` of the line in the
log. Without, it waits at its end (with ``ask``: at the first question of the rules) to be killed. Forking saves the
imports, which would be most of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from daemon.core import Daemon  # noqa: E402
from daemon.provider.model_calls import Retry  # noqa: E402
from daemon.store import files  # noqa: E402
from tests.support.drivers.core import ALLOW_ALL  # noqa: E402
from tests.support.fakes.models import Call, FakeModels, Step, Think  # noqa: E402
from tests.support.fakes.tool_context import FakeDiagnostics  # noqa: E402

STEPS: list[Step] = [
    [
        Think("A plan first."),
        "I plan.",
        Call("goal", {"add": "read it, change it, run it", "reason": "asked"}),
    ],
    [Call("goal", {"focus": "1"}), Call("read", {"file_path": "a.txt"})],
    [
        "Lost",
        Retry(1, 0.0, "overloaded"),
        "Now the change.",
        Call("goal", {"done": "it says old", "focus": "2"}),
    ],
    [
        Call("edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
        Call("write", {"file_path": "b.txt", "content": "made\n"}),
    ],
    [
        Call("goal", {"abandon": "another way", "add": "change it better"}),
        Call("bash", {"command": "cat a.txt"}),
    ],
    "The first part is done.",
    [Call("ls", {"path": "."}), Call("nothing", {})],
    "Done.",
]
PROMPTS = ("Do the first part", "and the second")


async def work(folder: Path, *, ask: bool = False) -> None:
    workspace = folder / "workspace"
    (workspace / "a.txt").write_text("old\n")
    core = Daemon(
        workspace, diagnostics=FakeDiagnostics(), models=FakeModels(*STEPS), state_folder=folder / "home"
    )
    session = core.new_session(model="fake/model")
    if not ask:
        session.policy.use(config=session.config.overlaid(ALLOW_ALL, "editor", "test"))
    await asyncio.gather(*(session.prompt(text) for text in PROMPTS))
    await asyncio.Event().wait()


def die_at(number: int, how: str) -> None:
    """Kill this process at its ``number``-th event."""
    write_all = files._write_all
    written = 0

    def write(handle: IO[bytes], data: bytes) -> None:
        nonlocal written
        written += 1
        here = written == number
        write_all(handle, data[: len(data) // 2] if here and how == "half" else data)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)

    files._write_all = write


def main() -> None:
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            # Who ignores it never hears how a command of its own ended, and waits for that in vain.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if order["die_at"]:
                die_at(order["die_at"], order["how"])
            asyncio.run(work(Path(order["folder"]), ask=order["ask"]))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are not to stay as zombies
    main()
