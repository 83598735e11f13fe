"""Record the entries of a workspace before a command in the sandbox, until its new entries have been checked. Blocking.

Also on disk, where the command cannot write: when the daemon is killed the next one does the check. Parallel commands
share the state before the first of them, so none takes a new entry of another for an old one.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from tools.localization import t
from tools.sandbox.mounts import KnownEntries, TooMuchToLookAtError
from tools.sandbox.quarantine import Quarantined, take_away
from tools.sandbox.replaced import MAX_NAMED, Mounted, as_json, from_json, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_SLACK_S = 900.0
"""So long after its beginning a limited command, killed with its daemon, can have made something at the latest."""
_running: dict[Path, list[SandboxState]] = {}
_lock = threading.Lock()


class SandboxState:
    """The state before one command.

    Raises OSError when nothing can be stored, and TooMuchToLookAtError when only one command can run at a time.
    """

    def __init__(
        self,
        workspace: Path,
        outer: Path,
        known: KnownEntries,
        decide: Callable[[str, str], str],
        spare: Sequence[Path],
        *,
        limited: bool,
        mounts: Sequence[Mounted] = (),
        movable: bool = False,
    ) -> None:
        """``outer``: private folder of the workspace, outside of what commands can write. ``mounts``: protected and
        hidden files that others can open to the command. ``movable``: see ``WorkspaceSurvey``."""
        self._workspace = workspace
        self._outer = outer
        self._decide = decide
        self._spare = spare
        self._mounts = mounts
        self._movable = movable
        self._left = False
        with _lock:
            others = _running.get(workspace, [])
            if any(movable or other._movable for other in _beside(workspace)):
                # It could rename folders while the mounts of the other are made, so that these miss their files.
                raise TooMuchToLookAtError(
                    t(
                        "the workspace has protected files in too many folders for two commands in the sandbox "
                        "at once"
                    )
                )
            for other in others:
                _forget_new(known, other._known)
            self._known = known
            _running[workspace] = [*others, self]
        try:
            self._mark, self._fd = _marked(outer, known, mounts, limited=limited)
        except OSError:
            self._forget()
            raise

    def leave(self) -> list[str]:
        """Return sentences for the model and the user about what the command did or could do."""
        with _lock:
            if self._left:
                return []
            self._left = True
        try:
            taken = take_away(
                self._workspace,
                self._known,
                self._outer / "taken",
                denied=lambda name: self._decide("edit", name) == "deny",
                spare=self._spare,
            )
        finally:
            self._forget()
        with contextlib.suppress(OSError):  # otherwise the next start repeats the work, and finds nothing
            self._mark.unlink(missing_ok=True)
        os.close(self._fd)
        return [*in_words(taken), *replaced(self._mounts, self._workspace, self._outer / "taken")]

    def _forget(self) -> None:
        with _lock:
            left = [other for other in _running.pop(self._workspace, []) if other is not self]
            if left:
                _running[self._workspace] = left


def _beside(workspace: Path) -> Iterator[SandboxState]:
    """Yield the states of commands in this workspace, in one around it, and in one below it."""
    for other, states in _running.items():
        if other.is_relative_to(workspace) or workspace.is_relative_to(other):
            yield from states


def left_over(workspace: Path, outer: Path, spare: Sequence[Path]) -> list[str]:
    """Finish the work of daemons that were killed; return sentences as ``leave`` does."""
    import fcntl  # Windows has neither it nor a sandbox

    taken: list[Quarantined] = []
    words: list[str] = []
    for mark in sorted((outer / "running").glob("*.json")):
        try:
            fd = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            known, mounts, until = _read(mark)
            taken += take_away(workspace, known, outer / "taken", spare=spare, until=until, late=True)
            words += replaced(mounts, workspace, outer / "taken", until=until)
            mark.unlink(missing_ok=True)
        except BlockingIOError:
            continue  # the command is still running
        except ValueError:
            mark.unlink(missing_ok=True)  # half written: its command was never started
        finally:
            os.close(fd)
    return [*in_words(taken), *words]


def in_words(taken: Iterable[Quarantined]) -> list[str]:
    """Describe moved entries for the model and the user in one sentence: their names and their new places."""
    names = [
        f"{one.name} (now {one.place.as_posix()})"
        if one.place
        else f"{one.name} (NOT: it could not be moved)"
        for one in taken
    ]
    if not names:
        return []
    named = ", ".join(names[:MAX_NAMED])
    named += f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return [
        "Moved away, because a command in the sandbox created it and it could make other programs run "
        f"something, or a rule denies writing it: {named}. If it is needed, create it with unsandboxed: "
        "true and a reason; the user is asked."
    ]


def _forget_new(known: KnownEntries, older: KnownEntries) -> None:
    """Leave out of ``known`` what a command that still runs may have made."""
    old = set(older.things.values())
    for name in [name for name, it in known.things.items() if it not in old and name not in older.things]:
        del known.things[name]
    known.bare &= older.bare
    known.stopped = {it: lines & older.stopped.get(it, frozenset()) for it, lines in known.stopped.items()}


def _marked(
    outer: Path, known: KnownEntries, mounts: Sequence[Mounted], *, limited: bool
) -> tuple[Path, int]:
    """Return a file that records the earlier state, locked as long as this process lives."""
    import fcntl  # Windows has neither it nor a sandbox

    folder = outer / "running"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark = folder / f"{uuid.uuid4().hex}.json"
    fd = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        content = {
            "things": known.things,
            "bare": sorted(known.bare),
            "closed": sorted(known.closed),
            "named": known.named,
            "stopped": {it: sorted(lines) for it, lines in known.stopped.items()},
            "mounts": as_json(mounts),
            "until": time.time() + _SLACK_S if limited else None,
        }
        with os.fdopen(os.dup(fd), "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(content, file)
    except BaseException:
        os.close(fd)
        mark.unlink(missing_ok=True)
        raise
    return mark, fd


def _read(mark: Path) -> tuple[KnownEntries, list[Mounted], float | None]:
    """Raises ValueError."""
    raw: Any = json.loads(mark.read_text("utf-8", "surrogateescape"))
    try:
        things, named = dict[str, str](raw["things"]), list[str](raw["named"])
        stopped = {str(it): frozenset[str](lines) for it, lines in raw["stopped"].items()}
        known = KnownEntries(things, set(raw["bare"]), set(raw["closed"]), named, stopped)
        return known, from_json(raw.get("mounts", ())), raw["until"]
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
