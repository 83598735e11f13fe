"""``goalwright explore``: the branches of a session, their changes, and the choice."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from lsp_bridge.cli.commands.history import CHANGED, show_diffs, show_files
from lsp_bridge.cli.commands.session_command import CommandFailedError, SessionConnection, session_command
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.run.approval import SELECT_CALL, Approver, answerer_of
from lsp_bridge.cli.run.branch_lines import choosing, exploration_lines, score_lines
from lsp_bridge.cli.run.view import TextView
from lsp_bridge.cli.text import one_line, shown, shown_line, state
from tools.json_access import mapping, mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from lsp_bridge.cli.client import Client
    from lsp_bridge.cli.invocation import Invocation

_PICK_S = 24 * 3600.0
"""Seconds that a choice may take: its review waits for a user."""


_Parts = dict[str, list[str]]
"""Paths in branches, relative to the folder, with ``/``, by the branch; none: the whole branch."""


@session_command()
async def listed(cli: Invocation, asked: SessionConnection) -> None:
    """List the branches, and compare them."""
    console = cli.console
    found = await asked.request("goalwright/explore/list")
    if cli.wrote_json(found):
        return
    explorations = mappings(found.get("explorations"))
    if not explorations:
        session = shown_line(asked.session)
        console.write(t("There are no explorations in session {session}.\n", session=session))
    for exploration in explorations:
        branches = mappings(exploration.get("branches"))
        for line in (*exploration_lines(exploration), *score_lines(branches)):
            console.row(line)
        if exploration.get("awaitsChoice") is True:
            how = choosing([string(one.get("id")) for one in branches if one.get("removed") is not True])
            line = t("Goalwright is waiting for your choice: {choosing}", choosing=how)
            console.line(console.style.yellow(line))


@session_command()
async def show(cli: Invocation, asked: SessionConnection, *, branch: str) -> None:
    """Show what a branch reported and changed."""
    console = cli.console
    chosen = await _branch(branch, asked)
    files = mappings((await _files(asked, chosen["id"])).get("files")) if _has_result(chosen) else []
    if cli.wrote_json({"branch": chosen, "files": files}):
        return
    status = state("removed" if chosen.get("removed") is True else string(chosen.get("status")))
    name = f"{string(chosen.get('id'))}: {one_line(string(chosen.get('description')))}  ({status})"
    console.line(console.style.bold(name))
    if summary := string(chosen.get("summary")).strip():
        console.line(shown(summary))
    for line in score_lines([chosen]):
        console.row(line)
    show_files(console, files, CHANGED)


@session_command()
async def diff(cli: Invocation, asked: SessionConnection, *, branch: str, paths: Sequence[str]) -> None:
    """Show the changes of a branch. ``paths``: of these files and folders only; none: of all."""
    console = cli.console
    wanted = await _wanted((branch, *paths), asked, cli.workspace)
    if len(wanted) > 1:
        raise CommandFailedError(t("`diff` shows one branch at a time, or some of its files."))
    branch, paths = next(iter(wanted.items()))
    found = await _files(asked, branch)
    files, ignored = mappings(found.get("files")), mappings(found.get("ignored"))
    if paths:
        # As with `pick`, ignored files are selected only when no other file has the name.
        missing = [path for path in paths if not _named(files, (path,))]
        if unknown := [path for path in missing if not _named(ignored, (path,))]:
            there = ", ".join(shown_line(string(file.get("path"))) for file in files[:20]) or t("none")
            raise CommandFailedError(
                t(
                    "Branch {branch} did not change {unknown}. Files it changed: {there}.",
                    branch=branch,
                    unknown=", ".join(unknown),
                    there=there,
                )
            )
        files = _named(files, paths) + _named(ignored, missing)
    if cli.wrote_json({"files": files}):
        return
    if not files:
        console.write(t("Branch {branch} changed no files.\n", branch=branch))
    show_diffs(console, files)


@session_command()
async def pick(
    cli: Invocation, asked: SessionConnection, *, branch: str, paths: Sequence[str], yes: bool
) -> int:
    """Use a branch. ``paths``: paths in it, or further ``BRANCH[:PATH]``; none: the whole branch."""
    console = cli.console
    wanted = await _wanted((branch, *paths), asked, cli.workspace)
    choice = [item for name in wanted for item in ([f"{name}:{path}" for path in wanted[name]] or [name])]
    async with _answering(asked.client, cli, yes=yes):
        await asked.load()
        done = await asked.request("goalwright/explore/select", _PICK_S, choice=choice)
    if cli.wrote_json(done):
        return EXIT_OK if done.get("applied") is True else EXIT_FAILED
    if done.get("applied") is not True:
        raise CommandFailedError(string(done.get("title")))
    console.line(console.style.green(shown_line(string(done.get("title")))))
    console.line(shown(string(done.get("detail")).strip()))
    return EXIT_OK


@session_command()
async def leave(cli: Invocation, asked: SessionConnection, *, none: bool) -> int:
    """Leave the choice to the model; ``none``: no branch is wanted."""
    done = await asked.request("goalwright/explore/leave", none=none)
    if cli.wrote_json(done):
        return EXIT_OK if done.get("left") is True else EXIT_FAILED
    if done.get("left") is not True:
        raise CommandFailedError(t("No choice is open in this session."))
    cli.console.write(t("No branch is used.\n") if none else t("The model will choose.\n"))
    return EXIT_OK


@session_command()
async def remove(cli: Invocation, asked: SessionConnection, *, branch: str) -> None:
    """Delete what a branch changed."""
    name = (await _branch(branch, asked))["id"]
    if not cli.wrote_json(await asked.request("goalwright/explore/remove", branchId=name)):
        told = t("Removed the changes of branch {id}; its conversation is kept.\n", id=name)
        cli.console.write(told)


@session_command()
async def patch(cli: Invocation, asked: SessionConnection, *, branch: str) -> None:
    """Write the changes of a branch for ``git apply``."""
    console = cli.console
    name = (await _branch(branch, asked))["id"]
    found = await asked.request("goalwright/explore/patch", branchId=name)
    if cli.wrote_json(found):
        return
    text = string(found.get("patch"))
    patch = base64.b64decode(text) if found.get("base64") is True else text.encode("utf-8")
    # These are raw bytes for `git apply`: nothing is sanitized, so they must not go to a screen.
    if console.out.isatty():
        console.line(shown(patch.decode("utf-8", "replace")))
    else:
        console.write_bytes(patch)


async def _files(asked: SessionConnection, branch: str) -> dict[str, Any]:
    return await asked.request("goalwright/explore/files", branchId=branch)


def _has_result(branch: dict[str, Any]) -> bool:
    return branch.get("status") != "exploring" and branch.get("removed") is not True


async def _branches(asked: SessionConnection) -> dict[str, dict[str, Any]]:
    """Return all branches of the session, by their letters."""
    found = await asked.request("goalwright/explore/list")
    return {
        string(branch.get("id")): branch
        for one in mappings(found.get("explorations"))
        for branch in mappings(one.get("branches"))
    }


async def _branch(name: str, asked: SessionConnection) -> dict[str, Any]:
    """Return the selected branch, in either case. Raises CommandFailedError with the existing ones."""
    branches = await _branches(asked)
    found = _branch_named(name, list(branches))
    if found is None:
        raise CommandFailedError(_no_branch(name, list(branches)))
    return branches[found]


async def _wanted(words: Sequence[str], asked: SessionConnection, workspace: Path) -> _Parts:
    """Return the selected parts of branches. Raises CommandFailedError."""
    branches = await _branches(asked)
    wanted, doubts = _selected_parts(words, list(branches), workspace)
    for doubt in doubts:
        if not _has_result(branches[doubt.before]):
            continue
        files = mappings((await _files(asked, doubt.before)).get("files"))
        if any(_is_in(string(file.get("path")), (doubt.word,)) for file in files):
            raise CommandFailedError(_ambiguous(doubt))
    return wanted


def _named(files: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return the selected files; a renamed one is found by both its names."""
    names = ("path", "movedFrom")
    return [
        file for file in files if any(file.get(key) and _is_in(string(file[key]), paths) for key in names)
    ]


