"""``goalwright explore``: the branches of a session, what they changed, and which one is used."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lsp_bridge.cli.commands.branch_selection import Wanted, branch_named, is_in, no_branch, parts_wanted
from lsp_bridge.cli.commands.history import CHANGED, show_diffs, show_files
from lsp_bridge.cli.commands.session_command import CommandFailedError, SessionConnection, about_session
from lsp_bridge.cli.run.approval import AcceptAll, Answerer, Approver, AskPerson, RefuseAll, TtyReader
from lsp_bridge.cli.run.branch_lines import CHOOSING, exploration_lines, score_lines
from lsp_bridge.cli.run.hunk_prompt import edited, editor
from lsp_bridge.cli.run.view import TextView
from lsp_bridge.cli.text import fit, one_line, shown, shown_line, state
from tools.json_access import mapping, mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence
    from pathlib import Path

    from lsp_bridge.cli.client import Client
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher

ExploreAction = Literal["list", "show", "diff", "pick", "leave", "remove", "patch"]
_PICK_S = 24 * 3600.0
"""How long a choice may take: its review waits for a person."""


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """What is asked for. ``session`` None: the newest of this person."""

    action: ExploreAction
    workspace: Path
    session: str | None = None
    branch: str = ""
    paths: tuple[str, ...] = ()
    """Of ``diff`` and ``pick``: paths in the branch, or further ``BRANCH[:PATH]``; none: the whole branch."""
    none: bool = False
    """Of ``leave``: no branch is wanted, instead of the model's choice."""
    yes: bool = False
    json: bool = False


async def explore(options: ExploreOptions, launcher: Launcher, console: Console) -> int:
    """Do it, say what was done, and return the exit code."""
    actions = {
        "list": _list,
        "show": _show,
        "diff": _diff,
        "pick": _pick,
        "leave": _leave,
        "remove": _remove,
        "patch": _patch,
    }

    async def work(asked: SessionConnection) -> None:
        await actions[options.action](options, asked, console)

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


