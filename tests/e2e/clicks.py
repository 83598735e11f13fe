"""Counts clicks and keys of what users do most, in real VS Code, and prints a table.

``python -m tests.e2e.clicks [PART OF A NAME ...]`` counts all of it, or what has one of the parts in its name.
Needs what the tests in VS Code need (``make prepare-test``). Ends with 1 when a target is missed.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.conftest import MODELS, TEST_SETTINGS, VSIX, account_env
from tests.e2e.vscode.flows import connect, flows, switch_model
from tests.e2e.vscode.hand import Hand
from tests.e2e.vscode.install import few_extensions
from tests.e2e.vscode.server import VSCodeServer, goalwright
from tests.e2e.vscode.shared import SharedWindow
from tests.e2e.vscode.window import Window, open_window
from tests.support.fakes.model_server import ModelServer

KEY = "sk-ant-" + "k" * 40
OPUS = "claude-opus-5-5"
Row = tuple[str, str, str, bool]
"""Flow, counted, target, reached."""


def show(row: Row) -> None:
    """Print a line of the table as soon as it is known."""
    name, words, target, reached = row
    print(f"| {name} | {words} | {target} | {'ok' if reached else 'MISSED'} |", flush=True)


async def in_the_shared_window(folder: Path, builtin: Path, only: Sequence[str]) -> list[Row]:
    """Flows that need no window of their own; ``only``: those whose name has one of these parts."""

    def server_of(folder: Path, workspace: Path, env: Mapping[str, str]) -> VSCodeServer:
        return VSCodeServer(
            folder / "vscode", workspace, sys.executable, VSIX, TEST_SETTINGS, env, builtin=builtin
        )

    async def broken(window: Window) -> None:
        await window.screenshot(Path(tempfile.gettempdir()) / "clicks.png")

    shared = SharedWindow(folder, account_env(folder / "home"), server_of)
    rows: list[Row] = []
    try:
        for flow in flows(folder):
            if only and not any(part in flow.name for part in only):
                continue
            print(f"… {flow.name}", file=sys.stderr, flush=True)
            await shared.empty()
            workspace = flow.prepare(shared.workspace)
            async with shared.use(flow.replies(workspace), broken) as (_, window):
                await window.show_chat()
                hand = Hand(window.page)
                await flow.do(window, workspace, hand)
            rows.append((flow.name, hand.words, flow.target, flow.most is None or hand.actions <= flow.most))
            show(rows[-1])
    finally:
        await shared.close()
    return rows


async def without_a_key(folder: Path, builtin: Path) -> list[Row]:
    """The first connection of a model, and the change to another one."""
    workspace, env = folder / "workspace", account_env(folder / "home")
    workspace.mkdir()
    (workspace / "README.md").write_text("# Nothing\n")
    async with ModelServer(["ready"], api_key=KEY, listed={"/v1/models": MODELS}) as model:
        env = {**env, "ANTHROPIC_BASE_URL": model.url}
        server = VSCodeServer(
            folder / "vscode", workspace, sys.executable, VSIX, TEST_SETTINGS, env, builtin=builtin
        )
        try:
            with server:
                async with open_window(server) as window:
                    await window.show_chat()
                    setting, choosing = Hand(window.page), Hand(window.page)
                    await connect(window, setting, KEY)
                    await window.notification("Connected to").wait_for()
                    now = "anthropic/claude-sonnet-5-5"
                    await switch_model(window, choosing, now, OPUS)
                    await window.chat.get_by_role("button", name=f"Model: anthropic/{OPUS}").wait_for()
        finally:
            goalwright("stop", "--force", workspace=workspace, env=env)
    rows: list[Row] = [
        ("set a key", setting.words, "text + 1", setting.actions <= 1),
        ("switch the model", choosing.words, "2", choosing.actions <= 2),
    ]
    for row in rows:
        show(row)
    return rows


async def count(only: Sequence[str]) -> int:
    """Print the table."""
    folder = Path(tempfile.mkdtemp(prefix="gw-e2e-")).resolve()
    try:
        builtin = few_extensions(folder / "builtin")
        for name in ("shared", "own"):
            (folder / name).mkdir()
        print("| flow | counted | target | |\n|---|---|---|---|")
        rows = await in_the_shared_window(folder / "shared", builtin, only)
        rows += await without_a_key(folder / "own", builtin)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(count(sys.argv[1:])))
