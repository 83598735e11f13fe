"""``goalwright goals`` and ``goalwright goal …``: the plan, and the user's changes to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.history import show_diffs, show_files
from lsp_bridge.cli.commands.session_command import (
    CommandFailedError,
    SessionConnection,
    goal_by_number,
    session_command,
)
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.run.command import run
from lsp_bridge.cli.run.conversation import RunOptions
from lsp_bridge.cli.text import Style, one_line, sign, state, tokens, total_of
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import t
from tools.text.amounts import cost_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_REPLAN_S = 3600.0


@session_command()
async def goals(cli: Invocation, asked: SessionConnection) -> None:
    """Print the plan."""
    loaded = await asked.load()
    plan = {key: loaded.get(key) for key in ("goalTree", "goalNumbers", "meter")}
    if not cli.wrote_json({"sessionId": asked.session, **plan}):
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
    await _change(cli, asked, "rename", goal, description=text)


@session_command()
async def move(
    cli: Invocation, asked: SessionConnection, *, goal: str, under: str | None, before: str | None
) -> None:
    """Put a goal elsewhere."""
    await _change(cli, asked, "move", goal, **_place(await asked.load(), under, before))


@session_command()
async def focus(cli: Invocation, asked: SessionConnection, *, goal: str) -> None:
    """Say what the model is to work on."""
    await _change(cli, asked, "focus", goal)


@session_command()
async def done(cli: Invocation, asked: SessionConnection, *, goal: str, summary: str) -> None:
    """Call a goal reached."""
    await _change(cli, asked, "done", goal, summary=summary)


@session_command()
async def abandon(
    cli: Invocation, asked: SessionConnection, *, goal: str, reason: str, revert_files: bool, dry_run: bool
) -> None:
    """Give a goal up."""
    await _change(cli, asked, "abandon", goal, reason=reason, revertFiles=revert_files, dryRun=dry_run)


async def _change(
    cli: Invocation, asked: SessionConnection, action: str, goal: str | None = None, **params: Any
) -> None:
    """Change the plan, or the goal with this number, and print the result."""
    console = cli.console
    if goal is not None:
        params["goalId"] = goal_by_number(await asked.load(), goal)
    changed = await asked.request(f"goalwright/goal/{action}", **params)
    after = await asked.load()
    if _wrote_plan(cli, changed, after):
        return
    files = mappings(changed.get("files"))
    if params.get("dryRun"):
        show_diffs(console, files)
        nothing = t("No files would be reverted: none were changed for it.\n")
        console.write(t("Would be reverted:\n") if files else nothing)
        show_files(console, files)
        return
    if params.get("revertFiles"):
        console.write(t("Reverted:\n") if files else t("No files were reverted: none were changed for it.\n"))
        show_files(console, files)
    show_plan(console, after)


def _wrote_plan(cli: Invocation, done: dict[str, Any], after: dict[str, Any]) -> bool:
    return cli.wrote_json({**done, **{key: after.get(key) for key in ("goalTree", "goalNumbers")}})


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
    """The tree (``goalTree``, ``goalNumbers``, maybe ``meter``) with states, tokens and costs: each goal, abandoned
    ones too, and under a finished one its summary."""
    tree, numbers = mapping(plan.get("goalTree")), mapping(plan.get("goalNumbers"))
    meter, style = mapping(plan.get("meter")), console.style
    if mission := one_line(string(tree.get("mission"))):
        console.row(style.bold(t("Mission: {mission}", mission=mission)))
    goals = [goal for goal in mappings(tree.get("goals")) if string(goal.get("id"))]
    if not goals:
        console.write(
            t(
                "The plan is empty: the model makes a plan when a task needs one, or add a goal with "
                "`goalwright goal add`.\n"
            )
        )
    children: dict[str, list[dict[str, Any]]] = {}
    for goal in goals:
        children.setdefault(string(goal.get("parentId")), []).append(goal)
    used = {string(item.get("goalId")): item for item in mappings(meter.get("goals"))}
    todo = [(goal, 0) for goal in reversed(children.get("", []))]
    while todo:
        goal, depth = todo.pop()
        goal_id = string(goal.get("id"))
        current = goal_id == tree.get("currentId")
        for line in _goal_lines(goal, string(numbers.get(goal_id)), current, used.get(goal_id, {}), style):
            console.row("    " * depth + line)
        todo += [(child, depth + 1) for child in reversed(children.get(goal_id, []))]
    if rest := _without_goal(meter):
        console.row(style.dim(rest))


def _goal_lines(
    goal: dict[str, Any], shown_as: str, current: bool, took: dict[str, Any], style: Style
) -> Iterator[str]:
    status = string(goal.get("status")) or "pending"
    dot = "" if "." in shown_as or not shown_as else "."
    title = f"{shown_as}{dot} " if shown_as else ""
    head = f"{sign(status)} {title}{one_line(string(goal.get('description')))}"
    facts = f"({', '.join([state(status), *_amounts(goal, took)])})"
    here = t("  ← current") if current else ""
    paint = {"completed": style.green, "abandoned": style.dim}.get(status, style.cyan if current else str)
    yield f"{paint(head)}  {style.dim(facts)}{style.cyan(here)}"
    if status in ("completed", "abandoned") and (summary := one_line(string(goal.get("summary")))):
        yield style.dim(f"      → {summary}")


def _without_goal(meter: dict[str, Any]) -> str:
    """Return a line on work while no goal had the focus; with the goals it adds up to the session."""
    amounts = _amounts({}, {"usage": meter.get("withoutGoal"), "cost": meter.get("withoutGoalCost")})
    return t("  Without a goal  ({amounts})", amounts=", ".join(amounts)) if amounts else ""


def _amounts(goal: dict[str, Any], took: dict[str, Any]) -> list[str]:
    """Return the usage of a goal and those below it, with sub-agents: as providers counted, else by its messages."""
    stats, usage = mapping(goal.get("cumulativeStats")), mapping(took.get("usage"))
    total = total_of(usage) or integer(stats.get("totalTokens"))
    cost = number(took.get("cost")) or number(stats.get("totalCost"))
    unpriced = integer(usage.get("unpriced")) or integer(stats.get("unpricedTokens"))
    return [*([tokens(total)] if total else []), *([cost_words(cost, unpriced)] if cost or unpriced else [])]


@session_command()
async def replan(cli: Invocation, asked: SessionConnection, *, reason: str = "") -> int:
    """Plan again for the remaining work. ``reason``: what is wrong with the plan."""
    at_rest = mapping((await asked.load()).get("session")).get("status") == "idle"
    try:
        done = await asked.request("goalwright/plan/replan", _REPLAN_S, reason=reason)
    except asyncio.CancelledError:
        if at_rest:  # otherwise the turn is another client's, and goes on without a new plan
            await asked.request("goalwright/session/cancel")
        raise
    after = await asked.load()
    stopped = done.get("stopReason")
    is_made = stopped in ("end_turn", None)
    if _wrote_plan(cli, done, after):
        return EXIT_OK if is_made else EXIT_FAILED
    if not is_made:
        words = t("No plan was made: {stop_reason}.", stop_reason=string(stopped))
        raise CommandFailedError(string(done.get("detail")) or words)
    if detail := one_line(string(done.get("detail"))):
        cli.console.line(detail)
    show_plan(cli.console, after)
    return EXIT_OK


async def build(cli: Invocation, *, yes: bool) -> int:
    """Hand the plan over to the agent that builds, and follow it as every run: its questions want answers."""
    runs: list[RunOptions] = []
    code = await _handed_over(cli, runs, yes=yes)
    return await run(runs[0], cli.launcher, cli.console) if runs else code


@session_command()
async def _handed_over(
    cli: Invocation, asked: SessionConnection, runs: list[RunOptions], *, yes: bool
) -> None:
    task = string((await asked.request("goalwright/plan/build", start=False)).get("prompt"))
    runs.append(RunOptions(cli.workspace, task, session=asked.session, yes=yes, json=cli.json))
