"""The command line's part about branches, agents and planning: ``explore``, ``agents``, ``plan``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage] - has no public name


def branch_commands(commands: _Commands) -> None:
    """Add them."""
    explore = commands.add_parser("explore", help="branches of an exploration: compare them, use one")
    _shared(explore, own=True)
    actions = explore.add_subparsers(dest="action", metavar="action")
    actions.add_parser("list", help="the branches and the scoreboard (what no action means, too)")
    show = actions.add_parser("show", help="what a branch reported and changed")
    diff = actions.add_parser("diff", help="the changes of a branch, all or of some files")
    pick = actions.add_parser("pick", help="use a branch, or some files of it; you review what is written")
    leave = actions.add_parser("leave", help="do not choose: the model is to")
    remove = actions.add_parser("remove", help="delete what a branch changed")
    patch = actions.add_parser("patch", help="the changes of a branch for `git apply`, on stdout")
    for action in (show, remove, patch):
        action.add_argument("branch", metavar="BRANCH", help="its letter, e.g. A")
    for action in (diff, pick):
        action.add_argument(
            "branch",
            metavar="BRANCH[:PATH]",
            help="its letter, e.g. A, or a file or folder of it: A:src/a.py",
        )
    diff.add_argument("paths", metavar="PATH", nargs="*", help="a file or folder, relative to the folder")
    pick.add_argument(
        "paths",
        metavar="PATH|BRANCH[:PATH]",
        nargs="*",
        help="a file or folder of the branch before it, or one more branch or part: B:docs",
    )
    pick.add_argument("--yes", action="store_true", help="write it without a review")
    leave.add_argument("--none", action="store_true", help="none of the branches is wanted")
    for action in set(actions.choices.values()):
        _shared(action)

    agents = commands.add_parser("agents", help="the agents there are: shipped ones and your own")
    agents.add_argument("--workspace", metavar="FOLDER", type=Path, default=None, help=_FOLDER)
    agents.add_argument("--json", action="store_true", help="for programs")

    plan = commands.add_parser("plan", help="plan again, or have the plan carried out")
    steps = plan.add_subparsers(dest="action", metavar="action", required=True)
    replan = steps.add_parser("replan", help="a new plan for what is left")
    replan.add_argument(
        "--reason", metavar="TEXT", default="", help="what is wrong with the plan, or has changed"
    )
    build = steps.add_parser(
        "build", help="hand the plan of a planning session over to the agent that builds"
    )
    build.add_argument("--yes", action="store_true", help="allow everything the agent asks for, once each")
    for step in (replan, build):
        _shared(step, own=True)


_FOLDER = "the folder to work in (default: this one)"


def _shared(parser: argparse.ArgumentParser, *, own: bool = False) -> None:
    """``own``: with defaults. An action's own would undo what stands before it."""
    nothing = None if own else argparse.SUPPRESS
    parser.add_argument("--session", metavar="ID", default=nothing, help="the session (default: the newest)")
    parser.add_argument("--workspace", metavar="FOLDER", type=Path, default=nothing, help=_FOLDER)
    parser.add_argument(
        "--json", action="store_true", default=False if own else argparse.SUPPRESS, help="for programs"
    )
