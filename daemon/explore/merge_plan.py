"""Plan how a merge of branches changes each file of the main tree, and describe it. Pure.

Three-way: the base of the branches, the file as it is now, and the file as the branch left it. Where the result is not
certain there is a conflict, and nothing is merged at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tools.diff.merge import Clash, MergeConflictError, merge
from tools.diff.unified_diff import shown_name
from tools.localization import n, t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.copies.working_copy import BranchChange

_LINK = 0o120000
_EXECUTABLE = 0o111
_MAX_IN_THE_WAY = 5

Kind = Literal["absent", "file", "link", "other"]
"""``other``: a folder, or a file that must not be changed; ``why`` says which."""


class FileVersion(Struct, frozen=True):
    """A file at one moment."""

    kind: Kind = "absent"
    content: bytes = b""
    """For a link, its target."""
    executable: bool | None = None
    """None: not known, or of no meaning here."""
    why: str = ""
    """For ``other``, and for ``absent`` where there is no room for a file: what is there instead."""
    in_the_way: tuple[str, ...] = ()
    """For ``absent``: everything that must be removed before a file can be there. That is a file in place of one of its
    folders, or the contents of a folder of this name (a name that ends with ``/`` is an empty folder)."""
    mode: int | None = None
    """Permission bits, where they are known."""


ABSENT = FileVersion()


class Pick(Struct, frozen=True):
    """A file as one branch left it."""

    branch: str
    change: BranchChange


class UnmergeableFile(Struct, frozen=True):
    """Why a file cannot be merged."""

    name: str
    reason: str
    clashes: tuple[Clash, ...] = ()
    sides: tuple[str, str] = ("now", "branch")
    """Names of the two sides of a conflict, for the user."""


class Merged(Struct, frozen=True):
    """The merged result for one file; ``before`` is its current state."""

    name: str
    branches: tuple[str, ...]
    before: FileVersion
    after: FileVersion

    @property
    def mode(self) -> int | None:
        """Permission bits to set; None: unchanged."""
        wanted = self.after.executable
        if self.after.kind != "file" or wanted is None:
            return None
        if self.before.kind != "file":
            return 0o755 if wanted else None
        if self.before.executable is None or self.before.executable == wanted:
            return None
        bits = self.before.mode if self.before.mode is not None else 0o644
        # Everyone who may read the file may execute it, as in git.
        return bits | (bits & 0o444) >> 2 if wanted else bits & ~_EXECUTABLE


class MergePlan(Struct, frozen=True):
    """All of it."""

    files: tuple[Merged, ...] = ()
    """The files to write, by name."""
    same: tuple[str, ...] = ()
    """Files that are as the branch has them already."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Names of files that are not written, each with the reason."""
    conflicts: tuple[UnmergeableFile, ...] = ()


class _MergeError(Exception):
    def __init__(self, reason: str, clashes: Sequence[Clash] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.clashes = tuple(clashes)


def plan_merge(picks: Sequence[Pick], current: Mapping[str, FileVersion]) -> MergePlan:
    """Return the plan for the picked changes, given the ``current`` files (by name; absent: no such file)."""
    by_name: dict[str, list[Pick]] = {}
    for pick in picks:
        by_name.setdefault(pick.change.name, []).append(pick)
    files: list[Merged] = []
    same: list[str] = []
    left_out: list[tuple[str, str]] = []
    conflicts: list[UnmergeableFile] = []
    for name in sorted(by_name):
        if reason := unwritable(name, [pick.change for pick in by_name[name]]):
            left_out.append((name, reason))
            continue
        merged = _file(name, by_name[name], current.get(name, ABSENT))
        if isinstance(merged, UnmergeableFile):
            conflicts.append(merged)
        elif merged.after == merged.before and merged.mode is None:
            same.append(name)
        else:
            files.append(merged)
    conflicts += _misplaced(files)
    refused = {conflict.name for conflict in conflicts}
    files = [file for file in files if file.name not in refused]
    return MergePlan(tuple(files), tuple(same), tuple(left_out), tuple(conflicts))


def unwritable(name: str, changes: Sequence[BranchChange]) -> str:
    """Return why a file is left out of every merge; empty when it is not."""
    if any(part.casefold() == ".git" for part in name.split("/")) or name.split("/")[0] == ".trace":
        return t("it belongs to the repository or to Goalwright itself")
    if any(_LINK in (change.before_mode, change.after_mode) for change in changes):
        return t("a merge does not write symbolic links: create or remove it with bash")
    if not name.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in name):
        return t("its name is not UTF-8: copy it with bash")
    return ""


