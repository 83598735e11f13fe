"""The web page in the language of the browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.e2e.shown_texts import english_names
from tests.support.drivers.trace_page import (
    DESIGN,
    browser_page,
    edge,
    node,
    page_address,
    page_bench,
    pictures,
    tell_design,
    toggle,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

expect.set_options(timeout=30_000)


async def test_in_a_chinese_browser_the_page_is_chinese() -> None:
    errors: list[str] = []
    async with page_bench() as bench, browser_page(errors=errors, locale="zh-CN") as page:
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(node(page, "goal:1")).to_be_visible()
        await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        await expect(page.get_by_role("button", name="全部展开")).to_be_visible()
        await expect(page.get_by_role("searchbox", name="搜索追踪")).to_be_visible()
        await expect(page.locator("#facts .pill")).to_have_text("运行中")
        await expect(edge(page, "goal:5").locator(".dag-stats")).to_have_text("7 条 · 700 · $0.07")
        await toggle(page, "fork:3", True)
        await expect(node(page, "branch:A")).to_contain_text("分支 · 已采用")
        await edge(page, "goal:2").locator(".dag-stats").click()
        pane = page.locator("#pane")
        await expect(pane.get_by_role("button", name="关闭")).to_be_visible()
        await expect(
            pane.get_by_text("你", exact=True).or_(pane.get_by_text("智能体", exact=True)).first
        ).to_be_visible()

        # Names and titles are the page's own; what else is in English, the traces say.
        theirs = "#title, #line option, .dag *, .trace, .step, aside *"
        assert await english_names(page.locator("html"), except_for=theirs) == []
        spoken = await node(page, "branch:A").get_attribute("aria-label")
        assert spoken is not None and spoken.startswith("分支 A ")
        await pictures(page, "page-chinese")

        await page.get_by_role("tab", name="步骤").click()
        await expect(page.get_by_role("treeitem").first).to_have_accessible_name(re.compile("^目标，"))
        assert errors == []


@pytest.mark.parametrize("locale", ["en-US", "de-DE"])
async def test_other_languages_get_english_and_load_no_catalogue(locale: str) -> None:
    async with page_bench() as bench, browser_page(locale=locale) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        tell_design(bench, ended=True)
        await page.goto(page_address(bench.port, DESIGN))
        await expect(page.get_by_role("button", name="Expand all")).to_be_visible()
        await expect(node(page, "goal:1")).to_be_visible()
        await expect(page.locator("html")).to_have_attribute("lang", "en")
        assert [url for url in asked if ".json" in url] == []
