"""The command line's part about traces: ``goalwright trace …``, the record of sessions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tools.localization import noted, t

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage] - has no public name

DUMP_FORMATS = ("txt", "md", "json")
_FOLDER = noted("the folder to work in (default: this one)")


def trace_commands(commands: _Commands) -> None:
    """Add them."""
    trace = commands.add_parser("trace", help=t("the record of sessions: read, follow, export, clear up"))
    actions = trace.add_subparsers(dest="action", metavar="action", required=True)

    listed = actions.add_parser("list", help=t("list them, newest first"))
    listed.add_argument("--limit", metavar="COUNT", type=_count, default=50, help=t("how many (default: 50)"))

    show = actions.add_parser("show", help=t("the steps as a tree, with states and costs"))
    _one(show)
    _branch(show)
    show.add_argument("--full", action="store_true", help=t("texts in full, not a line of each"))
    show.add_argument(
        "--system-prompt",
        action="store_true",
        help=t("the system prompts that were in force, instead of the steps"),
    )

    dump = actions.add_parser("dump", help=t("the steps in full, as text, Markdown or JSON"))
    _one(dump)
    _branch(dump)
    dump.add_argument("--format", choices=DUMP_FORMATS, default="txt", help=t("(default: txt)"))
    _output(dump, t("where to write it (default, and -: stdout)"))
    dump.add_argument("--force", action="store_true", help=t("replace a file that is there"))

    tail = actions.add_parser("tail", help=t("what happens, as it happens"))
    _one(tail)
    _branch(tail)
    tail.add_argument(
        "--since",
        metavar="EVENT",
        type=_number,
        help=t("also what came after the event with this number; 0: all"),
    )

    tail.add_argument("--no-follow", dest="follow", action="store_false", help=t("end when all was said"))

    rebuild = actions.add_parser(
        "rebuild", help=t("make messages, plan and metadata anew from the event log, and say what was wrong")
    )
    which = rebuild.add_mutually_exclusive_group()
    _one(which)
    which.add_argument("--all", action="store_true", help=t("all of this folder"))

    export = actions.add_parser(
        "export",
        help=t("one trace, with branches, file versions and outputs, as one .tar.gz without secrets"),
    )
    _one(export)
    _output(export, t("the archive (default: goalwright-TRACE.tar.gz here)"))
    export.add_argument("--force", action="store_true", help=t("replace a file that is there"))

    imported = actions.add_parser("import", help=t("take in an archive that `goalwright trace export` made"))
    imported.add_argument("archive", metavar="ARCHIVE", type=Path, help=t("the .tar.gz file"))
    imported.add_argument(
        "--max-mb", metavar="MB", type=_megabytes, help=t("refuse more than this, unpacked (default: 1024)")
    )

    prune = actions.add_parser(
        "prune", help=t("delete old traces, by the settings trace_keep_days, trace_max_mb …")
    )
    prune.add_argument("--keep-days", metavar="DAYS", type=_days, help=t("those not used for longer"))
    prune.add_argument(
        "--max-mb", metavar="MB", type=_megabytes, help=t("the oldest, until all take no more")
    )
    prune.add_argument("--keep", metavar="COUNT", type=_count, help=t("the newest so many stay in any case"))
    prune.add_argument("--dry-run", action="store_true", help=t("only say what would go"))

    page = actions.add_parser("page", help=t("print the address of the traces' page, for a browser"))
    _one(page)
    page.add_argument("--open", action="store_true", help=t("open it"))

    for action in set(actions.choices.values()):
        action.add_argument("--workspace", metavar="FOLDER", type=Path, default=None, help=t(_FOLDER))
        action.add_argument("--json", action="store_true", help=t("for programs"))
        action.add_argument("--no-color", action="store_true", help=t("plain text (NO_COLOR does the same)"))


def _one(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup) -> None:  # pyright: ignore[reportPrivateUsage] - has no public name
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help=t("its id or the beginning of it, or latest (see: goalwright trace list; default: latest)"),
    )


def _branch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--branch", metavar="ID", help=t("of this branch or sub-agent, e.g. A or s1"))


def _output(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--output", "-o", metavar="FILE", type=Path, help=text)


def _count(text: str) -> int:
    return _whole(text, least=1)


def _number(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, *, least: int) -> int:
    if not text.isascii() or not text.isdecimal() or not least <= int(text[:16]) < 10**15:
        raise argparse.ArgumentTypeError(
            t("{text!r} is not a whole number from {least} on", text=text, least=least)
        )
    return int(text)


def _days(text: str) -> float:
    return _amount(text, noted("days"))


def _megabytes(text: str) -> float:
    return _amount(text, noted("megabytes"))


def _amount(text: str, of: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 10**9:
        raise argparse.ArgumentTypeError(t("{text!r} is not a number of {unit}", text=text, unit=t(of)))
    return value
