"""The files of a command as accesses: resolved like ``tools/paths.py`` does, named as rules name them.

Rules of this module:

- A known file gets an access of its own. Of more than 200 files below a folder, those of one folder and ending become
  one access (``src/*.py``); when even these are too many, or the folder cannot be read, it is ``folder/*``.
- A wildcard is looked up when possible, else it is the pattern itself. A name that is known only at run time is ``*``,
  or ``*name`` where the end of the word is certain.
- A written file counts by its own name and by the target of a link, since some commands replace the link.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.access import Access
from tools.paths import rule_target
from tools.shell.options import PathUse, Use
from tools.shell.wildcards import expression, simple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tools.shell.bash_words import Word

MAX_EACH = 200
"""Files below a folder that are named one by one."""
MAX_GROUPS = 1000
"""Accesses for one wildcard or folder."""
MAX_BRACES = 64


class CommandPlace(Struct, frozen=True):
    """The folder of a command line, and the lookups that are allowed there."""

    workspace: Path
    """Absolute, resolved."""
    home: Path
    real: Callable[[Path], Path] = lambda path: path
    """Follows links (``os.path.realpath``); by default nothing is looked up."""
    files: Callable[[Path, str], Sequence[str] | None] = lambda folder, pattern: None
    """Returns the files that match a shell wildcard in a folder, or that are below a folder (``**``), relative to that
    folder or absolute; None: unknown."""
    others: Callable[[Path], Sequence[Path]] = lambda path: ()
    """Other names of the same file (hard links); by default nothing is looked up."""
    brought_back: Callable[[Path, Sequence[str]], Sequence[str] | None] = lambda folder, names: ()
    """Returns the suffixes of hidden files below a folder that ignore files show again (``!.env``); None: any. The
    names are those of the files there. By default nothing is looked up."""
    names_programs: Callable[[Path], bool] = lambda folder: False
    """Whether the repository around a folder names programs that git would run; by default nothing is looked up."""
    has_program: Callable[[str, Path | None], bool] = lambda name, folder: False
    """Whether the program of this name that a command in the folder runs is the workspace's own; by default nothing is
    looked up."""
    has_bash: bool = True
    """Whether bash runs the line, not another shell."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Values of variables that are known, e.g. HOME."""


class PathOrPattern(Struct, frozen=True):
    """The possible meaning of a word: a file (``path``), or any file that ``pattern`` matches."""

    path: Path | None = None
    pattern: str = ""


_PERMISSION: dict[Use, str] = {"read": "read", "write": "edit", "list": "ls"}
IGNORE_FILES = frozenset([".gitignore", ".ignore", ".rgignore"])
_DEVICE = re.compile(r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)")
PROCESS = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(?:cwd|root|fd)(?:/.*)?|/dev/fd/.*")
# Names that certainly belong to a file.
_ENDING = re.compile(
    r"[^./]\.\w+$|(?:^|/)(?:\w*[Mm]akefile|Dockerfile|Containerfile|LICENSE|LICENCE|README|CHANGELOG|NOTICE|AUTHORS|"
    r"CODEOWNERS|Procfile|Gemfile|Rakefile|Vagrantfile|Jenkinsfile|[Jj]ustfile|\.env|\.envrc|\.git(?:ignore|attributes|"
    r"modules)|\.dockerignore|\.editorconfig|\.npmrc|\.nvmrc)$"
)
_WILD = re.compile(r"[*?\[]")
_QUOTED_ENDING = re.compile(r'"[^"`\\]*\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})([^"`$}/\\{\[\s\w][\w.-]*\w)"')
_ANYTHING = PathOrPattern(pattern="*")


def _in_process(path: str, *, wild: bool = False) -> bool:
    """Return whether a path leads through a link of a process; ``wild``: it has wildcards, which may match one."""
    if not wild:
        return PROCESS.fullmatch(path) is not None
    parts = path.split("/")
    links = any(expression(part).fullmatch(link) for part in parts[3:] for link in ("cwd", "root", "fd"))
    return links and expression(parts[1]).fullmatch("proc") is not None


