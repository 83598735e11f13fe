"""``python -m tests.evals.endurance``: a simulated day of a daemon, and whether it holds on to anything.

Writes the samples as JSON (``--json``) and their curves as SVG (``--svg``). 1 when memory or anything else grew. It
takes about as long as 20 000 calls take, 40 to 60 minutes; ``--hours``, ``--sessions`` and ``--calls`` make it shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from tests.evals.endurance.picture import curves
from tests.evals.endurance.play import Plan, play
from tests.evals.endurance.samples import Sample, summary


def main() -> int:
    """1 when something grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.endurance", description=__doc__)
    plan = Plan()
    parser.add_argument("--hours", type=float, default=plan.hours)
    parser.add_argument("--sessions", type=int, default=plan.sessions)
    parser.add_argument("--calls", type=int, default=plan.calls)
    parser.add_argument(
        "--block-steps", type=int, default=plan.block_steps, help="of 5 minutes: work and quiet"
    )
    parser.add_argument("--quiet-steps", type=int, default=plan.quiet_steps)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    args = parser.parse_args()
    plan = Plan(args.hours, args.sessions, args.calls, args.block_steps, args.quiet_steps)
    samples = asyncio.run(play(plan, _say))
    # The sessions come one by one: after a quarter of the day five have, and three at once did all kinds of work.
    found = summary(samples, warm_up_h=plan.hours / 4)
    if args.json:
        args.json.write_text(json.dumps(found) + "\n")
    if args.svg:
        args.svg.write_text(curves(samples))
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=1))
    return int(bool(found["problems"]))


def _say(sample: Sample) -> None:
    if sample.quiet or round(sample.hour * 12) % 6 == 0:
        counts = f"{sample.descriptors} descriptors  {sample.children} processes{'  quiet' * sample.quiet}"
        text = f"{sample.hour:5.1f} h  {sample.calls:6} calls  {sample.rss_mb:6.1f} MB  {counts}"
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
