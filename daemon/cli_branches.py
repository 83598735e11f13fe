"""The command line's part about branches, agents and planning: ``explore``, ``agents``, ``plan``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tools.localization import noted, t

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage] - has no public name


def branch_commands(commands: _Commands) -> None:
    """Add them."""
    explore = commands.add_parser("explore", help=t("branches of an exploration: compare them, use one"))
    _shared(explore, own=True)
    actions = explore.add_subparsers(dest="action", metavar="action")
    actions.add_parser("list", help=t("the branches and the scoreboard (what no action means, too)"))
    show = actions.add_parser("show", help=t("what a branch reported and changed"))
    diff = actions.add_parser("diff", help=t("the changes of a branch, all or of some files"))
    pick = actions.add_parser("pick", help=t("use a branch, or some files of it; you review what is written"))
    leave = actions.add_parser("leave", help=t("do not choose: the model is to"))
    remove = actions.add_parser("remove", help=t("delete what a branch changed"))
    patch = actions.add_parser("patch", help=t("the changes of a branch for `git apply`, on stdout"))
    for action in (show, remove, patch):
        action.add_argument("branch", metavar="BRANCH", help=t("its letter, e.g. A"))
    for action in (diff, pick):
        action.add_argument(
            "branch",
            metavar="BRANCH[:PATH]",
            help=t("its letter, e.g. A, or a file or folder of it: A:src/a.py"),
        )
    diff.add_argument("paths", metavar="PATH", nargs="*", help=t("a file or folder, relative to the folder"))
    pick.add_argument(
        "paths",
        metavar="PATH|BRANCH[:PATH]",
        nargs="*",
        help=t("a file or folder of the branch before it, or one more branch or part: B:docs"),
    )
    pick.add_argument("--yes", action="store_true", help=t("write it without a review"))
    leave.add_argument("--none", action="store_true", help=t("none of the branches is wanted"))
    for action in set(actions.choices.values()):
        _shared(action)

    agents = commands.add_parser("agents", help=t("the agents there are: shipped ones and your own"))
    agents.add_argument("--workspace", metavar="FOLDER", type=Path, default=None, help=t(_FOLDER))
    agents.add_argument("--json", action="store_true", help=t("for programs"))

    plan = commands.add_parser("plan", help=t("plan again, or have the plan carried out"))
    steps = plan.add_subparsers(dest="action", metavar="action", required=True)
    replan = steps.add_parser("replan", help=t("a new plan for what is left"))
    replan.add_argument(
        "--reason", metavar="TEXT", default="", help=t("what is wrong with the plan, or has changed")
    )
    build = steps.add_parser(
        "build", help=t("hand the plan of a planning session over to the agent that builds")
    )
    build.add_argument("--yes", action="store_true", help=t("allow everything the agent asks for, once each"))
    for step in (replan, build):
        _shared(step, own=True)


_FOLDER = noted("the folder to work in (default: this one)")


def _shared(parser: argparse.ArgumentParser, *, own: bool = False) -> None:
    """``own``: with defaults. An action's own would undo what stands before it."""
    nothing = None if own else argparse.SUPPRESS
    parser.add_argument(
        "--session", metavar="ID", default=nothing, help=t("the session (default: the session used last)")
    )
    parser.add_argument("--workspace", metavar="FOLDER", type=Path, default=nothing, help=t(_FOLDER))
    parser.add_argument(
        "--json", action="store_true", default=False if own else argparse.SUPPRESS, help=t("for programs")
    )