def is_network(word: Word) -> bool:
    """bash itself opens connections by these names."""
    return re.search(r"/dev/(?:tcp|udp)/", word.text) is not None


class Paths:
    """Finds the accesses of path uses in one place."""

    def __init__(self, place: CommandPlace) -> None:
        self._place = place
        self._known_others: dict[Path, tuple[str, ...]] = {}
        self._ignores_change = False
        """The line may write ignore files before it reads what they say."""

    def folder(self, base: Path | None, folder: str | None) -> Path | None:
        """Return where a command runs, from where its line starts; None when that shows only at run time."""
        if folder is None:
            return None
        if folder == "~" or folder.startswith("~/"):
            return self._place.home / folder[2:]
        path = Path(folder)
        return path if path.is_absolute() else None if base is None else base / path

    def of_use(self, use: PathUse, base: Path | None, why: str) -> Iterator[Access]:
        """Everything that one use of a path would do."""
        base = self._place.workspace if use.top else base
        for word in use.base:
            base = self._one(word, base)
        for spot in self._spots(use.word, base, look=not use.made):
            if use.elsewhere and spot.path is not None and self._is_inside(spot.path):
                continue
            yield from self._accesses(use, spot, why)
            if use.use == "list" and use.word.text.strip("./"):
                # The names are no secret, but a rule that forbids reading the folder may include them.
                yield from self._accesses(PathUse(use.word, "read"), spot, why)

    def of_redirection(self, word: Word, base: Path | None, use: Use, why: str) -> Iterator[Access]:
        """Yield accesses of redirections: ``> file`` asks in full, ``< file`` is implied."""
        for spot in self._spots(word, base):
            yield from self._accesses(PathUse(word, use, full=use == "write"), spot, why)

    def runs_of_repository(self, base: Path | None, steps: Sequence[Word]) -> bool:
        """Return whether git, with these ``-C``, may run programs that its repository names."""
        for word in steps:
            base = self._one(word, base)
        return base is None or self._place.names_programs(base)

    def is_own_program(self, name: str, base: Path | None) -> bool:
        """Return whether the workspace has the program that a command of this name runs."""
        return "/" not in name and self._place.has_program(name, base)

    def _accesses(self, use: PathUse, spot: PathOrPattern, why: str) -> Iterator[Access]:
        permission, implied = _PERMISSION[use.use], not use.full
        if use.use == "write" and (spot.path is None or use.below or spot.path.name in IGNORE_FILES):
            self._ignores_change = True
        if spot.path is None:
            yield Access(permission, spot.pattern, why, implied=implied, several=True)
            if (
                use.below
                and not use.seen
                and not spot.pattern.endswith("*")
                and not (use.maybe and _ENDING.search(spot.pattern))
            ):
                yield Access(permission, f"{spot.pattern}/*", why, implied=implied, several=True)
            return
        real = self._real(spot.path)
        if _in_process(real.as_posix()):
            yield Access(permission, "*", why, implied=implied, several=True)
            return
        names = [self._name(real), *self._others(real)]
        if use.use == "write":
            own = (
                self._name(self._real(spot.path.parent) / spot.path.name)
                if spot.path.name != ".."
                else names[0]
            )
            names.append(own)
        for name in dict.fromkeys(names):
            yield Access(permission, name, why, implied=implied)
        if use.below:
            for pattern, several in self._below(use, real):
                yield Access(permission, pattern, why, implied=implied, several=several)

    def _below(self, use: PathUse, folder: Path) -> Iterator[tuple[str, bool]]:
        found = None if use.made else self._files(folder, "**")
        if found is not None and use.like:
            wanted = expression(f"*{use.like}")
            found = [name for name in found if wanted.fullmatch(name)]
        if found is not None:
            if not use.hidden and not self._ignores_change:
                found = self._without_hidden(folder, found)
            real = {folder / name: self._real(folder / name) for name in found}
            grouped = list(_grouped(sorted(map(self._name, set(real.values())))))
            # Some recursive commands follow links (``grep -R``).
            links = [(f"{self._name(to)}/*", True) for path, to in real.items() if to != path]
            if len(grouped) + len(links) <= MAX_GROUPS:
                yield from grouped
                yield from links
                return
        elif use.seen or (use.maybe and _ENDING.search(folder.name)):
            return
        rest = simple(f"*{use.like}") if use.like else "*"
        yield from ((pattern, True) for pattern in self._under(folder, re.sub(r"\*+", "*", rest)))

    def _without_hidden(self, folder: Path, found: Sequence[str]) -> Sequence[str]:
        """Return the files that ``rg`` looks at."""
        suffixes = self._place.brought_back(folder, found)
        if suffixes is None:
            return found
        back = [expression(f"*{one}{rest}") for one in suffixes for rest in ("", "/*")]
        relative = ((name, _relative(name, folder)) for name in found)
        return [
            name
            for name, inner in relative
            if not re.search(r"(?:^|/)\.", inner) or any(one.fullmatch(inner) for one in back)
        ]

    def _under(self, folder: Path, rest: str) -> Iterator[str]:
        """Yield the names of what ``rest`` means below a folder. Rules name the workspace's files from there."""
        workspace = self._place.workspace
        if folder == workspace:
            yield rest
            return
        yield self._name(folder).rstrip("/") + "/" + rest
        if workspace.is_relative_to(folder):
            yield "*"

    def _spots(self, word: Word, base: Path | None, *, look: bool = True) -> Iterator[PathOrPattern]:
        text = word.text
        if not word.known:
            yield from self._unknown(word, base)
            return
        if not text:
            return
        for one in _braces(text) if word.glob else (text,):
            if one is None:
                yield _ANYTHING
            else:
                yield from self._known(one, word, base, look)

    def _known(self, text: str, word: Word, base: Path | None, look: bool) -> Iterator[PathOrPattern]:
        if word.tilde and (text == "~" or text.startswith("~/")):
            text = (self._place.home / text[2:]).as_posix() + ("/" if text.endswith("/") else "")
        if _DEVICE.fullmatch(text):
            return
        wild = word.glob and _WILD.search(text) is not None
        if base is not None or text.startswith("/"):
            # Two slashes at the beginning are one to Linux, but not to Python.
            text = re.sub(r"^//+", "/", text)
            if _in_process(os.path.normpath((base or Path("/")) / text), wild=wild):
                # It leads to the folder of another process, which cannot be looked up here.
                yield _ANYTHING
                if not wild:
                    return
        if wild:
            yield from self._wildcard(text, word, base, look)
        elif text.startswith("/"):
            yield PathOrPattern(Path(text))
        elif base is None:
            yield PathOrPattern(pattern=_tail(text))
        else:
            yield PathOrPattern(base / text)

    def _unknown(self, word: Word, base: Path | None) -> Iterator[PathOrPattern]:
        text = word.text
        if re.fullmatch(r"~/[\w./-]*", text):
            # Whether it is expanded depends on the shell and on the program.
            yield PathOrPattern(self._place.home / text[2:])
            if base is not None:
                yield PathOrPattern(base / text)
            return
        # Only within double quotes the word cannot be split.
        quoted = re.fullmatch(r'"[^"`]*[}\w]([^"`$}]*/)([^"`$}/\\]+)"', text)
        certain = not re.search(r"\$\(|\$\{?[@*]|\[[@*]\]", text)
        if certain and quoted is None and (ending := _QUOTED_ENDING.fullmatch(text)):
            # ``"$name.py"`` matches any start, including a folder. (Not if only the beginning of a name is certain:
            # ``"src/$x"`` may lead out of src, and without quotes it may become several words.)
            yield PathOrPattern(pattern=f"*{ending[1]}")
            return
        certain = certain and quoted is not None
        yield PathOrPattern(pattern=_tail(quoted[2])) if quoted is not None and certain else _ANYTHING

    def _wildcard(self, text: str, word: Word, base: Path | None, look: bool) -> Iterator[PathOrPattern]:
        parts = text.split("/")
        first = next(index for index, part in enumerate(parts) if _WILD.search(part))
        # Quoted characters are no wildcards, and the text no longer shows which were quoted.
        quoted = re.search(r"['\"\\$`]", word.source) is not None
        rest = "/".join(part for part in parts[first:] if part)
        plain = "/".join(simple(part, quoted=quoted) for part in parts[first:] if part)
        if ".." in parts[first:] or (base is None and not text.startswith("/")):
            yield _ANYTHING
            return
        head = "/".join(parts[:first]) or ("/" if text.startswith("/") else ".")
        folder = self._real((base or Path("/")) / head)
        found = self._files(folder, plain if quoted else rest) if look else None
        if found is not None and len(found) <= MAX_GROUPS:
            # Without any match the shell leaves the word unchanged.
            yield from (PathOrPattern(folder / name) for name in found or (rest,))
            return
        yield from (PathOrPattern(pattern=pattern) for pattern in self._under(folder, plain))

    def _one(self, word: Word, base: Path | None) -> Path | None:
        """Return a folder that other words are relative to."""
        spots = list(self._spots(word, base))
        return spots[0].path if len(spots) == 1 else None

    def _real(self, path: Path) -> Path:
        try:
            path = self._place.real(path)
        except (OSError, RuntimeError, ValueError):
            # A loop of links, or a name that no file can have: use the path as written.
            pass
        return Path(os.path.normpath(path))

    def _is_inside(self, path: Path) -> bool:
        return self._real(path).is_relative_to(self._place.workspace)

    def _others(self, path: Path) -> Iterator[str]:
        if path not in self._known_others:
            try:
                self._known_others[path] = tuple(map(self._name, self._place.others(path)))
            except (OSError, RuntimeError, ValueError):
                # A path that cannot be looked up has no other relevant name.
                self._known_others[path] = ()
        yield from self._known_others[path]

    def _files(self, folder: Path, pattern: str) -> Sequence[str] | None:
        try:
            return self._place.files(folder, pattern)
        except (OSError, RuntimeError, ValueError):
            return None

    def _name(self, path: Path) -> str:
        return rule_target(path, self._place.workspace)


