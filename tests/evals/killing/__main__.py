"""``python -m tests.evals.killing``: kill -9 at random points of a running session, and the table of what came of it.

Each point is a real daemon with a scripted model and a real client: killed when the client has heard a random number of
events and a random moment more. Then the log is read as it was left, a new daemon opens the session, and goes on.
``--points`` how many, ``--seed`` for the same points again.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from collections import Counter

from tests.evals.killing.runs import Killed, kill_at


def table(total: int, runs: list[Killed], seed: int) -> str:
    """By the event that was stored last."""
    head = (
        "last event in the log",
        "kills",
        "acknowledged",
        "messages",
        "in the log",
        "torn",
        "lost",
        "resumed",
    )
    rows: list[tuple[object, ...]] = [head]
    for last, _ in Counter(run.last for run in runs).most_common():
        rows.append((last, *_sums([run for run in runs if run.last == last])))
    rows.append(("all", *_sums(runs)))
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
    lines.insert(1, "─" * len(lines[0]))
    return f"{len(runs)} kills, seed {seed}, a whole run has {total} events\n\n" + "\n".join(lines)


def _sums(runs: list[Killed]) -> tuple[object, ...]:
    return (
        len(runs),
        sum(run.acknowledged for run in runs),
        sum(run.messages for run in runs),
        sum(run.logged for run in runs),
        sum(run.torn > 0 for run in runs),
        sum(bool(run.problems) for run in runs),
        sum(run.resumed for run in runs),
    )


def main() -> int:
    """1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.killing", description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    total, runs = asyncio.run(
        kill_at(args.points, seed, lambda text: print(text, file=sys.stderr, flush=True))
    )
    print(table(total, runs, seed))
    for run in runs:
        for problem in run.problems:
            print(f"kill {run.number} (after {run.after} events and {run.wait_us} µs, {run.last}): {problem}")
    return int(any(run.problems for run in runs))


if __name__ == "__main__":
    sys.exit(main())
