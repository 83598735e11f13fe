"""``goalwright history``, ``undo``, ``redo`` and ``restore``: the agent's changes, undone or redone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.session_command import SessionConnection, goal_by_number, session_command
from lsp_bridge.cli.text import one_line, shown_line
from tools.json_access import integer, mappings, string
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_DONE = {"undo": noted("Undone"), "redo": noted("Redone"), "restore": noted("Reverted")}
_WOULD = {
    "undo": noted("Would be undone"),
    "redo": noted("Would be redone"),
    "restore": noted("Would be reverted"),
}


@session_command()
async def history(cli: Invocation, asked: SessionConnection) -> None:
    """List what the session changed, below the ids of your messages."""
    found = await asked.request("goalwright/history/list")
    if not cli.wrote_json(found):
        _list(cli.console, asked.session, found)


def _stepping(action: str) -> Callable[..., Awaitable[int]]:
    """Return the command that undoes or redoes a change, by its id or the next one."""

    @session_command()
    async def step(cli: Invocation, asked: SessionConnection, *, change: str | None, dry_run: bool) -> None:
        await _restore(cli, asked, action, {"changeId": change}, dry_run=dry_run)

    return step


undo, redo = _stepping("undo"), _stepping("redo")


@session_command()
async def restore(
    cli: Invocation, asked: SessionConnection, *, message: str | None, goal: str | None, dry_run: bool
) -> None:
    """Revert all since a message, or for a goal: its number as the plan shows it, or its id."""
    if message is not None:
        which = {"messageId": message}
    else:
        which = {"goalId": goal_by_number(await asked.load(), goal or "")}
    await _restore(cli, asked, "restore", which, dry_run=dry_run)


async def _restore(
    cli: Invocation, asked: SessionConnection, action: str, which: dict[str, Any], *, dry_run: bool
) -> None:
    done = await asked.request(f"goalwright/history/{action}", dryRun=dry_run, **which)
    if cli.wrote_json(done):
        return
    console = cli.console
    files = mappings(done.get("files"))
    target = shown_line(string(done.get("target")))
    did = t((_WOULD if dry_run else _DONE)[action])
    if not files:
        console.write(t("{did}: {target}. The files already match.\n", did=did, target=target))
        return
    if dry_run:
        show_diffs(console, files)
    console.write(f"{did}: {target}\n")
    show_files(console, files)


def _list(console: Console, session: str, found: dict[str, Any]) -> None:
    changes = mappings(found.get("changes"))
    if not changes:
        console.write(t("No files were changed in session {session}.\n", session=shown_line(session)))
        return
    shown = ""
    for change in changes:
        prompt = string(change.get("promptId"))
        if prompt and prompt != shown:
            about = f"{prompt}  {string(change.get('prompt'))}"
            console.line(console.style.bold(shown_line(about)))
        shown = prompt or shown
        mark = t("undone") if change.get("state") == "undone" else ""
        if change.get("changeId") == found.get("undo"):
            mark = t("next to undo")
        elif change.get("changeId") == found.get("redo"):
            mark = t("next to redo")
        when = string(change.get("time"))[:16].replace("T", " ")
        tool = one_line(string(change.get("tool")))
        line = f"  {shown_line(string(change.get('changeId')))}  {when}  {tool}  {_files(change)}"
        line += f"  [{mark}]" if mark else ""
        console.row(line)


def _files(change: dict[str, Any]) -> str:
    words = {"create": t("(new)"), "delete": t("(deleted)")}
    names: list[str] = []
    for file in mappings(change.get("files")):
        what = words.get(string(file.get("kind"))) or _counts(file)
        lost = t(" (cannot be undone)") if file.get("undoable") is False else ""
        names.append(f"{shown_line(string(file.get('path')))} {what}{lost}")
    return ", ".join(names[:5]) + (t(" and {count} more", count=len(names) - 5) if len(names) > 5 else "")


def show_diffs(console: Console, files: list[dict[str, Any]]) -> None:
    """The diffs of files (``FileDiff`` of the wire)."""
    for file in files:
        console.line(console.style.diff(string(file.get("diff"))))


RESTORED = {"create": noted("restored"), "update": noted("changed"), "delete": noted("deleted")}
"""Texts for undo, redo and restore: a created file existed before."""
CHANGED = {"create": noted("created"), "update": noted("changed"), "delete": noted("deleted")}
"""Descriptions of a change."""


def show_files(console: Console, files: list[dict[str, Any]], words: Mapping[str, str] = RESTORED) -> None:
    """Print the change of each file, one a line. ``words``: for the kinds of changes."""
    for file in files:
        what = t(words.get(string(file.get("kind")), noted("changed")))
        path = shown_line(string(file.get("path")))
        if source := shown_line(string(file.get("movedFrom"))):
            console.line(t("  renamed  {source} → {path}", source=source, path=path))
        else:
            console.line(f"  {what}  {path}  {_counts(file)}")


def _counts(file: dict[str, Any]) -> str:
    return f"+{integer(file.get('added'))} -{integer(file.get('removed'))}"
