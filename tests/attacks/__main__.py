"""``python -m tests.attacks``: plays all attacks and prints their outcomes as a Markdown table."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.attacks.cases import ATTACKS
from tests.attacks.play import play


async def main() -> int:
    """Exit code 1 when one of them got through."""
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


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
