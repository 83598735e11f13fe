"""The results of the variants, as a Markdown table for readers, JSON for programs, and measures for ``make bench``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daemon.model.messages import Usage
from daemon.provider.pricing import cost
from tests.evals.benchmarks.context.goals import GoalTree, Placement
from tests.evals.benchmarks.context.linear import Linear
from tests.evals.benchmarks.context.opencode import OpenCode
from tests.evals.benchmarks.context.requests import MODEL, frame
from tests.evals.benchmarks.context.runs import Run, Variant, run
from tests.evals.benchmarks.context.script import Script, build_script
from tests.evals.benchmarks.context.story import KINDS
from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import Stage

LINEAR = "(a) linear history"
OPENCODE = "(b) prune + full compaction"
IN_SYSTEM = "(c) goal compaction, plan in the system prompt"
DEFAULT = "(d) goal compaction, plan in the last message"
TARGETS = {OPENCODE: 0.35, LINEAR: 0.25}
"""Money of the default, as a share of these (issue 4)."""


def variants() -> list[Variant]:
    """All that are compared, the four of the issue first."""
    same = frame()
    placements: list[tuple[str, Placement]] = [
        (IN_SYSTEM, "system"),
        (DEFAULT, "last_message"),
        ("(e) goal compaction, plan only on demand", "on_demand"),
    ]
    return [
        Linear(LINEAR, same),
        OpenCode(OPENCODE, same),
        *(GoalTree(name, same, placement) for name, placement in placements),
        OpenCode("(f) as b, but its summary is asked for with the same prefix", same, shares_prefix=True),
    ]


async def compare(script: Script | None = None) -> list[Run]:
    """Every variant over the same script; at last those that differ in the plan's place, with a plan that changes more.

    In the script the plan changes where goals begin and end: there little stands behind the system prompt that would
    have to be written to the cache again. What a change in the middle of a goal costs is seen only with one.
    """
    script = script or build_script()
    runs = [await run(variant, script) for variant in variants()]
    often = max(1, script.steps // 10)
    places: list[tuple[str, Placement]] = [(IN_SYSTEM, "system"), (DEFAULT, "last_message")]
    for name, placement in places:
        variant = GoalTree(f"{name[:3]}, the plan changes 10 times more, within goals", frame(), placement)
        runs.append(await run(variant, script, rewords_every=often))
    return runs


async def measure(stage: Stage) -> list[Measure]:
    """For ``python -m tests.evals.benchmarks``: the shares that have targets. Played once, as nothing in it varies."""
    stage.say("playing one session in each way to keep its context")
    runs = {run.name: run for run in await compare()}
    default = runs[DEFAULT]
    shares = [
        Measure(
            f"context: money of {DEFAULT[:3]} to {name}", "×", (default.money / runs[name].money,), target
        )
        for name, target in TARGETS.items()
    ]
    kept = sum(found for found, _ in default.recalled.values())
    note = "12 goals, 300 tool calls; see python -m tests.evals.benchmarks.context"
    return [*shares, Measure("context: planted facts in the last request", "of 40", (kept,), note=note)]


def table(runs: Sequence[Run]) -> str:
    """Markdown."""
    by_name = {run.name: run for run in runs}
    head = [
        "",
        "input tokens",
        "from cache",
        "written",
        "uncached",
        "output",
        "money",
        "to a",
        "to b",
        "full compactions",
        "largest request",
        *KINDS.values(),
    ]
    lines = [f"| {' | '.join(head)} |", f"|---{'|--:' * (len(head) - 1)}|"]
    for one in runs:
        usage = one.meter.usage
        cells = [
            one.name,
            f"{one.input_tokens / 1e6:.2f} M",
            f"{usage.cache_read / 1e6:.2f} M",
            f"{usage.cache_write / 1e3:.0f} K",
            f"{usage.input / 1e3:.0f} K",
            f"{usage.output / 1e3:.0f} K",
            f"${one.money:.2f}",
            f"{one.money / by_name[LINEAR].money:.2f} ×",
            f"{one.money / by_name[OPENCODE].money:.2f} ×",
            str(one.meter.compactions),
            f"{one.meter.largest / 1e3:.0f} K",
            *(f"{found}/{of}" for found, of in (one.recalled[kind] for kind in KINDS)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def to_json(script: Script, runs: Sequence[Run]) -> dict[str, Any]:
    """Everything; Any because it is JSON."""
    return {
        "model": MODEL,
        "steps": script.steps,
        "calls": script.calls,
        "targets": {name: {"share": share, "of": name} for name, share in TARGETS.items()},
        "variants": [_json(one) for one in runs],
    }


def _json(one: Run) -> dict[str, Any]:
    meter = one.meter
    return {
        "name": one.name,
        "usage": meter.usage.model_dump(),
        "inputTokens": one.input_tokens,
        "money": one.money,
        "moneyBy": {
            kind: cost(MODEL, Usage.model_validate({kind: tokens}))
            for kind, tokens in meter.usage.model_dump().items()
        },
        "calls": meter.calls,
        "fullCompactions": meter.compactions,
        "prunes": meter.prunes,
        "largestRequest": meter.largest,
        "writtenAgain": meter.cache.again,
        "recalled": {kind: list(counts) for kind, counts in one.recalled.items()},
        "live": list(one.live),
        "missing": list(one.missing),
    }
