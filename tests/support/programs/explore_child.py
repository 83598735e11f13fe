"""A daemon core in a process of its own that explores, made to be killed in the middle of it.

``python tests/support/programs/explore_child.py <folder> <stage>`` works on ``folder/workspace``, with two branches: A
writes a file and reports, B writes one and then does what the stage says. With ``before:KIND`` or ``after:KIND``
(``:NUMBER``: which one, from 1) the process kills itself (SIGKILL) at that event, wherever it is written; otherwise
somebody else does. Commands of branches write their process ids into ``folder/pids``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from daemon.core import Daemon  # noqa: E402
from daemon.store import files  # noqa: E402
from daemon.trust import TrustedFolders  # noqa: E402
from tests.support.fakes.models import Call, Hold, Step  # noqa: E402
from tests.support.fakes.tool_context import FakeDiagnostics  # noqa: E402
from tests.support.scenarios.branches import BranchModels, explore  # noqa: E402

SLEEP = "echo $$ >> {folder}/pids; sleep 300 & echo $! >> {folder}/pids; wait\n"


def die(order: str) -> None:
    """Kill this process at an event, see the module."""
    when, kind, *rest = order.split(":")
    number = int(rest[0]) if rest else 1
    write_all = files._write_all
    seen = 0

    def write(handle: IO[bytes], data: bytes) -> None:
        nonlocal seen
        here = f'"event":"{kind}"'.encode() in data
        seen += here
        if here and seen == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write_all(handle, data)
        if here and seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    files._write_all = write


async def work(folder: Path, stage: str) -> None:
    """Explore until somebody kills us."""
    (folder / "hold.sh").write_text(SLEEP.format(folder=folder))
    sleep = f"sh {folder}/hold.sh"
    last: dict[str, list[Step]] = {
        "tool": [Call("bash", {"command": sleep})],
        "job": [Call("bash", {"command": sleep, "background": True}), [Hold()]],
        "pending": [Call("bash", {"command": "rm -rf src"})],
        "thinking": [[Hold()]],
    }
    settings: dict[str, Any] = {
        # Outside of the sandbox, where processes have the numbers that the test sees.
        "sandbox": "off",
        "permission": {
            "edit": "allow",
            "external_directory": "allow",
            "bash": {"*": "allow", sleep: "allow"},
        },
        "test_command": sleep if stage == "scoring" else "",
    }
    if stage == "pending":
        settings["permission"]["bash"] = "ask"
    models = BranchModels(
        [[Call("goal", {"add": "find a way", "focus": "1"})], explore("one", "two"), "Done."],
        {
            "A": [Call("write", {"file_path": "a.txt", "content": "of A\n"}), "A is done."],
            "B": [
                Call("write", {"file_path": "b.txt", "content": "of B\n"}),
                *last.get(stage, ["B is done."]),
            ],
        },
    )
    workspace = (folder / "workspace").resolve()
    TrustedFolders(folder / "home").add(workspace)
    core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=folder / "home")
    session = core.new_session(model="fake/model")
    session.policy.use(config=session.config.overlaid(settings, "editor", "test"))
    await session.prompt("go")
    (folder / "finished").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    where, what = Path(sys.argv[1]), sys.argv[2]
    if ":" in what:
        die(what)
    asyncio.run(work(where, what))
