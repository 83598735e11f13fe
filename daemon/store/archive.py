"""Write one trace as one archive (``goalwright trace export``).

A ``.tar.gz`` (ustar) that is the same, byte for byte, for the same trace::

    goalwright-trace.json     {"kind", "format", "trace_id", "trace_format", "title"}
    trace/                    the folder of the trace: events.jsonl, meta.json, goal.json, messages/, files/, output/,
                              branches/{id}/ and agents/{id}/ with the same, and result/ of a branch

Only known files are included, links are not followed, and secrets are removed from everything, including versions of
files: a content that changes thereby gets the name of its new hash, in the lists, too.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from daemon.model.encoding import json_bytes
from daemon.model.traces import FORMAT, Carried
from daemon.store.trace_store import StoreError
from tools.files.regular_files import open_regular, private_file, sha256
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from daemon.store.files import FileTraceStore

KIND = "goalwright-trace"
ARCHIVE_FORMAT = 1
MANIFEST = "goalwright-trace.json"
TOP = "trace/"
_SESSION = r"(?:(?:branches/[A-Z]{1,3}|agents/s[0-9]{1,6})/){0,8}"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}"
_BLOB = r"(?:[0-9a-f]{2}/)?[0-9a-f]{64}"
_KINDS = {
    "log": r"events\.jsonl",
    "derived": r"meta\.json|goal\.json|messages/[A-Za-z0-9_-]{1,100}\.json",
    "list": r"files/versions\.jsonl|result/changes\.json",
    "content": rf"(?:files/blobs|result/contents)/{_BLOB}",
    "text": rf"output/{_NAME}|result/changes\.patch",
}
_KNOWN = re.compile(
    _SESSION + "(?:" + "|".join(f"(?P<{kind}>{names})" for kind, names in _KINDS.items()) + ")"
)
_FOLDERS = re.compile(
    _SESSION + r"(?:branches|agents|messages|output|files|files/blobs|result|result/contents)?/?"
    rf"|{_SESSION}(?:branches/[A-Z]{{1,3}}|agents/s[0-9]{{1,6}}|(?:files/blobs|result/contents)/[0-9a-f]{{2}})"
)
_HASH = re.compile(rb"\b[0-9a-f]{64}\b")
_LARGEST = 8 * 1024**3
"""Bytes: a file that is larger has no place in a ustar archive."""


class Exported(Struct, frozen=True):
    """The result of an export."""

    trace_id: str
    path: Path
    files: int
    size: int
    """Bytes of the archive."""
    redacted: int = 0
    """Versions of files from which secrets were taken."""
    left_out: tuple[str, ...] = ()
    """Names that are not part of a trace: links, and entries that are no files."""


class _ArchivedFiles(Struct):
    """The files of a trace by name, and those whose content was changed."""

    files: dict[str, Path] = field(default_factory=dict[str, Path])
    changed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    renamed: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Hashes of contents that had secrets: old → new."""
    left_out: list[str] = field(default_factory=list[str])


def kind_of(name: str) -> str | None:
    """Return the kind of a file in a trace's folder by its name; None for files that are not part of a trace.

    ``log``, ``derived`` (made from the log), ``list`` (of contents), ``content`` (named by its hash), ``text``.
    """
    match = _KNOWN.fullmatch(name)
    return match.lastgroup if match is not None else None


def session_in(name: str) -> str:
    """Return the branch or sub-agent to which a file in a trace's folder belongs (``A.s1``); empty: to the trace."""
    parts = name.split("/")
    return ".".join(child for kind, child in pairwise(parts[:-1]) if kind in ("branches", "agents"))