async def _list(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    found = await asked.request("goalwright/explore/list")
    if options.json:
        console.write(json.dumps(found) + "\n")
        return
    explorations = mappings(found.get("explorations"))
    if not explorations:
        console.write(t("Nothing was explored in session {session}.\n", session=shown_line(asked.session)))
    for exploration in explorations:
        _lines(console, exploration_lines(exploration))
        _lines(console, score_lines(mappings(exploration.get("branches"))))
        if exploration.get("awaitsChoice") is True:
            console.write(
                console.style.yellow(t("Goalwright waits for your choice: {choosing}", choosing=t(CHOOSING)))
                + "\n"
            )


async def _show(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    branch = await _branch(options, asked)
    files: list[dict[str, Any]] = []
    if branch.get("status") != "exploring" and branch.get("removed") is not True:
        found = await asked.request("goalwright/explore/files", branchId=branch["id"])
        files = mappings(found.get("files"))
    if options.json:
        console.write(json.dumps({"branch": branch, "files": files}) + "\n")
        return
    status = state("removed" if branch.get("removed") is True else string(branch.get("status")))
    name = f"{string(branch.get('id'))}: {one_line(string(branch.get('description')))}  ({status})"
    console.write(console.style.bold(name) + "\n")
    if summary := string(branch.get("summary")).strip():
        console.write(shown(summary) + "\n")
    _lines(console, score_lines([branch]))
    show_files(console, files, CHANGED)


async def _diff(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    wanted = await _wanted(options, asked)
    if len(wanted) > 1:
        raise CommandFailedError(t("`diff` shows one branch at a time, or files of one."))
    ((branch, paths),) = ((one.branch, one.paths) for one in wanted)
    found = await asked.request("goalwright/explore/files", branchId=branch)
    files, ignored = mappings(found.get("files")), mappings(found.get("ignored"))
    if paths:
        # As with `pick`: what git ignores is meant only where nothing else has the name.
        missing = [path for path in paths if not _named(files, (path,))]
        beside = _named(ignored, missing)
        if unknown := [path for path in missing if not _named(ignored, (path,))]:
            there = ", ".join(shown_line(string(file.get("path"))) for file in files[:20]) or t("none")
            raise CommandFailedError(
                t(
                    "Branch {branch} did not change {unknown}. Its files: {there}.",
                    branch=branch,
                    unknown=", ".join(unknown),
                    there=there,
                )
            )
        files = _named(files, paths) + beside
    if options.json:
        console.write(json.dumps({"files": files}) + "\n")
        return
    if not files:
        console.write(t("Branch {branch} changed no file.\n", branch=branch))
    show_diffs(console, files)


async def _pick(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    choice = [item for one in await _wanted(options, asked) for item in one.choice()]
    async with _answering(asked.client, options, console):
        await asked.load()
        done = await asked.request("goalwright/explore/select", _PICK_S, choice=choice)
    if options.json:
        console.write(json.dumps(done) + "\n")
    elif done.get("applied") is not True:
        raise CommandFailedError(string(done.get("title")))
    else:
        console.write(console.style.green(shown_line(string(done.get("title")))) + "\n")
        console.write(shown(string(done.get("detail")).strip()) + "\n")


async def _leave(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    done = await asked.request("goalwright/explore/leave", none=options.none)
    if options.json:
        console.write(json.dumps(done) + "\n")
    elif done.get("left") is not True:
        raise CommandFailedError(t("No choice is open in this session."))
    else:
        console.write(
            t("None of the branches is used.\n") if options.none else t("The model is to choose.\n")
        )


async def _remove(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    branch = await _branch(options, asked)
    done = await asked.request("goalwright/explore/remove", branchId=branch["id"])
    if options.json:
        console.write(json.dumps(done) + "\n")
    else:
        console.write(t("Removed what branch {id} had changed; its conversation stays.\n", id=branch["id"]))


async def _patch(options: ExploreOptions, asked: SessionConnection, console: Console) -> None:
    branch = await _branch(options, asked)
    found = await asked.request("goalwright/explore/patch", branchId=branch["id"])
    if options.json:
        console.write(json.dumps(found) + "\n")
        return
    text = string(found.get("patch"))
    patch = base64.b64decode(text) if found.get("base64") is True else text.encode("utf-8")
    # Its bytes as they are, for `git apply`: nothing is made harmless, so it is not for a screen.
    if console.out.isatty():
        console.write(shown(patch.decode("utf-8", "replace")) + "\n")
    else:
        console.write_bytes(patch)


async def _branches(asked: SessionConnection) -> dict[str, dict[str, Any]]:
    """All branches of the session, by their letters."""
    found = await asked.request("goalwright/explore/list")
    return {
        string(branch.get("id")): branch
        for one in mappings(found.get("explorations"))
        for branch in mappings(one.get("branches"))
    }


async def _branch(options: ExploreOptions, asked: SessionConnection) -> dict[str, Any]:
    """The branch that is meant, in either case. Raises CommandFailedError with those there are."""
    branches = await _branches(asked)
    found = branch_named(options.branch, list(branches))
    if found is None:
        raise CommandFailedError(no_branch(options.branch, list(branches)))
    return branches[found]


async def _wanted(options: ExploreOptions, asked: SessionConnection) -> tuple[Wanted, ...]:
    """The parts of branches that are meant. Raises CommandFailedError."""
    words = (options.branch, *options.paths)
    branches = await _branches(asked)
    wanted, doubts = parts_wanted(words, list(branches), options.workspace)
    for doubt in doubts:
        if (
            branches[doubt.before].get("removed") is True
            or branches[doubt.before].get("status") == "exploring"
        ):
            continue
        found = await asked.request("goalwright/explore/files", branchId=doubt.before)
        if any(is_in(string(file.get("path")), (doubt.word,)) for file in mappings(found.get("files"))):
            raise CommandFailedError(doubt.words())
    return wanted


def _named(files: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[dict[str, Any]]:
    """The files that are meant; one that was renamed is found by both its names."""
    return [
        file
        for file in files
        if any(
            name and is_in(name, paths) for name in (string(file.get("path")), string(file.get("movedFrom")))
        )
    ]


@contextlib.asynccontextmanager
async def _answering(client: Client, options: ExploreOptions, console: Console) -> AsyncGenerator[None]:
    """The review of what is to be written, as in a run, for as long as the block lasts."""
    answerer = _answerer(options, console)
    approver = Approver(client, answerer, console.warn)

    async def proposed(request_id: str, path: str) -> str | None:
        content = await client.request(
            "goalwright/permission/content", {"requestId": request_id, "path": path}
        )
        after = content.get("after")
        return after if isinstance(after, str) else None

    if isinstance(answerer, AskPerson):
        answerer.proposed = proposed

    def notified(method: str, params: dict[str, Any]) -> None:
        event = mapping(params.get("event"))
        request = mapping(event.get("request"))
        # Of this choice only: what branches or a turn ask is answered where they are followed.
        if event.get("event") == "permission_asked" and string(request.get("toolCallId")).startswith(
            "select_"
        ):
            approver.asked(request)
        elif event.get("event") == "permission_replied":
            approver.settled(event)

    client.on_notification(notified)
    task = asyncio.create_task(approver.work())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _answerer(options: ExploreOptions, console: Console) -> Answerer:
    view = TextView(console.write, style=console.style)
    if options.yes:
        return AcceptAll(None if options.json else view, console.style.dim(t("accepted (--yes):")))
    if console.tty is None:
        return RefuseAll(console.warn)
    tty = console.tty
    command = editor()

    def edit(name: str, text: str) -> Awaitable[str]:
        return edited(name, text, command or [], tty)

    write = console.tell if options.json or not console.live else console.write
    view = TextView(write, style=console.style)
    return AskPerson(view, TtyReader(tty, write), edit if command else None)


def _lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.write((fit(line, console.columns) if console.live else line) + "\n")
