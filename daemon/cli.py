"""The command line: what can be asked, and what it is called. No work is done here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from daemon.cli_branches import branch_commands
from daemon.cli_traces import trace_commands
from tools.localization import DEFAULT, language, noted, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage] - has no public name

MODES = ("ask", "accept-edits", "plan", "auto")
PLANNERS = ("in_loop", "layered", "signposts", "on_demand")
NO_LIMIT = "none"
"""In place of an amount: there is to be no such limit."""


_EXIT_CODES = noted("""\
exit codes:
  0    the agent ended its work by itself
  1    an error, or the answer was cut off
  2    the command line is wrong
  3    the run ended because a question was refused (a call that a rule denies does not end a run)
  4    nothing was done: no model is set up, or the model wrote its tool calls as text or answered nothing
  5    stopped at a limit (--max-..., goalwright budget), or because the model repeated itself
  130  canceled
""")

ARGPARSE = (
    noted("usage: "),
    noted("positional arguments"),
    noted("options"),
    noted("show this help message and exit"),
    noted("%(prog)s: error: %(message)s\n"),
    noted("the following arguments are required: %s"),
    noted("one of the arguments %s is required"),
    noted("unrecognized arguments: %s"),
    noted("unknown parser %(parser_name)r (choices: %(choices)s)"),
    noted("not allowed with argument %s"),
    noted("argument %(argument_name)s: %(message)s"),
    noted("expected one argument"),
    noted("expected at most one argument"),
    noted("expected at least one argument"),
    noted("expected %s argument"),
    noted("expected %s arguments"),
    noted("ignored explicit argument %r"),
    noted("ambiguous option: %(option)s could match %(matches)s"),
    noted("invalid %(type)s value: %(value)r"),
    noted("invalid choice: %(value)r (choose from %(choices)s)"),
    noted("invalid choice: %(value)r, maybe you meant %(suggestion)r? (choose from %(choices)s)"),
)
"""What argparse itself says."""


class _Version(argparse.Action):
    """Like argparse's ``version``, but looks the version up only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from daemon.version import product_version

        print(f"goalwright {product_version()}")
        parser.exit()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The parsed command line. Exits with code 2 and a usage message when it is wrong."""
    if language() != DEFAULT:
        # argparse looks up its own texts under these names, and offers no other way to translate them.
        for name, function in (("_", t), ("ngettext", _ngettext)):
            setattr(argparse, name, function)
    parser = argparse.ArgumentParser(
        prog="goalwright",
        description=t("A coding agent whose plan is a tree of goals, and that asks before it writes."),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help=t("print the version"))
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    run = commands.add_parser(
        "run",
        help=t("give the agent a task and follow it in this terminal"),
        epilog=t(_EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("task", nargs="?", help=t("what to do; - or nothing reads it from stdin"))
    _workspace(run)
    _model(run)
    run.add_argument("--agent", metavar="NAME", help=t("the agent of a new session (see: goalwright agents)"))
    which = run.add_mutually_exclusive_group()
    which.add_argument(
        "--session", metavar="ID", help=t("go on with this session (see: goalwright sessions)")
    )
    which.add_argument(
        "--continue", dest="resume_last", action="store_true", help=t("go on with the session used last")
    )
    which.add_argument(
        "--fork",
        metavar="ID[:MESSAGE]",
        help=t(
            "begin a session with what was said in this one, before this message of yours when it is named"
        ),
    )
    run.add_argument(
        "--file",
        dest="files",
        metavar="PATH",
        action="append",
        default=[],
        help=t("attach a text file, an image or a PDF; also @PATH in the task (repeatable)"),
    )
    run.add_argument("--yes", action="store_true", help=t("allow everything the agent asks for, once each"))
    limits = run.add_argument_group(
        t("limits"), t("of a run that nobody watches: with --yes, or without a terminal; 0: no limit")
    )
    limits.add_argument("--max-steps", metavar="COUNT", type=_count, help=t("model calls (default: 200)"))
    limits.add_argument("--max-usd", metavar="AMOUNT", type=_amount, help=t("US dollars (default: 10)"))
    limits.add_argument("--max-minutes", metavar="MINUTES", type=_amount, help=t("time (default: 120)"))
    run.add_argument("--mode", choices=MODES, help=t("what passes unasked (default: as the session has it)"))
    run.add_argument(
        "--planner", choices=PLANNERS, help=t("how the task is planned (default: the setting planner)")
    )
    run.add_argument(
        "--steer",
        action="store_true",
        help=t("when a turn runs, give it the task at its next step, not after its end"),
    )
    run.add_argument(
        "--json", action="store_true", help=t("one JSON object a line on stdout, the result last")
    )
    run.add_argument("--no-color", action="store_true", help=t("plain text (NO_COLOR does the same)"))
    run.add_argument("-v", "--verbose", action="store_true", help=t("show the model's reasoning, too"))

    start = commands.add_parser("start", help=t("make sure that the daemon runs, and print how to reach it"))
    _workspace(start)
    _idle_timeout(start)
    _json(start)

    status = commands.add_parser("status", help=t("what the daemon is and does"))
    _workspace(status)
    _json(status)

    sessions = commands.add_parser("sessions", help=t("list the sessions of this workspace"))
    _workspace(sessions)
    _json(sessions)

    history = commands.add_parser("history", help=t("list what a session changed in your files"))
    _session(history)
    _workspace(history)
    _json(history)

    undo = commands.add_parser("undo", help=t("take the agent's last change back; your own edits stay"))
    redo = commands.add_parser("redo", help=t("do again what was undone"))
    for step in (undo, redo):
        _session(step)
        step.add_argument(
            "--change", metavar="ID", help=t("this change (see: goalwright history), not the next")
        )
        _dry_run(step)
        _workspace(step)
        _json(step)

    restore = commands.add_parser(
        "restore", help=t("revert all changes since a message, or those of a goal; your own edits are kept")
    )
    restore.add_argument("session", metavar="SESSION", help=t("the session (see: goalwright sessions)"))
    since = restore.add_mutually_exclusive_group(required=True)
    since.add_argument("--message", metavar="ID", help=t("since this message, it included"))
    since.add_argument(
        "--goal", metavar="NUMBER", help=t("for this goal of the plan and those below it, e.g. 2.1")
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
        help=t("what is found here, what is missing and how to install it: language servers and the rest"),
    )
    _workspace(doctor)
    doctor.add_argument(
        "--start", action="store_true", help=t("really start each language server, and time it")
    )
    _json(doctor)

    stop = commands.add_parser("stop", help=t("end the daemon of this workspace"))
    _workspace(stop)
    stop.add_argument("--force", action="store_true", help=t("kill it when it does not end by itself"))

    serve = commands.add_parser("serve", help=t("be the daemon (others start it when they need it)"))
    _workspace(serve)
    _idle_timeout(serve)
    _model(serve)
    serve.add_argument("--foreground", action="store_true", help=t("log to stderr"))
    serve.add_argument(
        "--http",
        metavar="PORT",
        type=_port,
        help=t(
            "serve the traces (REST, WebSocket, page) on this port of 127.0.0.1, 0: any free one; "
            'prints {"url", "token"} as one line of JSON when it is ready'
        ),
    )

    connect = commands.add_parser("connect", help=t("join an LSP editor to the daemon"))
    connect.add_argument(
        "--stdio", action="store_true", required=True, help=t("speak LSP on stdin and stdout")
    )
    _workspace(connect)

    demo = commands.add_parser(
        "demo", help=t("watch a scripted model work in a copy of the sample workspace")
    )
    demo.add_argument("--no-color", action="store_true", help=t("plain text"))

    commands.add_parser("version", help=t("print the version"))

    args = parser.parse_args(argv)
    if args.command == "run" and args.agent and (args.session or args.resume_last or args.fork):
        run.error(t("--agent is for a new session; one that goes on keeps its agent"))
    if args.command == "run":
        args.task = _task(run, args.task)
    return args


def _ngettext(one: str, many: str, count: int) -> str:
    return t(one if count == 1 else many)


def _plan_commands(commands: _Commands) -> None:
    goals = commands.add_parser("goals", help=t("show the plan: goals with numbers, states, tokens and cost"))
    _session(goals)
    _workspace(goals)
    _json(goals)

    goal = commands.add_parser("goal", help=t("change the plan; the model is told"))
    actions = goal.add_subparsers(dest="action", metavar="action", required=True)

    add = actions.add_parser("add", help=t("a new goal"))
    add.add_argument("text", metavar="DESCRIPTION", help=t("what will be achieved, in a line"))
    add.add_argument("--reason", metavar="TEXT", default="", help=t("why"))
    add.add_argument("--under", metavar="NUMBER", help=t("below this goal (default: at the top level)"))
    add.add_argument("--before", metavar="NUMBER", help=t("before this goal (default: last)"))

    rename = actions.add_parser("rename", help=t("another description for an open goal"))
    _goal(rename)
    rename.add_argument("text", metavar="DESCRIPTION", help=t("what will be achieved, in a line"))

    move = actions.add_parser("move", help=t("put an open goal, and all below it, elsewhere"))
    _goal(move)
    move.add_argument("--under", metavar="NUMBER", help=t("below this goal (default: to the top level)"))
    move.add_argument("--before", metavar="NUMBER", help=t("before this goal (default: last)"))

    focus = actions.add_parser("focus", help=t("what the model is to work on"))
    _goal(focus)

    done = actions.add_parser("done", help=t("call a goal reached"))
    _goal(done)
    done.add_argument(
        "--summary",
        dest="text",
        metavar="TEXT",
        required=True,
        help=t("what was found or changed: it replaces the details in what the model sees"),
    )

    abandon = actions.add_parser("abandon", help=t("give a goal up, and what is open below it"))
    _goal(abandon)
    abandon.add_argument(
        "--reason", dest="text", metavar="TEXT", required=True, help=t("why: the model must not try it again")
    )
    abandon.add_argument(
        "--revert-files",
        action="store_true",
        help=t("revert what was changed for it; your own edits are kept"),
    )
    abandon.add_argument(
        "--dry-run", action="store_true", help=t("only show what --revert-files would revert")
    )

    for action in (add, rename, move, focus, done, abandon):
        action.add_argument(
            "--session",
            metavar="ID",
            help=t("the session (see: goalwright sessions; default: the session used last)"),
        )
        _workspace(action)
        _json(action)


def _context_commands(commands: _Commands) -> None:
    context = commands.add_parser("context", help=t("print exactly what the model would be sent now"))
    _session(context)
    context.add_argument("--tools", action="store_true", help=t("with the tools' descriptions and schemas"))
    context.add_argument("--brief", action="store_true", help=t("only the beginning of each text"))
    _workspace(context)
    _json(context)

    handover = commands.add_parser(
        "handover", help=t("begin a session of the init or execute agent with what a session knows")
    )
    handover.add_argument("agent", choices=("init", "execute"), help=t("the agent that takes over"))
    _session(handover)
    _workspace(handover)
    _json(handover)

    compact = commands.add_parser(
        "compact", help=t("replace the conversation so far by a summary of it, now")
    )
    _session(compact)
    compact.add_argument("--keep", metavar="TEXT", default="", help=t("what the summary must not leave out"))
    _workspace(compact)
    _json(compact)

    budget = commands.add_parser(
        "budget", help=t("show or set the limits at which a session stops with a question")
    )
    _session(budget)
    budget.add_argument("--usd", metavar="AMOUNT", type=_usd, help=t("US dollars for the session, or none"))
    budget.add_argument("--tokens", metavar="COUNT", type=_tokens, help=t("tokens for the session, or none"))
    budget.add_argument(
        "--goal-usd", metavar="AMOUNT", type=_usd, help=t("US dollars for each goal, or none")
    )
    budget.add_argument(
        "--goal-tokens", metavar="COUNT", type=_tokens, help=t("tokens for each goal, or none")
    )
    budget.add_argument("--none", action="store_true", help=t("no limits but those given with it"))
    _workspace(budget)
    _json(budget)


def _permission_commands(commands: _Commands) -> None:
    permissions = commands.add_parser(
        "permissions",
        help=t("show what was granted and which rules hold; take grants back; explain a decision"),
    )
    permissions.add_argument(
        "--session", metavar="ID", help=t("the session (default: the session used last, if any)")
    )
    _workspace(permissions)
    _json(permissions)
    actions = permissions.add_subparsers(dest="action", metavar="action")
    forget = actions.add_parser("forget", help=t("take grants back"))
    forget.add_argument("ids", metavar="NUMBER", nargs="+", help=t("as the list shows them, or their ids"))
    explain = actions.add_parser("explain", help=t("what would happen, and which rule of which file decides"))
    explain.add_argument("permission", metavar="PERMISSION", help=t("read, edit, bash, …"))
    explain.add_argument("target", metavar="TARGET", help=t("a path, or a command line in one argument"))
    for action in (forget, explain):
        # Without a default of their own, which would undo what stands before the action.
        action.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help=t("the session"))
        action.add_argument(
            "--workspace", metavar="FOLDER", type=Path, default=argparse.SUPPRESS, help=t("the folder")
        )
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=t("for programs"))

    mode = commands.add_parser("mode", help=t("show or set what passes unasked in a session"))
    mode.add_argument("mode", nargs="?", choices=MODES)
    mode.add_argument("--session", metavar="ID", help=t("the session (default: the session used last)"))
    _workspace(mode)
    _json(mode)

    trust = commands.add_parser(
        "trust", help=t("let this folder's own settings, hooks and instructions (AGENTS.md) count")
    )
    trust.add_argument("--remove", action="store_true", help=t("trust it no longer"))
    _workspace(trust)
    _json(trust)

    jobs = commands.add_parser(
        "jobs", help=t("list what the agent's commands left running in the background")
    )
    jobs.add_argument("--kill", metavar="ID", help=t("stop this one"))
    jobs.add_argument(
        "--session", metavar="ID", help=t("the session (default: the session used last, if any)")
    )
    _workspace(jobs)
    _json(jobs)


def _task(parser: argparse.ArgumentParser, task: str | None) -> str:
    if task is None and _is_terminal():
        parser.error(t('what should be done? For example: goalwright run "add a test for cart.py"'))
    # The bytes, because the encoding of sys.stdin is the locale's.
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if task in (None, "-") else task
    if not text or not text.strip():
        parser.error(t("the task is empty"))
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
        help=t("the folder to work in (default: this one)"),
    )


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help=t("the session (see: goalwright sessions; default: the session used last)"),
    )


def _goal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "goal", metavar="NUMBER", help=t("as the plan shows it, e.g. 2.1 (see: goalwright goals)")
    )


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help=t("only show what would be written"))


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PROVIDER/MODEL", type=_model_name, help=t("e.g. ollama/qwen3"))


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help=t("for programs"))


def _idle_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=_seconds,
        help=t("the daemon ends when nobody used it for so long; 0: never (default: the configuration's)"),
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(t("{text!r} is not a number of seconds", text=text))
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(t("{text!r} is not a count, e.g. 50; 0: no limit", text=text))
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text.lstrip("$"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(t("{text!r} is not an amount, e.g. 2.50; 0: no limit", text=text))
    return value


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise argparse.ArgumentTypeError(
            t("{text!r} is not a port: 0 to 65535, 0 for any free one", text=text)
        )
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
        raise argparse.ArgumentTypeError(
            t("{text!r} is not an amount of US dollars, e.g. 2.50, or none", text=text)
        )
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
        raise argparse.ArgumentTypeError(
            t("{text!r} is not a number of tokens, e.g. 500000 or 500k, or none", text=text)
        )
    return int(value)


def _model_name(text: str) -> str:
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise argparse.ArgumentTypeError(t("{text!r} is not of the form provider/model", text=text))
    return text
