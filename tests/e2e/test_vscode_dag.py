"""The graph in real VS Code: it grows with the session, opens and closes, and tells the messages of an edge."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import OpenVSCode
from tests.e2e.vscode import journey, ways
from tests.e2e.vscode.window import Window

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def workspace(scratch: Path, clean_env: dict[str, str]) -> Path:
    config = scratch / "home" / ".goalwright" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "test_command": ""}))
    return ways.make_repository(scratch / "shop")


def pane(window: Window) -> Locator:
    """The messages of an edge."""
    return window.graph.get_by_role("complementary", name="Messages")


def edge(window: Window, source: str, target: str) -> Locator:
    """An edge, by the keys of its ends."""
    return window.graph.locator(f'.dag-edge[data-from="{source}"][data-to="{target}"]')


async def test_the_graph_grows_with_the_session_and_tells_the_work_of_each_edge(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path
) -> None:
    model = journey.write_journey(scratch / "journey.json")
    settings = {"goalwright.model": model, "goalwright.mode": "accept-edits"}
    async with open_vscode(settings=settings) as window:
        await window.show_chat()
        await window.say(journey.PLAN)
        await expect(window.answers().last).to_contain_text(journey.PLANNED)

        # From the title bar of the Goals view, beside what is open.
        goals = await window.show_goals()
        await goals.hover()
        await goals.get_by_role("button", name="Show Graph").click()
        await expect(window.tab("Graph")).to_be_visible()
        first = window.node(re.compile("^1 Understand the discount, in progress"))
        await expect(first).to_be_visible()
        await expect(window.node(re.compile("^2 Mend it where it is used, not begun"))).to_be_visible()

        # It follows: what is given up is grey, and branches stand side by side while they work and after.
        await window.say(journey.WORK)
        await expect(window.answers().last).to_contain_text(journey.DONE)
        given_up = window.node(re.compile("^Mend it where it is used, abandoned"))
        await expect(given_up).to_have_class(re.compile(r"\bgrey\b"))
        for name, direction in zip("ABC", ways.DIRECTIONS, strict=True):
            await expect(window.node(re.compile(f"^Branch {name} {direction}, completed"))).to_be_visible()
        await expect(window.node(re.compile("^4 Choose among .*branches meet"))).to_be_visible()
        await expect(window.node(re.compile("^5 Tell the person, in progress"))).to_be_visible()

        # The edge of a collapsed goal has the numbers of all within it; opened, the goals stand in its place.
        collapsed = edge(window, "start", "goal:1")
        await expect(collapsed).to_contain_text("12 msgs")
        await collapsed.locator('[data-toggle="goal:1"]').click()
        await expect(window.node(re.compile("^1.1 Read the cart, completed"))).to_be_visible()
        await expect(window.node(re.compile("^1 Understand"))).to_have_count(0)
        work = edge(window, "start", "goal:5")
        await work.locator(".dag-stats").click()
        await expect(pane(window).get_by_role("heading")).to_have_text("1.1 Read the cart")
        await expect(pane(window)).to_contain_text(journey.READ)
        await expect(pane(window).get_by_text("def total")).to_be_hidden()
        await pane(window).get_by_text("← cart.py").click()
        await expect(pane(window).get_by_text("def total")).to_be_visible()
        # An edge is looked at in the panel alone.
        await expect(goals.locator('.monaco-list-row[aria-selected="true"]')).to_have_count(0)

        # A node is found in the Goals view, too, also by keyboard.
        await window.node(re.compile("^1.2 Read its test")).click()
        await expect(pane(window).get_by_role("heading")).to_have_text("1.2 Read its test")
        await expect(await window.goal(re.compile("^1.2 Read its test"))).to_have_attribute(
            "aria-selected", "true"
        )
        await window.page.keyboard.press("ArrowLeft")
        await expect(window.node(re.compile("^1.1 Read the cart"))).to_be_focused()
        await window.page.keyboard.press("Enter")
        await expect(pane(window).get_by_role("heading")).to_have_text("1.1 Read the cart")
        await expect(await window.goal(re.compile("^1.1 Read the cart"))).to_have_attribute(
            "aria-selected", "true"
        )

        # A branch has its own messages alone, as many as its edge counts.
        await window.node(re.compile("^Branch A ")).click()
        facts = pane(window).locator(".facts")
        await expect(facts).to_have_text(re.compile(r"completed · \d+ messages"))
        counted = re.search(r"(\d+) messages", await facts.inner_text())
        assert counted is not None
        await expect(pane(window).locator(".message")).to_have_count(int(counted[1]))

        # A branch opens in its place, and its goals have its letter before their numbers.
        await window.page.keyboard.press("Escape")
        await expect(pane(window)).to_be_hidden()
        await edge(window, "goal:7", "branch:A").locator('[data-toggle="branch:A"]').click()
        inner = window.node(re.compile("^A.1 Take the share in whole cents"))
        await expect(inner).to_be_visible()
        await expect(window.node(re.compile("^A.2 See that the receipt is right"))).to_be_visible()
        await inner.click()
        await expect(pane(window).get_by_role("heading")).to_have_text("A.1 Take the share in whole cents")
        await expect(pane(window)).to_contain_text("The discount is a share of the sum.")
        row = await window.goal(re.compile("^A.1 Take the share in whole cents"))
        await expect(row).to_have_attribute("aria-selected", "true")

        # The panel is there again after a reload of the window; VS Code keeps what was opened a while ago.
        await window.command("View: Toggle Secondary Side Bar Visibility")
        await window.grow_goals(330)
        await window.pictures("graph")
        await window.reload()
        await expect(window.node(re.compile("^5 Tell the person"))).to_be_visible()
        await window.graph.get_by_role("button", name="Collapse all").click()
        await expect(window.node(re.compile("^1 Understand the discount"))).to_be_visible()
        await expect(inner).to_have_count(0)
        await window.graph.get_by_role("button", name="Expand all").click()
        await expect(inner).to_be_visible()
        assert window.remote_hosts() == set()


async def test_the_trace_of_the_session_is_looked_at_in_a_browser(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path
) -> None:
    settings = {"goalwright.model": journey.write_journey(scratch / "journey.json")}
    async with open_vscode(settings=settings) as window:
        await window.show_chat()
        await window.say(journey.PLAN)
        await expect(window.answers().last).to_contain_text(journey.PLANNED)
        trace_id = next((workspace / ".trace").glob("*/events.jsonl")).parent.name
        # This VS Code runs in a browser itself: it cannot lead to another port of the machine, so it tells the address.
        await window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await window.command("Goalwright: Open Trace in Browser")
        told = window.notification("The trace is at http://127.0.0.1:")
        await expect(told).not_to_contain_text("token")
        await told.get_by_role("button", name="Copy Address").click()
        await expect(told).to_be_hidden()
        # The extension's host copies it, so it may come a moment after the click.
        copied = window.page.locator("body").evaluate
        async with asyncio.timeout(30):
            while not (address := str(await copied("() => navigator.clipboard.readText()"))):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert trace_id in address
        browser = window.page.context.browser
        assert browser is not None
        page = await browser.new_page()
        await page.goto(address)
        await expect(page.get_by_role("heading", name=journey.PLAN)).to_be_visible()
        assert "token" not in page.url, "the page takes the token out of the address"
