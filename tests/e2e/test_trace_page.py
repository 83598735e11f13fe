"""The web page of the trace API in a real Chromium."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from daemon.api.hub import ClientLimits
from daemon.store.files import FileTraceStore
from tests.e2e.vscode.accessibility import findings
from tests.support.drivers.trace_page import (
    DESIGN,
    LARGE,
    TOKEN,
    PageBench,
    browser_page,
    edge,
    node,
    page_address,
    page_bench,
    pictures,
    served,
    tell_design,
    tell_large,
    toggle,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

expect.set_options(timeout=30_000)


_OVERLAPPING = """() => {
  const drawn = [...document.querySelectorAll(".dag-edge text, .dag-node")];
  const boxes = drawn.map((one) => [one.textContent, one.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const onTop = (box, at) => boxes.slice(at + 1).filter(([, other]) => meet(box, other));
  return boxes.flatMap(([text, box], at) => onTop(box, at).map(([other]) => `${text} / ${other}`));
}"""


async def overlapping(page: Page) -> list[str]:
    """Numbers of edges, and nodes, that stand on top of each other."""
    return await page.evaluate(_OVERLAPPING)


async def labels(page: Page) -> list[str]:
    """The numbers of the nodes that are drawn, as they stand in the page."""
    return sorted(await page.locator(".dag-node .dag-head b").all_inner_texts())


async def test_the_graph_opens_and_closes_on_its_edges() -> None:
    errors: list[str] = []
    async with page_bench() as bench, browser_page(errors=errors) as page:
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "goal:1")).to_be_visible()
        assert await labels(page) == ["1", "2", "3", "4", "5"]
        await expect(node(page, "goal:2")).to_have_class(re.compile(r"\bgrey\b"))
        # Collapsed: cumulative; then each goal within has its own.
        await expect(edge(page, "goal:5").locator(".dag-stats")).to_have_text("7 msgs · 700 · $0.07")
        await expect(edge(page, "goal:5").locator(".dag-time")).to_have_text("7.0 s")
        await toggle(page, "goal:5", True)
        await expect(node(page, "goal:6")).to_be_visible()
        await expect(node(page, "goal:5")).to_have_count(0)
        await expect(edge(page, "goal:6").locator(".dag-stats")).to_have_text("3 msgs · 300 · $0.03")
        await expect(edge(page, "goal:6").locator(".dag-time")).to_have_text("3.3 s")
        await toggle(page, "goal:7", True)
        await expect(node(page, "goal:8")).to_contain_text("4.2.1")
        await toggle(page, "goal:7", False)
        await expect(node(page, "goal:7")).to_contain_text("4.2")
        await toggle(page, "goal:5", False)
        await expect(node(page, "goal:5")).to_be_visible()
        # The edge from where the branches part to where they meet opens them; a branch opens in place.
        await toggle(page, "fork:3", True)
        await expect(node(page, "branch:A")).to_contain_text("used")
        await expect(node(page, "branch:B")).to_be_visible()
        await toggle(page, "branch:A", True)
        await expect(node(page, "goal:A/2")).to_contain_text("A.2")
        await expect(edge(page, "goal:A/2").locator(".dag-preview")).to_have_text("edit → bash × 2")
        for _ in range(3):
            await page.locator("#zoom-out").click()
        await expect(edge(page, "goal:4")).to_have_count(2)
        assert errors == []


async def test_edge_lists_its_messages_and_hostile_text_stays_text() -> None:
    errors: list[str] = []
    async with page_bench() as bench, browser_page(errors=errors) as page:
        nasty = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
        bench.trace(DESIGN, nasty, nasty)
        bench.add(DESIGN, "1", nasty, reason=nasty)
        bench.set(DESIGN, "1", "in_progress")
        for number in range(60):
            bench.say(DESIGN, "1", f"{nasty} {number}", "read")
        await page.goto(page_address(bench.port, DESIGN))
        await edge(page, "goal:1").locator(".dag-stats").click()
        pane = page.locator("#pane")
        await expect(pane.get_by_role("heading")).to_contain_text("<script>")
        await expect(pane.locator(".message").last).to_contain_text("read")
        await expect(pane.locator(".message .text").last).to_have_text(f"{nasty} 59")
        shown = await pane.locator(".message").count()
        await pane.get_by_role("button", name="Earlier messages").click()
        await expect(pane.locator(".message")).not_to_have_count(shown)
        # A new one comes by itself, at the end and once.
        bench.say(DESIGN, "1", "the newest")
        await expect(pane.locator(".message .text").last).to_have_text("the newest")
        ids = await pane.locator(".message").evaluate_all("all => all.map(one => one.dataset.id)")
        assert len(ids) == len(set(ids)) and ids == sorted(ids)
        await page.locator("#tab-steps").click()
        await expect(page.get_by_role("treeitem").first).to_contain_text("<script>")
        assert await page.locator("img, #view script").count() == 0
        assert "hacked" not in (await page.title()).replace(nasty, "")
        await page.keyboard.press("Escape")
        assert errors == []


async def test_graph_is_navigated_by_keyboard_with_accessible_names() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "goal:1")).to_be_visible()
        # The graph is one stop of Tab.
        assert await page.locator("#graph [tabindex='0']").count() == 1
        await page.locator("#graph [tabindex='0']").focus()
        await page.keyboard.press("Home")
        await expect(node(page, "start")).to_be_focused()
        await page.keyboard.press("ArrowRight")
        await expect(node(page, "goal:1")).to_be_focused()
        await expect(
            page.get_by_role("treeitem", name="1 Analyse the code, completed, 4 messages")
        ).to_be_focused()
        await page.keyboard.press("ArrowRight")
        await expect(node(page, "goal:3")).to_have_attribute("aria-expanded", "false")
        await page.keyboard.press(" ")
        await expect(node(page, "goal:3")).to_have_attribute("aria-expanded", "true")
        await page.keyboard.press("ArrowRight")
        await expect(node(page, "branch:A")).to_be_focused()
        await page.keyboard.press(" ")
        await expect(node(page, "goal:A/1")).to_be_focused()
        await page.keyboard.press("Shift+Space")
        await expect(node(page, "branch:A")).to_be_focused()
        # Enter looks at it alone, Escape goes back up to it.
        await page.keyboard.press("Enter")
        await expect(node(page, "goal:A/1")).to_be_focused()
        way = page.get_by_role("navigation", name="Level of the plan")
        await expect(way.get_by_role("listitem").first).to_have_text("Plan")
        await page.keyboard.press("Escape")
        await expect(node(page, "branch:A")).to_be_focused()
        await expect(way).to_be_hidden()
        await page.keyboard.press("ArrowDown")
        await expect(node(page, "branch:B")).to_be_focused()
        await page.keyboard.press("Shift+Enter")
        await expect(page.locator("#pane .message").first).to_contain_text("Connect to Redis")
        await page.locator("#pane .close").focus()
        await page.keyboard.press("Escape")
        await expect(page.locator("#pane")).to_be_hidden()
        await expect(node(page, "branch:B")).to_be_focused()


async def test_page_shows_live_events_and_catches_up_after_reconnect() -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        limits = ClientLimits()
        bench = PageBench.over_memory(limits, port)
        tell_design(bench)
        async with browser_page() as page:
            async with served(bench, listening.dup(), limits):
                await page.goto(page_address(port, DESIGN))
                await expect(page.locator("#connection")).to_have_text("Live")
                # Branches that are at work are shown without being asked for.
                await expect(node(page, "branch:B")).to_be_visible()
                bench.add(DESIGN, "11", "Write the docs")
                await expect(node(page, "goal:11")).to_be_visible()
                bench.set(DESIGN, "11", "in_progress")
                bench.say(DESIGN, "11", "Docs.", "write")
                await expect(edge(page, "goal:11").locator(".dag-stats")).to_have_text("2 msgs · 200 · $0.02")
                await toggle(page, "branch:B", True)
                await expect(node(page, "goal:B/1")).to_be_visible()
                bench.in_branch(DESIGN, "B", "2", "Keep sessions there", "edit")
                await expect(node(page, "goal:B/2")).to_contain_text("B.2")
                await page.locator("#tab-steps").click()
                steps = page.get_by_role("tree").get_by_role("treeitem")
                await expect(steps.last).to_be_visible()
            await expect(page.locator("#connection")).to_have_class("lost")
            bench.add(DESIGN, "12", "Came while nobody was there")
            bench.set(DESIGN, "12", "in_progress")
            bench.say(DESIGN, "12", "Nobody hears this.", "bash")
            async with served(bench, listening.dup(), limits):
                await expect(page.locator("#connection")).to_have_text("Live")
                row = page.locator('.step[data-id="goal_12"]')
                await expect(row).to_have_count(1)
                await expect(row).to_have_class(re.compile("in_progress"))
                bench.end(DESIGN)
                await expect(page.locator("#facts .pill")).to_have_text("ready")
                ids = await page.locator(".step").evaluate_all("all => all.map(one => one.dataset.id)")
                assert len(ids) == len(set(ids))
                await page.locator("#tab-graph").click()
                await expect(node(page, "goal:12")).to_be_visible()


async def test_the_step_tree_loads_level_by_level_and_grows() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        first = page.locator('.step[data-id="goal_1"]')
        await expect(first).to_have_attribute("aria-expanded", "false")
        assert not [path for path in asked if path.endswith(("/node/goal_1", "/tree"))]
        await first.focus()
        await page.keyboard.press("ArrowRight")
        await expect(first.get_by_role("treeitem").first).to_contain_text("I look at what is there first.")
        await expect(page.locator('.step[data-id="goal_1_evaluation"]')).to_contain_text("bcrypt")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.locator("#pane")).to_contain_text("I look at what is there first.")
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("ArrowLeft")
        await expect(first).to_have_attribute("aria-expanded", "false")
        # A goal that is open gets what is done for it.
        log_in = page.locator('.step[data-id="goal_8"]')
        await page.locator('.step[data-id="goal_7"] > .row .twist').click()
        await log_in.locator(".twist").first.click()
        count = await log_in.get_by_role("treeitem").count()
        bench.say(DESIGN, "8", "One more edit.", "edit")
        await expect(log_in.get_by_role("treeitem").filter(has_text="One more edit.")).to_have_count(1)
        assert await log_in.get_by_role("treeitem").count() > count
        # The steps of a branch are its own.
        await page.locator("#line").select_option("A")
        await expect(page.locator('.step[data-id="goal_2"]')).to_contain_text("Issue and verify it")


async def test_steps_arriving_during_a_fetch_appear_exactly_once() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        heard = asyncio.Event()

        def hear(payload: str | bytes) -> None:
            if "turn_ended" in str(payload):
                heard.set()

        page.on("websocket", lambda line: line.on("framereceived", hear))

        async def late(route: Route) -> None:
            """Delay an answer, which is then older than the frames received meanwhile."""
            answer = await route.fetch()
            bench.say(DESIGN, "1", "Said meanwhile.", "edit")
            bench.end(DESIGN)
            await asyncio.wait_for(heard.wait(), 30)
            await route.fulfill(response=answer)

        await page.route("**/node/goal_1*", late)
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        first = page.locator('.step[data-id="goal_1"]')
        await first.locator(".twist").click()
        await expect(first.get_by_role("treeitem").filter(has_text="Said meanwhile.")).to_have_count(1)
        # Its result came, too: that is told of a step that the answer did not have.
        edit_call = first.locator(".step.action").filter(has_text="edit(")
        await expect(edit_call).to_have_class(re.compile("completed"))


async def test_only_visible_ones_of_2000_goals_are_drawn() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_large(bench)
        await page.goto(page_address(bench.port, LARGE))
        await expect(node(page, "goal:1")).to_be_visible()
        await page.locator("#expand-all").click()
        await expect(page.locator("#graph")).to_have_attribute("data-nodes", re.compile(r"1[5-9]\d\d"))
        assert await page.locator(".dag-node").count() < 250
        # Dragging the plane far away draws what is there, and forgets what is not seen any more.
        box = await page.locator("#graph").bounding_box()
        assert box is not None
        for _ in range(6):
            await page.mouse.move(box["x"] + 900, box["y"] + 700)
            await page.mouse.down()
            await page.mouse.move(box["x"] + 100, box["y"] + 60, steps=5)
            await page.mouse.up()
        await expect(node(page, "goal:2")).to_have_count(0)
        assert 0 < await page.locator(".dag-node").count() < 250
        await expect(page.locator("#pane")).to_be_hidden()
        await page.locator("#fit").click()
        # What does not fit is in the small picture; titles are never smaller than they can be read.
        await expect(page.locator("#graph .dag-map")).to_be_visible()
        await expect(page.locator("#graph .dag")).to_have_class(re.compile(r"\bsmall\b"))
        assert 0 < await page.locator(".dag-node").count() < 700
        assert await page.locator(".dag-map .dag-far").count() < 8


async def test_token_is_removed_from_the_url_and_reload_still_works() -> None:
    errors: list[str] = []
    async with page_bench() as bench, browser_page(errors=errors) as page:
        tell_design(bench)
        hosts: set[str | None] = set()
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        await page.goto(page_address(bench.port))
        # The newest trace is opened without being named.
        await expect(node(page, "goal:1")).to_be_visible()
        assert TOKEN not in page.url
        assert DESIGN in page.url
        assert not await page.context.cookies()
        assert errors == []
        await page.reload()
        await expect(node(page, "goal:1")).to_be_visible()
        assert TOKEN not in page.url
        assert {host for host in hosts if host} == {"127.0.0.1"}
        assert page.context.browser is not None
        async with await page.context.browser.new_page() as other:
            answer = await other.goto(f"http://127.0.0.1:{bench.port}/")
            assert answer is not None and answer.status == 401
            await expect(other.locator("body")).to_contain_text("goalwright trace page")


async def test_the_list_is_searched_and_filtered() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        bench.end(DESIGN)
        tell_large(bench, 10)
        await page.goto(page_address(bench.port))
        entries = page.locator("#traces .trace")
        await expect(entries).to_have_count(2)
        await expect(entries.first).to_contain_text("Very many goals")
        await page.get_by_role("searchbox").fill("authentication")
        await expect(entries).to_have_count(1)
        await entries.click()
        await expect(page.locator("#title")).to_have_text("User authentication")
        await page.get_by_role("searchbox").fill("")
        await page.locator("#status").select_option("Running")
        await expect(entries).to_have_count(1)
        await expect(entries).to_contain_text("Very many goals")


@pytest.mark.parametrize("size", [(2400, 1400), (1000, 2600)], ids=["rows", "downwards"])
async def test_numbers_on_edges_do_not_overlap_when_goals_expand(size: tuple[int, int]) -> None:
    async with page_bench() as bench, browser_page() as page:
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        tell_design(bench, ended=True)
        for goal_id in ("5", "7"):
            bench.say(DESIGN, goal_id, "Work of the goal itself.", "read", "edit", "bash", "read")
        bench.say_in_branch(DESIGN, "A", None, "Work beside the goals.", "read")
        await page.goto(page_address(bench.port, DESIGN))
        for key in ("goal:5", "goal:7", "fork:3", "branch:A"):
            await toggle(page, key, True)
            await page.locator("#fit").click()
        await expect(page.locator(".dag-own")).not_to_have_count(0)
        await expect(page.locator(".dag-time")).not_to_have_count(0)
        assert await overlapping(page) == []


async def test_pictures_of_the_page_in_both_themes() -> None:
    async with page_bench() as bench, browser_page() as page:
        await page.set_viewport_size({"width": 1600, "height": 860})
        tell_large(bench, 10)
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        await toggle(page, "fork:3", True)
        await expect(node(page, "branch:A")).to_be_visible()
        await page.locator("#hide-list").click()
        await edge(page, "goal:1").locator(".dag-stats").click()
        await expect(page.locator("#pane .message").first).to_be_visible()
        await page.locator("#pane summary").first.click()
        await page.locator("#fit").click()
        assert await overlapping(page) == []
        await pictures(page, "trace")
        for view in ("graph", "steps"):
            await page.locator(f"#tab-{view}").click()
            await expect(page.locator(f"#{view}").get_by_role("treeitem").first).to_be_visible()
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                assert await findings(page.main_frame) == []
        background = "getComputedStyle(document.body).backgroundColor"
        dark = await page.evaluate(background)
        await page.emulate_media(color_scheme="light")
        assert await page.evaluate(background) != dark


async def test_the_page_of_a_real_daemon_shows_stored_traces(
    workspace: Path, clean_env: dict[str, str]
) -> None:
    bench = PageBench.over(FileTraceStore(workspace / ".trace"))
    tell_design(bench, ended=True)
    bench.end(DESIGN)
    bench.store.close()
    command = [
        sys.executable,
        "-I",
        "-m",
        "goalwright",
        "serve",
        "--http",
        "0",
        "--workspace",
        str(workspace),
    ]
    daemon = await asyncio.create_subprocess_exec(
        *command,
        cwd=workspace.parent,
        env=clean_env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert daemon.stdout is not None
        address = json.loads(await daemon.stdout.readline())
        errors: list[str] = []
        async with browser_page(errors=errors) as page:
            await page.goto(f"{address['url']}/?token={address['token']}")
            await expect(page.locator("#title")).to_have_text("User authentication")
            await expect(node(page, "goal:2")).to_have_class(re.compile(r"\bgrey\b"))
            await toggle(page, "fork:3", True)
            await toggle(page, "branch:A", True)
            await expect(node(page, "goal:A/1")).to_be_visible()
            await edge(page, "goal:A/1").locator(".dag-stats").click()
            await expect(page.locator("#pane .message").first).to_contain_text("Design the token")
            await page.locator("#tab-steps").click()
            await expect(page.locator('.step[data-id="goal_1"]')).to_be_visible()
            assert errors == []
    finally:
        daemon.terminate()
        await daemon.wait()
