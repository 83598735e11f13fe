"""``goalwright goals`` and ``goalwright goal …``: the plan, and what the person does to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lsp_bridge.cli.commands.history import show_diffs, show_files
from lsp_bridge.cli.commands.session_command import (
    CommandFailedError,
    SessionConnection,
    about_session,
    goal_by_number,
)
from lsp_bridge.cli.run.goal_lines import MARKS
from lsp_bridge.cli.run.turn import EXIT_OK, RunOptions, run
from lsp_bridge.cli.text import Style, fit, money, one_line, state, tokens
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher

GoalAction = Literal["add", "rename", "move", "focus", "done", "abandon"]


@dataclass(frozen=True, slots=True)
class GoalsOptions:
    """``goalwright goals``. ``session`` None: the newest of this person."""

    workspace: Path
    session: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class GoalOptions:
    """``goalwright goal …``. Goals are given by their display numbers, e.g. ``2.1``."""

    action: GoalAction
    workspace: Path
    session: str | None = None
    goal: str = ""
    """Which one; for ``add`` there is none yet."""
    text: str = ""
    """The description, summary or reason."""
    reason: str = ""
    """Why a goal is added."""
    under: str | None = None
    before: str | None = None
    revert_files: bool = False
    dry_run: bool = False
    json: bool = False


async def goals(options: GoalsOptions, launcher: Launcher, console: Console) -> int:
    """Print the plan, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        loaded = await asked.load()
        if options.json:
            plan = {key: loaded.get(key) for key in ("goalTree", "goalNumbers", "meter")}
            console.write(json.dumps({"sessionId": asked.session, **plan}) + "\n")
        else:
            show_plan(console, loaded)

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


