"""The user's repository, read only: its folders, its refs and the harmless part of its configuration. And git folders
of our own that borrow its objects: for the agent in a copy, and for our own comparing.

It is untrusted input, and it is never written: no command here takes a lock, refreshes an index or adds an object.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from daemon.copies.working_copy import CopyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


class Repository(Struct, frozen=True):
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


class GitState(Struct, frozen=True):
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
    files: dict[str, bytes]
    """Content of files in the git folder, by name."""

    def __repr__(self) -> str:
        return f"GitState({self.head!r}, {self.commit!r})"  # the files may have secrets


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


# -- git folders of our own --

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


def make_git_for_us(
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


def make_git_for_agent(
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