@contextlib.asynccontextmanager
async def _answering(client: Client, cli: Invocation, *, yes: bool) -> AsyncGenerator[None]:
    """Answer the review of the write, as in a run, for as long as the block lasts. Raises what ends the answering: the
    block would wait for it."""
    console = cli.console
    view = TextView(console.write, style=console.style)
    approver = Approver(client, answerer_of(console, view, yes=yes, json=cli.json), console.warn)

    def notified(method: str, params: dict[str, Any]) -> None:
        event = mapping(params.get("event"))
        request = mapping(event.get("request"))
        # Answer only for this choice: requests of branches or a turn are answered where they are followed.
        call = string(request.get("toolCallId"))
        if event.get("event") == "permission_asked" and call.startswith(SELECT_CALL):
            approver.asked(request)
        elif event.get("event") == "permission_replied":
            approver.settled(event)

    client.on_notification(notified)
    block, task = asyncio.current_task(), asyncio.create_task(approver.work())

    def end(done: asyncio.Task[None]) -> None:
        if block is not None and not done.cancelled():
            block.cancel()

    task.add_done_callback(end)
    try:
        yield
    finally:
        task.remove_done_callback(end)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class _Doubt(NamedTuple):
    """A word that was taken for a branch, and is a file of the branch before it if that one changed such a file."""

    word: str
    before: str
    taken_for: str


