"""``ray_driver.py FOLDER [ends]``: a daemon whose branches work on the cluster of FOLDER/home/config.json.

Without ``ends`` their commands run until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.fakes.models import Call, Step
from tests.support.scenarios.branches import explore, exploring, ran

WRITES = Call("write", {"file_path": "a.txt", "content": "a\n"})
WAITS: list[Step] = [WRITES, Call("bash", {"command": "sleep 600"})]
ENDS: list[Step] = [WRITES, Call("bash", {"command": "git log --format=%s; cat new.txt; uname -n"}), "Done."]


async def main(folder: Path, branch: list[Step]) -> None:
    steps: list[Step] = [explore("use a list", "use a dict"), "I choose A."]
    async with exploring(folder, steps, {"A": branch, "B": branch}) as bench:
        await ran(bench)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), ENDS if sys.argv[2:] == ["ends"] else WAITS))
