"""The command line: what can be asked, and what it is called. No work is done here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from daemon.cli_branches import branch_commands
from daemon.cli_traces import trace_commands

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage] - has no public name

MODES = ("ask", "accept-edits", "plan", "auto")
PLANNERS = ("in_loop", "layered", "signposts", "on_demand")
NO_LIMIT = "none"
"""In place of an amount: there is to be no such limit."""


_EXIT_CODES = """\
exit codes:
  0    the agent ended its work by itself
  1    an error, or the answer was cut off
  2    the command line is wrong
  3    the run ended because a question was refused (a call that a rule denies does not end a run)
  4    nothing was done: no model is set up, or the model wrote its tool calls as text or answered nothing
  5    stopped at a limit (--max-..., goalwright budget), or because the model repeated itself
  130  canceled
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The parsed command line. Exits with code 2 and a usage message when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="goalwright",
        description="A coding agent whose plan is a tree of goals, and that asks before it writes.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    run = commands.add_parser(
        "run",
        help="give the agent a task and follow it in this terminal",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("task", nargs="?", help="what to do; - or nothing reads it from stdin")
    _workspace(run)
    _model(run)
    run.add_argument("--agent", metavar="NAME", help="the agent of a new session (see: goalwright agents)")
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="go on with this session (see: goalwright sessions)")
    which.add_argument(
        "--continue", dest="resume_last", action="store_true", help="go on with the session used last"
    )
    run.add_argument(
        "--file",
        dest="files",
        metavar="PATH",
        action="append",
        default=[],
        help="attach a text file, an image or a PDF; also @PATH in the task (repeatable)",
    )
    run.add_argument("--yes", action="store_true", help="allow everything the agent asks for, once each")
    limits = run.add_argument_group(
        "limits", "of a run that nobody watches: with --yes, or without a terminal; 0: no limit"
    )
    limits.add_argument("--max-steps", metavar="COUNT", type=_count, help="model calls (default: 200)")
    limits.add_argument("--max-usd", metavar="AMOUNT", type=_amount, help="US dollars (default: 10)")
    limits.add_argument("--max-minutes", metavar="MINUTES", type=_amount, help="time (default: 120)")
    run.add_argument("--mode", choices=MODES, help="what passes unasked (default: as the session has it)")
    run.add_argument(
        "--planner", choices=PLANNERS, help="how the task is planned (default: the setting planner)"
    )
    run.add_argument(
        "--steer",
        action="store_true",
        help="when a turn runs, give it the task at its next step, not after its end",
    )
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

    _plan_commands(commands)
    _context_commands(commands)
    branch_commands(commands)
    trace_commands(commands)
    _permission_commands(commands)

    doctor = commands.add_parser(
        "doctor",
        help="what is found here, what is missing and how to install it: language servers and the rest",
    )
    _workspace(doctor)
    doctor.add_argument("--start", action="store_true", help="really start each language server, and time it")
    _json(doctor)

    stop = commands.add_parser("stop", help="end the daemon of this workspace")
    _workspace(stop)
    stop.add_argument("--force", action="store_true", help="kill it when it does not end by itself")

    serve = commands.add_parser("serve", help="be the daemon (others start it when they need it)")
    _workspace(serve)
    _idle_timeout(serve)
    _model(serve)
    serve.add_argument("--foreground", action="store_true", help="log to stderr")
    serve.add_argument(
        "--http",
        metavar="PORT",
        type=_port,
        help="serve the traces (REST, WebSocket, page) on this port of 127.0.0.1, 0: any free one; prints "
        '{"url", "token"} as one line of JSON when it is ready',
    )

    connect = commands.add_parser("connect", help="join an LSP editor to the daemon")
    connect.add_argument("--stdio", action="store_true", required=True, help="speak LSP on stdin and stdout")
    _workspace(connect)

    demo = commands.add_parser("demo", help="watch a scripted model work in a copy of the sample workspace")
    demo.add_argument("--no-color", action="store_true", help="plain text")

    commands.add_parser("version", help="print the version")

    args = parser.parse_args(argv)
    if args.command == "run" and args.agent and (args.session or args.resume_last):
        run.error("--agent is for a new session; one that goes on keeps its agent")
    if args.command == "run":
        args.task = _task(run, args.task)
    return args


def _plan_commands(commands: _Commands) -> None:
    goals = commands.add_parser("goals", help="show the plan: goals with numbers, states, tokens and cost")
    _session(goals)
    _workspace(goals)
    _json(goals)

    goal = commands.add_parser("goal", help="change the plan; the model is told")
    actions = goal.add_subparsers(dest="action", metavar="action", required=True)

    add = actions.add_parser("add", help="a new goal")
    add.add_argument("text", metavar="DESCRIPTION", help="what will be achieved, in a line")
    add.add_argument("--reason", metavar="TEXT", default="", help="why")
    add.add_argument("--under", metavar="NUMBER", help="below this goal (default: at the top level)")
    add.add_argument("--before", metavar="NUMBER", help="before this goal (default: last)")

    rename = actions.add_parser("rename", help="another description for an open goal")
    _goal(rename)
    rename.add_argument("text", metavar="DESCRIPTION", help="what will be achieved, in a line")

    move = actions.add_parser("move", help="put an open goal, and all below it, elsewhere")
    _goal(move)
    move.add_argument("--under", metavar="NUMBER", help="below this goal (default: to the top level)")
    move.add_argument("--before", metavar="NUMBER", help="before this goal (default: last)")

    focus = actions.add_parser("focus", help="what the model is to work on")
    _goal(focus)

    done = actions.add_parser("done", help="call a goal reached")
    _goal(done)
    done.add_argument(
        "--summary",
        dest="text",
        metavar="TEXT",
        required=True,
        help="what was found or changed: it replaces the details in what the model sees",
    )

    abandon = actions.add_parser("abandon", help="give a goal up, and what is open below it")
    _goal(abandon)
    abandon.add_argument(
        "--reason", dest="text", metavar="TEXT", required=True, help="why: the model must not try it again"
    )
    abandon.add_argument(
        "--revert-files", action="store_true", help="take back what was changed for it; your own edits stay"
    )
    abandon.add_argument(
        "--dry-run", action="store_true", help="only show what --revert-files would take back"
    )

    for action in (add, rename, move, focus, done, abandon):
        action.add_argument(
            "--session", metavar="ID", help="the session (see: goalwright sessions; default: the newest)"
        )
        _workspace(action)
        _json(action)


