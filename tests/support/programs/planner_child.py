"""``crash_child`` with a turn that works through a plan step by step: planning, a failure, a new plan, the rest."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.drivers.core import ALLOW_ALL
from tests.support.fakes.models import Call
from tests.support.programs import crash_child

STEPS = [
    '{"steps": [{"goal": "Look"}, {"goal": "Write"}, {"goal": "Tell"}]}',
    [Call("read", {"file_path": "a.txt"}), Call("goal", {"done": "it says old"})],
    "Looked.",
    [
        Call("write", {"file_path": "b.txt", "content": "made\n"}),
        Call("goal", {"abandon": "not in one piece"}),
    ],
    "It cannot be.",
    '{"steps": [{"goal": "Write in parts", "steps": ["one", "two"]}, {"keep": "2"}]}',
    [Call("write", {"file_path": "c.txt", "content": "one\n"}), Call("goal", {"done": "one"})],
    "One.",
    [Call("goal", {"done": "two"})],
    "Two.",
    "Told.",
    [Call("goal", {"done": "told"})],
    "All is told.",
]

if __name__ == "__main__":
    crash_child.STEPS[:] = STEPS
    crash_child.PROMPTS = ("Do it",)
    crash_child.ALLOW_ALL = {**ALLOW_ALL, "planner": "layered"}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    crash_child.main()
