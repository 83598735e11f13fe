"""``python -m tests.support.programs.copying_child <workspace> <state> [<n>]``: opens copies, works in one, waits to
be killed.

With ``n`` it kills itself (SIGKILL) at its n-th call that does anything with files or programs, or ends when it made
fewer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

from daemon.explore.copy_manager import copies_for


def _die_at(number: int) -> None:
    count = itertools.count()

    def audit(event: str, _: object) -> None:
        if event.partition(".")[0] in ("open", "os", "subprocess", "shutil") and next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


async def main() -> None:
    if len(sys.argv) > 3:
        _die_at(int(sys.argv[3]))
    copies = copies_for(Path(sys.argv[1]), Path(sys.argv[2]), ())
    base = await copies.base()
    for name in "AB":
        copy = await copies.open(f"x:{name}", base)
        (copy.root / "made.txt").write_text(f"by {name}\n")
    print("ready", flush=True)
    if len(sys.argv) < 4:
        await asyncio.Event().wait()


asyncio.run(main())
