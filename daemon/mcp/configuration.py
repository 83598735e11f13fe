"""Find the configured MCP servers: in the settings, and in a trusted folder also in the files of other programs.

Variables in ``${…}`` are expanded here, so that a server with a missing one is reported and never started.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import shutil
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from daemon.config import MAX_FILE, not_used, usable
from tools.files.regular_files import read_regular
from tools.json_access import array, without_comments
from tools.localization import n, noted, t
from tools.process.programs import find_program
from tools.process.runnable import why_not_run
from tools.redaction.redactor import SECRET_NAME, may_be_secret
from tools.text.terminal import shown_brief
from tools.text.validation import unreadable
from tools.tool_names import MCP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from daemon.settings import McpServerSetting, McpSettings

FILES = {".mcp.json": "mcpServers", ".vscode/mcp.json": "servers"}
"""Files of a workspace that name servers, and the key under which they do."""
_WITH_COMMENTS = ".vscode/mcp.json"
"""VS Code writes comments into its files, and accepts a comma behind the last entry."""
SETTINGS = "config.json"
MOST_SERVERS = 50
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
_NEEDS = noted("it needs a command, or a url that begins with http:// or https://")
_HTTP = ("http", "streamable-http", "streamableHttp")


class McpServerSpec(Struct, frozen=True):
    """A server with everything that is needed to reach it. Two equal ones are the same server."""

    name: str
    source: str
    """The file that names it, relative to the workspace, or ``config.json``."""
    command: tuple[str, ...] = ()
    """Program, absolute, and arguments; empty for a server that is reached by ``url``."""
    env: tuple[tuple[str, str], ...] = ()
    cwd: Path = Path()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    disabled: bool = False
    problem: str = ""
    """Why it cannot be started, as text for the user; the fields above are then not complete."""

    def __repr__(self) -> str:
        return f"McpServerSpec({self.name!r})"  # ``env`` and ``headers`` have secrets

    @property
    def digest(self) -> str:
        """Changes with the program and its arguments, or the URL: with what answers under the name."""
        return hashlib.sha256(json.dumps([self.command, self.url]).encode()).hexdigest()[:16]


class FoundServers(Struct, frozen=True):
    """The configured servers, and the problems of the files, as text for the user."""

    servers: tuple[McpServerSpec, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """About keys of servers that mean nothing here, as text for the user. Other programs may know them."""


class _UnusableError(Exception):
    """A server's settings cannot be used; the message is for the user."""


def find_servers(
    workspace: Path, settings: McpSettings, environment: Mapping[str, str], *, trusted: bool
) -> FoundServers:
    """Return the servers of the settings and, in a trusted folder, of its files. Blocking.

    The settings come first: a folder does not replace a server of the same name, whose rules it would inherit.
    """
    problems: list[str] = []
    named: dict[str, tuple[McpServerSetting, str]] = {
        name: (server, SETTINGS) for name, server in settings.mcp_servers.items()
    }
    left_out: set[str] = set()
    for file, key in FILES.items():
        servers, wrong = _read(workspace / file, file, key)
        if not trusted:
            left_out |= servers.keys()
            continue
        problems += wrong
        for name, server in servers.items():
            known = named.setdefault(name, (server, file))
            if known[0] != server:
                problems.append(
                    t(
                        "{file}: {name} is not used, because {other} has a server of this name.",
                        file=file,
                        name=name,
                        other=known[1],
                    )
                )
    if left_out:
        problems.append(
            n(
                "{count} MCP server of this folder is not used, because the folder is not trusted. If it is yours, run "
                "`goalwright trust` in it.",
                "{count} MCP servers of this folder are not used, because the folder is not trusted. If it is yours, "
                "run `goalwright trust` in it.",
                len(left_out),
            )
        )
    if len(named) > MOST_SERVERS:
        problems.append(t("Only the first {most} MCP servers are used.", most=MOST_SERVERS))

    def filled(text: str) -> str:
        return _expanded(text, workspace, environment)

    specs: list[McpServerSpec] = []
    unknown: list[str] = []
    for name, (server, source) in islice(named.items(), MOST_SERVERS):
        disabled = server.disabled or name in settings.mcp_disabled
        spec = spec_of(name, server, source, workspace, filled, trusted=trusted)
        specs.append(replace(spec, disabled=disabled))
        if server.model_extra:
            keys = ", ".join(shown_brief(key, 40) for key in [*server.model_extra][:5])
            text = t(
                "{source}: {name}: keys that change nothing here: {keys}.",
                source=source,
                name=shown_brief(name, 80),
                keys=keys,
            )
            unknown.append(text)
    return FoundServers(tuple(specs), tuple(problems), tuple(unknown))


