"""Hooks while branches are running: hooks that guard tools guard theirs too; the others see the user's session only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.fakes.models import Call
from tests.support.scenarios.branches import EDITS, explore, exploring, told

NAMES = (
    "session.start",
    "prompt.submit",
    "tool.execute.before",
    "tool.execute.after",
    "goal.completed",
    "session.end",
)


def hook(folder: Path, body: str) -> str:
    path = folder / "hook.sh"
    path.write_text(f"#!/bin/sh\nx=$(cat)\nprintf '%s\\n' \"$x\" >> {folder}/heard\n{body}\n")
    os.chmod(path, 0o755)  # noqa: PTH101
    return str(path)


async def test_hooks_guard_branch_tools_but_fire_for_one_session(tmp_path: Path) -> None:
    program = hook(tmp_path, "")
    settings: dict[str, Any] = {**EDITS, "hooks": {name: [{"command": [program]}] for name in NAMES}}
    steps = {
        "A": [
            Call("goal", {"add": "g", "focus": "1"}),
            Call("write", {"file_path": "a.txt", "content": "1"}),
            Call("goal", {"done": "done"}),
            "A.",
        ],
        "B": ["B."],
    }
    async with exploring(tmp_path, [explore("one", "two"), "Done."], steps) as bench:
        session = bench.session(settings=settings)
        assert (await session.prompt("go")).stop == "end_turn"
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    by = {(item["hook"], item["session_id"]) for item in heard}
    main, a, b = session.session_id, f"{session.session_id}:A", f"{session.session_id}:B"
    assert {name for name, who in by if who == main} >= {
        "session.start",
        "prompt.submit",
        "tool.execute.before",
    }
    assert {name for name, who in by if who == a} == {"tool.execute.before", "tool.execute.after"}
    assert {name for name, who in by if who == b} == set()
    assert [item["hook"] for item in heard].count("session.end") == 1


async def test_hook_can_deny_a_tool_call_in_a_branch(tmp_path: Path) -> None:
    program = hook(tmp_path, "echo 'not that' >&2; exit 2")
    settings: dict[str, Any] = {
        **EDITS,
        "hooks": {"tool.execute.before": [{"command": [program], "tools": "write"}]},
    }
    write = Call("write", {"file_path": "a.txt", "content": "1"})
    async with exploring(
        tmp_path, [explore("one", "two"), "Done."], {"A": [write, "A."], "B": ["B."]}
    ) as bench:
        session = bench.session(settings=settings)
        assert (await session.prompt("go")).stop == "end_turn"
        child = await bench.opened(f"{session.session_id}:A")
        assert told(child, "write").is_error
        assert "not that" in told(child, "write").content
