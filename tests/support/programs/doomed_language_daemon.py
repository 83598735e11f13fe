"""A process that stands for the daemon and is to be killed while its language servers run.

``python -m tests.support.programs.doomed_language_daemon <workspace> <fake's flags…>``: starts a fake server for
``a.txt``, which it keeps; prints its process id when it is ready.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.scenarios.language_workspace import LanguageWorkspace, fake_spec


async def main(folder: Path, flags: list[str]) -> None:
    workspace = LanguageWorkspace(folder, [fake_spec(*flags)])
    [server] = workspace.servers.for_path(workspace.path("a.txt")).servers
    assert await server.ready(asyncio.get_running_loop().time() + 60)
    print(server.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
