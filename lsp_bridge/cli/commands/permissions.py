"""``goalwright permissions``, ``mode``, ``trust`` and ``jobs``: what may happen unasked, and what runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.runtime import state_dir
from lsp_bridge.cli.commands.session_command import (
    REQUEST_S,
    CommandFailedError,
    SessionConnection,
    about_session,
)
from lsp_bridge.cli.run.turn import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.text import clean, shown_line
from lsp_bridge.protocol.permission_text import reason_lines, rule_words
from tools.json_access import mapping, mappings, string, strings
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher

_SCOPES = {
    "session": noted("this session"),
    "workspace": noted("this workspace"),
    "user": noted("everywhere"),
}
_TRUST = {
    "trusted": noted("trusted: its settings, hooks and instructions count"),
    "unknown": noted(
        "not trusted: its settings can only tighten, its instructions are not obeyed (`goalwright trust`)"
    ),
    "restricted": noted("restricted by the editor: nothing is changed or run"),
}


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """``action``: list, forget (``ids``) or explain (``permission``, ``target``).

    ``session`` None: the newest, if there is one.
    """

    action: str
    workspace: Path
    session: str | None = None
    ids: tuple[str, ...] = ()
    permission: str = ""
    target: str = ""
    json: bool = False


@dataclass(frozen=True, slots=True)
class ModeOptions:
    """``mode`` None: show it."""

    workspace: Path
    session: str | None = None
    mode: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class JobOptions:
    """``kill``: the id of a job to stop; None: list them."""

    workspace: Path
    session: str | None = None
    kill: str | None = None
    json: bool = False


async def permissions(options: PermissionOptions, launcher: Launcher, console: Console) -> int:
    """List what is granted and the rules, take grants back, or explain a decision; returns the exit code."""
    work = {"forget": _forget, "explain": _explain}.get(options.action, _list)

    async def do(asked: SessionConnection) -> None:
        found = await work(options, asked)
        if options.json:
            console.write(json.dumps(found) + "\n")
        else:
            _SHOW[options.action](found, console)

    return await _about(options.workspace, options.session, launcher, console, do, as_json=options.json)


async def _list(options: PermissionOptions, asked: SessionConnection) -> dict[str, Any]:
    return await asked.request("goalwright/permission/rules")


async def _forget(options: PermissionOptions, asked: SessionConnection) -> dict[str, Any]:
    known = mappings((await asked.request("goalwright/permission/rules")).get("grants"))
    ids = [string(grant.get("grantId")) for grant in known]
    wanted = [_grant_id(text, ids) for text in options.ids]
    return await asked.request("goalwright/permission/forget", grantIds=wanted)


def _grant_id(text: str, ids: list[str]) -> str:
    """A grant by its id, or by its number in the list."""
    if text in ids:
        return text
    if text.isdecimal() and 0 < int(text) <= len(ids):
        return ids[int(text) - 1]
    raise CommandFailedError(
        t("There is no grant {text}. `goalwright permissions` lists them with their numbers.", text=text)
    )


async def _explain(options: PermissionOptions, asked: SessionConnection) -> dict[str, Any]:
    return await asked.request(
        "goalwright/permission/explain", permission=options.permission, target=options.target
    )


def _show_list(found: dict[str, Any], console: Console) -> None:
    style = console.style
    for problem in strings(found.get("problems")):
        console.warn(console.err_style.yellow(clean(problem)))
    trust = string(found.get("trust"))
    console.write(
        t(
            "mode {mode}; this folder is {trust}\n",
            mode=string(found.get("mode")),
            trust=t(_TRUST.get(trust, trust)),
        )
    )
    grants = mappings(found.get("grants"))
    console.write(t("\nGranted (goalwright permissions forget NUMBER takes one back):\n"))
    for number, grant in enumerate(grants, 1):
        scope = t(_SCOPES.get(string(grant.get("scope")), string(grant.get("scope"))))
        when = string(grant.get("grantedAt"))[:16].replace("T", " ")
        about = ", ".join(filter(None, [scope, when, string(grant.get("by"))]))
        what = shown_line(f"{string(grant.get('permission'))}: {string(grant.get('pattern'))}")
        console.write(f"{number:>4}  {what}  {style.dim(shown_line(f'({about})'))}\n")
    if not grants:
        console.write(t("      nothing\n"))
    console.write(t("\nRules, from weak to strong; the last that matches decides:\n"))
    for rule in mappings(found.get("rules")):
        console.write(f"      {rule_words(rule)}\n")


def _show_forgotten(found: dict[str, Any], console: Console) -> None:
    for grant in mappings(found.get("forgotten")):
        what = shown_line(f"{string(grant.get('permission'))}: {string(grant.get('pattern'))}")
        console.write(t("Asked about again: {what}\n", what=what))


def _show_explained(found: dict[str, Any], console: Console) -> None:
    console.write(f"{string(found.get('action'))}\n")
    for line in reason_lines(found.get("reasons")):
        console.write(f"  {line}\n")
    for warning in strings(found.get("warnings")):
        console.write(console.style.red(f"  ! {shown_line(warning)}") + "\n")


_SHOW: dict[str, Callable[[dict[str, Any], Console], None]] = {
    "list": _show_list,
    "forget": _show_forgotten,
    "explain": _show_explained,
}


async def mode(options: ModeOptions, launcher: Launcher, console: Console) -> int:
    """Show or set what passes unasked in a session; returns the exit code."""

    async def do(asked: SessionConnection) -> None:
        if options.mode is None:
            info = mapping((await asked.load()).get("session"))
        else:
            info = mapping((await asked.request("goalwright/session/set", mode=options.mode)).get("session"))
        found = {"sessionId": asked.session, "mode": info.get("mode"), "trust": info.get("trust")}
        console.write(json.dumps(found) + "\n" if options.json else f"{clean(string(info.get('mode')))}\n")

    return await about_session(
        options.workspace, options.session, launcher, console, do, as_json=options.json
    )


async def jobs(options: JobOptions, launcher: Launcher, console: Console) -> int:
    """List the commands in the background, or stop one; returns the exit code."""

    async def do(asked: SessionConnection) -> None:
        # Of all sessions, unless one is named: what runs should not depend on which was used last.
        about = {"sessionId": options.session} if options.session else {}
        found = await asked.client.request("goalwright/job/list", about, REQUEST_S)
        entries = mappings(found.get("jobs"))
        if options.kill is not None:
            params = {"sessionId": _session_of(options.kill, entries), "jobId": options.kill}
            found = await asked.client.request("goalwright/job/kill", params, REQUEST_S)
            entries = [mapping(found.get("job"))]
        if options.json:
            console.write(json.dumps(found) + "\n")
            return
        for job in entries:
            console.write(_job_line(job) + "\n")
        if not entries:
            console.write(t("Nothing runs in the background.\n"))

    return await _about(options.workspace, options.session, launcher, console, do, as_json=options.json)


def _session_of(job_id: str, jobs: list[dict[str, Any]]) -> str:
    """The session that a job belongs to; running ones first. Raises CommandFailedError."""
    sessions = [string(job.get("sessionId")) for job in jobs if job.get("jobId") == job_id]
    running = [
        string(job.get("sessionId"))
        for job in jobs
        if job.get("jobId") == job_id and job.get("exitCode") is None
    ]
    found = running or sessions
    if not found:
        raise CommandFailedError(
            t("There is no job {job_id}. `goalwright jobs` lists them.", job_id=shown_line(job_id))
        )
    if len(found) > 1:
        raise CommandFailedError(
            t(
                "Several sessions have a {job_id}: name one with --session ({found}).",
                job_id=shown_line(job_id),
                found=", ".join(found),
            )
        )
    return found[0]


def _job_line(job: dict[str, Any]) -> str:
    code = job.get("exitCode")
    state = t("running") if code is None else t("ended, exit code {code}", code=code)
    output = string(job.get("outputFile"))
    return shown_line(
        t(
            "{job_id}  {state}  {command}  (session {session_id}){part}",
            job_id=string(job.get("jobId")),
            state=state,
            command=string(job.get("command")),
            session_id=string(job.get("sessionId")),
            part=f"  → {output}" if output else "",
        )
    )


def trust(workspace: Path, console: Console, *, remove: bool = False, as_json: bool = False) -> int:
    """Trust a folder, or no longer; returns the exit code. Needs no daemon: one that runs reads the list again."""
    from daemon.trust import TrustedFolders

    folders = TrustedFolders(state_dir())
    folder = workspace.resolve()
    if not remove and not folder.is_dir():
        console.warn(t("{folder} is not a folder.", folder=shown_line(str(folder))))
        return EXIT_FAILED
    try:
        changed = folders.remove(folder) if remove else folders.trust(folder) != "trusted"
        if not remove:
            folders.add(folder)
    except OSError as error:
        console.warn(
            t(
                "{state_dir} cannot be written: {strerror}.",
                state_dir=state_dir(),
                strerror=error.strerror or error,
            )
        )
        return EXIT_FAILED
    now = folders.trust(folder)
    if as_json:
        console.write(json.dumps({"folder": str(folder), "trust": now}) + "\n")
        return EXIT_OK
    if remove and now == "trusted":
        above = next(f for f in folders.folders() if folder.is_relative_to(f))
        console.warn(
            t(
                "{folder} is still trusted, because {above} is.",
                folder=shown_line(str(folder)),
                above=shown_line(str(above)),
            )
        )
        return EXIT_FAILED
    told = noted("{folder} is now {trust}.\n") if changed else noted("{folder} was {trust}.\n")
    console.write(t(told, folder=shown_line(str(folder)), trust=t(_TRUST[now])))
    return EXIT_OK


async def _about(
    workspace: Path,
    session: str | None,
    launcher: Launcher,
    console: Console,
    work: Callable[[SessionConnection], Awaitable[None]],
    *,
    as_json: bool,
) -> int:
    return await about_session(workspace, session, launcher, console, work, as_json=as_json, needed=False)
