"""The chat for everybody, in real VS Code: screen readers, high contrast, keyboard alone, and any width."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.async_api import expect

from daemon.store.files import FileTraceStore
from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.accessibility import (
    assert_accessible,
    chat_frame,
    chat_of_width,
    focused,
    graph_frame,
    heard,
    heard_until,
    keys_took,
    listen,
    scroll,
    tab_to,
    watch_keys,
)
from tests.e2e.vscode.parcels import PROPOSED, make_parcels, read, write
from tests.e2e.vscode.window import THEMES, Window
from tests.support.drivers.trace_page import PageBench
from tests.support.examples import in_full
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

DEEP = "packages/warehouse/source/international/customs/declarations/harmonized_tariff_codes.py"
HEBREW = "docs/תעריפים.md"
PATCH = f"""*** Begin Patch
*** Update File: rates.py
@@
-LOCAL = 400
+LOCAL = 350
@@
-    return 5 * LOCAL + weight
+    return 6 * LOCAL + 2 * weight
*** Add File: {DEEP}
+CODES = {{"8471.30": "Portable machines"}}
*** Add File: {HEBREW}
+# תעריפים 📦
*** End Patch"""
GOALS = [
    "Lower the rates",
    r"Move C:\Users\ann\Documents\parcels\rates.py to the package",
    "תרגם את `rates.py` לעברית",
    "A" * 90,
]
SAID = f"""Three files change, in `{DEEP}` and in `C:\\Users\\ann\\Documents\\parcels\\rates.py`.

הקובץ `rates.py` קובע את התעריף — see `LOCAL = 350` 📦.

| Parcel | Before | After | Who says so |
|---|---:|---:|---|
| local | 400 | 350 | {"Donaudampfschiffahrtsgesellschaft" * 2} |

{"x" * 120}

