"""Choose old traces to delete, by the settings ``trace_keep_days``, ``trace_max_mb`` and ``trace_keep``. Also removes
the remains of an interrupted import or start.

The oldest go first. Never deleted are those in use, the newest ones (by use, and the one with the newest id, which
``--continue`` picks), and whatever is no trace.

``.trace`` is part of an untrusted workspace: a repository may contain any number of traces, of any size, name and age.
Own and imported ones (see ``daemon.store.provenance``) are therefore two lists, each with its own newest ones, and
imported ones never cause an own one to be deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.model.maintenance import PrunedTrace
from daemon.store.facts import moment
from daemon.store.file_reader import holds_trace
from daemon.store.ids import TRACE_ID
from daemon.store.trace_store import UNWRITABLE, StoreError
from tools.files.regular_files import os_errors, read_regular
from tools.json_access import mapping
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from daemon.store.files import FileTraceStore

MB = 1_000_000
STAGING = ".import-"
"""How folders begin in which archives are unpacked."""
_BEGINNING = timedelta(hours=1)
"""No session takes so long to start: an older unfinished one is abandoned."""
_HALF = re.compile(r"goal\.json|\.(?:goal|meta)\.json\..*")
"""Files of a trace's folder that exist before its metadata."""
IMPORTED = "imported.json"
"""In the folder of a trace that came by an archive: when, and as which file."""


class PruneLimits(Struct, frozen=True):
    """The limits on what stays. None: no limit of that kind."""

    keep_days: float | None = None
    max_mb: float | None = None
    """Megabytes (10⁶ bytes) of all together."""
    keep: int | None = None
    """Number of the newest own and imported ones each that stay in any case. If it is the only limit, all others go."""

    unread: tuple[str, ...] = ()
    """Settings with an unreadable limit: then there is none, and nothing is deleted."""

    @property
    def any(self) -> bool:
        """Whether something is to be deleted at all."""
        return (self.keep_days, self.max_mb, self.keep) != (None, None, None)


class StoredTrace(Struct, frozen=True):
    """A trace as pruning sees it."""

    trace_id: str
    used: datetime
    """When something happened in it last, or when it was imported."""
    size: int
    """Bytes, with everything below it; 0 when not requested."""
    own: bool
    """Begun here, not brought along by the folder or an archive."""
    title: str = ""

    def pruned(self, reason: str) -> PrunedTrace:
        """Return it as one that is to go."""
        return PrunedTrace(
            trace_id=self.trace_id, title=self.title, used=self.used, size=self.size, reason=reason
        )


def stored_traces(
    store: FileTraceStore, own: Collection[str], now: datetime, *, sizes: bool = True
) -> list[StoredTrace]:
    """Return all traces of a store. ``own``: ids of those started here. Blocking: reads the metadata of each, and with
    ``sizes`` visits every file."""
    found: list[StoredTrace] = []
    for trace_id in store.trace_ids():
        with contextlib.suppress(StoreError, OSError):  # deleted meanwhile, or not the name of a trace
            folder = store.folder(trace_id)
            if folder.is_symlink() or not holds_trace(folder):
                continue  # it is not ours
            meta = _meta(folder / "meta.json")
            size = store.size(trace_id) if sizes else 0
            title = str(meta.get("title", ""))
            found.append(StoredTrace(trace_id, _used(folder, meta, now), size, trace_id in own, title))
    return found


def traces_to_prune(
    stored: Sequence[StoredTrace],
    limits: PruneLimits,
    now: datetime,
    in_use: Callable[[str], bool] = lambda trace_id: False,
) -> list[PrunedTrace]:
    """Return those that are to go, oldest first. Pure. ``in_use``: whether a trace is open or at work."""
    own = [one for one in stored if one.own]
    foreign = [one for one in stored if not one.own]
    own_may_go, foreign_may_go = (_may_go(group, limits, in_use) for group in (own, foreign))
    found: dict[str, PrunedTrace] = {}
    only_newest = limits.keep_days is None and limits.max_mb is None and limits.keep is not None
    for one in (*own_may_go, *foreign_may_go):
        # Compare differences, so that an absurd date does not overflow.
        if limits.keep_days is not None and (now - one.used) / timedelta(days=1) > limits.keep_days:
            found[one.trace_id] = one.pruned(
                t("not used for more than {keep_days:g} days", keep_days=limits.keep_days)
            )
        elif only_newest:
            came = "" if one.own else t(" from other machines")
            found[one.trace_id] = one.pruned(
                t("not one of the newest {keep}{came}", keep=limits.keep, came=came)
            )
    # Delete imported traces first, and then do not count them: a repository must not push out the user's own sessions.
    for may_go, counted in ((foreign_may_go, stored), (own_may_go, own)):
        left = sum(one.size for one in counted if one.trace_id not in found)
        for one in may_go:
            if limits.max_mb is None or left <= limits.max_mb * MB:
                break
            if one.trace_id not in found:
                found[one.trace_id] = one.pruned(
                    t("all sessions together exceeded {max_mb:g} MB", max_mb=limits.max_mb)
                )
                left -= one.size
    return sorted(found.values(), key=lambda one: (one.used, one.trace_id))


