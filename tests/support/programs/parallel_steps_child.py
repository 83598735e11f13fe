"""``crash_child`` with a plan whose independent steps are done by sub-agents at the same time, and then a step of both.

Each step writes one file; what it says tells which run wrote it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.drivers.core import ALLOW_ALL
from tests.support.fakes.models import Call, Step
from tests.support.programs import crash_child
from tests.support.scenarios.branches import BranchModels
from tests.support.scenarios.plans import done, plan, step

GOALS = ("Front", "Back", "Join")


def leave(name: str, run: str = "first") -> Call:
    """The one effect of a step."""
    return Call("write", {"file_path": name, "content": f"{run}\n"})


MAIN: list[Step] = [
    plan(step("a", "Front", parallel=True), step("b", "Back", parallel=True), step("c", "Join", "a", "b")),
    [leave("Join"), done("joined")],
    "All is built.",
]
AGENTS: dict[str, list[Step]] = {
    "s1": [[leave("Front")], "Front is built."],
    "s2": [[leave("Back")], "Back is built."],
}


def models(*_: Step) -> BranchModels:
    """Instead of those of ``crash_child``."""
    return BranchModels(MAIN, {name: list(steps) for name, steps in AGENTS.items()})


if __name__ == "__main__":
    crash_child.PROMPTS = ("Build it",)
    crash_child.FakeModels = models
    crash_child.ALLOW_ALL = {**ALLOW_ALL, "planner": "layered"}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    crash_child.main()