def merge_states(
    base: FileVersion, ours: FileVersion, theirs: FileVersion, *, sides: tuple[str, str]
) -> FileVersion | UnmergeableFile:
    """Merge one file in three ways; the result is a conflict (without a name) when it is ambiguous.

    ``sides``: names of ``ours`` and ``theirs`` for the user. Swapping the two gives the same file, or a conflict again.
    """
    try:
        return _merged(base, ours, theirs, sides)
    except _MergeError as error:
        return UnmergeableFile("", error.reason, error.clashes, sides)


def of_change(change: BranchChange) -> tuple[FileVersion, FileVersion]:
    """Return the base's and the branch's state of a changed file."""
    return _state(change.before, change.before_mode), _state(change.after, change.after_mode)


def _state(content: bytes | None, mode: int | None) -> FileVersion:
    if content is None:
        return ABSENT
    if mode == _LINK:
        return FileVersion("link", content)
    return FileVersion("file", content, None if mode is None else bool(mode & _EXECUTABLE))


def _file(name: str, picks: Sequence[Pick], now: FileVersion) -> Merged | UnmergeableFile:
    base, wanted = of_change(picks[0].change)
    branches = [picks[0].branch]
    for pick in picks[1:]:
        other_base, other = of_change(pick.change)
        sides = (
            t("branch {branches}", branches=t(" and ").join(branches)),
            t("branch {branch}", branch=pick.branch),
        )
        if not _equal(base, other_base):
            if _equal(wanted, other):
                branches.append(pick.branch)
                continue
            reason = t(
                "{sides} and {sides2} changed it from different starting points",
                sides=sides[0],
                sides2=sides[1],
            )
            return UnmergeableFile(name, reason, sides=sides)
        merged = merge_states(base, wanted, other, sides=sides)
        if isinstance(merged, UnmergeableFile):
            return UnmergeableFile(name, merged.reason, merged.clashes, sides)
        wanted = merged
        branches.append(pick.branch)
    sides = (t("the current file"), t("branch {branches}", branches=t(" and ").join(branches)))
    after = merge_states(base, now, wanted, sides=sides)
    if isinstance(after, UnmergeableFile):
        return UnmergeableFile(name, after.reason, after.clashes, sides)
    return Merged(name, tuple(branches), now, after)


def _merged(base: FileVersion, ours: FileVersion, theirs: FileVersion, sides: tuple[str, str]) -> FileVersion:
    if ours.kind == "other" or (ours.why and "absent" not in (base.kind, theirs.kind)):
        raise _MergeError(ours.why)
    if _equal(theirs, base):
        return ours
    if _equal(ours, base):
        return _with_mode_of(theirs, ours)
    if ours.kind == theirs.kind == "absent":
        return ours
    if "link" in (base.kind, ours.kind, theirs.kind) and not _equal(ours, theirs):
        raise _MergeError(f"{_is(ours, sides[0])}, {_is(theirs, sides[1])}")
    if ours.kind == theirs.kind == base.kind == "file":
        return _merged_files(base, ours, theirs)
    if ours.kind == theirs.kind == "file":
        if ours.content != theirs.content:
            raise _MergeError(
                t(
                    "{sides} and {sides2} both created it, with different contents",
                    sides=sides[0],
                    sides2=sides[1],
                ),
                _whole(ours.content, theirs.content),
            )
        return FileVersion("file", ours.content, _executable(None, ours, theirs), mode=ours.mode)
    if theirs.kind == "absent":
        raise _MergeError(
            t("{sides} deleted it, but {sides2} has other changes", sides=sides[1], sides2=sides[0]),
            _whole(ours.content, b""),
        )
    raise _MergeError(
        t("{sides} deleted it, but {sides2} changed it", sides=sides[0], sides2=sides[1]),
        _whole(b"", theirs.content),
    )


