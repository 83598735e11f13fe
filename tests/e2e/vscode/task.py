"""A small real task for the tests in VS Code: a shop with a wrong total, and what the model does about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fakes.model_replies import Call, Reply

TASK = "The discount is taken off as cents. Make it per cent."

CART = '''"""Prices of an order, in cents."""


def total(prices: list[int], discount: int = 0) -> int:
    """Sum of the prices after a discount in per cent."""
    return sum(prices) - discount
'''

TEST = """import unittest

import cart


class Total(unittest.TestCase):
    def test_discount_is_in_per_cent(self) -> None:
        self.assertEqual(cart.total([1000, 500], 10), 1350)


unittest.main()
"""

BEFORE = "    return sum(prices) - discount"
FLOAT = "    return sum(prices) * (100 - discount) / 100"
WHOLE = "    return sum(prices) * (100 - discount) // 100"
COMPLAINT = '"float" is not assignable to return type "int"'
"""basedpyright's words about ``FLOAT``; they must reach the card and the model."""

FIXED = CART.replace(BEFORE, WHOLE)
RUN_TESTS = "python3 test_cart.py"
"""Pictures show it, so it has no path of this machine."""
ANSWER = "The discount is now taken in **per cent**, and the test passes."
GOALS = ("Fix the discount", "Run the test")


def make_shop(folder: Path) -> Path:
    """The workspace, in a git repository as most are."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cart.py").write_text(CART)
    (folder / "test_cart.py").write_text(TEST)
    return folder


def passes(folder: Path, *command: str) -> bool:
    """Run Python with a command line in the workspace, as the user would to see whether its tests pass."""
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, timeout=60)
    return done.returncode == 0


def call(name: str, text: str = "", **arguments: Any) -> Reply:
    """An answer with one tool call."""
    return Reply(text=text, tool_calls=(Call(name, arguments),))


def edit(folder: Path, old: str, new: str, text: str) -> Reply:
    """An answer that edits the cart."""
    return call("edit", text, file_path=str(folder / "cart.py"), old_string=old, new_string=new)


def plan() -> Reply:
    """The first answer: the plan."""
    return call(
        "goal",
        "Two steps: mend it, then prove it.",
        add=list(GOALS),
        reason="the test tells when it works",
    )


def read(folder: Path) -> Reply:
    """An answer that reads the cart."""
    return call("read", file_path=str(folder / "cart.py"))


def whole_task(folder: Path) -> list[Reply]:
    """All answers for ``TASK``: one of the edits returns a float where an int is promised."""
    return [
        plan(),
        call("goal", focus="1"),
        read(folder),
        edit(folder, BEFORE, FLOAT, "The discount has to be a share of the sum."),
        edit(
            folder, FLOAT, WHOLE, "The type checker is right: cents are whole. I divide without a remainder."
        ),
        call("goal", done="total() takes the discount in per cent, in whole cents", focus="2"),
        call("bash", command=RUN_TESTS, description="run the test"),
        call("goal", done="the test passes"),
        Reply(text=ANSWER),
    ]
