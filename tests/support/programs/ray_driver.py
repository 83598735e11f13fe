"""``ray_driver.py FOLDER``: a daemon whose branches work on the cluster of FOLDER/home/config.json, to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.fakes.models import Call
from tests.support.scenarios.branches import explore, exploring, ran

WAITS = [Call("write", {"file_path": "a.txt", "content": "a\n"}), Call("bash", {"command": "sleep 600"})]


async def main(folder: Path) -> None:
    async with exploring(folder, [explore("use a list", "use a dict")], {"A": WAITS, "B": WAITS}) as bench:
        await ran(bench)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