def _read(path: Path, name: str, key: str) -> tuple[dict[str, McpServerSetting], list[str]]:
    try:
        text = read_regular(path, MAX_FILE).decode("utf-8-sig")
        value: object = json.loads(without_comments(text) if name == _WITH_COMMENTS else text)
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except (OSError, ValueError, RecursionError) as error:
        return {}, [not_used(name, unreadable(error))]
    if not isinstance(value, dict):
        return {}, [t("{path} is not used: it must hold a JSON object.", path=name)]
    content = cast("dict[str, Any]", value)
    # Unlike the settings, these files are written for programs that ignore what they do not know.
    found, problems = usable("mcp_servers", content.get(key, {}), f"{name}: {key}")
    if array(content.get("inputs")):
        problems.append(
            t(
                "{file}: inputs are not supported. Write ${{env:NAME}} where a server uses ${{input:…}}, and set the "
                "variable.",
                file=name,
            )
        )
    return found.get("mcp_servers", {}), problems


def spec_of(
    name: str,
    server: McpServerSetting,
    source: str,
    workspace: Path,
    filled: Callable[[str], str],
    *,
    trusted: bool,
) -> McpServerSpec:
    """Return a server as it is reached, or with its problem. ``filled``: replaces variables in a value. Blocking."""

    def each(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple((name, filled(value)) for name, value in values.items())

    try:
        if server.command and server.url and not server.type:
            raise _UnusableError(
                t('it has a command and a url: remove one of them, or add "type": "stdio" or "type": "http"')
            )
        kind = server.type or ("stdio" if server.command else "http")
        if kind in _HTTP:
            url = filled(server.url)
            if not re.match(r"https?://[^/]", url):
                raise _UnusableError(t(_NEEDS))
            return McpServerSpec(name, source, url=url, headers=each(server.headers))
        if kind != "stdio":
            raise _UnusableError(t("the type {kind} is not supported: use stdio or http", kind=kind))
        # What a folder that is not trusted holds must not be found by a program that looks where it starts.
        base = workspace if trusted else Path.home()
        cwd = base / Path(filled(server.cwd)).expanduser()
        program = _program(filled(server.command), cwd, workspace, trusted=trusted)
        command = (program, *(filled(argument) for argument in server.args))
        return McpServerSpec(name, source, command=command, env=each(server.env), cwd=cwd)
    except (_UnusableError, ValueError, RuntimeError) as error:
        return McpServerSpec(name, source, problem=str(error))


def _program(command: str, cwd: Path, workspace: Path, *, trusted: bool) -> str:
    """Return the absolute path of a program. Raises _UnusableError."""
    if not command:
        raise _UnusableError(t(_NEEDS))
    if os.path.dirname(command):  # noqa: PTH120 - "./x" names a folder, which Path would drop
        program = cwd / Path(command).expanduser()
        if problem := why_not_run(program.absolute()):
            raise _UnusableError(problem)
        return str(program)
    found = shutil.which(command) if trusted else find_program(command, workspace)
    if found is None:
        raise _UnusableError(
            t("the program {command} is not found: install it, or write its whole path", command=command)
        )
    return str(Path(found).absolute())


def _expanded(text: str, workspace: Path, environment: Mapping[str, str]) -> str:
    """Return ``text`` with its variables replaced. Raises _UnusableError for one that is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "workspaceFolder":
            return str(workspace)
        if found[1] == "userHome":
            return str(Path.home())
        name = _NAME.fullmatch(found[1])
        if name is None:
            raise _UnusableError(
                t("{variable} is not supported: use ${{env:NAME}} or ${{workspaceFolder}}", variable=found[0])
            )
        given = environment.get(name[1]) or name[2]
        if given is None:
            raise _UnusableError(
                t(
                    "the variable {name} is not set for the daemon: add it to the setting environment in your "
                    "config.json and restart the daemon, or write its value",
                    name=name[1],
                )
            )
        return given

    return _VARIABLE.sub(value, text)


# -- names of tools as the model calls them. Servers are untrusted: one must not be mistaken for another server's --

LONGEST_NAME = 64
"""Characters of a tool's name: the limit of the providers."""
_LONGEST_SERVER = 24
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def server_parts(names: Iterable[str]) -> dict[str, str]:
    """Return the part of tool names that stands for each server; no two are equal.

    It neither holds ``__`` nor ends in ``_``, so that the end of it can be recognised in a tool's name.
    """
    parts: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        part = re.sub("_{2,}", "_", _OTHER.sub("_", name)).strip("_")[:_LONGEST_SERVER].rstrip("_")
        if not part or part in taken:
            part = f"{part[: _LONGEST_SERVER - 7]}-{_short(name)}".lstrip("-")
        taken.add(part)
        parts[name] = part
    return parts


def tool_names(part: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name for the model of each tool of a server; names that need no change are never given to others."""
    prefix = f"{MCP}{part}__"
    room = LONGEST_NAME - len(prefix)
    wanted = {name: _OTHER.sub("_", name) for name in tools}
    taken = {name for name, plain_name in wanted.items() if name == plain_name and len(name) <= room}
    names = {name: prefix + name for name in taken}
    for name, simple in wanted.items():
        if name in names:
            continue
        if len(simple) > room or simple in taken:
            simple = f"{simple[: room - 7]}-{_short(name)}"
        taken.add(simple)
        names[name] = prefix + simple
    return {name: names[name] for name in wanted}


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]


# -- values that are probably secret, in each form in which a server may repeat them --

_MOST_SECRETS = 20
"""Values of one server; each has up to five forms."""


def secrets_of(spec: McpServerSpec) -> list[str]:
    """Return the secret values, and their forms in URLs and in base64, as headers have them."""
    values = list(dict.fromkeys(filter(None, _values(spec))))[:_MOST_SECRETS]
    return list(dict.fromkeys(form for value in values for form in _forms(value)))


def _values(spec: McpServerSpec) -> Iterator[str]:
    for url in (spec.url, *spec.command, *(value for _, value in spec.env)):
        yield from _of_url(url)
    for name, value in spec.headers:
        if not may_be_secret(name, value):
            continue
        scheme, _, rest = value.strip().rpartition(" ")
        yield from (value, rest)
        if scheme.lower() == "basic":
            yield from _of_pair(_decoded(rest))
    yield from (value for name, value in spec.env if SECRET_NAME.search(name))
    for before, argument in pairwise(("", *spec.command)):
        name, equals, value = argument.partition("=")
        if equals and SECRET_NAME.search(name):
            yield value
        elif before.startswith("-") and "=" not in before and SECRET_NAME.search(before):
            yield argument


def _of_url(text: str) -> Iterator[str]:
    """Yield what a URL has in front of its host, which is sent as a header, and the values of its query."""
    try:
        parts = urlsplit(text if "://" in text else "")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return
    if user or password:
        yield from _of_pair(f"{user}:{password}")
    yield parts.password or ""
    yield from (value for name, value in parse_qsl(parts.query) if may_be_secret(name, value))


def _of_pair(pair: str) -> Iterator[str]:
    """Yield ``user:password`` and its secret part: a user without a password is a token."""
    user, _, password = pair.partition(":")
    yield from (pair, password or user)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _forms(value: str) -> Iterator[str]:
    data = value.encode(errors="replace")
    yield from (value, quote(value, safe=""), quote_plus(value))
    # Without the padding, which not everyone writes.
    yield from (coded(data).decode().rstrip("=") for coded in (base64.b64encode, base64.urlsafe_b64encode))
