"""The most common user actions, each with the fewest clicks and keys that it takes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import expect

from tests.e2e.vscode import task, ways
from tests.e2e.vscode.hand import Hand
from tests.e2e.vscode.parcels import (
    ASKED,
    CHEAPER,
    PROPOSED,
    RATES,
    SET,
    make_parcels,
    read,
    set_rates,
    write,
)
from tests.e2e.vscode.window import Window
from tests.support.fakes.model_replies import Call, Reply, ReplyLike

Do = Callable[[Window, Path, Hand], Awaitable[None]]

NAMES = ("a.md", "b.md", "c.md")
COMMAND = "npm test"
DONE = Reply(text="Done.")


@dataclass(frozen=True)
class Flow:
    """One thing that a user does, from the moment in which it is to be done."""

    name: str
    replies: Callable[[Path], Sequence[ReplyLike]]
    do: Do
    most: int | None = None
    """Clicks and chords that it may take; None: no target."""
    target: str = ""
    """The target in words."""
    make: Callable[[Path], Path] = make_parcels
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings of the workspace for VS Code."""

    def prepare(self, ground: Path) -> Path:
        """Make the workspace."""
        workspace = self.make(ground)
        if self.settings:
            file = workspace / ".vscode" / "settings.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(self.settings))
        return workspace


async def connect(window: Window, hand: Hand, key: str) -> None:
    """Set the key of Anthropic, from the first look at the chat."""
    await hand.click(window.button("Anthropic"))
    await expect(window.page.locator(".quick-input-widget input")).to_be_focused()
    await hand.paste(key)


async def switch_model(window: Window, hand: Hand, now: str, wanted: str) -> None:
    """Choose another model of a connected provider."""
    await hand.click(window.chat.get_by_role("button", name=f"Model: {now}"))
    row = window.page.locator(".quick-input-widget").get_by_role("option", name=re.compile(wanted))
    await expect(row).to_be_visible()
    await hand.click(row)


async def asked(window: Window) -> None:
    """The edit of the rates waits for approval."""
    await window.say(ASKED)
    await expect(window.accept).to_be_enabled()
    await expect(window.tab("proposed by Goalwright")).to_be_visible()


