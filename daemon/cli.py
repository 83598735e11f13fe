"""The command line: what can be asked, and what it is called. No work is done here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The parsed command line. Exits with code 2 and a usage message when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="goalwright",
        description="A coding agent whose plan is a tree of goals, and that asks before it writes.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    run = commands.add_parser("run", help="give the agent a task and follow it in this terminal")
    run.add_argument("task", nargs="?", help="what to do; - or nothing reads it from stdin")
    _workspace(run)
    _model(run)
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="go on with this session (see: goalwright sessions)")
    which.add_argument(
        "--continue", dest="resume_last", action="store_true", help="go on with the newest session"
    )
    run.add_argument("--yes", action="store_true", help="allow everything the agent asks for, once each")
    run.add_argument("--json", action="store_true", help="one JSON object a line on stdout, the result last")
    run.add_argument("--no-color", action="store_true", help="plain text (NO_COLOR does the same)")
    run.add_argument("-v", "--verbose", action="store_true", help="show the model's reasoning, too")

    start = commands.add_parser("start", help="make sure that the daemon runs, and print how to reach it")
    _workspace(start)
    _idle_timeout(start)
    _json(start)

    status = commands.add_parser("status", help="what the daemon is and does")
    _workspace(status)
    _json(status)

    sessions = commands.add_parser("sessions", help="list the sessions of this workspace")
    _workspace(sessions)
    _json(sessions)

    history = commands.add_parser("history", help="list what a session changed in your files")
    _session(history)
    _workspace(history)
    _json(history)

    undo = commands.add_parser("undo", help="take the agent's last change back; your own edits stay")
    redo = commands.add_parser("redo", help="do again what was undone")
    for step in (undo, redo):
        _session(step)
        step.add_argument(
            "--change", metavar="ID", help="this change (see: goalwright history), not the next"
        )
        _dry_run(step)
        _workspace(step)
        _json(step)

    restore = commands.add_parser(
        "restore", help="take back all changes since a message, or those of a goal; your own edits stay"
    )
    restore.add_argument("session", metavar="SESSION", help="the session (see: goalwright sessions)")
    since = restore.add_mutually_exclusive_group(required=True)
    since.add_argument("--message", metavar="ID", help="since this message, it included")
    since.add_argument(
        "--goal", metavar="NUMBER", help="for this goal of the plan and those below it, e.g. 2.1"
    )
    _dry_run(restore)
    _workspace(restore)
    _json(restore)

    stop = commands.add_parser("stop", help="end the daemon of this workspace")
    _workspace(stop)
    stop.add_argument("--force", action="store_true", help="kill it when it does not end by itself")

    serve = commands.add_parser("serve", help="be the daemon (others start it when they need it)")
    _workspace(serve)
    _idle_timeout(serve)
    _model(serve)
    serve.add_argument("--foreground", action="store_true", help="log to stderr")

    connect = commands.add_parser("connect", help="join an LSP editor to the daemon")
    connect.add_argument("--stdio", action="store_true", required=True, help="speak LSP on stdin and stdout")
    _workspace(connect)

    demo = commands.add_parser("demo", help="watch a scripted model work in a copy of the sample workspace")
    demo.add_argument("--no-color", action="store_true", help="plain text")

    commands.add_parser("version", help="print the version")

    args = parser.parse_args(argv)
    if args.command == "run":
        args.task = _task(run, args.task)
    return args


def _task(parser: argparse.ArgumentParser, task: str | None) -> str:
    if task is None and _is_terminal():
        parser.error('what should be done? For example: goalwright run "add a test for cart.py"')
    # The bytes, because the encoding of sys.stdin is the locale's.
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if task in (None, "-") else task
    if not text or not text.strip():
        parser.error("the task is empty")
    return text


def _is_terminal() -> bool:
    stdin: TextIO | None = sys.stdin  # None in a process without one
    return stdin is None or stdin.isatty()


def _workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workspace",
        metavar="FOLDER",
        type=Path,
        default=None,
        help="the folder to work in (default: this one)",
    )


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help="the session (see: goalwright sessions; default: the newest)",
    )


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PROVIDER/MODEL", type=_model_name, help="e.g. ollama/qwen3")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _idle_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=_seconds,
        help="the daemon ends when nobody used it for so long; 0: never (default: the configuration's)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _model_name(text: str) -> str:
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form provider/model")
    return text
