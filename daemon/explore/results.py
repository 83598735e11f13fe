"""The stored changes of a branch, below its session's folder, so that they can be merged when its copy is gone; and
how branches are found by name.

``result/`` holds ``changes.json`` (names, kinds, modes and hashes), ``contents/`` by hash, and ``changes.patch``. It
appears all at once: a crash while it is made leaves no result. The functions on results block.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from daemon.copies.working_copy import BranchChange
from daemon.files.blobs import BlobError, Blobs
from daemon.model.branches import BranchMeta, child_id, root_of, session_of
from tools.errors import ToolError
from tools.files.regular_files import make_folder, open_regular, sha256
from tools.localization import noted, t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.session import Session

VERSION = 1
_LIST, _CONTENTS, _PATCH = "changes.json", "contents", "changes.patch"
_UNFINISHED = ".unfinished-"
_FILE_MODES = (0o100644, 0o100755)
_LINK_MODE = 0o120000


class ResultError(Exception):
    """Raised when a stored result cannot be used; the message says why."""


class StoredResult(Struct, frozen=True):
    """The stored result of a branch."""

    changes: tuple[BranchChange, ...]
    """Sorted by name."""
    patch: bytes
    """The changes as a binary git patch against the base."""
    ignored: tuple[BranchChange, ...] = ()
    """Files that it wrote and git ignores; their content before is unknown. Sorted by name."""


def save_result(
    folder: Path, changes: Sequence[BranchChange], patch: bytes, ignored: Sequence[BranchChange] = ()
) -> None:
    """Store what a branch changed; a result that is there already is replaced. Raises OSError, ResultError."""
    changes, ignored = (sorted(some, key=lambda change: change.name) for some in (changes, ignored))
    _check([*changes, *ignored])
    make_folder(folder.parent, 0o700)
    _remove_unfinished(folder)
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}{_UNFINISHED}", dir=folder.parent))  # 0700
    try:
        contents = made / _CONTENTS
        contents.mkdir(mode=0o700)
        blobs = Blobs(contents)
        listed, beside = ([_listed(change, blobs) for change in some] for some in (changes, ignored))
        _write(made / _PATCH, patch)
        # ASCII, because a name that is not UTF-8 has surrogates, which must survive unchanged.
        known = {"version": VERSION, "patch": sha256(patch), "files": listed, "ignored": beside}
        text = json.dumps(known, indent=1)
        _write(made / _LIST, text.encode())
        _remove_finished(folder)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def has_result(folder: Path) -> bool:
    """Return whether a result of a branch is stored."""
    return (folder / _LIST).is_file()


def load_result(folder: Path) -> StoredResult | None:
    """Return the result of a branch; None when nothing is stored. Raises ResultError when it is damaged."""
    try:
        text = _read(folder, _LIST)
        if text is None:
            return None
        patch = _read(folder, _PATCH)
    except OSError as error:
        raise ResultError(
            t("The branch's result cannot be read ({strerror}).", strerror=error.strerror or error)
        ) from error
    try:
        known = json.loads(text)
        blobs = Blobs(folder / _CONTENTS)
        if known["version"] != VERSION:
            raise ValueError(t("its version is unknown"))
        changes, ignored = _changes(known["files"], blobs), _changes(known.get("ignored", []), blobs)
        whole = patch is not None and sha256(patch) == known["patch"]
    except BlobError as error:
        raise ResultError(t("The branch's result is incomplete. {error}", error=error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(
            t("The branch's result is damaged: its list of files is not valid ({error}).", error=error)
        ) from error
    _check([*changes, *ignored])
    if patch is None or not whole:
        raise ResultError(t("The branch's result is damaged: its patch does not match its checksum."))
    return StoredResult(changes, patch, ignored)


def remove_result(folder: Path) -> None:
    """Remove the stored result, and the remains of a crash. Raises OSError."""
    _remove_unfinished(folder)
    _remove_finished(folder)


def _remove_finished(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        # Delete the list first: without it this is no result, even if the rest fails.
        (folder / _LIST).unlink(missing_ok=True)
        shutil.rmtree(folder)


def in_workspace(
    changes: Sequence[BranchChange],
) -> tuple[tuple[BranchChange, ...], tuple[BranchChange, ...]]:
    """Return the changes in the workspace, and those elsewhere in its repository: a result has only the first."""
    above = tuple(change for change in changes if change.name.startswith("../"))
    return tuple(change for change in changes if not change.name.startswith("../")), above


def name_problem(name: str) -> str:
    """Return why a name is not one of a file inside of a folder; empty when it is."""
    if not name or "\0" in name:
        return t("it is empty or has a zero byte")
    if name.startswith("/") or (os.name == "nt" and (":" in name or "\\" in name)):
        return t("it is not relative")
    if any(part in ("", ".", "..") for part in name.split("/")):
        return t("it leads outside")
    return ""


def _listed(change: BranchChange, blobs: Blobs) -> dict[str, Any]:
    return {
        "name": change.name,
        "kind": change.kind,
        "before": None if change.before is None else blobs.put(change.before),
        "after": None if change.after is None else blobs.put(change.after),
        "before_mode": change.before_mode,
        "after_mode": change.after_mode,
    }


def _changes(entries: Any, blobs: Blobs) -> tuple[BranchChange, ...]:
    if not isinstance(entries, list):
        raise TypeError(t("it has no list of files"))
    entries = cast("list[dict[str, Any]]", entries)
    return tuple(sorted((_change(entry, blobs) for entry in entries), key=lambda change: change.name))


def _change(entry: dict[str, Any], blobs: Blobs) -> BranchChange:
    name = entry["name"]
    if not isinstance(name, str):
        raise TypeError(t("a name is not a string"))
    before, after = (None if (oid := entry[side]) is None else blobs.get(oid) for side in ("before", "after"))
    return BranchChange(name, before, after, _mode(entry["before_mode"]), _mode(entry["after_mode"]))


def _mode(value: object) -> int | None:
    if value is None or (isinstance(value, int) and value in (*_FILE_MODES, _LINK_MODE)):
        return value
    raise ValueError(t("a mode is not a file mode"))


def _check(changes: Sequence[BranchChange]) -> None:
    seen: set[str] = set()
    for change in changes:
        name = head(ascii(change.name), 200)
        if problem := name_problem(change.name):
            words = t(
                "The branch's result is not used: it names {name}, but {problem}.", name=name, problem=problem
            )
        elif change.name in seen:
            words = t("The branch's result is not used: it names {name} twice.", name=name)
        elif change.before is None and change.after is None:
            words = t("The branch's result is not used: it lists {name} without a change.", name=name)
        else:
            seen.add(change.name)
            continue
        raise ResultError(words)


def _remove_unfinished(folder: Path) -> None:
    if not folder.parent.is_dir():
        return
    for left in folder.parent.iterdir():
        if left.name.startswith(f"{folder.name}{_UNFINISHED}") and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _read(folder: Path, name: str) -> bytes | None:
    """Return a file of the result, not one that a link leads to."""
    try:
        with open_regular(folder / name) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


# -- the branches of a session by name --

FOREIGN = noted(
    "This session was not started by you on this machine, so its branches may have been made by anyone. "
    "Nothing of them is written to your files."
)
_MAX_NAMED = 12


def find_branch(session: Session, name: str) -> BranchMeta:
    """Return the branch of that id, in either case. Raises ToolError that lists those there are."""
    branches = session.state.children.branches
    wanted = name.strip()
    for candidate in (wanted, wanted.upper()):
        if (branch := branches.get(candidate)) is not None:
            return branch
        if session.branch_id and (branch := branches.get(f"{session.branch_id}.{candidate}")) is not None:
            return branch
    shown = one_line(wanted, 80) or "(empty)"
    if not branches:
        raise ToolError(t("There is no branch {shown}: this session has no explorations.", shown=shown))
    raise ToolError(
        t("There is no branch {shown}. {values}", shown=shown, values=described(list(branches.values())))
    )


def described(branches: Sequence[BranchMeta]) -> str:
    """Return those there are, in a line."""
    names = [f"{branch.id} ({one_line(branch.description, 60)}; {_status(branch)})" for branch in branches]
    more = len(names) - _MAX_NAMED
    return t("Branches: {names}", names=", ".join(names[-_MAX_NAMED:])) + (
        t(" and {more} older ones.", more=more) if more > 0 else "."
    )


def _status(branch: BranchMeta) -> str:
    return "removed" if branch.removed else branch.status


def session_id_of(session: Session, branch: BranchMeta) -> str:
    """Return the id of the branch's own session."""
    above = session.branch_id
    if above is not None and branch.id.startswith(f"{above}."):
        return session_of(root_of(session.session_id), branch.id)
    return child_id(session.session_id, branch.id)


def result_folder(session: Session, branch: BranchMeta) -> Path:
    """Return where the result of a branch is stored."""
    return session.services.store.folder(session_id_of(session, branch)) / "result"


async def stored_result(session: Session, branch: BranchMeta) -> StoredResult:
    """Return the result of an ended branch. Raises ToolError when nothing usable is stored."""
    if branch.removed:
        raise ToolError(t("Branch {id} was removed by the user, and its changes were deleted.", id=branch.id))
    if branch.status == "exploring":
        raise ToolError(t("Branch {id} is still exploring: wait until it ends.", id=branch.id))
    try:
        result = await asyncio.to_thread(load_result, result_folder(session, branch))
    except ResultError as error:
        raise ToolError(t("Branch {id} cannot be used. {error}", id=branch.id, error=error)) from error
    if result is None:
        raise ToolError(
            t(
                "The changes of branch {id} are not stored: it failed, or Goalwright was stopped, before "
                "they were saved.",
                id=branch.id,
            )
        )
    return result
