"""The commands about stored sessions, see ``command_table``: ``team``, ``stats`` and ``trace``."""

from __future__ import annotations

from pathlib import Path

from daemon.model.choices import DumpFormat, Scope, StatsBy
from lsp_bridge.cli import argument_types as of
from lsp_bridge.cli.command_description import (
    BASE,
    JSON,
    NO_COLOR,
    Argument,
    Command,
    Group,
    flag,
    one_of,
    value,
)
from tools.localization import noted

_TRACE = value(
    "trace",
    "TRACE",
    noted("its id or the start of it, or latest (see: goalwright trace list; default: latest)"),
    nargs="?",
)
_OF_BRANCH = value("--branch", "ID", noted("a branch or sub-agent of it, e.g. A or s1"))
_OF_TRACE = (*BASE, NO_COLOR)
_STORE = value(
    "--store", "URL", noted("a database, or files (default: the setting store_url, else files)"), of.store
)
_DATABASE = value("--store", "URL", noted("the database (default: the setting store_url)"))
_TEAM_USER = value("name", "NAME", noted("the user, as sessions have it (see: goalwright stats --by user)"))
_USER = value("--user", "NAME", noted("sessions of this user only"))
_REPLACE = flag("--force", noted("replace an existing file"))


def _output(text: str) -> Argument:
    return Argument(("--output", "-o"), text, {"metavar": "FILE", "type": Path})


TRACE_COMMANDS = (
    Command(
        "team serve",
        noted("serve traces (REST, WebSocket, page) read-only, to users who have a token"),
        "trace.team:serve",
        (
            value(
                "--http",
                "ADDRESS:PORT",
                noted("where to listen (default: 127.0.0.1:8765)"),
                of.address,
                default=("127.0.0.1", 8765),
            ),
            _DATABASE,
            value(
                "--public-url",
                "URL",
                noted("how browsers reach it, e.g. https://traces.example.com behind a reverse proxy"),
            ),
            value(
                "--keep-days", "DAYS", noted("delete sessions that were not used for this many days"), of.days
            ),
            flag("--plain-http", noted("allow a --public-url without TLS: tokens can be read on the way")),
            JSON,
        ),
    ),
    Command(
        "team add",
        noted("make a token for a user, and show it once"),
        "trace.team:add",
        (
            _TEAM_USER,
            one_of(
                "--scope",
                Scope,
                noted("own: this user's sessions (default); all: those of everybody"),
                default="own",
            ),
            flag("--may-delete", noted("the user may delete the sessions that the token shows")),
            value("--days", "DAYS", noted("how long it is valid (default: until it is removed)"), of.days),
            _DATABASE,
            JSON,
        ),
    ),
    Command("team list", noted("list the tokens, without secrets"), "trace.team:listed", (_DATABASE, JSON)),
    Command(
        "team remove",
        noted("remove the tokens of a user"),
        "trace.team:remove",
        (
            _TEAM_USER,
            value("--token", "ID", noted("this one only (see: goalwright team list)")),
            _DATABASE,
            JSON,
        ),
    ),
    Command(
        "stats",
        noted("show cost, tokens, time and success of sessions, by day or otherwise"),
        "trace.databases:stats",
        (
            one_of("--by", StatsBy, noted("how to group (default: day)"), default="day"),
            _STORE,
            _USER,
            value("--days", "DAYS", noted("of the last days only"), of.days),
            *_OF_TRACE,
        ),
    ),
    Command("trace", noted("traces of sessions: read, follow, export, clean up")),
    Command(
        "trace list",
        noted("list the traces, newest first"),
        "trace.steps:list_traces",
        (value("--limit", "COUNT", noted("how many (default: 50)"), of.count, default=50), *_OF_TRACE),
    ),
    Command(
        "trace show",
        noted("show the steps as a tree, with states and costs"),
        "trace.steps:show_trace",
        (
            _TRACE,
            _OF_BRANCH,
            flag("--full", noted("full texts instead of one line each")),
            flag("--system-prompt", noted("the system prompts used, instead of the steps")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace dump",
        noted("write the steps in full, as text, Markdown or JSON"),
        "trace.steps:dump_trace",
        (
            _TRACE,
            _OF_BRANCH,
            one_of("--format", DumpFormat, noted("(default: txt)"), dest="form", default="txt"),
            _output(noted("the file to write (default and -: stdout)")),
            _REPLACE,
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace tail",
        noted("show events as they happen"),
        "trace.steps:tail_trace",
        (
            _TRACE,
            _OF_BRANCH,
            value(
                "--since",
                "EVENT",
                noted("also show events after this event number; 0: all"),
                of.number,
            ),
            flag("--no-follow", noted("exit after the existing events"), dest="follow", action="store_false"),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace rebuild",
        noted("rebuild messages, plan and metadata from the event log, and report what was wrong"),
        "trace.maintenance:rebuild",
        (Group((_TRACE, flag("--all", noted("all traces of this folder"), dest="every"))), *_OF_TRACE),
    ),
    Command(
        "trace export",
        noted("write a trace with its branches, file versions and outputs to one .tar.gz, without secrets"),
        "trace.maintenance:export",
        (
            _TRACE,
            _output(noted("the archive (default: goalwright-TRACE.tar.gz in the current folder)")),
            _REPLACE,
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace import",
        noted("import an archive made by `goalwright trace export`"),
        "trace.maintenance:take_in",
        (
            value("archive", "ARCHIVE", noted("the .tar.gz file"), Path),
            value(
                "--max-mb", "MB", noted("the largest unpacked size to accept (default: 1024)"), of.megabytes
            ),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace copy",
        noted("copy sessions to a database, or from one"),
        "trace.databases:copy",
        (
            value(
                "source",
                "FROM",
                noted("files (those of this folder), sqlite:///PATH or postgresql://…"),
                of.store,
            ),
            value("target", "TO", noted("where to: the same"), of.store),
            value("--trace", "TRACE", noted("this session only")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace search",
        noted("find sessions of this folder or a database by a part of a text"),
        "trace.databases:search",
        (
            value("text", "TEXT", noted("part of a title, message, goal or file name")),
            _STORE,
            _USER,
            value("--limit", "COUNT", noted("how many (default: 20)"), of.count, default=20),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace delete",
        noted("delete sessions from a database"),
        "trace.databases:delete",
        (
            _USER,
            value(
                "--before",
                "DAYS",
                noted("sessions that were not used for this many days"),
                of.days,
                dest="unused_days",
            ),
            value("--trace", "TRACE", noted("this session only")),
            _DATABASE,
            flag("--yes", noted("delete them; without it they are only shown")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace prune",
        noted("delete old traces, as the settings trace_keep_days, trace_max_mb … say"),
        "trace.maintenance:prune",
        (
            value("--keep-days", "DAYS", noted("delete those not used for this many days"), of.days),
            value(
                "--max-mb", "MB", noted("delete the oldest until all together are below this"), of.megabytes
            ),
            value("--keep", "COUNT", noted("always keep this many of the newest"), of.count),
            flag("--dry-run", noted("only show what would be deleted")),
            *_OF_TRACE,
        ),
    ),
    Command(
        "trace page",
        noted("print the address of the trace page, for a browser"),
        "trace.web_page:trace_page",
        (_TRACE, flag("--open", noted("open it in the browser"), dest="browse"), *_OF_TRACE),
    ),
)