def _ambiguous(doubt: _Doubt) -> str:
    word, before, taken_for = doubt
    word = shown_line(word)
    instead = t("write {taken_for}:", taken_for=taken_for)
    branch = t("put {word} first", word=word) if ":" in word else instead
    return t(
        "{word} is both a file of branch {before} and the name of branch {taken_for}: write "
        "{before}:{word} for the file; for the branch, {branch}.",
        word=word,
        before=before,
        taken_for=taken_for,
        branch=branch,
    )


def _selected_parts(
    words: Sequence[str], branches: Sequence[str], workspace: Path
) -> tuple[_Parts, list[_Doubt]]:
    """Return the selected parts, and points to confirm before they are used. Raises CommandFailedError with
    alternatives.

    ``words``: a branch, with its ``:PATH`` or not, then paths in it and further branches. ``branches``: existing ones.
    """
    found: _Parts = {}
    doubts: list[_Doubt] = []
    current = ""
    for number, word in enumerate(words):
        name, colon, path = word.partition(":")
        branch = _branch_named(name, branches)
        if number == 0 and branch is None:
            raise CommandFailedError(_no_branch(name, branches))
        if branch is None:
            # `Q:src` is probably a mistyped branch rather than a file, so report the missing branch.
            if colon and len(name) == 1 and name.isupper():
                raise CommandFailedError(_no_branch(name, branches))
            found[current].append(_inside(word, workspace))
            continue
        if number and (path or not colon):
            doubts.append(_Doubt(word, current, branch))
        current = branch
        # A bare letter selects the whole branch, unless paths in it follow.
        found.setdefault(current, [])
        if colon:
            found[current].append(_inside(path, workspace))
    parts = {branch: [] if "" in paths else list(dict.fromkeys(paths)) for branch, paths in found.items()}
    return parts, doubts


def _branch_named(name: str, branches: Sequence[str]) -> str | None:
    """Return the branch of this name, in either case; None when there is none."""
    wanted = name.strip()
    return next((one for one in (wanted, wanted.upper()) if one in branches), None)


def _no_branch(name: str, branches: Sequence[str]) -> str:
    """Return the message about a name that is no branch."""
    known = ", ".join(branches)
    return t("There is no branch {name}. ", name=shown_line(name.strip())) + (
        t("Branches: {known}.", known=known) if known else t("This session has no explorations.")
    )


def _inside(path: str, workspace: Path) -> str:
    """Return ``path`` relative to the folder, as branches name files; empty for the folder itself."""
    root = workspace.absolute().as_posix().rstrip("/")
    slashed = path.strip()
    if slashed == root or slashed.startswith(f"{root}/"):
        slashed = slashed[len(root) + 1 :]
    if slashed.startswith("/") or ".." in slashed.split("/"):
        return slashed  # the daemon reports that it is not in the workspace
    return "/".join(step for step in slashed.split("/") if step not in ("", "."))


def _is_in(name: str, paths: Sequence[str]) -> bool:
    """Return whether a file is one of ``paths``, or in a folder that is."""
    return any(not path or name == path or name.startswith(f"{path}/") for path in paths)
