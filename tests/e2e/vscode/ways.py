"""A small git repository with a bug, and a scripted model that tries three ways to fix it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CART = '''"""Totals of a shopping cart, in cents."""


def total(prices: list[int], discount: int) -> int:
    """The sum of all prices, less the discount."""
    return sum(prices) - discount


def count(prices: list[int]) -> int:
    """How many things there are."""
    return len(prices)


def label(prices: list[int], discount: int) -> str:
    """For the receipt."""
    return f"Total: {total(prices, discount)}"
'''
TEST = """from cart import label, total


def test_the_discount_is_a_share() -> None:
    assert total([1000, 500], 10) == 1350


def test_nothing_costs_nothing() -> None:
    assert total([], 10) == 0


def test_the_receipt_has_whole_cents() -> None:
    assert "1350" in label([1000, 500], 10)
"""
WHOLE = CART.replace("sum(prices) - discount", "sum(prices) * (100 - discount) // 100").replace(
    '"Total: {total(prices, discount)}"', '"Total: {total(prices, discount)} (-{discount} %)"'
)
"""Two changes, far enough from each other to be two hunks."""
EXACT = CART.replace(
    '"""Totals of a shopping cart, in cents."""\n',
    '"""Totals of a shopping cart, in cents."""\n\nfrom decimal import Decimal\n',
).replace(
    "return sum(prices) - discount", 'return int(sum(prices) * (1 - Decimal(discount) / Decimal("100")))'
)
FLOAT = CART.replace("sum(prices) - discount", "sum(prices) * (1 - discount / 100)")
TASK = "The discount should be in per cent. Try a few ways and compare them."
DIRECTIONS = ("Whole cents, integer division", "Decimal arithmetic", "Plain floats, rounded nowhere")
ANSWER = "Three ways are compared above. A is the smallest change and its tests pass."


def make_repository(folder: Path) -> Path:
    """Create the workspace: a git repository with one commit, and an untracked file of the user's own."""
    folder.mkdir(exist_ok=True)
    (folder / "cart.py").write_text(CART)
    (folder / "test_cart.py").write_text(TEST)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-qm", "A cart")
    (folder / "notes.txt").write_text("Ask Bo about rounding.\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Return the output of git."""
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool, as a script has it."""
    return {"name": name, "input": arguments}


def step(*calls: Mapping[str, Any], text: str = "", tokens: int = 2_400, **more: Any) -> dict[str, Any]:
    """Return one answer of the model, with tokens, so that there is something to compare."""
    usage = {"input": tokens, "output": tokens // 12, "cache_read": 0, "cache_write": 0}
    return {"text": text, "tool_calls": list(calls), "usage": usage, **more}


def branch(goal: str, content: str, said: str, tokens: int = 2_400) -> list[list[dict[str, Any]]]:
    """Return the turns of a branch that plans, rewrites the cart, and reports."""
    return [
        [
            step(
                call("goal", add=[goal, "See that the receipt is right"], focus="1"),
                call("read", file_path="cart.py"),
            ),
            step(
                call("write", file_path="cart.py", content=content),
                text="The discount is a share of the sum.",
                tokens=tokens,
            ),
            step(text=said, tokens=tokens),
        ]
    ]


def write_script(file: Path, *after: Mapping[str, Any]) -> str:
    """Write a script, and return the model's name. ``after``: the main session's steps after the comparison; None: it
    answers."""
    script = {
        "name": "three ways",
        "turns": [
            [
                step(
                    call("explore", branches=list(DIRECTIONS)),
                    text="There are three ways to do this. I will try them side by side.",
                ),
                *(after or [step(text=ANSWER)]),
            ],
        ],
        "branches": {
            "A": branch(
                "Take the share in whole cents", WHOLE, "Whole cents: one expression, and a nicer receipt."
            ),
            "B": branch("Take the share as Decimal", EXACT, "Decimal: exact, and one import more.", 4_100),
            "C": branch(
                "Take the share as float", FLOAT, "Floats: short, but the type is no integer any more.", 1_900
            ),
        },
    }
    file.write_text(json.dumps(script))
    return f"scripted/{file}"
