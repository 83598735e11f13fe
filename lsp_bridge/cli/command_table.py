"""The commands of ``goalwright``: what each is called, takes and does. Parser, help and dispatch follow from it.

A function is named as text, so that no command waits for the imports of another. It gets an ``Invocation`` and, by
keyword, its own arguments; it returns the exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from daemon.model.choices import DumpFormat, Mode, Planner, Scope, StatsBy, TakingOver
from lsp_bridge.cli import argument_types as of
from lsp_bridge.cli.command_description import (
    BASE,
    JSON,
    NO_COLOR,
    WORKSPACE,
    Actions,
    Argument,
    Group,
    command,
    flag,
    one_of,
    value,
)

_EXIT_CODES = """\
exit codes:
  0    the agent finished
  1    an error, or the response was cut off
  2    the command line is wrong
  3    the run ended because a request was rejected (a call that a rule denies does not end a run)
  4    nothing was done: no model is set up, or the model wrote its tool calls as text or returned nothing
  5    stopped at a limit (--max-..., goalwright budget), or because the model repeated itself
  130  canceled
"""

_MODEL = value("--model", "PROVIDER/MODEL", "e.g. ollama/qwen3", of.model_name)
_YES = flag("--yes", "approve each request of the agent once")
_IDLE = value(
    "--idle-timeout",
    "SECONDS",
    "stop the daemon when it has been unused for this long; 0: never (default: as configured)",
    of.seconds,
)
_PRELOADED_IDLE = value(
    "--idle-timeout",
    "SECONDS",
    "end when no daemon was started for so long; 0: never (default: an hour)",
    of.seconds,
)
_THE_SESSION = "the session (see: goalwright sessions; default: the last one used)"
_SESSION = value("session", "SESSION", _THE_SESSION, of.known_id, nargs="?")
_LAST_SESSION = value("--session", "ID", "the session (default: the last one used)", of.known_id)
_ANY_SESSION = value("--session", "ID", "the session (default: the last one used, if any)", of.known_id)
_OF_SESSION = (_SESSION, *BASE)
_DRY_RUN = flag("--dry-run", "only show what would be written")
_GOAL = value("goal", "NUMBER", "its number in the plan, e.g. 2.1 (see: goalwright goals)")
_DESCRIPTION = value("text", "DESCRIPTION", "what will be achieved, in one line")
_BEFORE = value("--before", "NUMBER", "place it before this goal (default: last)")
_STEP = (
    _SESSION,
    value("--change", "ID", "this change (see: goalwright history) instead of the next one"),
    _DRY_RUN,
    *BASE,
)
_OF_EXPLORATION = (_LAST_SESSION, *BASE)
_BRANCH = value("branch", "BRANCH", "its letter, e.g. A")
_BRANCH_PART = value(
    "branch", "BRANCH[:PATH]", "its letter, e.g. A, or one of its files or folders: A:src/a.py"
)
_FOLDER = value("--workspace", "FOLDER", "the folder", Path)
_SERVER = value("name", "SERVER", "its name (see: goalwright mcp)")
_SERVER_PART = value("name", "SERVER[/TOOL]", "its name, or that of one of its tools: github/get_issue")
_goal = Actions("goal", "commands.plan", (value("--session", "ID", _THE_SESSION, of.known_id), *BASE))
_plan = Actions("plan", "commands.plan", _OF_EXPLORATION)
_explore = Actions("explore", "commands.explore", _OF_EXPLORATION)
_mcp = Actions("mcp", "commands.mcp", (_FOLDER, JSON))
_permissions = Actions(
    "permissions",
    "commands.permissions",
    (value("--session", "ID", "the session", of.known_id), _FOLDER, JSON),
)
_TRACE = value(
    "trace",
    "TRACE",
    "its id or the start of it, or latest (see: goalwright trace list; default: latest)",
    of.known_id,
    nargs="?",
)
_OF_BRANCH = value("--branch", "ID", "a branch or sub-agent of it, e.g. A or s1")
_OF_TRACE = (*BASE, NO_COLOR)
_STORE = value(
    "--store", "URL", "a database, or files (default: the setting store_url, else files)", of.store
)
_DATABASE = value("--store", "URL", "the database (default: the setting store_url)")
_TEAM_USER = value("name", "NAME", "the user, as sessions have it (see: goalwright stats --by user)")
_USER = value("--user", "NAME", "sessions of this user only")
_REPLACE = flag("--force", "replace an existing file")


def _output(text: str) -> Argument:
    return Argument(("--output", "-o"), text, {"metavar": "FILE", "type": Path})


_team = Actions("team", "trace.team", (_DATABASE, JSON))
_steps = Actions("trace", "trace.steps", _OF_TRACE)
_maintenance = Actions("trace", "trace.maintenance", _OF_TRACE)
_databases = Actions("trace", "trace.databases", _OF_TRACE)


COMMANDS = (
    command(
        "run",
        "give the agent a task and follow it in this terminal",
        "run.command:run_command",
        Argument(("task",), "what to do; - or nothing: read it from stdin", {"nargs": "?"}),
        WORKSPACE,
        _MODEL,
        value("--agent", "NAME", "the agent of a new session (see: goalwright agents)"),
        Group(
            (
                value("--session", "ID", "continue this session (see: goalwright sessions)"),
                flag("--continue", "continue the last session used", dest="resume_last"),
                value(
                    "--fork",
                    "ID[:MESSAGE]",
                    "start a session with the conversation of this one, up to but not including "
                    "the given message of yours",
                ),
            )
        ),
        value(
            "--file",
            "PATH",
            "attach a text file, an image or a PDF; also @PATH in the task (repeatable)",
            dest="files",
            action="append",
            default=[],
        ),
        _YES,
        Group(
            (
                value(
                    "--max-steps",
                    "COUNT",
                    "model calls (default: as set, 200)",
                    of.limit,
                ),
                value("--max-usd", "AMOUNT", "US dollars (default: as set, 10)", of.amount),
                value(
                    "--max-minutes",
                    "MINUTES",
                    "time (default: as set, 120)",
                    of.amount,
                ),
            ),
            title="limits",
            help="for unattended runs: with --yes, or without a terminal; 0: no limit",
        ),
        one_of("--mode", Mode, "what runs without approval (default: as set for the session)"),
        one_of("--planner", Planner, "how the task is planned (default: the setting planner)"),
        flag("--steer", "if a turn is running, give it the task at its next step, not after its end"),
        flag("--json", "one JSON object per line on stdout, the result last"),
        NO_COLOR,
        flag("--verbose", "also show the model's reasoning", "-v"),
        epilog=_EXIT_CODES,
    ),
    command(
        "start",
        "start the daemon if needed, and print how to reach it",
        "commands.daemon:start",
        WORKSPACE,
        _IDLE,
        JSON,
    ),
    command("status", "show the state of the daemon", "commands.daemon:status", *BASE),
    command("sessions", "list the sessions of this workspace", "commands.sessions:sessions", *BASE),
    command("cancel", "cancel the running turn of a session", "commands.sessions:cancel", *_OF_SESSION),
    command("history", "list the file changes of a session", "commands.history:history", *_OF_SESSION),
    command("undo", "undo the agent's last change; your own edits are kept", "commands.history:undo", *_STEP),
    command("redo", "redo what was undone", "commands.history:redo", *_STEP),
    command(
        "restore",
        "revert all changes since a message, or those of a goal; your own edits are kept",
        "commands.history:restore",
        value("session", "SESSION", "the session (see: goalwright sessions)", of.known_id),
        Group(
            (
                value("--message", "ID", "since this message, including the changes made for it"),
                value("--goal", "NUMBER", "for this goal of the plan and its sub-goals, e.g. 2.1"),
            ),
            required=True,
        ),
        _DRY_RUN,
        *BASE,
    ),
    command(
        "goals",
        "show the plan: goals with numbers, states, tokens and cost",
        "commands.plan:goals",
        *_OF_SESSION,
    ),
    command("goal", "change the plan; the model sees the change"),
    _goal(
        "add",
        "add a goal",
        _DESCRIPTION,
        value("--reason", "TEXT", "why it is added", default=""),
        value("--under", "NUMBER", "add it below this goal (default: at the top level)"),
        _BEFORE,
    ),
    _goal("rename", "rename an open goal", _GOAL, _DESCRIPTION),
    _goal(
        "move",
        "move an open goal and everything below it",
        _GOAL,
        value("--under", "NUMBER", "move it below this goal (default: to the top level)"),
        _BEFORE,
    ),
    _goal("focus", "set the goal that the model works on", _GOAL),
    _goal(
        "done",
        "mark a goal as done",
        _GOAL,
        value(
            "--summary",
            "TEXT",
            "what was found or changed; replaces the details in the model's context",
            required=True,
        ),
    ),
    _goal(
        "abandon",
        "abandon a goal and its open sub-goals",
        _GOAL,
        value("--reason", "TEXT", "why; tells the model not to try it again", required=True),
        flag("--revert-files", "revert its file changes; your own edits are kept"),
        flag("--dry-run", "only show what --revert-files would revert"),
    ),
    command(
        "context",
        "print exactly what the model would receive now",
        "commands.context:context",
        _SESSION,
        flag("--tools", "include the tools' descriptions and schemas"),
        flag("--brief", "only show the start of each text"),
        *BASE,
    ),
    command(
        "handover",
        "start a session of the init or execute agent from the context of a session",
        "commands.sessions:hand_over",
        one_of("agent", TakingOver, "the agent that takes over"),
        *_OF_SESSION,
    ),
    command(
        "compact",
        "replace the conversation so far with a summary",
        "commands.sessions:compact",
        _SESSION,
        value("--keep", "TEXT", "what the summary must keep", default=""),
        *BASE,
    ),
    command(
        "budget",
        "show or set the limits at which a session pauses and asks",
        "commands.sessions:budget",
        _SESSION,
        value("--usd", "AMOUNT", "US dollars for the session, or none", of.usd),
        value("--tokens", "COUNT", "tokens for the session, or none", of.tokens),
        value("--goal-usd", "AMOUNT", "US dollars for each goal, or none", of.usd),
        value("--goal-tokens", "COUNT", "tokens for each goal, or none", of.tokens),
        flag("--none", "remove all limits except those given with it"),
        *BASE,
    ),
    command(
        "explore",
        "compare and use the branches of an exploration",
        "commands.explore:listed",
        *_OF_EXPLORATION,
    ),
    _explore("list", "list the branches and the scoreboard (the default action)", function="listed"),
    _explore("show", "show what a branch reported and changed", _BRANCH),
    _explore(
        "diff",
        "show the changes of a branch, or of some of its files",
        _BRANCH_PART,
        value("paths", "PATH", "a file or folder, relative to the workspace folder", nargs="*"),
    ),
    _explore(
        "pick",
        "merge a branch, or some of its files, after your review",
        _BRANCH_PART,
        value(
            "paths",
            "PATH|BRANCH[:PATH]",
            "a file or folder of the branch named before, or another branch or part: B:docs",
            nargs="*",
        ),
        flag("--yes", "write without a review"),
    ),
    _explore("leave", "let the model choose", flag("--none", "use none of the branches")),
    _explore("remove", "delete the changes of a branch", _BRANCH),
    _explore("patch", "print the changes of a branch for `git apply`", _BRANCH),
    command("agents", "list the agents: built-in ones and your own", "commands.catalogues:agents", *BASE),
    command(
        "models",
        "list the model providers, their models, and the variables that set them up",
        "commands.catalogues:models",
        value("provider", "PROVIDER", "only this one, with all of its models, e.g. mistral", nargs="?"),
        *BASE,
    ),
    command("skills", "list your skills and slash commands", "commands.catalogues:skills", *BASE),
    command(
        "tools", "list your own tools, and what is wrong with others", "commands.catalogues:tools", *BASE
    ),
    command(
        "mcp",
        "list the MCP servers and their tools, see their logs, switch them on and off",
        "commands.mcp:servers",
        *BASE,
    ),
    _mcp("log", "print the log of a server", _SERVER),
    _mcp("restart", "stop a server and start it again", _SERVER),
    _mcp("login", "sign in to a server in the browser", _SERVER),
    _mcp("logout", "forget the sign-in to a server", _SERVER),
    command(
        "mcp serve",
        "offer the sessions of a folder to other agents, as an MCP server (stdio)",
        "mcp_server.server:serve",
        flag("--allow-changes", "they may also add goals and start explorations"),
        _FOLDER,
    ),
    _mcp("enable", "use a server or tool again", _SERVER_PART),
    _mcp("disable", "do not start a server, or do not offer a tool", _SERVER_PART),
    command("plan", "replan, or have the plan carried out"),
    _plan(
        "replan",
        "make a new plan for the remaining work",
        value("--reason", "TEXT", "what is wrong with the plan, or has changed", default=""),
    ),
    _plan("build", "hand the plan of a planning session over to the build agent", _YES),
    command("team", "serve the sessions of a database to a team"),
    command(
        "team serve",
        "serve traces (REST, WebSocket, page) read-only, to users who have a token",
        "trace.team:serve",
        value(
            "--http",
            "ADDRESS:PORT",
            "where to listen (default: 127.0.0.1:8765)",
            of.address,
            default=("127.0.0.1", 8765),
        ),
        _DATABASE,
        value(
            "--public-url",
            "URL",
            "how browsers reach it, e.g. https://traces.example.com behind a reverse proxy",
        ),
        value("--keep-days", "DAYS", "delete sessions that were not used for this many days", of.days),
        flag("--plain-http", "allow a --public-url without TLS: tokens can be read on the way"),
        JSON,
    ),
    _team(
        "add",
        "make a token for a user, and show it once",
        _TEAM_USER,
        one_of(
            "--scope", Scope, "own: this user's sessions (default); all: those of everybody", default="own"
        ),
        flag("--may-delete", "the user may delete the sessions that the token shows"),
        value("--days", "DAYS", "how long it is valid (default: until it is removed)", of.days),
    ),
    _team("list", "list the tokens, without secrets", function="listed"),
    _team(
        "remove",
        "remove the tokens of a user",
        _TEAM_USER,
        value("--token", "ID", "this one only (see: goalwright team list)"),
    ),
    command(
        "stats",
        "show cost, tokens, time and success of sessions, by day or otherwise",
        "trace.databases:stats",
        one_of("--by", StatsBy, "how to group (default: day)", default="day"),
        _STORE,
        _USER,
        value("--days", "DAYS", "of the last days only", of.days),
        *_OF_TRACE,
    ),
    command("trace", "traces of sessions: read, follow, export, clean up"),
    _steps(
        "list",
        "list the traces, newest first",
        value("--limit", "COUNT", "how many (default: 50)", of.count, default=50),
        function="list_traces",
    ),
    _steps(
        "show",
        "show the steps as a tree, with states and costs",
        _TRACE,
        _OF_BRANCH,
        flag("--full", "full texts instead of one line each"),
        flag("--system-prompt", "the system prompts used, instead of the steps"),
        function="show_trace",
    ),
    _steps(
        "dump",
        "write the steps in full, as text, Markdown or JSON",
        _TRACE,
        _OF_BRANCH,
        one_of("--format", DumpFormat, "(default: txt)", dest="form", default="txt"),
        _output("the file to write (default and -: stdout)"),
        _REPLACE,
        function="dump_trace",
    ),
    _steps(
        "tail",
        "show events as they happen",
        _TRACE,
        _OF_BRANCH,
        value("--since", "EVENT", "also show events after this event number; 0: all", of.number),
        flag("--no-follow", "exit after the existing events", dest="follow", action="store_false"),
        function="tail_trace",
    ),
    _maintenance(
        "rebuild",
        "rebuild messages, plan and metadata from the event log, and report what was wrong",
        Group((_TRACE, flag("--all", "all traces of this folder", dest="every"))),
    ),
    _maintenance(
        "export",
        "write a trace with its branches, file versions and outputs to one .tar.gz, without secrets",
        _TRACE,
        _output("the archive (default: goalwright-TRACE.tar.gz in the current folder)"),
        _REPLACE,
    ),
    _maintenance(
        "import",
        "import an archive made by `goalwright trace export`",
        value("archive", "ARCHIVE", "the .tar.gz file", Path),
        value("--max-mb", "MB", "the largest unpacked size to accept (default: 1024)", of.megabytes),
        function="take_in",
    ),
    _databases(
        "copy",
        "copy sessions to a database, or from one",
        value("source", "FROM", "files (those of this folder), sqlite:///PATH or postgresql://…", of.store),
        value("target", "TO", "where to: the same", of.store),
        value("--trace", "TRACE", "this session only", of.known_id),
    ),
    _databases(
        "search",
        "find sessions of this folder or a database by a part of a text",
        value("text", "TEXT", "part of a title, message, goal or file name"),
        _STORE,
        _USER,
        value("--limit", "COUNT", "how many (default: 20)", of.count, default=20),
    ),
    _databases(
        "delete",
        "delete sessions from a database",
        _USER,
        value(
            "--before", "DAYS", "sessions that were not used for this many days", of.days, dest="unused_days"
        ),
        value("--trace", "TRACE", "this session only", of.known_id),
        _DATABASE,
        flag("--yes", "delete them; without it they are only shown"),
    ),
    _maintenance(
        "prune",
        "delete old traces, as the settings trace_keep_days, trace_max_mb … say",
        value("--keep-days", "DAYS", "delete those not used for this many days", of.days),
        value("--max-mb", "MB", "delete the oldest until all together are below this", of.megabytes),
        value("--keep", "COUNT", "always keep this many of the newest", of.count),
        flag("--dry-run", "only show what would be deleted"),
    ),
    command(
        "trace page",
        "print the address of the trace page, for a browser",
        "trace.web_page:trace_page",
        _TRACE,
        flag("--open", "open it in the browser", dest="browse"),
        *_OF_TRACE,
    ),
    command(
        "permissions",
        "show, remove and explain permissions and rules",
        "commands.permissions:rules",
        _ANY_SESSION,
        *BASE,
    ),
    _permissions(
        "forget",
        "remove grants",
        value("ids", "NUMBER", "their numbers in the list, or their ids", nargs="+"),
    ),
    _permissions(
        "explain",
        "show what would happen, and which rule of which file decides",
        value("permission", "PERMISSION", "read, edit, bash, …"),
        value("target", "TARGET", "a path, a URL, or a command line as one argument"),
    ),
    command(
        "mode",
        "show or set what runs without approval in a session",
        "commands.permissions:mode",
        one_of("mode", Mode, None, nargs="?"),
        _LAST_SESSION,
        *BASE,
    ),
    command(
        "trust",
        "trust this folder: use its settings, hooks and instructions (AGENTS.md)",
        "commands.permissions:trust",
        flag("--remove", "stop trusting it"),
        *BASE,
    ),
    command(
        "jobs",
        "list the agent's background commands, also those that have ended",
        "commands.sessions:jobs",
        value("--kill", "ID", "stop this job"),
        _ANY_SESSION,
        *BASE,
    ),
    command(
        "doctor",
        "check language servers and other programs: what is found, what is missing, how to install it",
        "doctor.command:doctor",
        WORKSPACE,
        flag("--start", "start each language server and time it"),
        JSON,
    ),
    command(
        "stop",
        "stop the daemon of this workspace",
        "commands.daemon:stop",
        WORKSPACE,
        flag("--all", "stop the daemons of all folders, and the preloader"),
        flag("--force", "kill it if it does not stop"),
    ),
    command(
        "serve",
        "run the daemon (other commands start it when needed)",
        "",
        WORKSPACE,
        _IDLE,
        _MODEL,
        flag("--foreground", "log to stderr"),
        flag("--loaded", "let clients connect when all that the first prompt needs is loaded"),
        value(
            "--http",
            "PORT",
            "serve the traces (REST, WebSocket, page) on this port of 127.0.0.1, 0: any free one; "
            'prints {"url", "token"} as one line of JSON when ready',
            of.port,
        ),
    ),
    command(
        "preload",
        "be the process from which daemons start at once (daemons start it when they need it)",
        "",
        _PRELOADED_IDLE,
    ),
    command(
        "connect",
        "connect an LSP editor to the daemon",
        "",
        flag("--stdio", "speak LSP on stdin and stdout", required=True),
        WORKSPACE,
    ),
    command("acp", "serve an editor that speaks the Agent Client Protocol (stdio)", "acp.agent:acp"),
    command(
        "demo",
        "watch a scripted model work in a copy of the sample workspace",
        "commands.demo:play",
        flag("--no-color", "plain text"),
    ),
    command(
        "completion",
        'print the completion script of a shell: eval "$(goalwright completion bash)"',
        "command_line:completion",
        one_of("shell", Literal["bash", "zsh", "fish"], None),
    ),
    command("version", "print the version", "command_line:version"),
)
