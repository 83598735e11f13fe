"""The working tree of a repository at one moment: the files that belong to it, and git's objects for them.

There are two indices. That of ``tree.git`` is what ``git add -A`` in the workspace would make; its tree is
``Base.tree``. That of ``raw.git`` names the bytes on disk, where line ends, keywords, encodings or a filter make a blob
differ from its file, and where git was told not to look. Usually they are the same. **No filter is ever run:** the
content of a file that has one is hashed as it is on disk, unless git's index knows it unchanged.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.copies.copy_diff import EMPTY_TREE
from daemon.copies.git_program import INDEX, PrivateIndex
from daemon.copies.repository import GitState, Repository, make_git_for_us, state_of, write_stores
from daemon.copies.working_copy import MOST_BYTES, MOST_FILES, CopyError
from daemon.files import index_file
from daemon.files.index_file import FILE, GITLINK, LINK, GitIndex, IndexLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.copies.git_program import GitProgram

KEPT = "kept"
"""Name in a snapshot's folder: a pack of objects that the user's git may remove."""
_OF_RAW = frozenset(
    f"core.{name}"
    for name in ("ignorecase", "symlinks", "filemode", "precomposeunicode", "excludesfile", "longpaths")
)
_ATTRIBUTES = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")


class Snapshot(Struct, frozen=True):
    """One repository's part of the base; those inside it (submodules and others) are in ``parts``."""

    repository: Repository | None
    """None: a plain folder, whose files are compared with the help of git."""
    state: GitState | None
    source: Path
    prefix: bytes
    """Where it is in the outermost one: empty, or with ``/`` at its end."""
    git_dir: Path
    """Ours, with the index of ``git add -A``."""
    raw_dir: Path
    """Ours: the same without conversions."""
    hash_size: int
    tree: str
    raw_tree: str
    raw: GitIndex
    raw_data: bytes
    user_data: bytes
    """The user's index."""
    user: GitIndex
    user_mtime_ns: int
    folders: tuple[bytes, ...]
    """Empty folders of submodules that are not initialised."""
    parts: tuple[Snapshot, ...]

    @property
    def files(self) -> Iterable[IndexLine]:
        """Return the files to copy."""
        return (entry for entry in self.raw.entries if entry.kind in (FILE, LINK) and not entry.skipped)

    def all(self) -> Iterable[Snapshot]:
        """This one and all inside it."""
        yield self
        for part in self.parts:
            yield from part.all()


def take(
    git: GitProgram,
    repository: Repository | None,
    source: Path,
    place: Path,
    exclude: bytes = b"",
    prefix: bytes = b"",
) -> Snapshot:
    """Read the files in ``source``; keep objects that the repository lacks in the new folder ``place``.

    ``exclude``: more lines as in ``.gitignore``. Raises CopyError and OSError.
    """
    place.mkdir(mode=0o700)
    return _SnapshotBuilder(git, repository, source, place, exclude, prefix).take()