```py
def a_function_with_a_long_name(first_argument: int, second_argument: int, third_argument: int) -> int: ...
```
"""
STREAMED = "The rates stand in one file.\n\nI look at who uses them, " + "word by word, " * 40
ASKS = [
    {
        "question": "Which carriers get the new rates?",
        "options": [{"label": "All of them", "description": "Also those abroad"}, "Only the night post"],
        "multiple": True,
    },
    {"question": "Since when?", "options": ["Now", "Next month"]},
]


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    (folder / "carriers.md").write_text("# Carriers\n")
    return folder


async def test_every_state_of_the_chat_is_accessible_in_all_themes(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [
        Reply(text=STREAMED, fault="hang", fault_after=30),
        task.call("goal", add=GOALS),
        task.call("goal", focus="1"),
        read(workspace / "rates.py"),
        task.call("patch", patch_text=PATCH),
        task.call("question", questions=ASKS),
        Reply(text=SAID),
        Reply(status=401, error_type="authentication_error", error_message="bad key"),
    ]
    async with with_model(replies) as (_model, window):
        await window.open_file("carriers.md")
        await window.show_chat()
        await assert_accessible(window)
        chat = await chat_frame(window)
        await listen(chat)

        await window.say("Look at the rates")
        await expect(window.answers().last).to_contain_text("word by word")
        await window.say("Then translate all of it to Hebrew, and tell me which words you were not sure of")
        await window.say("Then sum up")
        await expect(window.chat.get_by_role("list", name="Waiting prompts")).to_be_visible()
        await assert_accessible(window)
        # Only what is complete is said, as a whole. An answer that comes at once is said before that work has begun.
        said = await heard_until(chat, "The rates stand in one file.")
        assert set(said) <= {"Goalwright is working", "The rates stand in one file."}
        await window.button("Stop").click()
        await expect(window.button("Discard what is queued")).to_be_visible()
        await assert_accessible(window)
        await window.button("Discard what is queued").click()

        await window.say("Make local parcels cheaper")
        await expect(window.approval).to_be_visible()
        strip = window.chat.get_by_role("region", name="Plan", exact=True)
        await window.unfold(strip.get_by_role("button", name=re.compile("^Plan: 0 of 4 done")))
        await expect(strip.get_by_role("treeitem")).to_have_count(4)
        await assert_accessible(window)
        await window.pictures("access-approval", tuple(THEMES))
        async with chat_of_width(window, 160):
            await window.pictures("access-narrow")
        await window.accept.click()
        await expect(window.tool("patch", "done")).to_be_visible()

        await expect(window.chat.get_by_role("region", name="Question")).to_be_visible()
        await assert_accessible(window)
        await window.button("Skip").click()
        told = await heard(chat, "assertive")
        assert [text.split(":", 1)[0] for text in told] == ["Approval needed", "Question"], told

        await expect(window.chat.get_by_role("region", name="Changed files")).to_be_visible()
        await strip.get_by_role("button", name=re.compile("^Plan: 0 of 4 done")).press("Enter")
        await assert_accessible(window)
        await window.pictures("access-turn", tuple(THEMES))
        await window.say("And now?")
        await expect(window.button("Change Key…")).to_be_visible()
        await assert_accessible(window)


async def palette(window: Window, title: str) -> None:
    """Run a command through the palette without a click. Where the chat takes the focus late, press again."""
    box = window.page.locator(".quick-input-widget")
    for _ in range(3):
        await window.page.keyboard.press("F1")
        with contextlib.suppress(AssertionError):
            await expect(box.locator("input.input")).to_be_focused(timeout=5_000)
            break
        await window.page.keyboard.press("Escape")
    await expect(box.locator("input.input")).to_be_focused()
    await window.page.keyboard.type(title)
    row = box.locator(".monaco-list-row.focused", has_text=title)
    await expect(row).to_be_visible()
    await window.page.keyboard.press("Enter")


async def test_every_main_flow_works_with_the_keyboard_alone(with_model: WithModel, workspace: Path) -> None:
    notes = workspace / "notes.txt"
    replies = [
        task.call("goal", add=["Lower the rates", "Tell the customers"]),
        task.call("goal", focus="1"),
        read(workspace / "rates.py"),
        write(workspace / "rates.py", PROPOSED),
        write(notes, "Cheaper.\n"),
        task.call("question", questions=ASKS),
        Reply(text="The rates are set."),
        Reply(text="Said once more."),
    ]
    async with with_model(replies) as (model, window):
        page = window.page
        await page.keyboard.press("Shift+Alt+G")
        await expect(window.composer).to_be_focused()
        chat = await chat_frame(window)
        # The box has the focus within its page before the page has that of the window.
        await chat.wait_for_function("document.hasFocus()")
        await page.keyboard.type("Make local parcels cheaper")
        await page.keyboard.press("Enter")

        # One of two hunks; the focus is where one writes when the card has gone.
        await expect(window.approval).to_be_visible()
        await expect(window.diff).to_be_visible()
        await expect(window.composer).to_be_focused()
        await tab_to(window, chat, "^Accept hunk 2 of 2", "Shift+Tab")
        await page.keyboard.press("Space")
        await expect(window.button("Apply 1 of 2 hunks", window.approval)).to_be_enabled()
        await tab_to(window, chat, "^Apply 1 of 2 hunks")
        await page.keyboard.press("Enter")

        # The next one is rejected with words.
        await expect(window.approval).to_contain_text("notes.txt")
        await expect(window.composer).to_be_focused()
        await tab_to(window, chat, "^Suggest changes", "Shift+Tab")
        await page.keyboard.press("Enter")
        await expect(window.chat.get_by_role("textbox", name="Feedback")).to_be_focused()
        await page.keyboard.type("No notes, please")
        await page.keyboard.press("Enter")

        question = window.chat.get_by_role("region", name="Question")
        await expect(window.composer).to_be_focused()
        await tab_to(window, chat, "^All of them", "Shift+Tab")
        await page.keyboard.press("Space")
        # Of radio buttons one is reached by Tab, the others by arrows.
        await tab_to(window, chat, "^(Now|Next month)$")
        await page.keyboard.press("ArrowDown" if await focused(chat) == "Now" else "Space")
        await page.keyboard.press("Enter")
        await expect(question).to_be_hidden()
        await expect(window.answers().last).to_contain_text("The rates are set.")
        await expect(window.composer).to_be_focused()
        assert "Next month" in str(model.requests[-1].json) and "No notes, please" in str(
            model.requests[-1].json
        )
        assert not notes.exists()

        # The plan above the composer.
        await tab_to(window, chat, "^Plan: 0 of 2 done", "Shift+Tab")
        await window.unfold(window.chat.get_by_role("button", name=re.compile("^Plan: 0 of 2 done")))
        await tab_to(window, chat, "^1 Lower the rates", "Shift+Tab")
        await page.keyboard.press("ArrowDown")
        assert (await focused(chat)).startswith("2 Tell the customers")
        await tab_to(window, chat, "^Do this next")
        await page.keyboard.press("Enter")
        strip = window.chat.get_by_role("region", name="Plan", exact=True)
        second = strip.get_by_role("treeitem", name=re.compile("^2 Tell the customers"))
        await expect(second).to_have_attribute("aria-current", "step")
        assert await focused(chat) != "nothing"

        # The model, and back to the button that opened the list.
        box = page.locator(".quick-input-widget")
        await tab_to(window, chat, "^Model: ")
        await page.keyboard.press("Enter")
        await expect(box).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(box).to_be_hidden()
        await expect(window.chat.get_by_role("button", name=re.compile("^Model: "))).to_be_focused()

        # The same message again, then changed.
        await tab_to(window, chat, "^Retry this message", "Shift+Tab")
        await page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("Said once more.")
        assert await focused(chat) != "nothing"
        await tab_to(window, chat, "^Edit and resend", "Shift+Tab")
        await page.keyboard.press("Enter")
        await expect(window.composer).to_have_value("Make local parcels cheaper")
        await expect(window.composer).to_be_focused()
        await window.page.keyboard.press("ControlOrMeta+A")
        await window.page.keyboard.press("Delete")

        # Other sessions.
        await palette(window, "Goalwright: Open Session…")
        await expect(box.locator(".monaco-list-row").first).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(box).to_be_hidden()

        # The graph: along its nodes, the messages of one, and back.
        await palette(window, "Goalwright: Show Graph")
        first = window.node(re.compile("^1 Lower the rates"))
        await expect(first).to_be_visible()
        graph = await graph_frame(window)
        await tab_to(window, graph, "^(Start|1 Lower|2 Tell)")
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowDown")
        await expect(first).to_be_focused()
        await page.keyboard.press("Enter")
        messages = window.graph.get_by_role("complementary", name="Messages")
        await expect(messages).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(messages).to_be_hidden()
        await expect(first).to_be_focused()
        await page.keyboard.press("Shift+Alt+G")
        await expect(window.composer).to_be_focused()


LONG = "20260102-030405-000000abce"
STEPS = in_full(2_500, 1_000)


def tell_long(workspace: Path) -> None:
    """A session of thousands of messages (5,000 in full) and 100 goals, in the store of the workspace."""
    bench = PageBench.over(FileTraceStore(workspace / ".trace"))
    bench.trace(LONG, "Work for a long time", "A long session")
    for number in range(1, 101):
        parent = None if number % 10 == 1 else str((number - 1) // 10 * 10 + 1)
        bench.add(LONG, str(number), f"Goal number {number} of a hundred, with some words to it", parent)
        if number < 60:
            bench.set(LONG, str(number), "completed", f"What came of goal {number}")
    bench.set(LONG, "63", "in_progress")
    for step in range(STEPS):
        bench.say(
            LONG, None, f"Step {step}: **look** at `src/models/user.py`, then go on.\n\n- one\n- two", "read"
        )
    bench.say(LONG, None, "The very last words.")
    bench.end(LONG)
    bench.store.close()


def spread(times: Sequence[float]) -> str:
    """In milliseconds."""
    ranked = sorted(times)
    at = [ranked[min(len(ranked) - 1, int(len(ranked) * share))] for share in (0.5, 0.95, 1)]
    return "median {:.0f}, 95 % {:.0f}, worst {:.0f} ms".format(*at)


async def test_session_of_thousands_of_messages_is_shown_page_by_page(
    with_model: WithModel, workspace: Path
) -> None:
    await asyncio.to_thread(tell_long, workspace)
    async with with_model([]) as (_model, window):
        page = window.page
        await window.show_chat()
        chat = await chat_frame(window)
        await palette(window, "Goalwright: Open Session…")
        await expect(page.locator(".quick-input-widget .monaco-list-row").first).to_be_visible()
        await page.keyboard.type("A long session")
        await expect(page.locator(".quick-input-widget .monaco-list-row.focused")).to_contain_text("long")
        began = time.perf_counter()
        await page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("The very last words.")
        opened = time.perf_counter() - began
        lines = window.chat.locator(".line")
        first = await lines.count()
        assert first <= 200, "only the newest page is drawn"

        # All goals in the plan above the composer, the one at work in view.
        strip = window.chat.get_by_role("region", name="Plan", exact=True)
        await window.unfold(strip.get_by_role("button", name=re.compile("^Plan: 59 of 100 done")))
        current = strip.get_by_role("treeitem", name=re.compile("^7.2 Goal number 63"))
        await expect(current).to_be_in_viewport()
        await assert_accessible(window)
        await window.pictures("access-plan")
        await strip.get_by_role("button", name=re.compile("^Plan: 59 of 100 done")).press("Enter")

        await watch_keys(chat)
        await window.composer.focus()
        await page.keyboard.type("Typed while much is there", delay=30)
        await expect(window.composer).to_have_value("Typed while much is there")
        typed: list[float] = await keys_took(chat)
        scrolled: list[float] = await scroll(chat, 240)
        await window.composer.fill("")
        print(f"\nopened in {opened:.2f} s with {first} lines")
        print(f"frames while scrolling: {spread(scrolled)}; a key until it is drawn: {spread(typed)}")
