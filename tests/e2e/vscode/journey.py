"""A scripted session with everything a graph shows: sub-goals, an abandoned goal, alternative branches."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.vscode.ways import DIRECTIONS, EXACT, FLOAT, WHOLE, branch, call, step

PLAN = "Plan the work on the discount."
WORK = "Now do it."
PLANNED = "Four goals, beginning with the code as it is."
DONE = "The discount is a share now."
READ = "total() takes the discount off as cents"
GIVEN_UP = "The caller would have to know about cents"


def write_journey(file: Path) -> str:
    """The model's name."""
    script = {
        "name": "journey",
        "turns": [
            [
                step(
                    call(
                        "goal",
                        add=[
                            "Understand the discount",
                            "Mend it where it is used",
                            "Find the best arithmetic",
                            "Tell the user",
                        ],
                    ),
                    text="First the plan.",
                ),
                step(call("goal", focus="1")),
                step(call("goal", add=["Read the cart", "Read its test"])),
                step(text=PLANNED),
            ],
            [
                step(call("goal", focus="1.1"), call("read", file_path="cart.py")),
                step(call("goal", done=READ, focus="1.2"), call("read", file_path="test_cart.py")),
                step(
                    call("goal", done="It expects a share"),
                    call("goal", focus="2"),
                    call("grep", pattern="total"),
                ),
                step(call("goal", abandon=GIVEN_UP), call("goal", focus="g3"), text="Not there, then."),
                step(call("explore", branches=list(DIRECTIONS)), text="Side by side."),
                step(
                    call("goal", done="A is the smallest change"),
                    call("goal", goal="g3", done="Whole cents", focus="g4"),
                ),
                step(text=DONE),
            ],
        ],
        "branches": {
            "A": branch("Take the share in whole cents", WHOLE, "Whole cents: one expression."),
            "B": branch("Take the share as Decimal", EXACT, "Decimal: exact, and one import more.", 4_100),
            "C": branch("Take the share as float", FLOAT, "Floats: no integer any more.", 1_900),
        },
    }
    file.write_text(json.dumps(script))
    return f"scripted/{file}"
