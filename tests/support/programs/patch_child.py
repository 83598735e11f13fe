"""A process that applies a patch to a folder with the real tool, made to be killed in the middle of it.

``python tests/support/programs/patch_child.py`` reads one folder a line, and for each forks a child that applies
``folder/patch.txt`` to ``folder/workspace`` with the journal and the file history of a daemon whose home is
``folder/home``; it answers with the child's pid. Forking saves the imports, which would be most of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from daemon.core import Daemon  # noqa: E402
from daemon.files.history import SessionHistory  # noqa: E402
from tests.support.fakes.models import FakeModels  # noqa: E402
from tests.support.fakes.tool_context import FakeDiagnostics, fake_context  # noqa: E402
from tools.files.regular_files import sha256  # noqa: E402
from tools.registry import run_tool  # noqa: E402


def core(folder: Path) -> Daemon:
    """The daemon over ``folder/workspace``: to make one is what a start does."""
    return Daemon(
        folder / "workspace", diagnostics=FakeDiagnostics(), models=FakeModels(), state_folder=folder / "home"
    )


async def work(folder: Path) -> str:
    """Apply the patch; what the tool says."""
    daemon = core(folder)
    context = fake_context(folder / "workspace")
    for path in daemon.workspace.rglob("*.py"):
        context.files.note_read(path, sha256(path.read_bytes()))
    history = SessionHistory(folder / "home" / "files", lambda: datetime.now(UTC))
    context = replace(context, history=history, journal=daemon._services.folder.journal)  # type: ignore[arg-type]
    patch = (folder / "patch.txt").read_text()
    result = await run_tool(daemon._services.tools["patch"], json.dumps({"patch_text": patch}), context)
    return result.content


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            asyncio.run(work(Path(line.rstrip("\n"))))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are not to stay as zombies
    main()