def _relative(name: str, folder: Path) -> str:
    path = Path(name)
    return path.relative_to(folder).as_posix() if path.is_absolute() and path.is_relative_to(folder) else name


def _tail(text: str) -> str:
    """Return a pattern for a file of this name in a folder that is not known."""
    name = text.rstrip("/").rpartition("/")[2]
    return "*" if name in ("", ".", "..") or _WILD.search(name) else f"*{name}"


def _grouped(names: Sequence[str]) -> Iterable[tuple[str, bool]]:
    """Return each file separately, or by folder and ending when there are many; the flag: it is a pattern."""
    if len(names) <= MAX_EACH:
        return [(name, False) for name in names]
    found: dict[str, bool] = {}
    for name in names:
        folder, slash, last = name.rpartition("/")
        stem, dot, ending = last.rpartition(".")
        if stem and dot:
            found[f"{folder}{slash}*.{ending}"] = True
        else:
            found[name] = False
    return found.items()


def _braces(text: str) -> tuple[str | None, ...]:
    """Expand ``a{b,c}`` to ``ab`` and ``ac``; None for other forms."""
    if "{" not in text:
        return (text,)
    done: list[str | None] = []
    todo = [text]
    while todo:
        one = todo.pop()
        found = re.search(r"\{([^{}]*)\}", one)
        if found is None:
            done.append(None if "{" in one or "}" in one else one)
        elif "," not in found[1] or len(todo) + len(done) > MAX_BRACES:
            return (None,)
        else:
            todo += [one[: found.start()] + each + one[found.end() :] for each in found[1].split(",")]
    return tuple(done)
