"""The commands about stored sessions, see ``command_table``: ``team``, ``stats`` and ``trace``."""

from __future__ import annotations

from pathlib import Path

from daemon.model.choices import DumpFormat, Scope, StatsBy
from lsp_bridge.cli import argument_types as of
from lsp_bridge.cli.command_description import (
    BASE,
    JSON,
    NO_COLOR,
    Actions,
    Argument,
    Group,
    command,
    flag,
    one_of,
    value,
)

_TRACE = value(
    "trace",
    "TRACE",
    "its id or the start of it, or latest (see: goalwright trace list; default: latest)",
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

TRACE_COMMANDS = (
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
        value("--trace", "TRACE", "this session only"),
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
        value("--trace", "TRACE", "this session only"),
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
)
