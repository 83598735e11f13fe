"""The web page with a plan of 2 000 goals, all open, in a real Chromium."""

from __future__ import annotations

import json
import statistics

from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.trace_page import LARGE, browser_page, page_address, page_bench, tell_large

GOALS = 2000
_TARGET_MS = 1000.0
_FRAMES = 120
_PAN = """async ([frames]) => {
  const host = document.querySelector("#graph .dag");
  const times = [];
  for (let at = 0; at < frames; at++) {
    const begun = performance.now();
    host.dispatchEvent(new WheelEvent("wheel", {deltaX: 35, deltaY: 21, bubbles: true, cancelable: true}));
    await new Promise((done) => requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(0);
    }));
    times.push(performance.now() - begun);
  }
  return times;
}"""


async def measure(stage: Stage) -> list[Measure]:
    """Milliseconds: until all goals are laid out and drawn; of a frame while the plane is moved."""
    laid_out: list[float] = []
    frames: list[float] = []
    async with page_bench() as bench:
        tell_large(bench, GOALS)
        for _ in range(stage.runs):
            async with browser_page() as page:
                await page.goto(page_address(bench.port, LARGE))
                await page.wait_for_selector(".dag-node")
                before = await page.locator("#graph").get_attribute("data-nodes")
                await page.locator("#expand-all").click()
                await page.wait_for_function(
                    "(before) => document.getElementById('graph').dataset.nodes !== before", arg=before
                )
                took = json.loads(await page.locator("#graph").get_attribute("data-took") or "{}")
                laid_out.append(sum(took.values()))
                frames.append(statistics.median(await page.evaluate(_PAN, [_FRAMES])))
    return [
        Measure(f"page: {GOALS} goals laid out and drawn", "ms", tuple(laid_out), target=_TARGET_MS),
        Measure("page: a frame while panning", "ms", tuple(frames), target=1000 / 30),
    ]
