"""``goalwright goals`` and ``goalwright goal …``: the plan, and the user's changes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.history import show_diffs, show_files
from lsp_bridge.cli.commands.session_command import (
    CommandFailedError,
    SessionConnection,
    goal_by_number,
    session_command,
)
from lsp_bridge.cli.run.goal_lines import MARKS
from lsp_bridge.cli.run.turn import RunOptions, run
from lsp_bridge.cli.text import Style, fit, one_line, state, tokens
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import t
from tools.text.amounts import cost_words

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_REPLAN_S = 3600.0


@session_command()
async def goals(cli: Invocation, asked: SessionConnection) -> None:
    """Print the plan."""
    loaded = await asked.load()
    if cli.json:
        plan = {key: loaded.get(key) for key in ("goalTree", "goalNumbers", "meter")}
        cli.write_json({"sessionId": asked.session, **plan})
    else:
        show_plan(cli.console, loaded)


@session_command()
async def add(
    cli: Invocation,
    asked: SessionConnection,
    *,
    text: str,
    reason: str,
    under: str | None,
    before: str | None,
) -> None:
    """Add a goal."""
    place = _place(await asked.load(), under, before)
    await _change(cli, asked, "add", description=text, reason=reason, **place)


@session_command()
async def rename(cli: Invocation, asked: SessionConnection, *, goal: str, text: str) -> None:
    """Change the description of a goal."""
    goal_id = goal_by_number(await asked.load(), goal)
    await _change(cli, asked, "rename", goalId=goal_id, description=text)


@session_command()
async def move(
    cli: Invocation, asked: SessionConnection, *, goal: str, under: str | None, before: str | None
) -> None:
    """Put a goal elsewhere."""
    loaded = await asked.load()
    goal_id = goal_by_number(loaded, goal)
    await _change(cli, asked, "move", goalId=goal_id, **_place(loaded, under, before))


@session_command()
async def focus(cli: Invocation, asked: SessionConnection, *, goal: str) -> None:
    """Say what the model is to work on."""
    await _change(cli, asked, "focus", goalId=goal_by_number(await asked.load(), goal))


@session_command()
async def done(cli: Invocation, asked: SessionConnection, *, goal: str, summary: str) -> None:
    """Call a goal reached."""
    goal_id = goal_by_number(await asked.load(), goal)
    await _change(cli, asked, "done", goalId=goal_id, summary=summary)


@session_command()
async def abandon(
    cli: Invocation, asked: SessionConnection, *, goal: str, reason: str, revert_files: bool, dry_run: bool
) -> None:
    """Give a goal up."""
    goal_id = goal_by_number(await asked.load(), goal)
    params = {"goalId": goal_id, "reason": reason, "revertFiles": revert_files, "dryRun": dry_run}
    await _change(cli, asked, "abandon", **params)


async def _change(cli: Invocation, asked: SessionConnection, action: str, **params: Any) -> None:
    """Change the plan, and print the result."""
    console = cli.console
    changed = await asked.request(f"goalwright/goal/{action}", **params)
    after = await asked.load()
    if cli.json:
        _write_plan(cli, changed, after)
        return
    files = mappings(changed.get("files"))
    if params.get("dryRun"):
        show_diffs(console, files)
        console.write(
            t("Would be reverted:\n")
            if files
            else t("No files would be reverted: none were changed for it.\n")
        )
        show_files(console, files)
        return
    if params.get("revertFiles"):
        console.write(t("Reverted:\n") if files else t("No files were reverted: none were changed for it.\n"))
        show_files(console, files)
    show_plan(console, after)


def _write_plan(cli: Invocation, done: dict[str, Any], after: dict[str, Any]) -> None:
    cli.write_json({**done, **{key: after.get(key) for key in ("goalTree", "goalNumbers")}})


def _place(loaded: dict[str, Any], under: str | None, before: str | None) -> dict[str, Any]:
    """Return the place for a goal, as params of the request. Raises CommandFailedError for an unknown number."""
    parent = None if under is None else goal_by_number(loaded, under)
    beside = None if before is None else goal_by_number(loaded, before)
    if beside is not None and parent is None:
        # A goal before another one is its sibling, so they share a parent.
        siblings = mappings(mapping(loaded.get("goalTree")).get("goals"))
        parent = next((g.get("parentId") for g in siblings if g.get("id") == beside), None)
    return {"parentId": parent, "beforeId": beside}


def show_plan(console: Console, plan: dict[str, Any]) -> None:
    """The tree (``goalTree``, ``goalNumbers``, maybe ``meter``) with states, tokens and costs."""
    tree = mapping(plan.get("goalTree"))
    style = console.style
    if mission := one_line(string(tree.get("mission"))):
        console.write(style.bold(_fitting(console, t("Mission: {mission}", mission=mission))) + "\n")
    lines = plan_lines(tree, mapping(plan.get("goalNumbers")), mapping(plan.get("meter")), style)
    if not lines:
        console.write(
            t(
                "The plan is empty: the model makes a plan when a task needs one, or add a goal with "
                "`goalwright goal add`.\n"
            )
        )
    if rest := _without_goal(mapping(plan.get("meter"))):
        lines.append((rest, style.dim(rest)))
    for plain, painted in lines:
        fitting = _fitting(console, plain)
        # A truncated line loses its colours, because the cut could fall inside a colour code.
        console.write((painted if fitting == plain else fitting) + "\n")


def plan_lines(
    tree: dict[str, Any], numbers: dict[str, Any], meter: dict[str, Any], style: Style
) -> list[tuple[str, str]]:
    """Return each goal, abandoned ones too, and under a finished one its summary: as plain text, and with colours."""
    goals = [goal for goal in mappings(tree.get("goals")) if string(goal.get("id"))]
    known = {string(goal.get("id")) for goal in goals}
    children: dict[str, list[dict[str, Any]]] = {}
    for goal in goals:
        parent = string(goal.get("parentId"))
        # A damaged log may have lost a parent; its children then become top-level goals.
        children.setdefault(parent if parent in known else "", []).append(goal)
    used = {string(item.get("goalId")): item for item in mappings(meter.get("goals"))}
    lines: list[tuple[str, str]] = []
    todo = [(goal, 0) for goal in reversed(children.get("", []))]
    while todo:
        goal, depth = todo.pop()
        goal_id = string(goal.get("id"))
        current = goal_id == tree.get("currentId")
        lines += _goal_lines(goal, string(numbers.get(goal_id)), depth, current, used.get(goal_id, {}), style)
        todo += [(child, depth + 1) for child in reversed(children.get(goal_id, []))]
    return lines


def _goal_lines(
    goal: dict[str, Any], shown_as: str, depth: int, current: bool, took: dict[str, Any], style: Style
) -> list[tuple[str, str]]:
    status = string(goal.get("status")) or "pending"
    indent = "    " * depth
    dot = "" if "." in shown_as or not shown_as else "."
    title = f"{shown_as}{dot} " if shown_as else ""
    head = f"{indent}{MARKS.get(status, '○')} {title}{one_line(string(goal.get('description')))}"
    facts = f"({', '.join([state(status), *_amounts(goal, took)])})"
    here = t("  ← current") if current else ""
    paint = {"completed": style.green, "abandoned": style.dim}.get(status, style.cyan if current else str)
    lines = [(f"{head}  {facts}{here}", f"{paint(head)}  {style.dim(facts)}{style.cyan(here)}")]
    if status in ("completed", "abandoned") and (summary := one_line(string(goal.get("summary")))):
        text = f"{indent}      → {summary}"
        lines.append((text, style.dim(text)))
    return lines


def _without_goal(meter: dict[str, Any]) -> str:
    """Return a line on work while no goal had the focus; with the goals it adds up to the session."""
    amounts = _amounts({}, {"usage": meter.get("withoutGoal"), "cost": meter.get("withoutGoalCost")})
    return t("  Without a goal  ({amounts})", amounts=", ".join(amounts)) if amounts else ""


def _amounts(goal: dict[str, Any], took: dict[str, Any]) -> list[str]:
    """Return the usage of a goal and those below it, with sub-agents: as providers counted, else by its messages."""
    stats, usage = mapping(goal.get("cumulativeStats")), mapping(took.get("usage"))
    total = sum(integer(usage.get(kind)) for kind in ("input", "output", "cacheRead", "cacheWrite"))
    total = total or integer(stats.get("totalTokens"))
    cost = number(took.get("cost")) or number(stats.get("totalCost"))
    unpriced = integer(usage.get("unpriced")) or integer(stats.get("unpricedTokens"))
    return [*([tokens(total)] if total else []), *([cost_words(cost, unpriced)] if cost or unpriced else [])]


def _fitting(console: Console, line: str) -> str:
    return fit(line, console.columns) if console.live else line


@session_command()
async def replan(cli: Invocation, asked: SessionConnection, *, reason: str = "") -> None:
    """Plan again for the remaining work. ``reason``: what is wrong with the plan."""
    done = await asked.request("goalwright/plan/replan", _REPLAN_S, reason=reason)
    after = await asked.load()
    if cli.json:
        _write_plan(cli, done, after)
        return
    if done.get("stopReason") not in ("end_turn", None):
        raise CommandFailedError(
            string(done.get("detail"))
            or t("No plan was made: {stop_reason}.", stop_reason=string(done.get("stopReason")))
        )
    if detail := one_line(string(done.get("detail"))):
        cli.console.write(detail + "\n")
    show_plan(cli.console, after)


async def build(cli: Invocation, *, yes: bool) -> int:
    """Hand the plan over to the agent that builds, and follow it as every run: its questions want answers."""
    runs: list[RunOptions] = []
    code = await _handed_over(cli, runs, yes=yes)
    return await run(runs[0], cli.launcher, cli.console) if runs else code


@session_command()
async def _handed_over(
    cli: Invocation, asked: SessionConnection, runs: list[RunOptions], *, yes: bool
) -> None:
    built = await asked.request("goalwright/plan/build", start=False)
    task = string(built.get("prompt"))
    runs.append(RunOptions(cli.workspace, task, session=asked.session, yes=yes, json=cli.json))
