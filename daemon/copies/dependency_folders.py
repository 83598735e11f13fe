"""Folders that are ignored but needed (``.venv``, ``node_modules``): find them, and prepare Python's paths.

They become links in the copy. Reading through them is intended; writes are prevented because tools resolve links before
they decide (a file outside the copy), and because the sandbox binds their targets read-only.

An editable install in a linked environment names the workspace's own sources; commands in the copy would import the
main session's code. So the copy's counterparts go in front, by ``PYTHONPATH``. The environment's files are only read.
"""

from __future__ import annotations

import ast
import json
import os
import re
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from tools.files.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOST = 2 << 20
_QUOTED = re.compile(r"""(?:'([^'\n]+)'|"([^"\n]+)")""")


def wanted(ignored: Iterable[bytes], patterns: Sequence[str], workspace: bytes) -> list[bytes]:
    """Return those of the ignored folders that are to be linked; all relative to the top.

    A pattern without slash is a name at any depth; one with a slash is a path in the ``workspace``, which is empty, or
    ends with ``/``.
    """
    names = [pattern for given in patterns if (pattern := given.strip("/"))]
    paths = [escape(os.fsdecode(workspace)) + pattern for pattern in names if "/" in pattern]
    found: list[bytes] = []
    for raw in ignored:
        path = os.fsdecode(raw.rstrip(b"/"))
        name = path.rpartition("/")[2]
        by_name = any(fnmatchcase(name, pattern) for pattern in names if "/" not in pattern)
        if by_name or any(fnmatchcase(path, pattern) for pattern in paths):
            found.append(os.fsencode(path))
    return found


def environment(top: Path, copy: Path, links: Iterable[bytes], given: str = "") -> dict[str, str]:
    """Variables for commands in ``copy``, so that they import its sources. ``given``: PYTHONPATH of the daemon."""
    sources: list[str] = []
    for link in links:
        for path in named_sources(top / os.fsdecode(link)):
            counterpart = _counterpart(path, top, copy)
            if counterpart and counterpart not in sources:
                sources.append(counterpart)
    for path in given.split(os.pathsep) if given else ():
        sources.append(_counterpart(path, top, copy) or path)
    return {"PYTHONPATH": os.pathsep.join(sources)} if sources else {}


def _counterpart(path: str, top: Path, copy: Path) -> str | None:
    real = Path(os.path.realpath(path))
    if not Path(path).is_absolute() or not real.is_relative_to(top):
        return None
    return str(copy / real.relative_to(top))


def named_sources(environment: Path) -> list[str]:
    """Absolute paths that a virtual environment adds to the import path, but for its own folders."""
    found: list[str] = []
    for site in _sites(environment):
        here: list[str] = []
        for path in sorted(site.iterdir()):
            if path.suffix == ".pth":
                here += _of_pth(path)
            elif path.name.startswith("__editable__") and path.suffix == ".py":
                here += _of_finder(path)
        # A fallback for files that were not understood, because a project's folder is not always what they add.
        for path in sorted(site.glob("*.dist-info/direct_url.json")):
            project = _of_url(path)
            if project and not any(Path(known).is_relative_to(project) for known in here):
                source = Path(project) / "src"
                here.append(str(source if source.is_dir() else project))
        own = os.path.realpath(environment)
        found += [path for path in here if not Path(os.path.realpath(path)).is_relative_to(own)]
    return list(dict.fromkeys(found))


def _sites(environment: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in environment.glob("lib*/python*/site-packages") if path.is_dir())
        yield from sorted(path for path in environment.glob("Lib/site-packages") if path.is_dir())
    except OSError:
        return


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MOST, follow=True).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _of_pth(path: Path) -> Iterator[str]:
    for line in _text(path).splitlines():
        line = line.strip().lstrip("\ufeff")
        if not line or line.startswith("#"):
            continue
        if line.startswith(("import ", "import\t")):
            quoted = (one or other for one, other in _QUOTED.findall(line))
            yield from (said for said in quoted if Path(said).is_absolute())
        else:
            yield os.path.normpath(path.parent / line)


def _of_finder(path: Path) -> Iterator[str]:
    try:
        body = ast.parse(_text(path)).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for statement in body:
        if isinstance(statement, ast.AnnAssign):
            target, value = statement.target, statement.value
        elif isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        else:
            continue
        if not isinstance(target, ast.Name) or target.id not in ("MAPPING", "NAMESPACES") or value is None:
            continue
        try:
            mapping: Any = ast.literal_eval(value)  # Any: content of a file
        except (ValueError, SyntaxError, TypeError, RecursionError):
            continue
        if isinstance(mapping, dict):
            for name, places in cast("dict[Any, Any]", mapping).items():
                listed = cast("list[Any]", places) if isinstance(places, list) else [places]
                yield from _above(str(name), [str(place) for place in listed])


def _above(package: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the folders that contain a package; none if its folder has another name, which no path can express."""
    parts = tuple(package.split("."))
    for place in places:
        path = Path(place)
        if path.suffix == ".py":
            path = path.with_suffix("")
        if path.is_absolute() and path.parts[-len(parts) :] == parts:
            yield str(Path(*path.parts[: -len(parts)]))


def _of_url(path: Path) -> str | None:
    try:
        found: Any = json.loads(_text(path) or "null")  # Any: content of a file
        if not isinstance(found, dict):
            return None
        known = cast("dict[str, Any]", found)
        info = known.get("dir_info")
        parts = urlsplit(str(known.get("url")))
    except ValueError:
        return None
    editable = isinstance(info, dict) and cast("dict[str, Any]", info).get("editable") is True
    return unquote(parts.path) if editable and parts.scheme == "file" and parts.path.startswith("/") else None
