"""The web page of the trace API in a real Chromium: user actions while the work continues."""

from __future__ import annotations

import re
import socket
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.async_api import Locator, Page, Route, expect

from daemon.api.hub import ClientLimits
from daemon.model.events import SessionUpdated
from tests.support.drivers import trace_page
from tests.support.drivers.trace_page import (
    DESIGN,
    LARGE,
    TOKEN,
    PageBench,
    browser_page,
    node,
    page_address,
    page_bench,
    served,
    tell_design,
    tell_large,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

expect.set_options(timeout=30_000)


def work(page: Page, key: str) -> Locator:
    return page.locator(f'.dag-edge[data-to="{key}"] .dag-stats')


@contextmanager
def listening_socket() -> Generator[tuple[socket.socket, int]]:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        yield listening, listening.getsockname()[1]


def one_goal(bench: PageBench) -> None:
    bench.trace(DESIGN, "m", "One goal")
    bench.add(DESIGN, "1", "one")
    bench.set(DESIGN, "1", "in_progress")


async def said(page: Page) -> list[str]:
    return await page.locator("#pane .message .text").all_inner_texts()


async def test_pane_has_every_message_after_a_burst_and_a_reconnect() -> None:
    with listening_socket() as (listening, port):
        limits = ClientLimits()
        bench = PageBench.over_memory(limits, port)
        one_goal(bench)
        bench.say(DESIGN, "1", "first")
        all_said = ["first"]

        def say(words: str, times: int) -> None:
            for number in range(times):
                bench.say(DESIGN, "1", f"{words} {number}")
                all_said.append(f"{words} {number}")

        async with browser_page() as page:
            messages = page.locator("#pane .message")
            async with served(bench, listening.dup(), limits):
                await page.goto(page_address(port, DESIGN))
                await work(page, "goal:1").click()
                await expect(messages).to_have_count(1)
                say("at once", 130)
                await expect(messages).to_have_count(131)
                # Its numbers go on, too.
                await expect(page.locator("#pane .facts")).to_contain_text("131 messages")
            await expect(page.locator("#connection")).to_have_class("lost")
            say("unheard", 90)
            async with served(bench, listening.dup(), limits):
                await expect(page.locator("#connection")).to_have_text("Live")
                # Nothing else happens: it catches up by itself.
                await expect(messages).to_have_count(221)
                await expect(page.locator("#pane .facts")).to_contain_text("221 messages")
                assert await said(page) == all_said


async def test_page_stops_reconnecting_to_a_daemon_with_a_new_token() -> None:
    with listening_socket() as (listening, port):
        limits = ClientLimits()
        bench = PageBench.over_memory(limits, port)
        tell_design(bench)
        async with browser_page() as page:
            async with served(bench, listening.dup(), limits):
                await page.goto(page_address(port, DESIGN))
                await expect(page.locator("#connection")).to_have_text("Live")
            await expect(page.locator("#connection")).to_have_text("Connection lost, reconnecting…")
            before = trace_page.TOKEN
            trace_page.TOKEN = "n" * 43
            try:
                async with served(bench, listening.dup(), limits):
                    await expect(page.locator("#problem")).to_contain_text("goalwright trace page")
                    await expect(page.locator("#connection")).to_have_text("Disconnected")
                    await page.reload()
                    await expect(page.locator("body")).to_contain_text("goalwright trace page")
                    await page.wait_for_url(lambda url: "token" not in url)
                    assert before not in page.url and DESIGN in page.url
            finally:
                trace_page.TOKEN = before


async def test_failed_list_request_leaves_connection_status_live() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.locator("#connection")).to_have_text("Live")

        async def fails(route: Route) -> None:
            await route.abort()

        await page.route("**/api/traces?*", fails)
        await page.get_by_role("searchbox").fill("auth")
        await expect(page.locator("#list-note")).to_contain_text("does not answer")
        await expect(page.locator("#connection")).to_have_text("Live")
        await page.unroute("**/api/traces?*")
        await page.get_by_role("searchbox").fill("authentication")
        await expect(page.locator("#list-note")).to_have_text("")


async def test_trace_opens_in_new_tab_without_token_but_not_elsewhere() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        tell_large(bench, 10)
        await page.goto(page_address(bench.port, LARGE))
        link = page.locator("#traces a", has_text="User authentication")
        for modifiers, button in ((["Control"], "left"), ([], "middle")):
            async with page.context.expect_page() as opening:
                await link.click(modifiers=modifiers, button=button)  # pyright: ignore[reportArgumentType]
            tab = await opening.value
            await expect(tab.locator("#title")).to_have_text("User authentication")
            await expect(tab.locator("#connection")).to_have_text("Live")
            await tab.reload()
            await expect(tab.locator("#connection")).to_have_text("Live")
            assert TOKEN not in tab.url and not await tab.evaluate("localStorage.length")
            await tab.close()
        assert not await page.context.cookies()
        assert page.context.browser is not None
        async with await page.context.browser.new_page() as stranger:
            await stranger.goto(f"http://127.0.0.1:{bench.port}/#/{DESIGN}")
            await expect(stranger.locator("body")).to_contain_text("This page needs its token.")


