"""``python -m tests.evals.benchmarks`` (``make bench``): measures, and prints one table. It asserts no durations.

Run it on a machine that does nothing else. ``--only`` chooses benchmarks by name, ``--runs`` how often each is
measured, ``--json`` prints everything for a program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.evals.benchmarks import (
    assembly,
    branches,
    chat,
    cold_start,
    diagnostics,
    edits,
    explore,
    first_request,
    goals,
    lag,
    memory,
    page,
    permissions,
    restores,
    steps,
    traces,
    watch,
)
from tests.evals.benchmarks.context import report as context
from tests.evals.benchmarks.measures import Measure, table
from tests.evals.benchmarks.stage import Stage

BENCHMARKS: Mapping[str, Callable[[Stage], Awaitable[list[Measure]]]] = {
    "cold_start": cold_start.measure,
    "first_request": first_request.measure,
    "steps": steps.measure,
    "memory": memory.measure,
    "edits": edits.measure,
    "diagnostics": diagnostics.measure,
    "restores": restores.measure,
    "goals": goals.measure,
    "assembly": assembly.measure,
    "context": context.measure,
    "permissions": permissions.measure,
    "explore": explore.measure,
    "branches": branches.measure,
    "page": page.measure,
    "traces": traces.measure,
    "watch": watch.measure,
    "chat": chat.measure,
    "lag": lag.measure,
}


def main() -> int:
    """Run the chosen benchmarks. 0 also when a target is missed: numbers are for people to judge."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.evals.benchmarks", description="Goalwright's benchmarks."
    )
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="only this one; may be repeated")
    parser.add_argument("--runs", type=int, default=7, help="how often each is measured (default: 7)")
    parser.add_argument("--json", action="store_true", help="output for programs")
    args = parser.parse_args()
    names: list[str] = args.only or list(BENCHMARKS)
    stage = Stage(max(1, args.runs), _say)
    measures = asyncio.run(_measure(names, stage))
    if args.json:
        found = {"machine": _machine(), "runs": stage.runs, "measures": [m.to_json() for m in measures]}
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        machine = ", ".join(f"{name} {value}" for name, value in _machine().items())
        print(f"{stage.runs} runs; {machine}\n\n{table(measures)}")
    return 0


async def _measure(names: list[str], stage: Stage) -> list[Measure]:
    found: list[Measure] = []
    for name in names:
        stage.say(name)
        found += await BENCHMARKS[name](stage)
    return found


def _machine() -> dict[str, Any]:
    # What else runs there makes the numbers worse: the load tells how far they can be trusted.
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "Python": platform.python_version(),
        "on": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,
    }


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
