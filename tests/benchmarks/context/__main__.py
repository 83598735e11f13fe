"""``python -m tests.benchmarks.context``: the table of ARCHITECTURE.md; ``--json`` for programs. No network."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from tests.benchmarks.context.report import compare, table, to_json
from tests.benchmarks.context.script import build_script


def main() -> int:
    """Play the session in each way. 0 also when a target is missed: numbers are for people to judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.context", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args()
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


if __name__ == "__main__":
    sys.exit(main())