def without_secrets(data: bytes, kind: str) -> bytes:
    """Yield a file's bytes without secrets. JSON stays JSON; binary data stays unchanged otherwise."""
    if kind == "log":
        return b"".join(SECRETS.json(line) for line in data.splitlines(keepends=True))
    if kind in ("derived", "list"):
        return SECRETS.json(data)
    text = data.decode("utf-8", "surrogateescape")
    clean = SECRETS.text(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


def with_hashes(data: bytes, renamed: dict[bytes, bytes]) -> bytes:
    """Return a list of contents with their new hashes."""
    return _HASH.sub(lambda match: renamed.get(match[0], match[0]), data) if renamed else data


def export_trace(store: FileTraceStore, trace_id: str, target: Path, *, replace: bool = False) -> Exported:
    """Write the archive of a main session. Blocking; reads only, also while a daemon works on it.

    Raises UnknownTraceError, and StoreError when it cannot be read, ``target`` exists (unless ``replace``), or cannot
    be written.
    """
    folder = store.folder(trace_id)
    if ":" in trace_id:
        raise StoreError(
            t(
                "{trace_id} is a branch or sub-agent. Export the session it belongs to; that includes it.",
                trace_id=trace_id,
            )
        )
    trace = store.trace(trace_id)  # or NewerFormatError: what we do not understand, we cannot vouch for
    if target.exists() and not replace:
        raise StoreError(
            t("{target} already exists. Choose another file, or replace it with --force.", target=target)
        )
    if target.is_dir():
        raise StoreError(t("{target} is a folder. Name the file to write.", target=target))
    try:
        found = _found(folder)
        if "events.jsonl" in found.left_out:
            raise StoreError(
                t(
                    "The event log of session {trace_id} is a link or not a regular file, and was not "
                    "written by Goalwright here. Nothing was exported.",
                    trace_id=trace_id,
                )
            )
        if "events.jsonl" not in found.files:
            raise StoreError(
                t("Session {trace_id} has no event log, so there is nothing to export.", trace_id=trace_id)
            )
        write_archive(target, manifest_line(trace_id, trace.format, trace.title), _contents(found))
        size = target.stat().st_size
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else str(target)
        raise StoreError(
            t("{where}: {strerror}. Nothing was exported.", where=where, strerror=error.strerror or error)
        ) from error
    return Exported(
        trace_id, target, len(found.files), size, len(found.renamed), tuple(sorted(found.left_out))
    )


def _found(folder: Path) -> _ArchivedFiles:
    found = _ArchivedFiles()
    for name, path in _walk(folder, "", found.left_out):
        found.files[name] = path
    for name in [name for name in found.files if kind_of(name) in ("content", "text")]:
        # Only the digest is kept: most contents have no secret, and are read again when they are written.
        data = _read(found.files[name])
        kind = kind_of(name) or ""
        clean = without_secrets(data, kind)
        if clean is data or clean == data:
            continue
        path = found.files.pop(name)
        if kind == "content":
            digest = sha256(clean)
            found.renamed[path.name.encode()] = digest.encode()
            name = re.sub(f"{_BLOB}$", digest, name)
        elif name.endswith("result/changes.patch"):
            found.renamed[sha256(data).encode()] = sha256(clean).encode()
        found.files[name] = path
        found.changed[name] = clean
    return found


def _walk(folder: Path, prefix: str, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if _FOLDERS.fullmatch(name):
                    yield from _walk(Path(entry.path), f"{name}/", left_out)
            elif kind_of(name) is None:
                continue  # dumps, unfinished files and derived data are not part of a trace
            elif (
                entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size < _LARGEST
            ):
                yield name, Path(entry.path)
            else:
                left_out.append(name)


def _read(path: Path) -> bytes:
    # A folder from a repository may change while we read it: accept no link, no device, no pipe.
    with open_regular(path) as file:
        return file.read()


def _content(name: str, found: _ArchivedFiles) -> bytes:
    if name in found.changed:
        return found.changed[name]
    kind = kind_of(name) or ""
    data = _read(found.files[name])
    if kind == "log":
        data = data[: data.rfind(b"\n") + 1]  # the rest is being written, or was never finished
    if kind == "content":
        return data  # already checked
    data = without_secrets(data, kind)
    if name.endswith("meta.json"):
        data = _as_the_log_says(data)
    return with_hashes(data, found.renamed) if kind == "list" else data


def _as_the_log_says(meta: bytes) -> bytes:
    """Return metadata without fields that no event contains, and that an import could not verify: token counts."""
    with contextlib.suppress(ValueError, RecursionError):
        value: object = json.loads(meta)
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            if isinstance(found.get("carried"), dict):
                found["carried"]["calibration"] = Carried().calibration
                return json_bytes(found, indent=1)
    return meta


def _contents(found: _ArchivedFiles) -> Iterator[tuple[str, IO[bytes]]]:
    for known in sorted(found.files):
        with contextlib.suppress(FileNotFoundError):  # the session is running, and the log has it
            yield known, io.BytesIO(_content(known, found))


def manifest_line(trace_id: str, trace_format: int, title: str) -> bytes:
    """Return the first file of an archive."""
    manifest = {
        "kind": KIND,
        "format": ARCHIVE_FORMAT,
        "trace_id": trace_id,
        "trace_format": trace_format or FORMAT,
        "title": title,
    }
    return json_bytes(manifest, indent=1) + b"\n"


def write_archive(target: Path, manifest: bytes, files: Iterable[tuple[str, IO[bytes]]]) -> None:
    """Write an archive of files, by their names in the trace's folder: all of it or nothing. Raises OSError."""
    with (
        private_file(target) as file,
        # No name and no time, so that the same trace gives the same bytes.
        gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        _add(archive, MANIFEST, io.BytesIO(manifest))
        for known, data in files:
            _add(archive, TOP + known, data)


def _add(archive: tarfile.TarFile, name: str, data: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = data.seek(0, io.SEEK_END), 0o600
    data.seek(0)
    archive.addfile(member, data)


def manifest_of(data: bytes) -> dict[str, object]:
    """Return the archive's first file. Raises ValueError when it is none."""
    value: object = json.loads(data)
    if not isinstance(value, dict) or value.get("kind") != KIND:  # pyright: ignore[reportUnknownMemberType] - checked key by key
        raise ValueError("not the beginning of an archive of a trace")
    return value  # pyright: ignore[reportUnknownVariableType] - checked key by key
