"""``crash_child`` with sub-agents at work: two side by side, one with a sub-agent of its own, files written by both."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.fakes.models import Call, Step
from tests.support.programs import crash_child
from tests.support.scenarios.branches import BranchModels
from tests.support.scenarios.subagents import task

MAIN: list[Step] = [
    ["I share it out.", task("One."), task("Two."), Call("ls", {})],
    "All is done.",
]
AGENTS: dict[str, list[Step]] = {
    "s1": [
        [Call("goal", {"add": "write it", "focus": "1"})],
        [Call("write", {"file_path": "one.txt", "content": "one\n"})],
        [task("Look.", "explore")],
        "One is written.",
    ],
    "s1.s1": [[Call("ls", {})], "Seen."],
    "s2": [["I begin.", Call("write", {"file_path": "two.txt", "content": "two\n"})], "Two is written."],
}
PROMPT = "Do it"


def models(*_: Step) -> BranchModels:
    """Instead of those of ``crash_child``."""
    return BranchModels(MAIN, {name: list(steps) for name, steps in AGENTS.items()})


if __name__ == "__main__":
    crash_child.PROMPTS = (PROMPT,)
    crash_child.FakeModels = models
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    crash_child.main()