async def goal(options: GoalOptions, launcher: Launcher, console: Console) -> int:
    """Change the plan, print it as it is then, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        loaded = await asked.load()
        params = _params(options, loaded)
        done = await asked.request(f"goalwright/goal/{options.action}", **params)
        after = await asked.load()
        if options.json:
            plan = {key: after.get(key) for key in ("goalTree", "goalNumbers")}
            console.write(json.dumps({**done, **plan}) + "\n")
            return
        files = mappings(done.get("files"))
        if options.dry_run:
            show_diffs(console, files)
            console.write(
                t("Would be reverted:\n")
                if files
                else t("No file would be reverted: none was changed for it.\n")
            )
            show_files(console, files)
            return
        if options.revert_files:
            console.write(
                t("Reverted:\n") if files else t("No file was reverted: none was changed for it.\n")
            )
            show_files(console, files)
        show_plan(console, after)

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


def _params(options: GoalOptions, loaded: dict[str, Any]) -> dict[str, Any]:
    """The params of the request, but for the session. Raises CommandFailedError for a number that is not there."""
    params: dict[str, Any] = {}
    if options.action != "add":
        params["goalId"] = goal_by_number(loaded, options.goal)
    if options.action in ("add", "move"):
        parent = None if options.under is None else goal_by_number(loaded, options.under)
        before = None if options.before is None else goal_by_number(loaded, options.before)
        if before is not None and parent is None:
            # Before a goal is beside it, so its parent is meant.
            siblings = mappings(mapping(loaded.get("goalTree")).get("goals"))
            parent = next((g.get("parentId") for g in siblings if g.get("id") == before), None)
        params |= {"parentId": parent, "beforeId": before}
    if options.action in ("add", "rename"):
        params["description"] = options.text
    if options.action == "add":
        params["reason"] = options.reason
    if options.action == "done":
        params["summary"] = options.text
    if options.action == "abandon":
        params |= {"reason": options.text, "revertFiles": options.revert_files, "dryRun": options.dry_run}
    return params


def show_plan(console: Console, plan: dict[str, Any]) -> None:
    """The tree (``goalTree``, ``goalNumbers``, maybe ``meter``) with states, tokens and costs."""
    tree = mapping(plan.get("goalTree"))
    style = console.style
    if mission := one_line(string(tree.get("mission"))):
        console.write(style.bold(_fitting(console, t("Mission: {mission}", mission=mission))) + "\n")
    lines = plan_lines(tree, mapping(plan.get("goalNumbers")), mapping(plan.get("meter")), style)
    if not lines:
        console.write(
            t("The plan is empty: the model makes one when the task needs it, or `goalwright goal add`.\n")
        )
    if rest := _without_goal(mapping(plan.get("meter"))):
        lines.append((rest, style.dim(rest)))
    for plain, painted in lines:
        fitting = _fitting(console, plain)
        # A line that has to be cut is cut without its colours: they would be cut in the middle.
        console.write((painted if fitting == plain else fitting) + "\n")


def plan_lines(
    tree: dict[str, Any], numbers: dict[str, Any], meter: dict[str, Any], style: Style
) -> list[tuple[str, str]]:
    """Each goal, abandoned ones too, and under a finished one its summary: as plain text, and with colours."""
    goals = [goal for goal in mappings(tree.get("goals")) if string(goal.get("id"))]
    known = {string(goal.get("id")) for goal in goals}
    children: dict[str, list[dict[str, Any]]] = {}
    for goal in goals:
        parent = string(goal.get("parentId"))
        # A damaged log may have lost a parent: its children then count as the top.
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
    """What ran while no goal had the focus; with the goals it adds up to the session."""
    amounts = _amounts({}, {"usage": meter.get("withoutGoal"), "cost": meter.get("withoutGoalCost")})
    return t("  Without a goal  ({amounts})", amounts=", ".join(amounts)) if amounts else ""


def _amounts(goal: dict[str, Any], took: dict[str, Any]) -> list[str]:
    """What the goal and those below it took, with sub-agents: as providers counted, else what its messages hold."""
    stats, usage = mapping(goal.get("cumulativeStats")), mapping(took.get("usage"))
    total = sum(integer(usage.get(kind)) for kind in ("input", "output", "cacheRead", "cacheWrite"))
    total = total or integer(stats.get("totalTokens"))
    cost = number(took.get("cost")) or number(stats.get("totalCost"))
    return [*([tokens(total)] if total else []), *([money(cost)] if cost else [])]


def _fitting(console: Console, line: str) -> str:
    return fit(line, console.columns) if console.live else line


_REPLAN_S = 3600.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is asked for. ``session`` None: the newest of this person."""

    action: Literal["replan", "build"]
    workspace: Path
    session: str | None = None
    reason: str = ""
    """What is wrong with the plan."""
    yes: bool = False
    json: bool = False


async def plan(options: PlanOptions, launcher: Launcher, console: Console) -> int:
    """Do it, show it, and return the exit code."""
    prompts: list[tuple[str, str]] = []

    async def work(asked: SessionConnection) -> None:
        if options.action == "build":
            built = await asked.request("goalwright/plan/build", start=False)
            prompts.append((asked.session, string(built.get("prompt"))))
            return
        done = await asked.request("goalwright/plan/replan", _REPLAN_S, reason=options.reason)
        after = await asked.load()
        if options.json:
            plan = {key: after.get(key) for key in ("goalTree", "goalNumbers")}
            console.write(json.dumps({**done, **plan}) + "\n")
            return
        if done.get("stopReason") not in ("end_turn", None):
            raise CommandFailedError(
                string(done.get("detail"))
                or t("No plan was made: {stop_reason}.", stop_reason=string(done.get("stopReason")))
            )
        if detail := one_line(string(done.get("detail"))):
            console.write(detail + "\n")
        show_plan(console, after)

    code = await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )
    if code != EXIT_OK or not prompts:
        return code
    # The building is followed as every run is: its questions want answers.
    session, prompt = prompts[0]
    building = RunOptions(options.workspace, prompt, session=session, yes=options.yes, json=options.json)
    return await run(building, launcher, console)
