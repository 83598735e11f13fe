"""Goalwright in a real Neovim: what it asks, and that the buffer follows an accepted edit."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.drivers.command_line import PROGRAM, CommandLine

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[2]
RATES = "LOCAL = 400\nFAR = 900\n"
CHEAPER = "LOCAL = 350\nFAR = 900\n"
FORCE = "git push --force origin HEAD:main"
SAYS = "Run the unit tests"


def recommended_settings() -> str:
    """The Lua block of the documentation that is about files changed on disk."""
    blocks = re.findall(r"```lua\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if "FileChangedShell" in block)


async def test_neovim_shows_approvals_and_buffer_follows_the_edit(
    goalwright: CommandLine,
) -> None:
    program = shutil.which("nvim")
    assert program is not None, "This test needs Neovim: apt-get install neovim"
    file = goalwright.workspace / "rates.py"
    file.write_text(RATES)
    name = "${workspace}/rates.py"
    edit = {"file_path": name, "old_string": "LOCAL = 400", "new_string": "LOCAL = 350"}
    calls = [("read", {"file_path": name}), ("edit", edit), ("bash", {"command": FORCE, "description": SAYS})]
    model = goalwright.script(
        [{"tool_calls": [{"name": tool, "input": given}]} for tool, given in calls] + [{"text": "So far."}]
    )
    settings, out = goalwright.folder / "settings.lua", goalwright.folder / "seen.json"
    settings.write_text(recommended_settings())
    given = {
        "cmd": [*PROGRAM, "connect", "--stdio", "--workspace", str(goalwright.workspace)],
        "root": str(goalwright.workspace),
        "options": {"client": "Neovim", "settings": {"model": model}},
        "file": str(file),
        "settings": str(settings),
        "out": str(out),
        "questions": 2,
    }
    ran = await asyncio.to_thread(
        subprocess.run,
        [program, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-S", str(ROOT / "tests/e2e/neovim.lua")],
        env={**goalwright.env, "GOALWRIGHT_TEST": json.dumps(given), "TERM": "dumb"},
        cwd=goalwright.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert out.exists(), ran.stdout + ran.stderr
    seen = json.loads(out.read_text())
    assert seen["ended"], seen
    change, command = seen["asked"]
    assert change.startswith("Goalwright asks: Edit rates.py (+1 -1)\n")
    assert command.splitlines()[0] == f"Goalwright asks: Run {FORCE}"
    assert command.splitlines()[1].startswith("! git push --force")
    assert command.splitlines()[-1] == f'the model says: "{SAYS}"'
    # The buffer has the edit, the file too, and neither coming back nor saving asks anything.
    assert seen["buffer"] == CHEAPER
    assert not seen["modified"]
    assert file.read_text() == f"{CHEAPER}TYPED = 1\n"
    # The editor's own undo goes back behind the edit.
    assert seen["undone"] == RATES
    assert seen["documents"] == 0, "nobody asked for a document"
    goalwright.end()
    assert "Traceback" not in goalwright.log(), goalwright.log()
