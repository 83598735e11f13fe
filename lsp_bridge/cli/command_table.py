"""The commands of ``goalwright``: what each is called, takes and does. Parser, help and dispatch follow from it.

A function is named as text, so that no command waits for the imports of another. It gets an ``Invocation`` and, by
keyword, its own arguments; it returns the exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from daemon.model.choices import DumpFormat, Mode, Planner, TakingOver
from lsp_bridge.cli import argument_types as of
from tools.localization import noted

if TYPE_CHECKING:
    from collections.abc import Callable


class Argument(NamedTuple):
    """An argument of a command; ``options`` are argparse's."""

    names: tuple[str, ...]
    help: str | None
    options: dict[str, Any]


class Group(NamedTuple):
    """Arguments of which at most one may be given, or with a heading of their own in the help."""

    arguments: tuple[Argument, ...]
    required: bool = False
    title: str = ""
    help: str = ""


class Command(NamedTuple):
    """A command, or an action of one: ``goal add`` is one of the command ``goal``."""

    name: str
    help: str
    function: str = ""
    """``module:function`` in ``lsp_bridge.cli``; empty: one of the actions must be named, or ``__main__`` does it."""
    arguments: tuple[Argument | Group, ...] = ()
    epilog: str = ""


def value(
    name: str, metavar: str, text: str, kind: Callable[[str], object] | None = None, **options: Any
) -> Argument:
    """Return an argument with a value."""
    return Argument((name,), text, {"metavar": metavar, "type": kind, **options})


def flag(name: str, text: str, *names: str, **options: Any) -> Argument:
    """Return an option without a value."""
    return Argument((*names, name), text, {"action": "store_true", **options})


def one_of(name: str, choices: object, text: str | None, **options: Any) -> Argument:
    """Return an argument whose values are those of a Literal."""
    return Argument((name,), text, {"choices": get_args(choices), **options})


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

_WORKSPACE = value("--workspace", "FOLDER", noted("the folder to work in (default: this one)"), Path)
_JSON = flag("--json", noted("for programs"))
_BASE = (_WORKSPACE, _JSON)
_NO_COLOR = flag("--no-color", noted("plain text (NO_COLOR does the same)"))
_MODEL = value("--model", "PROVIDER/MODEL", noted("e.g. ollama/qwen3"), of.model_name)
_YES = flag("--yes", noted("allow everything the agent asks for, once each"))
_IDLE = value(
    "--idle-timeout",
    "SECONDS",
    noted("the daemon ends when nobody used it for so long; 0: never (default: the configuration's)"),
    of.seconds,
)
_THE_SESSION = noted("the session (see: goalwright sessions; default: the session used last)")
_SESSION = value("session", "SESSION", _THE_SESSION, nargs="?")
_LAST_SESSION = value("--session", "ID", noted("the session (default: the session used last)"))
_ANY_SESSION = value("--session", "ID", noted("the session (default: the session used last, if any)"))
_OF_SESSION = (_SESSION, *_BASE)
_DRY_RUN = flag("--dry-run", noted("only show what would be written"))
_GOAL = value("goal", "NUMBER", noted("as the plan shows it, e.g. 2.1 (see: goalwright goals)"))
_DESCRIPTION = value("text", "DESCRIPTION", noted("what will be achieved, in a line"))
_BEFORE = value("--before", "NUMBER", noted("before this goal (default: last)"))
_OF_GOAL = (value("--session", "ID", _THE_SESSION), *_BASE)
_STEP = (
    _SESSION,
    value("--change", "ID", noted("this change (see: goalwright history), not the next")),
    _DRY_RUN,
    *_BASE,
)
_OF_EXPLORATION = (_LAST_SESSION, *_BASE)
_BRANCH = value("branch", "BRANCH", noted("its letter, e.g. A"))
_BRANCH_PART = value(
    "branch", "BRANCH[:PATH]", noted("its letter, e.g. A, or a file or folder of it: A:src/a.py")
)
_OF_PERMISSION = (
    value("--session", "ID", noted("the session")),
    value("--workspace", "FOLDER", noted("the folder"), Path),
    _JSON,
)
_TRACE = value(
    "trace",
    "TRACE",
    noted("its id or the beginning of it, or latest (see: goalwright trace list; default: latest)"),
    nargs="?",
)
_OF_BRANCH = value("--branch", "ID", noted("of this branch or sub-agent, e.g. A or s1"))
_OF_TRACE = (*_BASE, _NO_COLOR)
_REPLACE = flag("--force", noted("replace a file that is there"))


def _output(text: str) -> Argument:
    return Argument(("--output", "-o"), text, {"metavar": "FILE", "type": Path})


