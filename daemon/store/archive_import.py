"""Import an archive of a trace from any source (``goalwright trace import``).

Nothing in an archive is trusted. Its names are compared with those that a trace can have, links and devices reject the
whole archive, sizes are counted while unpacking, contents must match their hashes, and everything that is derived from
the log is rebuilt from it: forged messages, plans and metadata are not even read. All this happens in a separate
folder; the trace appears in the store at once, complete, or not at all. It counts as imported, see
``daemon.store.provenance``.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tarfile
import zlib
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field

from daemon.model.encoding import json_bytes
from daemon.model.maintenance import RebuiltSession, TraceImportResult
from daemon.model.traces import FORMAT
from daemon.store.archive import ARCHIVE_FORMAT, MANIFEST, TOP, kind_of, manifest_of, without_secrets
from daemon.store.files import FileTraceStore
from daemon.store.pruning import IMPORTED, MB, remove_leftovers, staged
from daemon.store.rebuild import rebuild
from daemon.store.trace_store import StoreError
from tools.files.regular_files import os_errors
from tools.localization import noted, t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

MAX_MB = 1024.0
"""Default limit of the unpacked size."""
MAX_FILES = 200_000
MAX_LOG = 256 * MB
"""Bytes of the logs of a trace."""
MAX_LINE = 64 * MB
"""Bytes of an event. Nothing else of an archive is held whole: all other files go through in pieces."""
MAX_MANIFEST = 64 * 1024
_HEADER = 1024 * 1024
"""Bytes that are read at once: a header that asks for more is a trap."""
_CHUNK = 64 * 1024
_TRACE_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4,32}")
"""As sessions are called here, and nothing else: no word of a command, no name of a device, not always the newest."""
_NOTHING = noted("Nothing was imported.")


class ArchiveError(StoreError):
    """Raised when the archive is rejected; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why} {t(_NOTHING)}")


class _Unpacked(Struct):
    manifest: dict[str, object] | None = None
    files: int = 0
    size: int = 0
    log_size: int = 0
    left_out: list[str] = field(default_factory=list[str])
    names: set[str] = field(default_factory=set[str])
    """All that were there, folded as file systems may fold them."""


def import_trace(
    store: FileTraceStore,
    archive: Path,
    now: datetime,
    *,
    max_mb: float = MAX_MB,
    coming: Callable[[str], None] = lambda trace_id: None,
) -> TraceImportResult:
    """Import the archive at ``archive``. Blocking. ``max_mb``: most megabytes unpacked.

    ``coming`` is called just before the trace appears: to remove its id from the list of own sessions. An exception
    from it keeps the trace out. No other import may run. Raises ArchiveError when the archive is not trustworthy or a
    trace with its id exists, StoreError when the disk fails; then nothing of it is left.
    """
    store.prepare()
    remove_leftovers(store.root)
    try:
        with staged(store.root) as staging:
            with _opened(archive) as file:
                unpacked = _unpack(file, staging / "trace", int(max_mb * MB))
            trace_id = _trace_id(unpacked.manifest)
            _refuse_existing(store, trace_id)
            (staging / "trace").rename(staging / trace_id)
            sessions, dropped = _rebuilt(FileTraceStore(staging), trace_id)
            about = {"time": now.isoformat(), "archive": archive.name}
            (staging / trace_id / IMPORTED).write_bytes(json_bytes(about))
            title = FileTraceStore(staging).trace(trace_id).title
            _refuse_existing(store, trace_id)
            coming(trace_id)
            (staging / trace_id).rename(store.root / trace_id)
            return TraceImportResult(
                trace_id=trace_id,
                title=title,
                files=unpacked.files,
                size=unpacked.size,
                sessions=sessions,
                left_out=tuple(sorted(unpacked.left_out)),
                dropped=dropped,
            )
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ArchiveError(
            t("{archive} is damaged or not a trace archive ({error}).", archive=archive, error=error)
        ) from error
    except OSError as error:
        # Errors while writing have no name; files to read exist, or were reported before.
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
        where = error.filename if isinstance(error.filename, str) else str(store.root if full else archive)
        raise StoreError(f"{where}: {error.strerror or error}. {t(_NOTHING)}") from error