def _merged_files(base: FileVersion, ours: FileVersion, theirs: FileVersion) -> FileVersion:
    try:
        content = merge(base.content, ours.content, theirs.content)
    except MergeConflictError as error:
        raise _MergeError(error.reason, error.clashes) from error
    return FileVersion("file", content, _executable(base.executable, ours, theirs), mode=ours.mode)


def _executable(base: bool | None, ours: FileVersion, theirs: FileVersion) -> bool | None:
    """Return the executable bit of the side that changed it."""
    known = {ours.executable, theirs.executable} - {None}
    if len(known) < 2:
        return next(iter(known), None)
    if base is None:
        raise _MergeError(t("one side made it executable, and the other did not"))
    return not base


def _with_mode_of(state: FileVersion, now: FileVersion) -> FileVersion:
    """Return ``state`` with the current permissions, as far as the branch does not know them."""
    executable = now.executable if state.executable is None else state.executable
    return FileVersion(state.kind, state.content, executable if state.kind == "file" else None, mode=now.mode)


def _equal(one: FileVersion, other: FileVersion) -> bool:
    """Return whether they are the same as far as both are known."""
    if (one.kind, one.content) != (other.kind, other.content):
        return False
    return one.executable is None or other.executable is None or one.executable == other.executable


def _is(state: FileVersion, side: str) -> str:
    what = {"absent": t("does not have it"), "link": t("has a symbolic link"), "file": t("has a file")}.get(
        state.kind, state.why
    )
    return f"{side} {what}"


def _whole(ours: bytes, theirs: bytes) -> tuple[Clash, ...]:
    texts: list[str] = []
    for data in (ours, theirs):
        if b"\0" in data[:8000]:
            return ()
        texts.append(data.decode("utf-8", "replace"))
    return (Clash(1, "", *texts),)


def _misplaced(files: Sequence[Merged]) -> list[UnmergeableFile]:
    """Return files that cannot be placed: another file is there, or above it, and stays."""
    made = {file.name for file in files if file.after.kind == "file"}
    gone = {file.name for file in files if file.after.kind == "absent"}
    found: list[UnmergeableFile] = []
    # A rejected file stays, so files that need it removed are rejected as well.
    for file in files:
        if file.after.kind != "file":
            continue
        above = next((folder for folder in _above(file.name) if folder in made), "")
        stays = [name for name in file.before.in_the_way if name not in gone]
        if above:
            found.append(
                UnmergeableFile(file.name, t("{above} would be both a file and a folder", above=above))
            )
        elif stays:
            found.append(UnmergeableFile(file.name, _no_room(file.name, stays)))
    return found


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _no_room(name: str, stays: Sequence[str]) -> str:
    if stays[0] in _above(name):
        return t(
            "{stays} must be a folder, but is a file that the selection does not delete",
            stays=shown_name(stays[0]),
        )
    if stays[0] == f"{name}/":
        return t("an empty folder with this name exists: remove it first")
    more = t(" and {count} more", count=len(stays) - _MAX_IN_THE_WAY) if len(stays) > _MAX_IN_THE_WAY else ""
    named = ", ".join(shown_name(one) for one in stays[:_MAX_IN_THE_WAY])
    return t(
        "a folder with this name exists and has more in it than the selection deletes: {named}{more}",
        named=named,
        more=more,
    )


# -- text about a merge: its conflicts, and its result --

_MAX_CONFLICTS = 5
"""Most conflicts to show in full; of the others only the names."""
_MAX_CLASHES = 3
_MAX_LINES = 8
_MAX_WIDTH = 160
_MAX_NAMED = 20