async def accept(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await hand.click(window.accept)
    await expect(window.answers().last).to_contain_text(SET)
    assert (workspace / "rates.py").read_text() == PROPOSED


async def accept_by_key(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await hand.press("Shift+Alt+Y")
    await expect(window.answers().last).to_contain_text(SET)
    assert (workspace / "rates.py").read_text() == PROPOSED


def write_three(workspace: Path) -> list[Reply]:
    """Three edits in one step."""
    calls = (Call("write", {"file_path": str(workspace / name), "content": f"# {name}\n"}) for name in NAMES)
    return [Reply(tool_calls=tuple(calls)), DONE]


async def accept_three(window: Window, workspace: Path, hand: Hand) -> None:
    await window.say("Write three files.")
    await expect(window.button("Accept all 3 edits")).to_be_enabled()
    await hand.click(window.button("Accept all 3 edits"))
    await expect(window.answers().last).to_contain_text("Done.")
    assert all((workspace / name).exists() for name in NAMES)


async def leave_a_hunk_out(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await hand.click(window.approval.get_by_role("checkbox", name="Accept hunk 2 of 2", exact=True))
    await hand.click(window.button("Apply 1 of 2 hunks", window.approval))
    await expect(window.answers().last).to_contain_text(SET)
    assert (workspace / "rates.py").read_text() == RATES.replace(*CHEAPER)


async def change_by_hand(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    modified = window.diff.locator(".editor.modified")
    await hand.pick(modified.locator(".view-line", has_text="350").locator("span", has_text="350").last)
    await hand.type("300")
    await expect(window.button("Apply as edited", window.approval)).to_be_enabled()
    await hand.press("Shift+Alt+Y")
    await expect(window.answers().last).to_contain_text(SET)
    assert (workspace / "rates.py").read_text() == PROPOSED.replace("350", "300")


async def reject(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await window.composer.focus()  # it has the caret, unless the user went elsewhere
    await hand.type("Only abroad, please.")
    await hand.press("Enter")
    await expect(window.answers().last).to_contain_text("Done.")
    assert (workspace / "rates.py").read_text() == RATES


def run_command(_: Path) -> list[Reply]:
    """A command that asks."""
    return [task.call("bash", command=COMMAND, description="run the tests"), DONE]


async def run(window: Window, workspace: Path, hand: Hand) -> None:
    await window.say("Run the tests.")
    await expect(window.accept).to_be_enabled()
    await hand.click(window.accept)
    await expect(window.answers().last).to_contain_text("Done.")


async def always(window: Window, workspace: Path, hand: Hand) -> None:
    await window.say("Run the tests.")
    await hand.click(window.button("Always allow…", window.approval))
    await hand.click(window.button("Always allow", window.approval))
    await expect(window.answers().last).to_contain_text("Done.")
    await expect(window.chat.get_by_text("in this session: bash: npm test *")).to_be_visible()


async def three_branches(window: Window, workspace: Path, hand: Hand) -> None:
    await window.say(ways.TASK)
    board = window.chat.get_by_role("region", name="Scoreboard")
    for _ in range(10):
        # Language servers look at all branches, and take their time on a busy machine.
        await expect(window.accept.or_(board).first).to_be_visible(timeout=120_000)
        if not await window.accept.count():
            break
        await hand.click(window.accept)
        await expect(window.approval).to_be_hidden()
    await expect(board.get_by_role("row", name=re.compile("^Tests"))).to_contain_text("3 pass")


async def undo_a_change(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await hand.click(window.button("Undo", window.tool("write", "done")))
    await expect(window.button("Redo", window.tool("write", "done"))).to_be_visible()
    assert (workspace / "rates.py").read_text() == RATES


async def undo_a_turn(window: Window, workspace: Path, hand: Hand) -> None:
    await asked(window)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await hand.click(window.button("Undo…"))
    await hand.click(window.page.locator(".monaco-dialog-box").get_by_role("button", name="Revert"))
    await expect(window.button("Undo…")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == RATES


async def retry(window: Window, workspace: Path, hand: Hand) -> None:
    await window.say("What are rates?")
    await expect(window.button("Retry")).to_be_enabled()
    await hand.click(window.button("Retry"))
    await expect(window.answers().last).to_contain_text("Done.")


async def attach(window: Window, workspace: Path, hand: Hand) -> None:
    await window.composer.focus()
    await hand.type("@rat")
    suggestions = window.chat.get_by_role("listbox", name="Suggestions")
    row = suggestions.get_by_role("option", name=re.compile("rates.py"))
    await expect(row).to_have_attribute("aria-selected", "true")
    await hand.press("Enter")
    await expect(window.button("Remove rates.py")).to_be_visible()


def with_tests(ground: Path) -> Path:
    """A repository with a test, and a script of three ways beside it."""
    workspace = ways.make_repository(ground)
    ways.write_script(workspace.parent / "ways.json")
    return workspace


def flows(folder: Path) -> list[Flow]:
    """All of the shared window, whose workspace is in ``folder``."""
    three_ways: dict[str, object] = {
        "goalwright.model": f"scripted/{folder / 'ways.json'}",
        "goalwright.testCommand": f"{sys.executable} -m pytest -q -p no:cacheprovider",
    }
    failing = Reply(status=401, error_type="authentication_error")
    return [
        Flow("accept one edit", set_rates, accept, 1, "1"),
        Flow("accept one edit by keyboard", set_rates, accept_by_key, 1, "1"),
        Flow("accept three edits of a step", write_three, accept_three, 2, "≤ 2"),
        Flow("accept all hunks but one", set_rates, leave_a_hunk_out, 2, "2"),
        Flow("change the proposal by hand, and accept", set_rates, change_by_hand, 2, "text + 2"),
        Flow(
            "reject and say why",
            lambda w: [read(w / "rates.py"), write(w / "rates.py", PROPOSED), DONE],
            reject,
            1,
            "text + 1",
        ),
        Flow("run a command", run_command, run, 1, "1"),
        Flow("allow a command always", run_command, always, 2, "2"),
        Flow(
            "compare three branches",
            lambda _: [],
            three_branches,
            1,
            "1, the test command",
            with_tests,
            three_ways,
        ),
        Flow("undo one change", set_rates, undo_a_change, 1, "1"),
        Flow("undo a whole turn", set_rates, undo_a_turn, 2, "2"),
        Flow("retry after an error", lambda _: [failing, DONE], retry, 1, "1"),
        Flow("attach a file", lambda _: [], attach, 1, "text + 1"),
    ]