COMMANDS = (
    Command(
        "run",
        noted("give the agent a task and follow it in this terminal"),
        "run.turn:run_command",
        (
            Argument(("task",), noted("what to do; - or nothing reads it from stdin"), {"nargs": "?"}),
            _WORKSPACE,
            _MODEL,
            value("--agent", "NAME", noted("the agent of a new session (see: goalwright agents)")),
            Group(
                (
                    value("--session", "ID", noted("go on with this session (see: goalwright sessions)")),
                    flag("--continue", noted("go on with the session used last"), dest="resume_last"),
                    value(
                        "--fork",
                        "ID[:MESSAGE]",
                        noted(
                            "begin a session with what was said in this one, before this message of yours when it "
                            "is named"
                        ),
                    ),
                )
            ),
            value(
                "--file",
                "PATH",
                noted("attach a text file, an image or a PDF; also @PATH in the task (repeatable)"),
                dest="files",
                action="append",
                default=[],
            ),
            _YES,
            Group(
                (
                    value("--max-steps", "COUNT", noted("model calls (default: 200)"), of.limit),
                    value("--max-usd", "AMOUNT", noted("US dollars (default: 10)"), of.amount),
                    value("--max-minutes", "MINUTES", noted("time (default: 120)"), of.amount),
                ),
                title=noted("limits"),
                help=noted("of a run that nobody watches: with --yes, or without a terminal; 0: no limit"),
            ),
            one_of("--mode", Mode, noted("what passes unasked (default: as the session has it)")),
            one_of("--planner", Planner, noted("how the task is planned (default: the setting planner)")),
            flag("--steer", noted("when a turn runs, give it the task at its next step, not after its end")),
            flag("--json", noted("one JSON object a line on stdout, the result last")),
            _NO_COLOR,
            flag("--verbose", noted("show the model's reasoning, too"), "-v"),
        ),
        epilog=_EXIT_CODES,
    ),
    Command(
        "start",
        noted("make sure that the daemon runs, and print how to reach it"),
        "commands.daemon:start",
        (_WORKSPACE, _IDLE, _JSON),
    ),
    Command("status", noted("what the daemon is and does"), "commands.daemon:status", _BASE),
    Command("sessions", noted("list the sessions of this workspace"), "commands.daemon:sessions", _BASE),
    Command(
        "history", noted("list what a session changed in your files"), "commands.history:history", _OF_SESSION
    ),
    Command(
        "undo",
        noted("take the agent's last change back; your own edits stay"),
        "commands.history:undo",
        _STEP,
    ),
    Command("redo", noted("do again what was undone"), "commands.history:redo", _STEP),
    Command(
        "restore",
        noted("revert all changes since a message, or those of a goal; your own edits are kept"),
        "commands.history:restore",
        (
            value("session", "SESSION", noted("the session (see: goalwright sessions)")),
            Group(
                (
                    value("--message", "ID", noted("since this message, it included")),
                    value(
                        "--goal", "NUMBER", noted("for this goal of the plan and those below it, e.g. 2.1")
                    ),
                ),
                required=True,
            ),
            _DRY_RUN,
            *_BASE,
        ),
    ),
    Command(
        "goals",
        noted("show the plan: goals with numbers, states, tokens and cost"),
        "commands.plan:goals",
        _OF_SESSION,
    ),
    Command("goal", noted("change the plan; the model is told")),
    Command(
        "goal add",
        noted("a new goal"),
        "commands.plan:add",
        (
            _DESCRIPTION,
            value("--reason", "TEXT", noted("why"), default=""),
            value("--under", "NUMBER", noted("below this goal (default: at the top level)")),
            _BEFORE,
            *_OF_GOAL,
        ),
    ),
    Command(
        "goal rename",
        noted("another description for an open goal"),
        "commands.plan:rename",
        (_GOAL, _DESCRIPTION, *_OF_GOAL),
    ),
    Command(
        "goal move",
        noted("put an open goal, and all below it, elsewhere"),
        "commands.plan:move",
        (
            _GOAL,
            value("--under", "NUMBER", noted("below this goal (default: to the top level)")),
            _BEFORE,
            *_OF_GOAL,
        ),
    ),
    Command("goal focus", noted("what the model is to work on"), "commands.plan:focus", (_GOAL, *_OF_GOAL)),
    Command(
        "goal done",
        noted("call a goal reached"),
        "commands.plan:done",
        (
            _GOAL,
            value(
                "--summary",
                "TEXT",
                noted("what was found or changed: it replaces the details in what the model sees"),
                required=True,
            ),
            *_OF_GOAL,
        ),
    ),
    Command(
        "goal abandon",
        noted("give a goal up, and what is open below it"),
        "commands.plan:abandon",
        (
            _GOAL,
            value("--reason", "TEXT", noted("why: the model must not try it again"), required=True),
            flag("--revert-files", noted("revert what was changed for it; your own edits are kept")),
            flag("--dry-run", noted("only show what --revert-files would revert")),
            *_OF_GOAL,
        ),
    ),
    Command(
        "context",
        noted("print exactly what the model would be sent now"),
        "commands.context:context",
        (
            _SESSION,
            flag("--tools", noted("with the tools' descriptions and schemas")),
            flag("--brief", noted("only the beginning of each text")),
            *_BASE,
        ),
    ),
    Command(
        "handover",
        noted("begin a session of the init or execute agent with what a session knows"),
        "commands.limits:hand_over",
        (one_of("agent", TakingOver, noted("the agent that takes over")), *_OF_SESSION),
    ),
    Command(
        "compact",
        noted("replace the conversation so far by a summary of it, now"),
        "commands.limits:compact",
        (_SESSION, value("--keep", "TEXT", noted("what the summary must not leave out"), default=""), *_BASE),
    ),
    Command(
        "budget",
        noted("show or set the limits at which a session stops with a question"),
        "commands.limits:budget",
        (
            _SESSION,
            value("--usd", "AMOUNT", noted("US dollars for the session, or none"), of.usd),
            value("--tokens", "COUNT", noted("tokens for the session, or none"), of.tokens),
            value("--goal-usd", "AMOUNT", noted("US dollars for each goal, or none"), of.usd),
            value("--goal-tokens", "COUNT", noted("tokens for each goal, or none"), of.tokens),
            flag("--none", noted("no limits but those given with it")),
            *_BASE,
        ),
    ),
    Command(
        "explore",
        noted("branches of an exploration: compare them, use one"),
        "commands.explore:listed",
        _OF_EXPLORATION,
    ),
    Command(
        "explore list",
        noted("the branches and the scoreboard (what no action means, too)"),
        "commands.explore:listed",
        _OF_EXPLORATION,
    ),
    Command(
        "explore show",
        noted("what a branch reported and changed"),
        "commands.explore:show",
        (_BRANCH, *_OF_EXPLORATION),
    ),
    Command(
        "explore diff",
        noted("the changes of a branch, all or of some files"),
        "commands.explore:diff",
        (
            _BRANCH_PART,
            value("paths", "PATH", noted("a file or folder, relative to the folder"), nargs="*"),
            *_OF_EXPLORATION,
        ),
    ),
    Command(
        "explore pick",
        noted("use a branch, or some files of it; you review what is written"),
        "commands.explore:pick",
        (
            _BRANCH_PART,
            value(
                "paths",
                "PATH|BRANCH[:PATH]",
                noted("a file or folder of the branch before it, or one more branch or part: B:docs"),
                nargs="*",
            ),
            flag("--yes", noted("write it without a review")),
            *_OF_EXPLORATION,
        ),
    ),
    Command(
        "explore leave",
        noted("do not choose: the model is to"),
        "commands.explore:leave",
        (flag("--none", noted("none of the branches is wanted")), *_OF_EXPLORATION),
    ),
    Command(
        "explore remove",
        noted("delete what a branch changed"),
        "commands.explore:remove",
        (_BRANCH, *_OF_EXPLORATION),
    ),
    Command(
        "explore patch",
        noted("the changes of a branch for `git apply`, on stdout"),
        "commands.explore:patch",
        (_BRANCH, *_OF_EXPLORATION),
    ),
    Command(
        "agents", noted("the agents there are: shipped ones and your own"), "commands.agents:agents", _BASE
    ),
    Command("plan", noted("plan again, or have the plan carried out")),
    Command(
        "plan replan",
        noted("a new plan for what is left"),
        "commands.plan:replan",
        (
            value("--reason", "TEXT", noted("what is wrong with the plan, or has changed"), default=""),
            *_OF_EXPLORATION,
        ),
    ),
    Command(
        "plan build",
        noted("hand the plan of a planning session over to the agent that builds"),
        "commands.plan:build",
        (_YES, *_OF_EXPLORATION),
    ),
    Command("trace", noted("the record of sessions: read, follow, export, clear up")),
    Command(
        "trace list",
        noted("list them, newest first"),
        "trace.steps:list_traces",
        (value("--limit", "COUNT", noted("how many (default: 50)"), of.count, default=50), *_OF_TRACE),
    ),
    Command(
        "trace show",
        noted("the steps as a tree, with states and costs"),
        "trace.steps:show_trace",
        (
            _TRACE,
            _OF_BRANCH,
            flag("--full", noted("texts in full, not a line of each")),
            flag("--system-prompt", noted("the system prompts that were in force, instead of the steps")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace dump",
        noted("the steps in full, as text, Markdown or JSON"),
        "trace.steps:dump_trace",
        (
            _TRACE,
            _OF_BRANCH,
            one_of("--format", DumpFormat, noted("(default: txt)"), dest="form", default="txt"),
            _output(noted("where to write it (default, and -: stdout)")),
            _REPLACE,
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace tail",
        noted("what happens, as it happens"),
        "trace.steps:tail_trace",
        (
            _TRACE,
            _OF_BRANCH,
            value(
                "--since",
                "EVENT",
                noted("also what came after the event with this number; 0: all"),
                of.number,
            ),
            flag("--no-follow", noted("end when all was said"), dest="follow", action="store_false"),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace rebuild",
        noted("make messages, plan and metadata anew from the event log, and say what was wrong"),
        "trace.maintenance:rebuild",
        (Group((_TRACE, flag("--all", noted("all of this folder"), dest="every"))), *_OF_TRACE),
    ),
    Command(
        "trace export",
        noted("one trace, with branches, file versions and outputs, as one .tar.gz without secrets"),
        "trace.maintenance:export",
        (_TRACE, _output(noted("the archive (default: goalwright-TRACE.tar.gz here)")), _REPLACE, *_OF_TRACE),
    ),
    Command(
        "trace import",
        noted("take in an archive that `goalwright trace export` made"),
        "trace.maintenance:take_in",
        (
            value("archive", "ARCHIVE", noted("the .tar.gz file"), Path),
            value("--max-mb", "MB", noted("refuse more than this, unpacked (default: 1024)"), of.megabytes),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace prune",
        noted("delete old traces, by the settings trace_keep_days, trace_max_mb …"),
        "trace.maintenance:prune",
        (
            value("--keep-days", "DAYS", noted("those not used for longer"), of.days),
            value("--max-mb", "MB", noted("the oldest, until all take no more"), of.megabytes),
            value("--keep", "COUNT", noted("the newest so many stay in any case"), of.count),
            flag("--dry-run", noted("only say what would go")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace page",
        noted("print the address of the traces' page, for a browser"),
        "trace.web_page:trace_page",
        (_TRACE, flag("--open", noted("open it"), dest="browse"), *_OF_TRACE),
    ),
    Command(
        "permissions",
        noted("show what was granted and which rules hold; take grants back; explain a decision"),
        "commands.permissions:rules",
        (_ANY_SESSION, *_BASE),
    ),
    Command(
        "permissions forget",
        noted("take grants back"),
        "commands.permissions:forget",
        (value("ids", "NUMBER", noted("as the list shows them, or their ids"), nargs="+"), *_OF_PERMISSION),
    ),
    Command(
        "permissions explain",
        noted("what would happen, and which rule of which file decides"),
        "commands.permissions:explain",
        (
            value("permission", "PERMISSION", noted("read, edit, bash, …")),
            value("target", "TARGET", noted("a path, or a command line in one argument")),
            *_OF_PERMISSION,
        ),
    ),
    Command(
        "mode",
        noted("show or set what passes unasked in a session"),
        "commands.permissions:mode",
        (one_of("mode", Mode, None, nargs="?"), _LAST_SESSION, *_BASE),
    ),
    Command(
        "trust",
        noted("let this folder's own settings, hooks and instructions (AGENTS.md) count"),
        "commands.permissions:trust",
        (flag("--remove", noted("trust it no longer")), *_BASE),
    ),
    Command(
        "jobs",
        noted("list what the agent's commands left running in the background"),
        "commands.permissions:jobs",
        (value("--kill", "ID", noted("stop this one")), _ANY_SESSION, *_BASE),
    ),
    Command(
        "doctor",
        noted("what is found here, what is missing and how to install it: language servers and the rest"),
        "doctor.printing:doctor",
        (_WORKSPACE, flag("--start", noted("really start each language server, and time it")), _JSON),
    ),
    Command(
        "stop",
        noted("end the daemon of this workspace"),
        "commands.daemon:stop",
        (_WORKSPACE, flag("--force", noted("kill it when it does not end by itself"))),
    ),
    Command(
        "serve",
        noted("be the daemon (others start it when they need it)"),
        arguments=(
            _WORKSPACE,
            _IDLE,
            _MODEL,
            flag("--foreground", noted("log to stderr")),
            value(
                "--http",
                "PORT",
                noted(
                    "serve the traces (REST, WebSocket, page) on this port of 127.0.0.1, 0: any free one; "
                    'prints {"url", "token"} as one line of JSON when it is ready'
                ),
                of.port,
            ),
        ),
    ),
    Command(
        "connect",
        noted("join an LSP editor to the daemon"),
        arguments=(flag("--stdio", noted("speak LSP on stdin and stdout"), required=True), _WORKSPACE),
    ),
    Command(
        "demo",
        noted("watch a scripted model work in a copy of the sample workspace"),
        "commands.demo:play",
        (flag("--no-color", noted("plain text")),),
    ),
    Command("version", noted("print the version")),
)