async def test_escape_closes_the_pane_and_skip_link_keeps_the_trace() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        await page.locator(".skip").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#view")).to_be_focused()
        assert page.url.endswith(f"#/{DESIGN}/steps")
        await expect(page.locator("#title")).to_have_text("User authentication")
        await page.evaluate("location.hash = '#view'")
        await expect(page.locator("#title")).to_have_text("User authentication")
        await page.locator("#tab-graph").click()
        pane = page.locator("#pane")
        await work(page, "goal:1").click()
        await expect(pane).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(pane).to_be_hidden()
        await node(page, "goal:1").focus()
        await page.keyboard.press("Enter")
        await expect(pane).to_be_visible()
        await page.locator("#fit").focus()
        await page.keyboard.press("Escape")
        await expect(pane).to_be_hidden()
        await expect(page.locator("#fit")).to_be_focused()


async def test_long_step_list_shows_newest_and_loads_earlier_on_click() -> None:
    async with page_bench() as bench, browser_page() as page:
        one_goal(bench)
        for number in range(400):
            bench.say(DESIGN, "1", f"message {number}.", "read")
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        steps = page.locator('.step[data-id="goal_1"]').get_by_role("treeitem")
        await expect(steps.filter(has_text="message 399.")).to_have_count(1)
        await expect(steps.filter(has_text="message 0.")).to_have_count(0)
        bench.say(DESIGN, "1", "the newest of all")
        await expect(steps.last).to_contain_text("the newest of all")
        await page.get_by_role("button", name="Earlier steps").click()
        await expect(steps.filter(has_text="message 0.")).to_have_count(1)
        await expect(page.get_by_role("button", name="Earlier steps")).to_have_count(0)
        ids = await page.locator(".step").evaluate_all("all => all.map(one => one.dataset.id)")
        assert len(ids) == len(set(ids))
        thoughts = [text for text in await steps.locator(".words").all_inner_texts() if "message" in text]
        assert thoughts == [f"message {number}." for number in range(400)]


async def test_other_trace_opens_with_steps_of_its_main_session() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        tell_large(bench, 20)
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        await page.locator("#line").select_option("A")
        await expect(page.locator('.step[data-id="goal_2"]')).to_contain_text("Issue and verify it")
        await page.evaluate(f"location.hash = '#/{LARGE}/steps'")
        await expect(page.locator('.step[data-id="goal_1"]')).to_contain_text("Goal number 1 of many")
        await expect(page.locator("#line")).to_have_value("")


async def test_small_windows_leave_room_for_graph_and_hide_the_list() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        for width, height in ((480, 640), (320, 256)):
            await page.set_viewport_size({"width": width, "height": height})
            await page.goto("about:blank")
            await page.goto(page_address(bench.port, DESIGN))
            await expect(page.locator("#connection")).to_have_text("Live")
            listed = page.locator("#list")
            await expect(listed).to_be_hidden()
            box = await page.locator("#graph").bounding_box()
            assert box is not None and box["height"] > 180 and box["width"] > 300
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            await page.locator("#show-list").click()
            await expect(listed).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(listed).to_be_hidden()
            await page.locator("#show-list").click()
            await page.locator("#traces a").first.click()
            await page.locator("#hide-list").click()
            await expect(listed).to_be_hidden()


async def test_bidi_characters_in_names_do_not_affect_other_text() -> None:
    async with page_bench() as bench, browser_page() as page:
        one_goal(bench)
        updates = {"model": "evil/\u2069\u202eledom", "agent": "a\u202egent"}
        bench.emit(SessionUpdated(trace_id=DESIGN, time=bench.time(), updates=updates))
        bench.say(DESIGN, "1", "Look.", "re\u202ead")
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.locator("#facts")).to_contain_text("agent, evil/ledom")
        await work(page, "goal:1").click()
        await expect(page.locator("#pane .call summary").first).to_have_text(re.compile("^→ read "))
        turning = re.compile("[\u202a-\u202e\u2066-\u2069]")
        assert not turning.search(await page.locator("#facts").inner_text())
        assert not turning.search(await page.locator("#pane .call summary").first.inner_text())
