"""The user's repository, read only: its folders, its refs and the harmless part of its configuration.

It is untrusted input, and it is never written: no command here takes a lock, refreshes an index or adds an object.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from daemon.copies.working_copy import CopyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.copies.git_program import GitProgram

_TREE_SETTINGS = frozenset(
    f"core.{name}"
    for name in (
        *("autocrlf", "eol", "ignorecase", "symlinks", "filemode", "precomposeunicode", "excludesfile"),
        *("attributesfile", "sparsecheckout", "sparsecheckoutcone", "longpaths", "protecthfs", "protectntfs"),
        "checkroundtripencoding",
    )
)
"""Settings that decide which files count and what their hashes are; none of them names a program."""
_COPIED = re.compile(
    r"user\.(?:name|email)|author\.(?:name|email)|committer\.(?:name|email)|init\.defaultbranch|"
    r"remote\..+\.(?:fetch|promisor|partialclonefilter|tagopt)|branch\..+\.(?:remote|merge|rebase)|"
    r"submodule\..+\.active|submodule\.active|extensions\.partialclone|pull\.(?:rebase|ff)|index\.sparse|"
    r"push\.default|merge\.conflictstyle|diff\.(?:algorithm|renames)|i18n\.(?:commitencoding|logoutputencoding)",
    re.DOTALL,
)
_URL = re.compile(r"(?:remote|submodule)\..+\.(?:url|pushurl)", re.DOTALL)
_SCHEMES = ("http", "https", "ssh", "git", "file")
_STATE = (
    *("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
    *("REBASE_HEAD", "ORIG_HEAD", "FETCH_HEAD", "SQUASH_MSG", "BISECT_LOG", "BISECT_NAMES", "BISECT_START"),
    *("BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)
"""Files in the working tree's git folder that record an operation in progress."""
_SHARED_STATE = ("shallow", "info/exclude", "info/attributes", "info/grafts", "logs/refs/stash")
_LOG = "logs/HEAD"
"""Names the commit that a detached HEAD was detached at."""
_MOST_STATE = 4 << 20
"""Bytes of one such file; a larger one is none of git's making."""

Setting = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Repository:
    """Where its parts are; all absolute and resolved."""

    top: Path
    git_dir: Path
    """The git folder of this working tree; for a linked one it is not ``common``."""
    common: Path
    objects: Path
    index: Path
    object_format: str

    @property
    def hash_size(self) -> int:
        """Bytes of an object's id."""
        return 32 if self.object_format == "sha256" else 20

    @staticmethod
    def of(git: GitProgram, folder: Path) -> Repository | None:
        """Return the repository that contains ``folder``; None: there is none, or git does not trust it."""
        asked = (
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--git-path=objects",
            "--git-path=index",
        )
        args = [part for name in (*asked, "--show-object-format") for part in name.split("=")]
        lines = git.ask(folder, "rev-parse", "--path-format=absolute", *args, fails=True).split(b"\n")
        if len(lines) != len(asked) + 2:
            # A path contains a line end (or there is no repository), so ask for one at a time.
            lines = [
                git.ask(folder, "rev-parse", "--path-format=absolute", *name.split("="), fails=True)
                for name in (*asked, "--show-object-format")
            ]
            if not all(lines[:-1]):
                return None
        found = [
            Path(os.path.realpath(os.fsdecode(line.removesuffix(b"\n")))) for line in lines[: len(asked)]
        ]
        kind = lines[len(asked)].decode().strip() or "sha1"
        top, git_dir, common, objects, index = found
        if not folder.is_relative_to(top):
            return None  # its configuration moves the files elsewhere
        return Repository(top, git_dir, common, objects, index, kind)

    def stores(self) -> list[Path]:
        """Return the folders of objects that it reads from: its own and borrowed ones."""
        found: list[Path] = []
        waiting = [self.objects]
        while waiting and len(found) < 50:
            store = waiting.pop(0)
            if store in found:
                continue
            found.append(store)
            try:
                lines = (store / "info" / "alternates").read_bytes().split(b"\n")
            except OSError:
                continue
            waiting += [
                Path(os.path.realpath(store / os.fsdecode(_unquoted(line))))
                for line in lines
                if line and not line.startswith(b"#")
            ]
        return found