def still_too_much(left: int, limits: PruneLimits) -> str:
    """Return a message for the user when ``left`` bytes stay and exceed the limit; empty when they do not."""
    if limits.max_mb is None or left <= limits.max_mb * MB:
        return ""
    return t(
        "{left:.1f} MB remain, more than the {max_mb:g} MB of trace_max_mb: the newest sessions and open "
        "sessions are never deleted.",
        left=left / MB,
        max_mb=limits.max_mb,
    )


def _may_go(
    group: Sequence[StoredTrace], limits: PruneLimits, in_use: Callable[[str], bool]
) -> list[StoredTrace]:
    """Return those of the own or the imported ones that are not protected, oldest first."""
    by_use = sorted(group, key=lambda one: (one.used, one.trace_id))
    safe = {one.trace_id for one in by_use[-(limits.keep or 1) :]}
    safe.add(max((one.trace_id for one in group), default=""))
    return [one for one in by_use if one.trace_id not in safe and not in_use(one.trace_id)]


def _used(folder: Path, meta: dict[str, Any], now: datetime) -> datetime:
    """Return the time of last use, from the metadata; if it is damaged or implausible, from the file system.

    A time in the future comes from a wrong clock, or was forged to be the newest forever.
    """
    told = (moment(meta.get("updated_at")), _changed(folder))
    used = next((time for time in told if time is not None and time <= now), now)
    # An old session that was imported today must not be deleted tonight.
    imported = moment(_meta(folder / IMPORTED).get("time"))
    return max(used, imported) if imported is not None and imported <= now else used


def _changed(folder: Path) -> datetime | None:
    for path in (folder / "events.jsonl", folder / "meta.json", folder):
        # File systems store years that Python cannot represent.
        with contextlib.suppress(OSError, ValueError, OverflowError):
            return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    return None


def _meta(path: Path) -> dict[str, Any]:
    """Return a JSON object of any version, unmodified; empty when it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return mapping(json.loads(read_regular(path)))
    return {}


@contextlib.contextmanager
def staged(root: Path) -> Generator[Path]:
    """Make a folder beside the traces in which one is prepared that appears at once; it goes at the end. Raises
    StoreError."""
    with os_errors(StoreError, UNWRITABLE, path=root):
        staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=root))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_leftovers(root: Path) -> None:
    """Remove what a killed import left. Blocking; no import may be running."""
    if root.is_symlink():
        return
    for left in root.glob(f"{STAGING}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)


def remove_unfinished(root: Path, own: Collection[str], now: datetime) -> None:
    """Remove sessions of ours that were killed while they began, and so hold nothing. Blocking.

    Only what a beginning leaves is removed, and only empty folders: with anything else in it, a folder stays.
    """
    if root.is_symlink():
        return
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(root)):
            if (
                entry.name in own
                and TRACE_ID.fullmatch(entry.name)
                and entry.is_dir(follow_symlinks=False)
                and not holds_trace(Path(entry.path))
                and now.timestamp() - entry.stat(follow_symlinks=False).st_mtime > _BEGINNING.total_seconds()
            ):
                _remove_unfinished(Path(entry.path))


def _remove_unfinished(folder: Path) -> None:
    entries = list(os.scandir(folder))
    if all(e.name == "messages" or _HALF.fullmatch(e.name) for e in entries):
        with contextlib.suppress(OSError):  # there are messages
            (folder / "messages").rmdir()
        if not (folder / "messages").exists():
            for entry in entries:
                if entry.name != "messages":
                    Path(entry.path).unlink()
            folder.rmdir()
