"""A process that stands for the daemon and is to be killed while language servers look at a branch's copy.

``python -m tests.support.programs.killed_branch_services <workspace> <copy>``: starts a server for ``a.txt`` in the
copy, which it keeps; prints its process id when it is ready.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from lsp_bridge.language_client.language_services import BranchLanguageServices
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from tests.support.scenarios.language_workspace import SOON, fake_spec


async def main(workspace: Path, copy: Path) -> None:
    choice = ServerChoice(specs=(fake_spec("--ignore-shutdown"),), timing=SOON, least_severity="hint")
    services = BranchLanguageServices(workspace, choose=lambda: choice).open(copy)
    [server] = services.servers.for_path(copy / "a.txt").servers
    assert await server.ready(asyncio.get_running_loop().time() + 60)
    print(server.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