@dataclass(frozen=True, slots=True)
class GitState:
    """The data for a private copy of the git folder, as of one moment."""

    head: str
    """Content of the file HEAD."""
    commit: str | None
    refs: tuple[tuple[str, str, str], ...]
    """Object id, name, and the target of a symbolic ref (or empty)."""
    tree_settings: tuple[Setting, ...]
    """Those of all scopes that decide about files."""
    settings: tuple[Setting, ...]
    """The repository's settings for the copy."""
    files: dict[str, bytes] = field(repr=False)
    """Content of files in the git folder, by name."""


def state_of(git: GitProgram, repository: Repository) -> GitState:
    """Read it. Raises CopyError."""
    top = repository.top
    commit = git.ask(top, "rev-parse", "-q", "--verify", "HEAD^{commit}", fails=True).decode().strip() or None
    branch = os.fsdecode(git.ask(top, "symbolic-ref", "-q", "HEAD", fails=True)).removesuffix("\n")
    if not branch and commit is None:
        raise CopyError("HEAD of the repository is damaged. Run `git status` for details.")
    listing = git.ask(top, "for-each-ref", "--format=%(objectname)%00%(refname)%00%(symref)")
    refs = [os.fsdecode(line).split("\0") for line in listing.split(b"\n") if line]
    tree_settings, settings = _settings(git, repository)
    return GitState(
        f"ref: {branch}" if branch else str(commit),
        commit,
        tuple((oid, name, to) for oid, name, to in refs),
        tree_settings,
        settings,
        dict(_files(repository)),
    )


def _settings(git: GitProgram, repository: Repository) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    fields = git.ask(repository.top, "config", "--list", "-z", "--show-scope").split(b"\0")
    tree: dict[str, str] = {}
    copied: list[Setting] = []
    for scope, both in zip(fields[0::2], fields[1::2], strict=False):
        name, has_value, value = os.fsdecode(both).partition("\n")
        if not has_value:
            value = "true"
        if name in _TREE_SETTINGS:
            if name not in ("core.excludesfile", "core.attributesfile") or _is_file(value):
                tree[name] = value
        elif scope not in (b"local", b"worktree"):
            continue
        elif _URL.fullmatch(name):
            if url := _without_credentials(value, repository.top):
                copied.append((name, url))
        elif _COPIED.fullmatch(name):
            copied.append((name, value))
    return tuple(tree.items()), tuple(copied)


def _is_file(value: str) -> bool:
    # Reading anything else (a device, a pipe) might never end.
    return (
        Path(value).expanduser().is_file() if not value.startswith("~") or value.startswith("~/") else False
    )


def _without_credentials(url: str, top: Path) -> str | None:
    """Return an address without credentials; None unless it is a plain address: git would run a program for others."""
    if "::" in url.split("/", 1)[0]:
        return None
    if "://" not in url:
        if url.startswith(("./", "../")):
            return os.path.normpath(top / url)
        return url if not url.startswith("-") else None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in _SCHEMES:
        return None
    host = parts.netloc.rpartition("@")
    user = host[0].partition(":")[0] if parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=f"{user}@{host[2]}" if user else host[2]))


def _files(repository: Repository) -> Iterator[tuple[str, bytes]]:
    for name in _SHARED_STATE:
        yield from _small(repository.common / name, name)
    sparse = "info/sparse-checkout"
    yield from _small(repository.git_dir / sparse, sparse)
    for name in (*_STATE, _LOG):
        path = repository.git_dir / name
        if path.is_dir() and not path.is_symlink():
            for inner in sorted(path.iterdir()):
                yield from _small(inner, f"{name}/{inner.name}")
        else:
            yield from _small(path, name)


def _small(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_STATE:
            yield name, path.read_bytes()
    except OSError:
        return  # deleted meanwhile: the operation is over


def _unquoted(line: bytes) -> bytes:
    if not line.startswith(b'"'):
        return line
    inner = line.strip()[1:-1]
    plain = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"a": b"\a", b"f": b"\f", b"v": b"\v"}

    def one(match: re.Match[bytes]) -> bytes:
        said = match.group(1)
        return bytes([int(said, 8) & 255]) if said[:1].isdigit() else plain.get(said, said)

    return re.sub(rb"\\([0-7]{3}|.)", one, inner, flags=re.DOTALL)