@dataclass
class _SnapshotBuilder:
    _git: GitProgram
    _repository: Repository | None
    _source: Path
    _place: Path
    _exclude: bytes
    _prefix: bytes

    def __post_init__(self) -> None:
        self._tree_dir, self._raw_dir = self._place / "tree.git", self._place / "raw.git"
        self._hash_size = self._repository.hash_size if self._repository else 20
        self._tree_git = PrivateIndex(self._git, self._tree_dir, self._source)
        self._raw_git = PrivateIndex(self._git, self._raw_dir, self._source)

    def take(self) -> Snapshot:
        state = state_of(self._git, self._repository) if self._repository else None
        self._make(state)
        user_data, user, user_mtime_ns = self._take_index()
        self._tree_git.add_all()
        tree = self._tree_git.write_tree()
        data = (self._tree_dir / INDEX).read_bytes() if (self._tree_dir / INDEX).exists() else b""
        tree_index = index = index_file.read(data, self._hash_size)
        if len(index.entries) > MOST_FILES:
            raise CopyError(
                f"{self._source} has more than {MOST_FILES} files that are not ignored. Add files that are "
                "not needed to .gitignore."
            )
        if sum(entry.stat[8] for entry in index.entries) > MOST_BYTES:
            raise CopyError(
                f"The files of {self._source} that are not ignored are larger than {MOST_BYTES >> 30} GB, "
                "too much to copy. Add files that are not needed to .gitignore."
            )
        raw_tree, raw_data = tree, data
        again = self._to_hash_again(index, state)
        if again or (state and dict(state.tree_settings).get("core.sparsecheckout", "false") != "false"):
            raw_data = self._hash_again(again)
            raw_tree = self._raw_git.write_tree()
            index = index_file.read(raw_data, self._hash_size)
        self._own(state, {tree, raw_tree}, user, tree_index)
        parts, folders = self._inner(index)
        return Snapshot(
            repository=self._repository,
            state=state,
            source=self._source,
            prefix=self._prefix,
            git_dir=self._tree_dir,
            raw_dir=self._raw_dir,
            hash_size=self._hash_size,
            tree=tree,
            raw_tree=raw_tree,
            raw=index,
            raw_data=raw_data,
            user_data=user_data,
            user=user,
            user_mtime_ns=user_mtime_ns,
            folders=tuple(folders),
            parts=tuple(parts),
        )

    def _own(self, state: GitState | None, trees: set[str], user: GitIndex, index: GitIndex) -> None:
        """Copy objects that no commit holds into our own store: the user's ``git gc`` may remove them from theirs.

        These are objects that only the working tree or the index needs, and that were in their store already (staged
        once, say). The cost follows the changes. Raises CopyError.
        """
        if self._repository is None:
            return
        run = self._raw_git.run
        known = {entry.oid for entry in index.entries}
        wanted = {
            one.oid.hex().encode() for one in user.entries if one.kind != GITLINK and one.oid not in known
        }
        before = state.commit if state and state.commit else EMPTY_TREE[self._hash_size]
        for tree in trees:
            wanted.add(tree.encode())
            fields = run("diff-tree", "-r", "-t", "-z", "--no-renames", before, tree, long=False).split(b"\0")
            heads = [field.split(b" ") for field in fields[0::2] if field]
            wanted |= {head[3] for head in heads if int(head[1], 8) not in (0, GITLINK)}
        stores = self._repository.stores()
        ours = self._tree_dir / "objects"
        write_stores(self._tree_dir, ())
        write_stores(self._raw_dir, [ours])
        foreign = wanted - self._raw_git.sizes(wanted).keys()
        write_stores(self._tree_dir, stores)
        write_stores(self._raw_dir, [ours, *stores])
        # In a partial clone, some objects do not exist locally.
        if there := self._raw_git.sizes(foreign):
            given = b"".join(oid + b"\n" for oid in there)
            kept = self._place / KEPT
            kept.mkdir()
            run("pack-objects", "-q", "--window=0", str(kept / "pack"), given=given)
            for file in sorted(kept.iterdir(), key=lambda path: path.suffix, reverse=True):  # the index last
                shutil.copyfile(file, ours / "pack" / file.name)

    def _make(self, state: GitState | None) -> None:
        repository = self._repository
        stores = repository.stores() if repository else []
        kind = repository.object_format if repository else "sha1"
        files = state.files if state else {}
        settings = state.tree_settings if state else ()
        plain = repository is None
        make_git_for_us(self._tree_dir, kind, stores, settings, files, self._exclude, as_they_are=plain)
        # New objects of both indexes go to one place.
        neutral = [one for one in settings if one[0] in _OF_RAW]
        both = [self._tree_dir / "objects", *stores]
        make_git_for_us(self._raw_dir, kind, both, neutral, files, self._exclude, as_they_are=True)

    def _take_index(self) -> tuple[bytes, GitIndex, int]:
        """Copy the user's index with its time: git uses it to find files that may have changed without a change of
        their stat."""
        if self._repository is None or not self._repository.index.exists():
            return b"", index_file.read(b"", self._hash_size), 0
        source, target = self._repository.index, self._tree_dir / INDEX
        data = source.read_bytes()
        found = source.stat()
        target.write_bytes(data)
        index = index_file.read(data, self._hash_size)
        if index.is_split:
            for shared in source.parent.glob("sharedindex.*"):
                shutil.copy2(shared, self._tree_dir / shared.name)
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
            self._tree_git.run("update-index", "--no-split-index", "--force-write-index")
            data = target.read_bytes()
            index = index_file.read(data, self._hash_size)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        return data, index, found.st_mtime_ns

    def _to_hash_again(self, index: GitIndex, state: GitState | None) -> list[tuple[IndexLine, bool]]:
        """Entries whose blob may not be the bytes of the file, and whether there is a file."""
        found = [
            (entry, os.path.lexists(self._at(entry.path)))
            for entry in index.entries
            if (entry.assumed or entry.skipped) and entry.kind in (FILE, LINK)
        ]
        found = [(entry, there) for entry, there in found if there or entry.assumed]
        if self._repository is None or state is None or not self._may_convert(index, state):
            return found
        seen = {entry.path for entry, _ in found}
        entries = [e for e in index.entries if e.kind == FILE and not e.skipped and e.path not in seen]
        always, sized = self._converted(entries, dict(state.tree_settings))
        sizes = self._tree_git.sizes({entry.oid.hex().encode() for entry in sized})
        return [
            *found,
            *((entry, True) for entry in always),
            # git's conversions of a text (of carriage returns, keywords) change its size.
            *((entry, True) for entry in sized if not entry.has_size(sizes)),
        ]

    def _may_convert(self, index: GitIndex, state: GitState) -> bool:
        settings = dict(state.tree_settings)
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return (
            _converts_line_ends(settings)
            or "core.attributesfile" in settings
            or bool(state.files.get("info/attributes"))
            or any(path.exists() for path in (home / "git/attributes", Path("/etc/gitattributes")))
            or any(entry.path.endswith(b".gitattributes") for entry in index.entries)
        )

    def _converted(
        self, entries: Sequence[IndexLine], settings: dict[str, str]
    ) -> tuple[list[IndexLine], list[IndexLine]]:
        """Return those whose conversion can have an effect, and those whose conversion makes them shorter."""
        given = b"".join(entry.path + b"\0" for entry in entries)
        fields = (
            self._tree_git.run("check-attr", "-z", "--stdin", *_ATTRIBUTES, given=given).split(b"\0")
            if entries
            else []
        )
        everywhere = _converts_line_ends(settings)
        always: set[bytes] = set()
        sized: set[bytes] = set()
        for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            if value in (b"unspecified", b"unset"):
                continue
            (always if name in (b"filter", b"working-tree-encoding") else sized).add(path)
        return (
            [entry for entry in entries if entry.path in always],
            [entry for entry in entries if entry.path not in always and (everywhere or entry.path in sized)],
        )

    def _hash_again(self, entries: Sequence[tuple[IndexLine, bool]]) -> bytes:
        """Return the raw index, with these entries hashed as they are on disk."""
        index = self._raw_dir / INDEX
        shutil.copy2(self._tree_dir / INDEX, index)
        lines = b"".join(
            b"%o %s 0\t%s\0" % (entry.mode if there else 0, entry.oid.hex().encode(), entry.path)
            for entry, there in entries
        )
        # A newly set entry has no stat (and no flags), so git must read the file.
        self._raw_git.run("update-index", "-z", "--index-info", given=lines)
        self._raw_git.add_all("--sparse")
        return index.read_bytes()

    def _inner(self, index: GitIndex) -> tuple[list[Snapshot], list[bytes]]:
        """Return the repositories inside, and the folders of those that have none (yet)."""
        names = {entry.path for entry in index.entries if entry.kind == GITLINK}
        names |= self._tree_git.unborn | self._raw_git.unborn  # left out of our index, but files nevertheless
        parts: list[Snapshot] = []
        folders: list[bytes] = []
        for name in sorted(names):
            folder = self._at(name)
            if folder.is_symlink() or not folder.is_dir():
                continue
            inner = Repository.of(self._git, folder) if os.path.lexists(folder / ".git") else None
            if inner is None or inner.top != Path(os.path.realpath(folder)):
                folders.append(name)
                continue
            place = self._place / f"part{len(parts)}"
            parts.append(take(self._git, inner, folder, place, b"", self._prefix + name + b"/"))
        return parts, folders

    def _at(self, path: bytes) -> Path:
        return self._source / os.fsdecode(path)


def _converts_line_ends(settings: dict[str, str]) -> bool:
    return settings.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0")
