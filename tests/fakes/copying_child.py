"""``python -m tests.fakes.copying_child <workspace> <state>``: opens copies, works in one, and waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from daemon.explore.copies.choice import copies_for


async def main() -> None:
    copies = copies_for(Path(sys.argv[1]), Path(sys.argv[2]), ())
    base = await copies.base()
    for name in "AB":
        copy = await copies.open(f"x:{name}", base)
        (copy.root / "made.txt").write_text(f"by {name}\n")
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
