"""The demo's script, played against a copy of its sample workspace with tools reduced to the bone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.demo import PROMPT, copy_workspace, script_path
from daemon.model.messages import TextPart, ToolCallPart
from daemon.provider.model_calls import PromptMessage
from daemon.provider.scripted import WORKSPACE, ScriptedProvider
from tests.support.scenarios.model_requests import assistant, complete, request, result, user

DIAGNOSTIC = '\n<diagnostics file="shop/cart.py">\nERROR [29:24] "discounted" is not defined\n</diagnostics>'


class Shop:
    """A workspace and a session in it."""

    def __init__(self, root: Path, *, diagnostics: bool = True, refuse: str = "") -> None:
        self.root = root
        self.diagnostics = diagnostics
        self.refuse = refuse
        self.talk: list[PromptMessage] = []
        self.used: list[str] = []

    async def turn(self, prompt: str) -> str:
        """Play one turn. Returns what the model said last."""

        async def no_wait(seconds: float) -> None:
            return None

        provider = ScriptedProvider(script_path(), sleep=no_wait)
        self.talk.append(user(prompt))
        while True:
            wanted = request(*self.talk, env={WORKSPACE: str(self.root)})
            end = await complete(provider, wanted)
            self.talk.append(assistant(*end.parts))
            if end.stop_reason != "tool_use":
                return "".join(part.text for part in end.parts if isinstance(part, TextPart))
            for part in end.parts:
                if isinstance(part, ToolCallPart):
                    self.used.append(part.name)
                    self.talk.append(result(part.id, self.run(part.name, part.arguments())))

    def run(self, name: str, args: dict[str, Any]) -> str:
        if name == self.refuse:
            return "Permission denied: the user refused."
        match name:
            case "read":
                return Path(args["file_path"]).read_text("utf-8")
            case "edit":
                return self.edit(Path(args["file_path"]), args["old_string"], args["new_string"])
            case "bash":
                command = [sys.executable, "-m", "unittest", "-q"]
                done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
                return done.stdout + done.stderr
            case _:
                return "## Current Plan"

    def edit(self, path: Path, old: str, new: str) -> str:
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{old!r} must be unique in {path.name}"
        after = text.replace(old, new)
        path.write_text(after, "utf-8")
        wrong = "discounted(" in after and "import discounted" not in after
        return "Edit applied." + (DIAGNOSTIC if wrong and self.diagnostics else "")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_workspace(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.mark.parametrize("diagnostics", [True, False])
async def test_demo_makes_the_tests_pass_with_and_without_diagnostics(root: Path, diagnostics: bool) -> None:
    shop = Shop(root, diagnostics=diagnostics)
    assert "FAILED" in shop.run("bash", {})
    assert "Discount codes work now" in await shop.turn(PROMPT)
    assert "OK" in shop.run("bash", {})
    assert shop.used.count("edit") == 2
    assert "demo" in await shop.turn("And now?")


async def test_second_demo_session_finds_the_fix_applied(root: Path) -> None:
    await Shop(root).turn(PROMPT)
    again = Shop(root)
    assert "already" in await again.turn(PROMPT)
    assert "edit" not in again.used


@pytest.mark.parametrize("tool", ["edit", "bash"])
async def test_a_refusal_is_accepted(root: Path, tool: str) -> None:
    shop = Shop(root, refuse=tool)
    assert "leave" in await shop.turn(PROMPT)
    assert shop.used[-1] == tool


async def test_demo_in_another_workspace_explains_how_to_connect(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert "ANTHROPIC_API_KEY" in await shop.turn("Fix my code")
    assert shop.used == []