def _context_commands(commands: _Commands) -> None:
    context = commands.add_parser("context", help="print exactly what the model would be sent now")
    _session(context)
    context.add_argument("--tools", action="store_true", help="with the tools' descriptions and schemas")
    context.add_argument("--brief", action="store_true", help="only the beginning of each text")
    _workspace(context)
    _json(context)

    handover = commands.add_parser(
        "handover", help="begin a session of the init or execute agent with what a session knows"
    )
    handover.add_argument("agent", choices=("init", "execute"), help="the agent that takes over")
    _session(handover)
    _workspace(handover)
    _json(handover)

    compact = commands.add_parser("compact", help="replace the conversation so far by a summary of it, now")
    _session(compact)
    compact.add_argument("--keep", metavar="TEXT", default="", help="what the summary must not leave out")
    _workspace(compact)
    _json(compact)

    budget = commands.add_parser(
        "budget", help="show or set the limits at which a session stops with a question"
    )
    _session(budget)
    budget.add_argument("--usd", metavar="AMOUNT", type=_usd, help="US dollars for the session, or none")
    budget.add_argument("--tokens", metavar="COUNT", type=_tokens, help="tokens for the session, or none")
    budget.add_argument("--goal-usd", metavar="AMOUNT", type=_usd, help="US dollars for each goal, or none")
    budget.add_argument("--goal-tokens", metavar="COUNT", type=_tokens, help="tokens for each goal, or none")
    budget.add_argument("--none", action="store_true", help="no limits but those given with it")
    _workspace(budget)
    _json(budget)


def _permission_commands(commands: _Commands) -> None:
    permissions = commands.add_parser(
        "permissions", help="show what was granted and which rules hold; take grants back; explain a decision"
    )
    permissions.add_argument("--session", metavar="ID", help="the session (default: the newest, if any)")
    _workspace(permissions)
    _json(permissions)
    actions = permissions.add_subparsers(dest="action", metavar="action")
    forget = actions.add_parser("forget", help="take grants back")
    forget.add_argument("ids", metavar="NUMBER", nargs="+", help="as the list shows them, or their ids")
    explain = actions.add_parser("explain", help="what would happen, and which rule of which file decides")
    explain.add_argument("permission", metavar="PERMISSION", help="read, edit, bash, …")
    explain.add_argument("target", metavar="TARGET", help="a path, or a command line in one argument")
    for action in (forget, explain):
        # Without a default of their own, which would undo what stands before the action.
        action.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help="the session")
        action.add_argument(
            "--workspace", metavar="FOLDER", type=Path, default=argparse.SUPPRESS, help="the folder"
        )
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="for programs")

    mode = commands.add_parser("mode", help="show or set what passes unasked in a session")
    mode.add_argument("mode", nargs="?", choices=MODES)
    mode.add_argument("--session", metavar="ID", help="the session (default: the newest)")
    _workspace(mode)
    _json(mode)

    trust = commands.add_parser(
        "trust", help="let this folder's own settings, hooks and instructions (AGENTS.md) count"
    )
    trust.add_argument("--remove", action="store_true", help="trust it no longer")
    _workspace(trust)
    _json(trust)

    jobs = commands.add_parser("jobs", help="list what the agent's commands left running in the background")
    jobs.add_argument("--kill", metavar="ID", help="stop this one")
    jobs.add_argument("--session", metavar="ID", help="the session (default: the newest, if any)")
    _workspace(jobs)
    _json(jobs)


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


def _goal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "goal", metavar="NUMBER", help="as the plan shows it, e.g. 2.1 (see: goalwright goals)"
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


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count, e.g. 50; 0: no limit")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text.lstrip("$"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount, e.g. 2.50; 0: no limit")
    return value


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535, 0 for any free one")
    return int(text)


def _usd(text: str) -> float | str:
    """An amount of money, or NO_LIMIT."""
    if text.strip().lower() == NO_LIMIT:
        return NO_LIMIT
    try:
        value = float(text.strip().lstrip("$"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of US dollars, e.g. 2.50, or none")
    return value


def _tokens(text: str) -> int | str:
    """A number of tokens, or NO_LIMIT."""
    short = text.strip().lower().replace(",", "").replace("_", "")
    if short == NO_LIMIT:
        return NO_LIMIT
    factor = {"k": 1_000, "m": 1_000_000}.get(short[-1:], 1)
    try:
        value = float(short if factor == 1 else short[:-1]) * factor
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**15 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, e.g. 500000 or 500k, or none")
    return int(value)


def _model_name(text: str) -> str:
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form provider/model")
    return text
