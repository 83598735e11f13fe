"""``python -m tests.evals.benchmarks`` (``make bench``): measures, and prints tables. It asserts no durations.

By itself it measures what a user meets, and other agents beside it (``agents``). ``--full`` adds the benchmarks of the
parts, of which ``--only`` chooses some. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.evals.benchmarks import (
    assembly,
    branches,
    chat,
    diagnostics,
    edits,
    explore,
    goals,
    lag,
    page,
    permissions,
    restores,
    sessions,
    traces,
    watch,
)
from tests.evals.benchmarks.agents.adapters import PEERS_FILE
from tests.evals.benchmarks.agents.compare import GROUPS, Options, compare
from tests.evals.benchmarks.context import report as context
from tests.evals.benchmarks.measures import Measure, table
from tests.evals.benchmarks.stage import Stage

_ROOT = Path(__file__).resolve().parents[3]
RESULTS = _ROOT / ".build" / "bench"
BENCHMARKS: Mapping[str, Callable[[Stage], Awaitable[list[Measure]]]] = {
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
    "length": sessions.length,
    "memory": sessions.memory,
    "opening": sessions.opening,
}


def main() -> int:
    """Run the chosen benchmarks.

    Returns 1 when Goalwright or the floor did not do the work, and 2 when the file of the peers is wrong. 0 also when a
    target is missed: numbers are for people to judge.
    """
    args = _arguments()
    machine = _machine()
    about: dict[str, Any] = {
        "takenAt": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine,
    }
    print("; ".join(f"{name} {value}" for name, value in machine.items()), end="\n\n")
    failed = False
    if not args.only:
        groups = args.agents or GROUPS
        options = Options(max(1, args.runs or 3), max(2, args.calls), groups, args.peers)
        try:
            compared = asyncio.run(compare(options, _say))
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        failed = compared.failed
        counted = {"runs": options.runs, "calls": options.calls}
        print(f"Medians of {options.runs} runs of {options.calls} calls.\n\n{compared}")
        print(f"\n{save(about | counted | compared.to_json(), args.results)}")
    if args.full or args.only:
        stage = Stage(max(1, args.runs or 7), _say)
        measures = asyncio.run(_measure(args.only or list(BENCHMARKS), stage))
        print(f"\nParts, medians of {stage.runs} runs\n\n{table(measures)}")
        found = about | {"runs": stage.runs, "measures": [measure.to_json() for measure in measures]}
        print(f"\n{save(found, args.results, 'parts-')}")
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.evals.benchmarks", description="Goalwright's benchmarks."
    )
    parser.add_argument("--full", action="store_true", help="the benchmarks of the parts, too")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="only this part; may be repeated")
    parser.add_argument("--agents", action="append", choices=GROUPS, help="only these; may be repeated")
    parser.add_argument("--runs", type=int, help="how often each is measured (default: 3, the parts 7)")
    parser.add_argument("--calls", type=int, default=40, help="tool calls of a run (default: 40)")
    parser.add_argument(
        "--peers",
        type=Path,
        default=PEERS_FILE,
        metavar="FILE",
        help=f"the other agents (default: {PEERS_FILE.name})",
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the JSON is written"
    )
    return parser.parse_args()


async def _measure(names: list[str], stage: Stage) -> list[Measure]:
    found: list[Measure] = []
    for name in names:
        stage.say(name)
        found += await BENCHMARKS[name](stage)
    return found


def save(found: dict[str, Any], folder: Path, prefix: str = "") -> Path:
    """Write a report as JSON. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{prefix}{datetime.now():%Y-%m-%d-%H%M%S}.json"
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    return file


def _machine() -> dict[str, Any]:
    # What else runs there makes the numbers worse: the load tells how far they can be trusted.
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "Python": platform.python_version(),
        "on": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "commit": _commit(),
        "load": load,
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
