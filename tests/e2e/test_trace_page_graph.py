"""The graph of the web page shows changes as they happen, in a real Chromium."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Route, expect

from daemon.model.branches import child_id
from daemon.model.events import BranchGoalAdded
from daemon.model.goals import Goal
from tests.support.drivers.trace_page import (
    DESIGN,
    LARGE,
    PageBench,
    browser_page,
    edge,
    node,
    page_address,
    page_bench,
    tell_design,
    tell_large,
    toggle,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

expect.set_options(timeout=30_000)


def explore(bench: PageBench, parent: str | None) -> None:
    """An exploration of one branch that is at work."""
    fields = {"type": "explore_start", "branch_ids": ["A"]}
    bench.add(DESIGN, "3", "Explore", parent, **fields)
    bench.set(DESIGN, "3", "in_progress")
    bench.say(DESIGN, "3", "One way.", "explore")
    bench.branch(DESIGN, "3", "A", "JWT")
    bench.in_branch(DESIGN, "A", "1", "Design", "read")


async def test_expanded_goal_shows_its_own_work_and_messages() -> None:
    async with page_bench() as bench, browser_page() as page:
        bench.trace(DESIGN, "m", "t")
        bench.add(DESIGN, "1", "Parent")
        bench.set(DESIGN, "1", "in_progress")
        bench.say(DESIGN, "1", "Own work of the parent.", "read")
        bench.add(DESIGN, "2", "Child", "1")
        bench.set(DESIGN, "2", "in_progress")
        bench.say(DESIGN, "2", "Work of the child.")
        await page.goto(page_address(bench.port, DESIGN))
        await expect(edge(page, "goal:1").locator(".dag-stats")).to_contain_text("3 msgs")
        await toggle(page, "goal:1", True)
        await expect(edge(page, "goal:2").locator(".dag-stats")).to_contain_text("1 msg")
        own = edge(page, "goal:2").locator(".dag-own")
        await expect(own).to_contain_text("1: 2")
        texts = page.locator("#pane .message .text")
        await own.click()
        await expect(texts).to_have_text(["Own work of the parent."])
        await expect(page.locator("#pane .message")).to_have_count(2)
        await edge(page, "goal:2").locator(".dag-stats").click()
        await expect(texts).to_have_text(["Work of the child."])
        await node(page, "goal:2").focus()
        await page.keyboard.press("Shift+Enter")
        await expect(texts).to_have_text(["Own work of the parent."])


async def test_running_branches_are_expanded_with_their_messages() -> None:
    async with page_bench() as bench, browser_page() as page:
        bench.trace(DESIGN, "m", "t")
        bench.add(DESIGN, "1", "Parent")
        bench.set(DESIGN, "1", "in_progress")
        explore(bench, "1")
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "branch:A")).to_be_visible()
        await expect(node(page, "goal:1")).to_have_count(0)
        await toggle(page, "goal:1", False)
        await node(page, "goal:1").click()
        messages = page.locator("#pane .message")
        await expect(messages).to_have_count(4)
        await expect(messages.filter(has_text="branch A")).to_have_count(2)
        bench.in_branch(DESIGN, "A", "2", "Go on", "edit")
        await expect(messages.filter(has_text="branch A")).to_have_count(4)


async def test_branch_pane_lists_own_messages_without_inherited_ones() -> None:
    async with page_bench() as bench, browser_page() as page:
        bench.trace(DESIGN, "m", "t")
        bench.add(DESIGN, "1", "Explore", type="explore_start", branch_ids=["A"])
        bench.set(DESIGN, "1", "in_progress")
        bench.say(DESIGN, "1", "One way.", "explore")
        bench.branch(DESIGN, "1", "A", "JWT", inherited=("Said before.", "And this."))
        bench.say_in_branch(DESIGN, "A", None, "I plan first.")
        bench.in_branch(DESIGN, "A", "1", "Design", "read")
        await page.goto(page_address(bench.port, DESIGN))
        await node(page, "branch:A").click()
        texts = page.locator("#pane .message .text")
        facts = page.locator("#pane .facts")
        await expect(texts).to_have_text(["I plan first.", "Design, as one would."])
        await expect(page.locator("#pane .message")).to_have_count(3)
        await expect(facts).to_contain_text("exploring · 3 messages")
        bench.say_in_branch(DESIGN, "A", "1", "More of it.")
        await expect(texts).to_have_text(["I plan first.", "Design, as one would.", "More of it."])
        await expect(facts).to_contain_text("4 messages")

        # Open, the work that no goal of it has is told where it begins, with the messages it stands for.
        await toggle(page, "branch:A", True)
        own = edge(page, "goal:A/1").locator(".dag-own")
        await expect(own).to_contain_text("A: 1 msg")
        await own.click()
        await expect(texts).to_have_text(["I plan first."])
        await expect(facts).to_contain_text("1 message")
        bench.say_in_branch(DESIGN, "A", "1", "Of the goal.")
        bench.say_in_branch(DESIGN, "A", None, "And I say so.")
        await expect(texts).to_have_text(["I plan first.", "And I say so."])
        await expect(facts).to_contain_text("2 messages")
        await edge(page, "goal:A/1").locator(".dag-stats").first.click()
        await expect(texts).to_have_text(["Design, as one would.", "More of it.", "Of the goal."])


async def test_trace_list_entry_follows_the_open_trace_live() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.locator("#connection")).to_have_text("Live")
        entry = page.locator("#traces .trace")
        await expect(entry).to_contain_text("running")
        tokens = bench.states[DESIGN].trace.usage.total
        never = asyncio.Event()

        async def unanswered(_: Route) -> None:
            await never.wait()

        await page.route(re.compile(r"/api/traces\?"), unanswered)
        await entry.focus()
        bench.say(DESIGN, "3", "One more.")
        assert bench.states[DESIGN].trace.usage.total == tokens + 100
        await expect(entry).to_contain_text(f"{(tokens + 100) / 1000:.1f}k tokens")
        bench.end(DESIGN)
        await expect(entry).to_contain_text("ready")
        await expect(entry).to_be_focused()
        never.set()


async def test_closing_the_pane_restores_the_view_unless_user_moved_it() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        start = node(page, "start")
        await expect(start).to_be_in_viewport(ratio=1)
        last = page.locator(".dag-node").last
        await last.click()
        await expect(page.locator("#pane")).to_be_visible()
        await expect(start).not_to_be_in_viewport(ratio=1)
        await page.keyboard.press("Escape")
        await expect(page.locator("#pane")).to_be_hidden()
        await expect(start).to_be_in_viewport(ratio=1)

        await page.locator("#graph").hover()
        await page.mouse.wheel(0, 10)
        await last.click()
        await expect(start).not_to_be_in_viewport(ratio=1)
        moved = await last.bounding_box()
        await page.keyboard.press("Escape")
        await expect(page.locator("#pane")).to_be_hidden()
        assert await last.bounding_box() == moved


async def test_totals_are_those_of_the_api_at_every_moment() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.locator("#connection")).to_have_text("Live")
        bench.in_branch(DESIGN, "B", "2", "Keep sessions there", "edit")
        bench.say(DESIGN, "3", "Two ways.")
        bench.branch_done(DESIGN, "B", "done")
        trace = bench.states[DESIGN].trace
        assert trace.usage.total == 2300
        await expect(page.locator("#facts")).to_contain_text(f"{trace.message_count} messages · 2.3k tokens")


async def test_stale_branch_response_does_not_undo_newer_events() -> None:
    async with page_bench() as bench, browser_page() as page:
        bench.trace(DESIGN, "m", "t")
        explore(bench, None)
        asked = 0
        told = asyncio.Event()

        async def late(route: Route) -> None:
            nonlocal asked
            asked += 1
            answer = await route.fetch()
            if asked == 1:
                bench.in_branch(DESIGN, "A", "2", "Added meanwhile", "edit")
                bench.branch_done(DESIGN, "A", "It is done.")
                await told.wait()
            await route.fulfill(response=answer)

        await page.route("**/branches/A*", late)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "branch:A")).to_be_visible()
        await toggle(page, "branch:A", True)
        await expect(node(page, "branch:A")).to_have_attribute("aria-label", re.compile(", done"))
        told.set()
        await expect(node(page, "goal:A/2")).to_be_visible()
        await toggle(page, "branch:A", False)
        await expect(node(page, "branch:A")).to_contain_text("2 sub-goals")


async def test_expand_all_also_expands_goals_of_branches() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        inner = Goal(id="3", description="Inner", parent_id="2")
        bench.add(child_id(DESIGN, "A"), "3", "Inner", "2")
        bench.emit(BranchGoalAdded(trace_id=DESIGN, time=bench.time(), branch_id="A", goal=inner))
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "goal:1")).to_be_visible()
        await page.locator("#expand-all").click()
        await expect(node(page, "goal:A/3")).to_be_visible()
        await expect(node(page, "goal:9")).to_be_visible()


async def test_ended_trace_has_no_current_node_and_fit_shows_all() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench)
        await page.set_viewport_size({"width": 1600, "height": 900})
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.locator(".dag-node.current").first).to_be_visible()
        bench.end(DESIGN)
        await expect(page.locator("#facts .pill")).to_have_text("ready")
        await expect(page.locator(".dag-node.current")).to_have_count(0)
        await page.locator("#expand-all").click()
        await expect(node(page, "goal:A/2")).to_be_attached()
        await page.locator("#fit").click()
        inside = """() => {
          const host = document.querySelector('#graph .dag').getBoundingClientRect();
          const all = [...document.querySelectorAll('.dag-node')];
          const seen = all.map((one) => one.getBoundingClientRect());
          const wide = (box) => box.left >= host.left && box.right <= host.right;
          const high = (box) => box.top >= host.top && box.bottom <= host.bottom;
          return seen.length > 0 && seen.every((box) => wide(box) && high(box));
        }"""
        await page.wait_for_function(inside)


async def test_switching_traces_resets_steps_to_the_main_session() -> None:
    async with page_bench() as bench, browser_page() as page:
        tell_design(bench, ended=True)
        tell_large(bench, 20)
        await page.goto(page_address(bench.port, DESIGN, "/steps"))
        await expect(page.locator(".step").first).to_be_visible()
        await page.locator("#line").select_option("A")
        await expect(page.locator('.step[data-id="goal_5"]')).to_have_count(0)
        await page.evaluate(f"location.hash = '#/{LARGE}/steps'")
        await expect(page.locator("#line")).to_have_value("")
        await expect(page.locator('.step[data-id="goal_1"]')).to_contain_text("Goal number 1 of many")
