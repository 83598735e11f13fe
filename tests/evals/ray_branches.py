"""``python -m tests.evals.ray_branches``: ten branches with a test suite each, on this machine and on two Ray workers.

Two explorations of five branches, because one has eight at most. Each branch writes a file and is then tested. The
nodes are processes of this machine, so what needs its processors gains nothing: the table shows what the way to the
nodes costs, and how the number of places counts. A suite that waits shows the latter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from daemon.model.branches import CheckRun
from daemon.model.events import BranchCompleted
from daemon.model.permissions import Grant
from tests.support.drivers.core import prompted
from tests.support.drivers.ray_cluster import RayNodes, on_ray
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import explore, exploring, repository

BUSY = "import time\nend = time.process_time() + {s}\nwhile time.process_time() < end: pass\n"
WAITS = "import time\ntime.sleep({s})\n"
ROUNDS, BRANCHES = 2, 5


async def explored(folder: Path, suite: str, user: dict[str, Any]) -> tuple[float, float]:
    """Seconds of the explorations, and of all test suites together."""
    repository(folder, {"suite.py": suite, "src/a.py": "a = 1\n"})
    (folder / "home").mkdir()
    (folder / "home" / "config.json").write_text(json.dumps(user))
    calls = [explore(*(f"way {n} of {turn}" for n in range(BRANCHES))) for turn in range(ROUNDS)]
    names = [chr(ord("A") + n) for n in range(BRANCHES * ROUNDS)]
    branches = {
        name: [Call("write", {"file_path": f"{name}.py", "content": "x = 1\n"}), "Done."] for name in names
    }
    settings = {
        "permission": {"*": "allow"},
        "test_command": f"{sys.executable} suite.py",
        "max_parallel": BRANCHES,
    }
    async with exploring(folder, [*calls, "Done."], branches) as bench:
        session = bench.session(settings=settings)
        turn = prompted(session, "go")
        began = time.monotonic()
        while not turn.done():
            await asyncio.wait({turn}, timeout=0.05)
            for request in bench.core.permissions.pending():
                grants = [Grant(permission=request.permission, pattern="*")]
                bench.core.permissions.reply(request.request_id, "always", None, "eval", grants=grants)
        took = time.monotonic() - began
        assert turn.result().stop == "end_turn", turn.result()
        ends = [e for e in bench.core.store.events(session.session_id) if isinstance(e, BranchCompleted)]
        assert [end.status for end in ends] == ["completed"] * len(names), [end.summary for end in ends]
        tests = [end.score.test if end.score else None for end in ends]
        assert all(test is not None and test.exit_code == 0 for test in tests), tests
    return took, sum(test.duration_ms for test in tests if isinstance(test, CheckRun)) / 1000


async def main(seconds: float) -> None:
    print(f"{'suite':8} {'where':24} {'wall time':>10} {'suites':>10}")
    for kind, code in (("busy", BUSY), ("waits", WAITS)):
        for where, cpus in (("local", 0), ("Ray, 2 nodes x 1 place", 1), ("Ray, 2 nodes x 3 places", 3)):
            folder = Path(tempfile.mkdtemp(prefix="gw-eval-"))
            nodes = RayNodes(cpus) if cpus else None
            try:
                took, tests = await explored(folder, code.format(s=seconds), on_ray(nodes) if nodes else {})
                print(f"{kind:8} {where:24} {took:8.1f} s {tests:8.1f} s", flush=True)
            finally:
                if nodes is not None:
                    nodes.end()
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each test suite")
    asyncio.run(main(parser.parse_args().seconds))
