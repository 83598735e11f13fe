"""``python -m tests.evals.benchmarks.context``: the table of ARCHITECTURE.md; ``--json`` for programs. No network."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from tests.evals.benchmarks.context.report import DEFAULT, compare, table, to_json
from tests.evals.benchmarks.context.script import build_script


def main() -> int:
    """Play the session in each way. 0 also when a target is missed: numbers are for people to judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.benchmarks.context", description=__doc__)
    parser.add_argument("--json", action="store_true", help="output for programs")
    parser.add_argument("--seeds", type=int, default=0, help="only the shares, over so many other sessions")
    args = parser.parse_args()
    if args.seeds:
        return _seeds(args.seeds)
    script = build_script()
    runs = asyncio.run(compare(script))
    if args.json:
        print(json.dumps(to_json(script, runs), indent=1, ensure_ascii=False))
        return 0
    print(f"{script.steps} answers of the model with {script.calls} tool calls\n\n{table(runs)}\n")
    for one in runs:
        print(
            f"{one.name}: live goal {one.live[0]}/{one.live[1]}; missing: {'; '.join(one.missing) or 'nothing'}"
        )
    return 0


def _seeds(count: int) -> int:
    """How far the shares depend on which files happen to be read."""
    for seed in range(1, count + 1):
        runs = {one.name: one for one in asyncio.run(compare(build_script(seed)))}
        default = runs[DEFAULT]
        shares = ", ".join(f"{default.money / one.money:.3f} × {name[:3]}" for name, one in runs.items())
        print(f"seed {seed}: money of {DEFAULT[:3]} ${default.money:.2f}: {shares}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
