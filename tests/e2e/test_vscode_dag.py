"""The graph in real VS Code: it grows with the session, opens and closes, and tells the messages of an edge."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import journey, ways
from tests.e2e.vscode.accessibility import assert_graph_accessible
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(ground: Path, configure: Configure) -> Path:
    configure(test_command="")
    return ways.make_repository(ground)


def pane(window: Window) -> Locator:
    """The messages of an edge."""
    return window.graph.get_by_role("complementary", name="Messages")


def edge(window: Window, source: str, target: str) -> Locator:
    """An edge, by the keys of its ends."""
    return window.graph.locator(f'.dag-edge[data-from="{source}"][data-to="{target}"]')


async def test_graph_grows_live_and_edges_show_their_work(
    with_model: WithModel, workspace: Path, scratch: Path
) -> None:
    model = journey.write_journey(scratch / "journey.json")
    settings = {"goalwright.model": model, "goalwright.mode": "accept-edits"}
    async with with_model(settings=settings) as (_model, window):
        await window.show_chat()
        await window.widen_chat(0)  # another test may have left the graph less room
        await window.say(journey.PLAN)
        await expect(window.answers().last).to_contain_text(journey.PLANNED)

        # From the title bar of the Goals view, as an editor of its own.
        goals = await window.show_goals()
        await goals.hover()
        await goals.get_by_role("button", name="Show Graph").click()
        await expect(window.tab("Graph")).to_be_visible()
        first = window.node(re.compile("^1 Understand the discount, in progress"))
        await expect(first).to_be_visible()
        await expect(window.node(re.compile("^2 Mend it where it is used, pending"))).to_be_visible()

        # It follows: what is given up is grey, and branches stand side by side while they work and after.
        await window.say(journey.WORK)
        await expect(window.answers().last).to_contain_text(journey.DONE)
        given_up = window.node(re.compile("^Mend it where it is used, abandoned"))
        await expect(given_up).to_have_class(re.compile(r"\bgrey\b"))
        for name, direction in zip("ABC", ways.DIRECTIONS, strict=True):
            await expect(window.node(re.compile(f"^Branch {name} {direction}, done"))).to_be_visible()
        await expect(window.node(re.compile("^4 Choose among .*branches meet"))).to_be_visible()
        await expect(window.node(re.compile("^5 Tell the user, in progress"))).to_be_visible()

        # The view is where the work goes on. The edge of a collapsed goal has the numbers of all within it; opened,
        # the goals stand in its place.
        await expect(window.node(re.compile("^5 Tell the user, in progress"))).to_be_in_viewport()
        await window.graph.locator("#graph [tabindex='0']").focus()
        await window.page.keyboard.press("Home")
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
        await window.page.keyboard.press("ArrowUp")
        await expect(window.node(re.compile("^1.1 Read the cart"))).to_be_focused()
        await window.page.keyboard.press("Enter")
        await expect(pane(window).get_by_role("heading")).to_have_text("1.1 Read the cart")
        await expect(await window.goal(re.compile("^1.1 Read the cart"))).to_have_attribute(
            "aria-selected", "true"
        )

        # A branch has its own messages alone, as many as its edge counts.
        await window.node(re.compile("^Branch A ")).click()
        facts = pane(window).locator(".facts")
        await expect(facts).to_have_text(re.compile(r"done · \d+ messages"))
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

        # The panel is there again after a reload of the window.
        await window.command("View: Toggle Secondary Side Bar Visibility")
        await window.grow_goals(330)
        await window.pictures("graph")
        await assert_graph_accessible(window)
        await window.stores_editor("goalwright.graph")
        await window.reload()
        await expect(window.node(re.compile("^5 Tell the user"))).to_be_visible()
        await window.graph.get_by_role("button", name="Collapse all").click()
        await expect(window.node(re.compile("^1 Understand the discount"))).to_be_visible()
        await expect(inner).to_have_count(0)
        await window.graph.get_by_role("button", name="Expand all").click()
        await expect(inner).to_be_visible()
        assert window.remote_hosts() == set()


def large_plan(file: Path, goals: int) -> str:
    """Ten goals with the others within them; the name of the model that makes this plan."""
    inner = goals // 10 - 1
    add = [f"Part {top} of a large piece of work" for top in range(1, 11)]
    within = [
        ways.call(
            "goal", focus=str(top), add=[f"Step {number} of part {top}" for number in range(1, inner + 1)]
        )
        for top in range(1, 11)
    ]
    script = {
        "name": "large",
        "turns": [[ways.step(ways.call("goal", add=add)), ways.step(*within), ways.step(text="Planned.")]],
    }
    file.write_text(json.dumps(script))
    return f"scripted/{file}"


_SMALL_TEXT = """() => [...document.querySelectorAll("#graph .dag-plane :is(text, span, b)")].filter((one) => {
  const box = one.getBoundingClientRect();
  const scale = Number(getComputedStyle(one.closest(".dag-plane")).getPropertyValue("--zoom"));
  return box.width > 0 && one.textContent.trim() && parseFloat(getComputedStyle(one).fontSize) * scale < 10.99;
}).map((one) => one.textContent)"""


async def test_a_large_plan_is_read_level_by_level_searched_and_saved(
    with_model: WithModel, workspace: Path, scratch: Path
) -> None:
    settings = {"goalwright.model": large_plan(scratch / "large.json", 300)}
    async with with_model(settings=settings) as (_model, window):
        await window.show_chat()
        await window.say("Plan a large piece of work.")
        await expect(window.answers().last).to_contain_text("Planned.")
        await window.command("Goalwright: Show Graph")
        part = window.node(re.compile("^3 Part 3 of a large piece of work"))
        graph = window.graph.locator("#graph")
        frame = await graph.element_handle()
        assert frame is not None
        inside = await frame.owner_frame()
        assert inside is not None

        # At the width of a panel, of an editor, and in between: everything that is written can be read.
        for width, name in ((950, "graph-panel"), (1550, "graph-column")):
            await window.page.set_viewport_size({"width": width, "height": 900})
            await expect(part).to_be_visible()
            await window.graph.get_by_role("button", name="Fit", exact=True).click()
            assert await inside.evaluate(_SMALL_TEXT) == []
            await window.pictures(name)

        # Enter goes into a goal, Escape back; arrows follow the work.
        await part.focus()
        await window.page.keyboard.press("Enter")
        inner = window.node(re.compile("^3.1 Step 1 of part 3, pending"))
        await expect(inner).to_be_focused()
        await expect(part).to_have_count(0)
        way = window.graph.get_by_role("navigation", name="Level of the plan")
        await expect(way.locator('[aria-current="page"]')).to_have_text("3 Part 3 of a large piece of work")
        await window.page.keyboard.press("ArrowDown")
        await expect(window.node(re.compile("^3.2 Step 2 of part 3"))).to_be_focused()
        await window.page.keyboard.press("Escape")
        await expect(part).to_be_focused()
        await expect(way).to_be_hidden()
        await part.locator("[data-enter]").click()
        await expect(inner).to_be_visible()
        await way.get_by_role("button", name="Plan").click()
        await expect(part).to_be_visible()

        # A search finds goals at every level and goes there.
        await window.page.keyboard.press("/")
        search = window.graph.get_by_role("searchbox", name="Find a goal")
        await expect(search).to_be_focused()
        await search.fill("of part 7")
        found = window.graph.locator(".found")
        await expect(found).to_have_text("29 goals found")
        await search.press("Enter")
        await expect(found).to_have_text("1 of 29")
        first = window.node(re.compile("^7.1 Step 1 of part 7"))
        await expect(first).to_have_attribute("aria-selected", "true")
        await expect(first).to_have_class(re.compile(r"\bmatch\b"))
        await window.pictures("graph-search")
        await assert_graph_accessible(window)
        await search.press("Escape")
        await expect(first).to_be_focused()
        await window.page.keyboard.press("Escape")
        await expect(part).to_be_visible()

        # 300 goals at once are drawn, and keys are answered.
        await window.graph.get_by_role("button", name="Expand all").click()
        await expect(graph).to_have_attribute("data-nodes", "291")
        print("300 goals, milliseconds to draw:", await graph.get_attribute("data-took"))
        await window.graph.locator("#graph [tabindex='0']").focus()
        await window.page.keyboard.press("End")
        await expect(window.node(re.compile("^10.29 Step 29 of part 10"))).to_be_focused()
        await window.page.keyboard.press("-")
        await window.page.keyboard.press("-")
        assert await inside.evaluate(_SMALL_TEXT) == []
        assert await window.graph.locator(".dag-node").count() < 200
        await expect(window.graph.locator(".dag-map")).to_be_visible()
        await window.pictures("graph-300")
        await window.page.keyboard.press("Home")
        await expect(window.node(re.compile("^Start"))).to_be_focused()
        await window.graph.get_by_role("button", name="Collapse all").click()
        await search.fill("of part 7")
        await expect(found).to_have_text("29 goals found")
        await window.page.emulate_media(forced_colors="active", color_scheme="dark")
        await expect(window.page.locator(".monaco-workbench.hc-black")).to_be_visible()
        await window.screenshot(Path(".build/screenshots/graph-contrast.png"))
        await window.page.emulate_media(forced_colors="none", color_scheme="dark")

        # A search is about the session that it was made in.
        await window.command("Goalwright: New Session")
        await window.chat.get_by_role("region", name="Recent sessions").get_by_role("button").first.click()
        await expect(part).to_be_visible()
        await expect(search).to_have_value("")
        await expect(found).to_be_empty()

        # The picture is a file that a browser opens on its own, with colours in it.
        await window.graph.get_by_role("button", name="Save as SVG…").click()
        await expect(window.page.locator(".quick-input-widget input.input")).to_have_value(
            re.compile(r"goals\.svg$")
        )
        await window.page.keyboard.press("Enter")
        file = workspace / "goals.svg"
        # It is there before its text is.
        await until(lambda: file.exists() and "</svg>" in file.read_text(), "the picture", within_s=30)
        browser = window.page.context.browser
        assert browser is not None
        async with await browser.new_page() as page:
            await page.goto(file.as_uri())
            await expect(page.locator("g > rect")).to_have_count(11)
            await page.screenshot(path=".build/screenshots/graph-svg.png")
        assert "var(" not in file.read_text()


async def test_session_trace_opens_in_a_browser(
    with_model: WithModel, workspace: Path, scratch: Path
) -> None:
    settings = {"goalwright.model": journey.write_journey(scratch / "journey.json")}
    async with with_model(settings=settings) as (_model, window):
        await window.show_chat()
        await window.say(journey.PLAN)
        await expect(window.answers().last).to_contain_text(journey.PLANNED)
        trace_id = next((workspace / ".trace").glob("*/events.jsonl")).parent.name
        # This VS Code runs in a browser itself: it cannot lead to another port of the machine, so it tells the address.
        await window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await window.command("Goalwright: Open Trace in Browser")
        told = window.page.locator(".monaco-dialog-box", has_text="The trace is at http://127.0.0.1:")
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
        async with await browser.new_page() as page:
            await page.goto(address)
            await expect(page.get_by_role("heading", name=journey.PLAN)).to_be_visible()
            assert "token" not in page.url, "the page takes the token out of the address"
