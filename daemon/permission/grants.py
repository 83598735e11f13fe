"""The user's lasting grants: for one workspace, or for all of them.

Two JSON files in the state folder, never in a repository, which could bring its own. Several daemons share the one for
all workspaces: it is read again whenever it has changed, and written under a lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct, field
from pydantic import ValidationError

from daemon.model.encoding import json_bytes
from daemon.model.permissions import Grant, Rule, StoredGrant
from daemon.store.trace_store import StoreError
from tools.files.regular_files import Stamp, stamp_of, write_private
from tools.json_access import mapping
from tools.localization import t
from tools.text.validation import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence
    from datetime import datetime
    from pathlib import Path

FORMAT = 1
MOST = 1_000
"""Grants of one file: each decision looks at all of them."""
MAX_FILE = 4_000_000
"""Bytes."""
LOCK_WAIT_S = 2.0
"""Others hold the lock for the few milliseconds that a small file takes."""

Lasting = Literal["workspace", "user"]
Grants = tuple[tuple[Rule, ...], tuple[Rule, ...]]
"""The rules of the grants for all workspaces, and for one."""
_UNREAD: Stamp = (-1, -1, -1, -1)


class GrantsNotStoredError(StoreError):
    """Raised when the grants could not be changed and are unchanged; the message says why and what to do."""


class _GrantFileContent(Struct, frozen=True):
    grants: tuple[StoredGrant, ...] = ()
    rules: tuple[Rule, ...] = ()
    problem: str = ""
    """Parts of the file that are ignored and why, as text for the user."""
    newer: bool = False
    """A newer version wrote it: it is left alone."""


class _GrantFile(Struct):
    path: Path
    scope: Lasting
    _stamp: Stamp | None = _UNREAD
    """Stamp of the file when it was read; None: there is no file."""
    _content: _GrantFileContent = field(default_factory=_GrantFileContent)

    def read(self, *, look: bool = True) -> _GrantFileContent:
        """Return the content; looks at the file on disk, and reads it only when it has changed.

        ``look``: False returns the content as it was read last.
        """
        if not look and self._stamp != _UNREAD:
            return self._content
        stamp = stamp_of(self.path)
        if stamp != self._stamp:
            # The stamp is taken first, so that the next check finds a write in between.
            self._content = _GrantFileContent() if stamp is None else self._load()
            self._stamp = stamp
        return self._content

    @contextlib.contextmanager
    def changed(self) -> Generator[list[StoredGrant]]:
        """The grants as a list to change; written when the block ends well. Raises GrantsNotStoredError."""
        import filelock

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = filelock.FileLock(self.path.with_name(f"{self.path.name}.lock"), mode=0o600)
            with lock.acquire(timeout=LOCK_WAIT_S, poll_interval=0.01):
                self._stamp = _UNREAD  # a grant that another daemon has just written must not be lost
                content = self.read()
                if content.newer:
                    raise GrantsNotStoredError(content.problem)
                grants = list(content.grants)
                yield grants
                if grants != list(content.grants):
                    self._write(grants, keep_old=bool(content.problem))
        except filelock.Timeout:
            raise GrantsNotStoredError(
                t(
                    "Another Goalwright process keeps {path} locked. Try again in a moment.",
                    path=self.path,
                )
            ) from None
        except OSError as error:
            raise GrantsNotStoredError(
                t(
                    "Cannot write {path} ({strerror}). Make it writable, or allow this for the session only.",
                    path=self.path,
                    strerror=error.strerror or error,
                )
            ) from error

    def _write(self, grants: Sequence[StoredGrant], *, keep_old: bool) -> None:
        if keep_old:
            # It may contain manual edits, or entries that only a newer version can read.
            shutil.copy2(self.path, self.path.with_name(f"{self.path.name}.damaged-{uuid.uuid4().hex[:8]}"))
        entries = [{k: v for k, v in grant.stored().items() if k != "scope"} for grant in grants]
        # Keys in command lines are redacted here too. Such a grant no longer matches anything, so the user is asked
        # again.
        data = json_bytes({"format": FORMAT, "grants": entries}, indent=1) + b"\n"
        write_private(self.path, data, durable=True)
        self._stamp = _UNREAD

    def _load(self) -> _GrantFileContent:
        try:
            if self.path.exists() and not self.path.is_file():
                return self._bad(t("it is not a file"))
            with self.path.open("rb") as file:
                data = file.read(MAX_FILE + 1)
            if len(data) > MAX_FILE:
                return self._bad(t("it is larger than {max_file:,} bytes", max_file=MAX_FILE))
            value: object = json.loads(data.decode("utf-8-sig"))
        except FileNotFoundError:
            return _GrantFileContent()
        except (OSError, ValueError, RecursionError) as error:
            return self._bad(unreadable(error))
        fields = mapping(value)
        written = fields.get("format")
        if isinstance(written, int) and written > FORMAT:
            problem = t(
                "{path} was written by a newer version of Goalwright. Update Goalwright to use and change "
                "it.",
                path=self.path,
            )
            return _GrantFileContent(problem=problem, newer=True)
        entries = fields.get("grants")
        if not isinstance(entries, list):
            return self._bad(t("it contains no list of grants"))
        return self._of(cast("list[object]", entries))

    def _of(self, entries: Sequence[object]) -> _GrantFileContent:
        grants: dict[str, StoredGrant] = {}
        for entry in entries[:MOST]:
            try:
                grant = StoredGrant.model_validate({**mapping(entry), "scope": self.scope})
            except (ValidationError, RecursionError):
                continue
            grants.setdefault(grant.grant_id, grant)
        wrong = len(entries) - len(grants)
        problem = (
            t(
                "{path}: {wrong} of {count} grants are invalid and ignored.",
                path=self.path,
                wrong=wrong,
                count=len(entries),
            )
            if wrong
            else ""
        )
        found = tuple(grants.values())
        return _GrantFileContent(found, tuple(_rule(grant, self.path) for grant in found), problem)

    def _bad(self, why: str) -> _GrantFileContent:
        return _GrantFileContent(
            problem=t(
                "Cannot read {path} ({why}), so what you allowed there is ignored. Fix or delete the file; "
                "before Goalwright next writes it, it keeps a copy.",
                path=self.path,
                why=why,
            )
        )


class GrantStore:
    """The grants that outlive a session. All calls are quick enough for the event loop."""

    def __init__(self, everywhere: Path, here: Path, now: Callable[[], datetime]) -> None:
        """``everywhere`` and ``here``: the files for all workspaces and for this one."""
        self._files: dict[Lasting, _GrantFile] = {
            "user": _GrantFile(everywhere, "user"),
            "workspace": _GrantFile(here, "workspace"),
        }
        self._now = now

    def rules(self, *, look: bool = True) -> Grants:
        """Return the grants for all workspaces, and for this one. Reads the files only when they have changed.

        ``look``: whether to find out if they have. Nothing may be allowed without: a grant may have been withdrawn.
        """
        everywhere, here = self._files["user"].read(look=look), self._files["workspace"].read(look=look)
        return everywhere.rules, here.rules

    def all(self) -> list[StoredGrant]:
        """Return those for everywhere first, each the oldest first."""
        return [grant for file in self._files.values() for grant in file.read().grants]

    def problems(self) -> tuple[str, ...]:
        """Return the parts of the files that are ignored and why, as text for the user."""
        return tuple(file.read().problem for file in self._files.values() if file.read().problem)

    def add(
        self, grants: Sequence[Grant], scope: Lasting, *, by: str = "", title: str = ""
    ) -> tuple[StoredGrant, ...]:
        """Store lasting grants; returns those that are new, in their order.

        Raises GrantsNotStoredError: then none of them is stored.
        """
        added: list[StoredGrant] = []
        with self._files[scope].changed() as stored:
            known = {(grant.permission, grant.pattern) for grant in stored}
            for grant in grants:
                key = (grant.permission, grant.pattern)
                if key not in known:
                    known.add(key)
                    added.append(self._stored(grant, scope, by, title))
            if len(stored) + len(added) > MOST:
                raise GrantsNotStoredError(
                    t(
                        "{path} already has {count} grants; the limit is {most}. Remove some (`goalwright "
                        "permissions`) or allow something more general.",
                        path=self._files[scope].path,
                        count=len(stored),
                        most=MOST,
                    )
                )
            stored += added
        return tuple(added)

    def forget(self, ids: Collection[str]) -> tuple[StoredGrant, ...]:
        """Take grants back; returns those that were there. Raises GrantsNotStoredError."""
        gone: list[StoredGrant] = []
        for file in self._files.values():
            if not any(grant.grant_id in ids for grant in file.read().grants):
                continue
            with file.changed() as stored:
                gone += [grant for grant in stored if grant.grant_id in ids]
                stored[:] = [grant for grant in stored if grant.grant_id not in ids]
        return tuple(gone)

    def _stored(self, grant: Grant, scope: Lasting, by: str, title: str) -> StoredGrant:
        return StoredGrant(
            grant_id=f"grant_{uuid.uuid4().hex[:12]}",
            permission=grant.permission,
            pattern=grant.pattern,
            scope=scope,
            granted_at=self._now(),
            by=by,
            title=title,
        )


def _rule(grant: StoredGrant, path: Path) -> Rule:
    return Rule(
        permission=grant.permission,
        pattern=grant.pattern,
        action="allow",
        source="granted",
        file=os.fspath(path),
    )
