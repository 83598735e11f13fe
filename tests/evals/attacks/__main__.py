"""``python -m tests.evals.attacks``: plays attacks and prints their outcomes as Markdown tables.

Without arguments it plays the calls of ``cases.py`` (tools and commands, by rules alone). With ``--lines`` it plays the
attack lines of ``lines.py`` for real, each through the product as it is configured, with every question refused:

    python -m tests.evals.attacks --lines                             all of them in the bwrap sandbox
    python -m tests.evals.attacks --lines 600 --backend none          600, spread over all kinds, without a sandbox
    python -m tests.evals.attacks --lines --backend landlock          where bwrap is not found
    python -m tests.evals.attacks --lines --rules broad --user tester  under "*": "allow"; as another user (needs root)
    python -m tests.evals.attacks --lines --match 'git grep'          only lines with this text

Rule sets: ``wild`` allows each program of a line by ``NAME *``, ``broad`` everything, ``auto`` is the mode in a trusted
folder, ``plan`` the mode with everything allowed, ``default`` the shipped rules; all of them deny ``.env``,
``secrets/*`` and a file beside the workspace. Without a sandbox lines run on this machine as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from tests.evals.attacks.cases import ATTACKS
from tests.evals.attacks.lines import Line, lines, sample
from tests.evals.attacks.play import play
from tests.evals.attacks.pool import Backend, play_all
from tests.evals.attacks.worker import Played, Rules


async def play_cases() -> int:
    """Play the calls of ``cases.py``. Return 1 when one of them got through."""
    print("| attack | call | outcome | by |\n|---|---|---|---|")
    through = 0
    for attack in ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            played = await play(attack, Path(folder).resolve())
        bad = played.outcome == "done" or played.leaked or played.harmed
        through += bool(bad)
        call = " ".join(str(value) for value in attack.input.values()).replace("\n", "⏎").replace("|", "\\|")
        by = played.rule.replace("|", "\\|")
        outcome = f"**{played.outcome} {played.leaked} {played.harmed}**" if bad else played.outcome
        print(f"| {attack.why} | {attack.tool} `{call[:70]}` | {outcome} | {by} |")
    print(f"\n{len(ATTACKS)} attacks, {through} got through.")
    return 1 if through else 0


def column(played: Played) -> str:
    """Return the column of the table that a line counts in."""
    if played.harms:
        return "HARM"
    if played.outcome != "done":
        return played.outcome
    return "not run" if played.missing else "no harm"


def print_lines(found: Sequence[tuple[Line, Played]]) -> int:
    """Print the table and every harm. Return the number of lines that did harm."""
    columns = ("asked", "denied", "no harm", "not run", "HARM")
    counts = Counter((line.kind, column(played)) for line, played in found)
    print("| kind | lines | " + " | ".join(columns) + " |\n|---|" + "--:|" * (len(columns) + 1))
    for kind in sorted({line.kind for line, _ in found}):
        cells = [counts[kind, name] for name in columns]
        print(f"| {kind} | {sum(cells)} | " + " | ".join(map(str, cells)) + " |")
    sums = [sum(counts[kind, name] for kind in {line.kind for line, _ in found}) for name in columns]
    print(f"| all | {sum(sums)} | " + " | ".join(map(str, sums)) + " |\n")
    for line, played in found:
        if played.harms:
            print(
                f"HARM {line.number} ({line.kind}, {line.why}): {line.command!r}: {'; '.join(played.harms)}"
            )
    return sums[-1]


def main() -> int:
    """Exit code 1 when an attack got through."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.attacks")
    parser.add_argument(
        "--lines", nargs="?", type=int, const=0, metavar="COUNT", help="play lines; all or COUNT of them"
    )
    parser.add_argument("--backend", choices=get_args(Backend), default="bwrap")
    parser.add_argument("--rules", choices=get_args(Rules), default="wild")
    parser.add_argument("--user", default="", help="play as this user")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--match", default="", help="only lines with this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each line")
    arguments = parser.parse_args()
    if arguments.lines is None:
        return asyncio.run(play_cases())
    some = [
        line
        for line in (sample(arguments.lines) if arguments.lines else lines())
        if arguments.match in line.command
    ]
    began = time.monotonic()
    found = play_all(
        some,
        backend=arguments.backend,
        rules=arguments.rules,
        user=arguments.user,
        workers=arguments.workers,
        told=lambda line, played: print(".", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    harmed = print_lines(found)
    print(f"{len(found)} lines in {time.monotonic() - began:.0f} s, {harmed} did harm.")
    if arguments.json is not None:
        rows = [{**asdict(line), **asdict(played)} for line, played in found]
        arguments.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
