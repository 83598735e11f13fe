"""Git folders of our own: one for the agent in a copy, and one for our own comparing. Both borrow objects only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from daemon.copies.repository import GitState, Repository, Setting

_OURS: tuple[Setting, ...] = (
    ("core.bare", "false"),
    ("core.splitindex", "false"),
    ("core.untrackedcache", "false"),
    ("core.loosecompression", "0"),
    ("core.compression", "0"),
    ("core.fsync", "none"),
    ("core.safecrlf", "false"),
    ("core.quotepath", "false"),
    ("index.sparse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
_AS_THEY_ARE = b"* -text -crlf -ident -filter -working-tree-encoding -eol\n"
"""Attributes with which a blob has the very bytes of the file."""


def make_for_us(
    folder: Path,
    object_format: str,
    stores: Sequence[Path],
    settings: Iterable[Setting] = (),
    files: dict[str, bytes] | None = None,
    exclude: bytes = b"",
    as_they_are: bool = False,
) -> None:
    """Create a git folder for hashing and comparing. Its configuration names no program, whatever the files' attributes
    say.

    ``as_they_are``: nothing is converted (line ends, keywords, encodings). Raises OSError.
    """
    given = files or {}
    kept = {
        name: given[name] for name in ("shallow", "info/sparse-checkout", "info/attributes") if name in given
    }
    kept["info/exclude"] = given.get("info/exclude", b"").rstrip(b"\n") + b"\n" + exclude
    if as_they_are:
        kept["info/attributes"] = _AS_THEY_ARE
    _make(folder, object_format, stores, [*settings, *_OURS], "ref: refs/heads/none", kept)


def make_for_agent(
    folder: Path, repository: Repository, state: GitState, stores: Sequence[Path], exclude: bytes
) -> None:
    """Create a git folder for the agent in which everything works and nothing reaches the user's. Raises OSError."""
    files = dict(state.files)
    files["info/exclude"] = files.get("info/exclude", b"").rstrip(b"\n") + b"\n" + exclude
    settings = [
        ("core.bare", "false"),
        ("core.logallrefupdates", "true"),
        *state.tree_settings,
        *state.settings,
    ]
    settings += [("gc.auto", "0"), ("maintenance.auto", "false")]
    partial = any(name == "extensions.partialclone" for name, _ in settings)
    _make(folder, repository.object_format, stores, settings, state.head, files, partial)
    lines = ["# pack-refs with: sorted \n"]
    for oid, name, stands_for in state.refs:
        if stands_for:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(os.fsencode(f"ref: {stands_for}\n"))
        else:
            lines.append(f"{oid} {name}\n")
    (folder / "packed-refs").write_bytes(os.fsencode("".join(lines)))


def _make(
    folder: Path,
    object_format: str,
    stores: Sequence[Path],
    settings: Sequence[Setting],
    head: str,
    files: dict[str, bytes],
    extended: bool = False,
) -> None:
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write_stores(folder, stores)
    extended = extended or object_format != "sha1"
    if object_format != "sha1":
        settings = [*settings, ("extensions.objectformat", object_format)]
    settings = [("core.repositoryformatversion", "1" if extended else "0"), *settings]
    (folder / "config").write_bytes(b"".join(_setting(name, value) for name, value in settings))
    # HEAD comes last, because without it the folder is no repository.
    (folder / "HEAD").write_bytes(os.fsencode(head) + b"\n")


def write_stores(folder: Path, stores: Sequence[Path]) -> None:
    """Say from where the git folder borrows objects. Raises OSError."""
    lines = b"".join(_quoted(os.fsencode(store)) + b"\n" for store in stores)
    (folder / "objects" / "info" / "alternates").write_bytes(lines)


def _setting(name: str, value: str) -> bytes:
    section, _, rest = name.partition(".")
    inner, _, key = rest.rpartition(".")
    inner = inner.replace("\\", "\\\\").replace('"', '\\"')
    value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    head = f'[{section} "{inner}"]' if inner else f"[{section}]"
    return os.fsencode(f'{head}\n\t{key} = "{value}"\n')


def _quoted(path: bytes) -> bytes:
    if not path.startswith((b'"', b"#")) and b"\n" not in path:
        return path
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def ignore_line(path: bytes) -> bytes:
    """Return the line for ``info/exclude`` that names just this file, relative to the top."""
    # A pattern line cannot contain a line end, so match any character instead.
    path = path.replace(b"\n", b"?")
    escaped = b"".join(b"\\" + bytes([char]) if char in b"\\*[]!# " else bytes([char]) for char in path)
    return b"/" + escaped + b"\n"