def conflicts_text(plan: MergePlan, kept: Mapping[str, Sequence[str]], *, by_user: bool = False) -> str:
    """Return why nothing was written. ``kept``: by name of a file, where the branches' versions of it can be read; for
    a user, with which commands."""
    conflicts = plan.conflicts
    lines = [
        n(
            "Nothing was written: {count} file cannot be merged, and a merge is all or nothing.",
            "Nothing was written: {count} files cannot be merged, and a merge is all or nothing.",
            len(conflicts),
        )
    ]
    for conflict in conflicts[:_MAX_CONFLICTS]:
        lines += _conflict(conflict, kept.get(conflict.name, ()), by_user)
    lines += [
        f"- {shown_name(conflict.name)}: {conflict.reason}"
        for conflict in conflicts[_MAX_CONFLICTS : _MAX_CONFLICTS + _MAX_NAMED]
    ]
    if (more := len(conflicts) - _MAX_CONFLICTS - _MAX_NAMED) > 0:
        lines.append(t("- and {more} more", more=more))
    if others := _others(plan):
        lines.append(t("The other files can be merged: select them by name: {others}.", others=names(others)))
    if by_user:
        lines.append(
            t(
                "Use Show Changes in the editor to see what each branch changed, and add what is "
                "missing by hand."
            )
        )
    else:
        lines.append(t("Then add what is missing by hand: read the branch's version and edit the file."))
    return "\n".join(lines)


def _others(plan: MergePlan) -> list[str]:
    """Return the files that can be selected without a conflict; a folder's name covers all files below it."""
    above = {
        conflict.name[:end]
        for conflict in plan.conflicts
        for end, sign in enumerate(conflict.name)
        if sign == "/"
    }
    return [file.name for file in plan.files if file.name not in above]


def remarks(plan: MergePlan) -> str:
    """Return notes on selected files that are not written, and why; empty when there are none."""
    lines: list[str] = []
    if plan.same:
        lines.append(t("Already the same as in the branch: {same}.", same=names(plan.same)))
    reasons: dict[str, list[str]] = {}
    for name, reason in plan.left_out:
        reasons.setdefault(reason, []).append(name)
    lines += [
        t("Skipped: {left}: {reason}.", left=names(left), reason=reason) for reason, left in reasons.items()
    ]
    return "\n".join(lines)


def names(files: Sequence[str]) -> str:
    """Return the names in a line, not too many."""
    shown = ", ".join(shown_name(name) for name in files[:_MAX_NAMED])
    more = len(files) - _MAX_NAMED
    return t("{shown} and {more} more", shown=shown, more=more) if more > 0 else shown


def _conflict(conflict: UnmergeableFile, kept: Sequence[str], by_user: bool) -> list[str]:
    lines = [f"- {shown_name(conflict.name)}: {conflict.reason}"]
    for clash in conflict.clashes[:_MAX_CLASHES]:
        place = t("line {line}, ", line=clash.line) if len(clash.base) + len(clash.ours) else ""
        lines += [f"  {place}{conflict.sides[0]}:", *_quoted(clash.ours)]
        lines += [f"  {conflict.sides[1]}:", *_quoted(clash.theirs)]
    if (more := len(conflict.clashes) - _MAX_CLASHES) > 0:
        lines.append(t("  and {more} more places", more=more))
    if kept:
        lines.append(f"  {t('See') if by_user else t('Read')} {', '.join(kept)}")
    return lines


def _quoted(text: str) -> list[str]:
    if not text:
        return [t("    (nothing)")]
    rows = text.splitlines()
    shown = [f"    {_row(row)}" for row in rows[:_MAX_LINES]]
    more = len(rows) - _MAX_LINES
    if len({end for end in ("\r\n", "\n") if end in text}) == 1 and "\r\n" in text:
        shown[0] += t("  (lines end with CRLF)")
    return [*shown, t("    … {more} more lines", more=more)] if more > 0 else shown


def _row(row: str) -> str:
    return head(shown_name(row.expandtabs(4)), _MAX_WIDTH) if row.strip() else one_line(row, _MAX_WIDTH)
