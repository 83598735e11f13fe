"""``goalwright history``, ``undo``, ``redo`` and ``restore``: what the agent changed, taken back or done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lsp_bridge.cli.commands.session_command import SessionConnection, about_session, goal_by_number
from lsp_bridge.cli.text import fit, one_line, shown_line
from tools.json_access import integer, mappings, string
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher

Action = Literal["history", "undo", "redo", "restore"]


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """What is asked for. ``session`` None: the newest of this person."""

    action: Action
    workspace: Path
    session: str | None = None
    change: str | None = None
    """One change by its id, for undo and redo."""
    message: str | None = None
    goal: str | None = None
    """Number of a goal as the plan shows it, or its id; for restore."""
    dry_run: bool = False
    json: bool = False


async def history(options: HistoryOptions, launcher: Launcher, console: Console) -> int:
    """Do it, say what was done, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        if options.action == "history":
            found = await asked.request("goalwright/history/list")
            if options.json:
                console.write(json.dumps(found) + "\n")
            else:
                _list(console, asked.session, found)
            return
        params = await _params(asked, options)
        done = await asked.request(f"goalwright/history/{options.action}", **params)
        if options.json:
            console.write(json.dumps(done) + "\n")
        else:
            _told(options, console, done)

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


async def _params(asked: SessionConnection, options: HistoryOptions) -> dict[str, Any]:
    params: dict[str, Any] = {"dryRun": options.dry_run}
    if options.action != "restore":
        return params if options.change is None else {**params, "changeId": options.change}
    if options.message is not None:
        return {**params, "messageId": options.message}
    return {**params, "goalId": goal_by_number(await asked.load(), options.goal or "")}


def _list(console: Console, session: str, found: dict[str, Any]) -> None:
    changes = mappings(found.get("changes"))
    if not changes:
        console.write(t("No file was changed in session {session}.\n", session=shown_line(session)))
        return
    for change in changes:
        mark = t("undone") if change.get("state") == "undone" else ""
        if change.get("changeId") == found.get("undo"):
            mark = t("next to undo")
        elif change.get("changeId") == found.get("redo"):
            mark = t("next to redo")
        when = string(change.get("time"))[:16].replace("T", " ")
        tool = one_line(string(change.get("tool")))
        line = f"{shown_line(string(change.get('changeId')))}  {when}  {tool}  {_files(change)}"
        line += f"  [{mark}]" if mark else ""
        console.write((fit(line, console.columns) if console.live else line) + "\n")


def _files(change: dict[str, Any]) -> str:
    names = [
        f"{shown_line(string(file.get('path')))} "
        + (
            {"create": t("(new)"), "delete": t("(deleted)")}.get(string(file.get("kind")), "")
            or f"+{integer(file.get('added'))} -{integer(file.get('removed'))}"
        )
        + ("" if file.get("undoable") is not False else t(" (cannot be undone)"))
        for file in mappings(change.get("files"))
    ]
    return ", ".join(names[:5]) + (t(" and {count} more", count=len(names) - 5) if len(names) > 5 else "")


def _told(options: HistoryOptions, console: Console, done: dict[str, Any]) -> None:
    files = mappings(done.get("files"))
    target = shown_line(string(done.get("target")))
    done_words = {"undo": t("Undone"), "redo": t("Redone"), "restore": t("Reverted")}
    would = {
        "undo": t("Would be undone"),
        "redo": t("Would be redone"),
        "restore": t("Would be reverted"),
    }
    did = (would if options.dry_run else done_words)[options.action]
    if not files:
        console.write(t("{did}: {target}. The files already match.\n", did=did, target=target))
        return
    if options.dry_run:
        show_diffs(console, files)
    console.write(f"{did}: {target}\n")
    show_files(console, files)


def show_diffs(console: Console, files: list[dict[str, Any]]) -> None:
    """The diffs of files (``FileDiff`` of the wire)."""
    for file in files:
        console.write(console.style.diff(string(file.get("diff"))) + "\n")


RESTORED = {"create": noted("restored"), "update": noted("changed"), "delete": noted("deleted")}
"""Words of undo, redo and restore: what comes back was there before."""
CHANGED = {"create": noted("created"), "update": noted("changed"), "delete": noted("deleted")}
"""Words of a change that somebody makes."""


def show_files(console: Console, files: list[dict[str, Any]], words: Mapping[str, str] = RESTORED) -> None:
    """What happened to each file, one a line. ``words``: for the kinds of changes."""
    for file in files:
        what = t(words.get(string(file.get("kind")), noted("changed")))
        counts = f"+{integer(file.get('added'))} -{integer(file.get('removed'))}"
        line = f"  {what}  {shown_line(string(file.get('path')))}  {counts}"
        if source := string(file.get("movedFrom")):
            line = t(
                "  renamed  {source} → {path}",
                source=shown_line(source),
                path=shown_line(string(file.get("path"))),
            )
        console.write(line + "\n")