def _opened(archive: Path) -> IO[bytes]:
    with os_errors(ArchiveError, noted("{archive} cannot be read: {strerror}."), archive=archive):
        descriptor = os.open(archive, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArchiveError(t("{archive} is not a file.", archive=archive))
    file = os.fdopen(descriptor, "rb")
    if file.read(2) != b"\x1f\x8b":
        file.close()
        raise ArchiveError(
            t("{archive} is not a .tar.gz archive made by `goalwright trace export`.", archive=archive)
        )
    file.seek(0)
    return file


class _Bounded(io.RawIOBase):
    """The unpacked stream, of which only so much comes, and not too much at once."""

    def __init__(self, packed: IO[bytes], most: int) -> None:
        self._stream = gzip.GzipFile(fileobj=packed, mode="rb")
        self._most = most
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return ``size`` bytes; a header can make tarfile request any number."""
        if not 0 <= size <= _HEADER:
            raise ArchiveError(t("The archive has a header larger than {header:,} bytes.", header=_HEADER))
        data = self._stream.read(size)
        self._count(len(data))
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Seek forward only; the skipped part is unpacked and counted all the same."""
        if whence != os.SEEK_SET or offset < self._at:
            raise ArchiveError(t("The archive's entries are not in order."))
        while self._at < offset:
            if not self.read(min(_CHUNK, offset - self._at)):
                break
        return self._at

    def tell(self) -> int:
        """Return how many bytes were read so far."""
        return self._at

    def finish(self) -> None:
        """Read to the end, where the checksum is. tarfile takes a header that it cannot read for the end, too."""
        while data := self.read(_CHUNK):
            if data.strip(b"\0"):
                raise ArchiveError(t("The archive is damaged: it cannot be read to the end."))

    def _count(self, size: int) -> None:
        self._at += size
        if self._at > self._most:
            raise ArchiveError(
                t(
                    "The archive holds more than {most:,} MB. If you trust it, raise the limit with "
                    "--max-mb.",
                    most=self._most // MB,
                )
            )


def _unpack(packed: IO[bytes], folder: Path, most: int) -> _Unpacked:
    """Write the known files of a trace into the new ``folder``. Raises ArchiveError, OSError and tarfile's."""
    folder.mkdir(mode=0o700)
    unpacked = _Unpacked()
    for member, file in _members(packed, most):
        name = _safe_name(member)
        if member.isdir():
            continue
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
            raise ArchiveError(
                t("The archive contains something that is not a file: {name}.", name=_shown(name))
            )
        if name.casefold() in unpacked.names:
            raise ArchiveError(t("The archive contains {name} twice.", name=_shown(name)))
        unpacked.names.add(name.casefold())
        if len(unpacked.names) > MAX_FILES:
            raise ArchiveError(t("The archive contains more than {max_files:,} files.", max_files=MAX_FILES))
        if name == MANIFEST and file is not None:
            unpacked.manifest = _manifest(member, file)
            continue
        inside = name.removeprefix(TOP)
        kind = kind_of(inside) if inside != name else None
        if kind is None or file is None or (kind == "content" and not _has_its_folder(inside)):
            if len(unpacked.left_out) < 1000:
                unpacked.left_out.append(_shown(name))
            continue
        if kind == "derived":
            continue  # rebuilt from the log
        if kind == "log":
            unpacked.log_size += member.size
            if unpacked.log_size > MAX_LOG:
                raise ArchiveError(
                    t("The archive's logs are larger than {max_log} MB.", max_log=MAX_LOG // MB)
                )
        unpacked.files += 1
        unpacked.size += member.size
        _write(folder / inside, kind, member, file)
    return unpacked


def _members(packed: IO[bytes], most: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    bounded = _Bounded(packed, most)
    # Headers are part of the untrusted archive: `_Bounded` bounds what they make tarfile read.
    with tarfile.open(fileobj=bounded, mode="r:", errorlevel=2) as archive:  # pyright: ignore[reportArgumentType] - reads, seeks and tells is all that is needed
        while (member := archive.next()) is not None:
            yield member, archive.extractfile(member) if member.isreg() else None
            # tarfile would keep all of them in memory; Python 3.13 has ``stream=True`` for that.
            # https://github.com/python/cpython/issues/102120
            archive.members = []  # pyright: ignore[reportAttributeAccessIssue]
        bounded.finish()


def _safe_name(member: tarfile.TarInfo) -> str:
    name = member.name.removeprefix("./")
    if member.isdir() and name in ("", "."):
        return name
    parts = name.rstrip("/").split("/")
    if (
        name.startswith("/")
        or "\\" in name
        or ":" in parts[0]
        or any(part in ("", "..") for part in parts)
        or any(ord(character) < 32 for character in name)
    ):
        raise ArchiveError(
            t("The archive contains a name that leads outside of it: {name}.", name=_shown(member.name))
        )
    return name


def _manifest(member: tarfile.TarInfo, file: IO[bytes]) -> dict[str, object]:
    if member.size > MAX_MANIFEST:
        raise ArchiveError(t("The archive's {manifest} is too long.", manifest=MANIFEST))
    try:
        return manifest_of(file.read())
    except (ValueError, RecursionError) as error:
        raise ArchiveError(
            t("The archive's {manifest} is {error}.", manifest=MANIFEST, error=error)
        ) from error


def _trace_id(manifest: dict[str, object] | None) -> str:
    if manifest is None:
        raise ArchiveError(
            t(
                "The archive has no {manifest}: it was not made by `goalwright trace export`.",
                manifest=MANIFEST,
            )
        )
    for what, known in (("format", ARCHIVE_FORMAT), ("trace_format", FORMAT)):
        value = manifest.get(what)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ArchiveError(t("The archive's {manifest} has no {what}.", manifest=MANIFEST, what=what))
        if value > known:
            raise ArchiveError(
                t("The archive was made by a newer version of Goalwright. Update Goalwright to import it.")
            )
    trace_id = manifest.get("trace_id")
    if not isinstance(trace_id, str) or not _TRACE_ID.fullmatch(trace_id):
        raise ArchiveError(t("The archive's {manifest} has no valid trace id.", manifest=MANIFEST))
    return trace_id


def _refuse_existing(store: FileTraceStore, trace_id: str) -> None:
    if os.path.lexists(store.root / trace_id) or os.path.lexists(store.folder(trace_id)):
        raise ArchiveError(t("A trace {trace_id} already exists.", trace_id=trace_id))


def _write(path: Path, kind: str, member: tarfile.TarInfo, file: IO[bytes]) -> None:
    """Write one file. Raises ArchiveError when it is invalid."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        if kind == "content":
            digest = hashlib.sha256()
            for block in iter(lambda: file.read(_CHUNK), b""):
                digest.update(block)
                target.write(block)
            if digest.hexdigest() != path.name:
                raise ArchiveError(
                    t("{name} is damaged: its content does not match its name.", name=_shown(member.name))
                )
            return
        if kind == "log":
            # Line by line, so that a long log is never completely in memory.
            while line := file.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    raise ArchiveError(
                        t("The archive's log has a line longer than {max_line} MB.", max_line=MAX_LINE // MB)
                    )
                target.write(without_secrets(line, kind))
            return
        # The archive's creator may have had other rules for secrets. (Contents and their lists are named by hashes.)
        pieces = iter(lambda: file.read(_CHUNK), b"") if kind == "list" else text_without_secrets(file.read)
        for piece in pieces:
            target.write(piece)


def _has_its_folder(name: str) -> bool:
    """Return whether a content is where it is looked for: see ``Blobs.path``."""
    _, folder, digest = name.rsplit("/", 2)
    return folder in ("blobs", "contents") or digest.startswith(folder)


def _rebuilt(store: FileTraceStore, trace_id: str) -> tuple[tuple[RebuiltSession, ...], tuple[str, ...]]:
    """Return all that is derived, from the logs; children without a log that can be read are dropped."""
    dropped: list[str] = []
    try:
        sessions = rebuild(store, trace_id).sessions
        for session in sessions:
            if session.failed and session.session_id == trace_id:
                raise ArchiveError(" ".join(session.problems))
            if session.failed:
                dropped.append(f"{session.session_id.rpartition(':')[2]}: {' '.join(session.problems)}")
                shutil.rmtree(store.folder(session.session_id), ignore_errors=True)
    except StoreError:
        raise
    except Exception as error:
        # Each event has a known form, but no daemon may ever have written such a sequence of them.
        raise ArchiveError(t("The archive's log is not valid ({error!r}).", error=error)) from error
    finally:
        store.close()
    return sessions, tuple(dropped)


def _shown(name: str) -> str:
    return json.dumps(name[:200])


PIECE = 256 * 1024
_BEHIND = 64 * 1024
"""Bytes after a cut to check: no secret is longer, except one that continues into the next piece."""


def text_without_secrets(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the text of ``read`` without secrets, piece by piece; binary data stays unchanged.

    Cut only outside secrets: between two lines, if there are any.
    """
    held = b""
    while block := read(PIECE):
        held += block
        if len(held) >= PIECE + _BEHIND:
            cut = _cut(held)
            yield without_secrets(held[:cut], "text")
            held = held[cut:]
    yield without_secrets(held, "text")


def _cut(data: bytes) -> int:
    """Return where to divide ``data``, not far from its end."""
    spans = SECRETS.byte_spans(data)
    end = len(data) - _BEHIND
    for wanted in (data.rfind(b"\n", 0, end) + 1, data.rfind(b" ", 0, end) + 1, end):
        cut = wanted
        for start, stop in reversed(spans):
            if start < cut < stop:
                # Cut before the secret, and before the name that it is assigned to.
                cut = max(data.rfind(b"\n", 0, start) + 1, start - 100)
        if cut > 0:
            return cut
    return end
