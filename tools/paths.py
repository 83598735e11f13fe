"""Paths as the model gives them, made safe: absolute, symlinks resolved, and named as rules name them."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from tools.access import Access, Action, suggestions
from tools.files.hard_links import other_names
from tools.localization import noted, t
from tools.text.truncate import head
from tools.tool import Permission, PermissionAsk, ToolContext, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Target(Struct, frozen=True):
    """A resolved path. ``rule`` is what permission rules match: relative to the workspace, else absolute."""

    path: Path
    rule: str
    outside: bool
    """Outside of the workspace and of the session's scratch folder."""

    @property
    def own(self) -> bool:
        """Whether it is in the session's scratch folder outside the workspace: output of calls that were allowed
        already."""
        return not self.outside and Path(self.rule).is_absolute()


class ReadContext(Protocol):
    """The part of a ToolContext that finding and reading a file needs."""

    @property
    def workspace(self) -> Path: ...
    @property
    def scratch(self) -> Path: ...
    @property
    def permission(self) -> Permission: ...


def resolve(raw: str, ctx: ReadContext) -> Target:
    """Return the file of a path from the model: absolute or relative to the workspace, ``~`` expanded.

    The real path decides, so ``..`` and symlinks cannot escape unnoticed. Raises ToolError for an invalid path.
    """
    if not raw.strip():
        raise ToolError("The path is empty.")
    if "\0" in raw:
        raise ToolError("The path contains a NUL character.")
    shown = repr(raw if len(raw) <= 200 else f"{head(raw, 200)}…")
    try:
        path = without_tilde(raw)
    except RuntimeError as error:
        # How the shell expands "~+" or "~someone" is unknown here.
        message = f"Not a usable path: {shown}. Of paths that begin with ~, only ~ and ~/… are supported."
        raise ToolError(message) from error
    try:
        path = Path(os.path.realpath(path if path.is_absolute() else ctx.workspace / path))
        # realpath leaves paths unchanged that it cannot look up, e.g. a name that is too long.
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # The tool will report whether that matters.
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolError(f"Not a usable path: {shown} ({reason}).") from error
    rule, inside = _rule(path, ctx.workspace)
    scratch = Path(os.path.realpath(ctx.scratch))
    return Target(path, rule, outside=not inside and not path.is_relative_to(scratch))


def without_tilde(raw: str) -> Path:
    """Return a path with ``~`` at its beginning expanded; ``./~`` is a file of that name. Raises RuntimeError."""
    return Path(raw).expanduser() if raw.startswith("~") else Path(raw)


def rule_target(path: Path, workspace: Path) -> str:
    """Return the name of an absolute, resolved path in permission rules, diffs and results (always with ``/``)."""
    return _rule(path, workspace)[0]


def _rule(path: Path, workspace: Path) -> tuple[str, bool]:
    try:
        return path.relative_to(workspace).as_posix(), True
    except ValueError:
        return path.as_posix(), False


async def ask_outside(target: Target, ctx: ToolContext) -> None:
    """Ask for ``external_directory`` when a folder is outside the workspace. Raises PermissionDeniedError.

    For tools whose own question does not name a path: for other tools, the rules see it in the question.
    """
    if not target.outside:
        return
    folder_name = target.path.as_posix().rstrip("/")
    pattern = folder_name + "/*"
    await ctx.permission.ask(
        PermissionAsk(
            permission="external_directory",
            targets=(pattern,),
            title=t("Access {path}, which is outside the workspace", path=target.path.as_posix()),
            suggestions=suggestions("external_directory", (pattern,) if _is_plain(folder_name) else ()),
        )
    )


_VERBS = {"read": noted("Read"), "ls": noted("List")}


async def ask_read(target: Target, ctx: ReadContext, permission: str = "read", verb: str = "") -> None:
    """Ask for reading a file or listing a folder. Raises PermissionDeniedError. ``verb``: of the title.

    One question, also outside the workspace: the rules see that by the name. Under another name (a hard link), a
    protected file still counts as protected.
    """
    if target.own:
        return
    reads = permission == "read"
    others = await asyncio.to_thread(other_names, target.path, ctx.workspace) if reads else []
    await ctx.permission.ask(
        PermissionAsk(
            permission=permission,
            targets=(target.rule,),
            title=f"{verb or t(_VERBS.get(permission, permission.capitalize()))} {target.rule}",
            suggestions=suggestions(permission, folder_patterns([target.rule])),
            accesses=tuple(
                Access(
                    "read",
                    rule_target(path, ctx.workspace),
                    t("the same file under another name"),
                    implied=True,
                )
                for path in others
            ),
        )
    )


def may_read(path: Path, ctx: ToolContext) -> Action:
    """Return the decision of the rules alone on reading a file, for all its names. Blocking for a hard link."""
    return reading(path, ctx.workspace, lambda name: ctx.permission.decide("read", name))


def reading(path: Path, workspace: Path, decide: Callable[[str], Action]) -> Action:
    """Return the strictest decision of ``decide`` (for a name in rules) on reading a file, for all its names. As
    ``may_read``."""
    names = (rule_target(name, workspace) for name in (path, *other_names(path, workspace)))
    decided = [decide(name) for name in names]
    return "deny" if "deny" in decided else "ask" if "ask" in decided else "allow"


def folder_patterns(rules: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that "always" would store for files: their folders; at the top level the files.

    Empty when a name would be read as a pattern for others: ``*`` is a legal file name, and patterns have no escape.
    """
    found: list[str] = []
    for rule in rules:
        folder, slash, _ = rule.rpartition("/")
        inside = bool(slash and folder)
        name = folder if inside else rule
        if not _is_plain(name):
            return ()
        found.append(f"{folder}/*" if inside else rule)
    return tuple(dict.fromkeys(found))


def _is_plain(name: str) -> bool:
    """Return whether a pattern made of a name matches only that name. A backslash in a pattern is read as a slash."""
    return bool(name) and re.search(r"[*?\\]", name) is None and not name.startswith("~")


def did_you_mean(path: Path) -> list[str]:
    """Up to three names in the folder of a missing file that resemble its name."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())[:5000]
    except (OSError, ValueError):  # ValueError: no path, as one with NUL
        return []
    wanted = path.name.casefold()
    by_key = {name.casefold(): name for name in names}
    inside = [
        name for key, name in by_key.items() if wanted and (wanted in key or key in wanted) and len(key) > 2
    ]
    close = [by_key[key] for key in difflib.get_close_matches(wanted, by_key, n=3, cutoff=0.6)]
    return list(dict.fromkeys([*close, *inside]))[:3]


def meant_hint(names: Sequence[str]) -> str:
    """Return the sentence that names what may be meant, for the model; empty without any."""
    return f" Did you mean: {', '.join(names)}?" if names else ""


def missing(target: Target, ctx: ToolContext) -> ToolError:
    """Return the error for a file that does not exist, with similar names that may be read. Blocking."""
    names = [name for name in did_you_mean(target.path) if may_read(target.path.parent / name, ctx) != "deny"]
    return ToolError(f"{target.rule} does not exist.{meant_hint(names)}")


def explain_os_error(error: OSError, doing: str) -> str:
    """Describe an OSError for the model: what failed, and what it means."""
    reasons = {
        FileNotFoundError: "it does not exist",
        PermissionError: "the operating system does not permit it",
        NotADirectoryError: "a part of the path is a file, not a folder",
        IsADirectoryError: "it is a folder",
        FileExistsError: "something already exists there",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return f"{doing}: {reason}."
    return f"{doing}: {error.strerror or error}."
