"""Real material: files of installed packages, and what commands would print about them. No clock, no network.

Everything is chosen by the random generator that the caller gives, so the same seed and the same installed
packages give the same text.
"""

from __future__ import annotations

import difflib
import importlib.util
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.read import MAX_BYTES, SEPARATOR

READ_LINES = (100, 400, 160)
"""Least, most and most usual number of lines that an agent reads at once."""
MAX_MATCHES = 100
_SYMBOL = re.compile(r"^\s*(?:async def|def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file of a package, by the path that it has in the story's workspace."""

    path: str
    lines: tuple[str, ...]

    def symbols(self) -> list[str]:
        """Names of its functions and classes that are worth talking about."""
        names = [name for name in _SYMBOL.findall("\n".join(self.lines)) if len(name) > 5]
        return [name for name in names if not name.startswith("__")] or ["module"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of some lines, as the arguments of ``edit`` and its result have it."""

    path: str
    old: str
    new: str
    result: str


class Sources:
    """The files of some packages, and views of them."""

    def __init__(self, packages: Sequence[str]) -> None:
        """Raises RuntimeError when a package is not installed."""
        self.files: dict[str, list[SourceFile]] = {name: _files(name) for name in packages}

    def working_set(self, rng: random.Random, packages: Sequence[str], size: int = 7) -> list[SourceFile]:
        """Files that one goal is about."""
        choice = [file for name in packages for file in self.files[name]]
        return rng.sample(choice, min(size, len(choice)))

    def read(self, rng: random.Random, file: SourceFile) -> tuple[dict[str, object], str]:
        """Arguments and result of ``read`` (its format and its limits)."""
        least, most, usual = READ_LINES
        limit = round(rng.triangular(least, most, usual) / 10) * 10
        total = len(file.lines)
        offset = 1 if total <= limit else rng.randrange(1, total - limit + 2)
        shown: list[str] = []
        size = 0
        for number, line in enumerate(file.lines[offset - 1 : offset - 1 + limit], offset):
            row = f"{number}{SEPARATOR}{line}"
            size += len(row.encode()) + 1
            if size > MAX_BYTES:
                break
            shown.append(row)
        last = offset + len(shown) - 1
        if last < total:
            shown.append(f"(Lines {offset}-{last} of {total}. Continue with offset={last + 1}.)")
        elif offset > 1:
            shown.append(f"(Lines {offset}-{last} of {total}: the end of the file.)")
        arguments: dict[str, object] = {"file_path": file.path}
        if len(shown) < total:
            arguments |= {"offset": offset, "limit": limit}
        return arguments, "\n".join(shown)

    def grep(
        self, rng: random.Random, files: Sequence[SourceFile], package: str
    ) -> tuple[dict[str, object], str]:
        """Arguments and result of ``grep`` for a name that one of the files has, in all of the package."""
        name = rng.choice(rng.choice(files).symbols())
        lines: list[str] = []
        shown = total = 0
        for file in self.files[package]:
            hits = [(n, line) for n, line in enumerate(file.lines, 1) if name in line]
            total += len(hits)
            if hits and shown < MAX_MATCHES:
                lines.append(file.path)
                lines += [f"{n}→{line}" for n, line in hits[: MAX_MATCHES - shown]]
                shown += len(hits)
        if total > MAX_MATCHES:
            lines.append(f"({total} lines match; the first {MAX_MATCHES} are shown. Narrow the search.)")
        found = "\n".join(lines) or "No lines match."
        return {"pattern": name, "path": f"src/{package}"}, found

    def listing(self, package: str) -> tuple[dict[str, object], str]:
        """Arguments and result of ``glob``."""
        return {"pattern": f"src/{package}/**/*.py"}, "\n".join(f.path for f in self.files[package][:100])

    def edit(self, rng: random.Random, file: SourceFile) -> Edit:
        """A change such as people make: some lines kept, some altered, some new."""
        size = rng.randint(3, 12)
        start = rng.randrange(max(1, len(file.lines) - size))
        old = list(file.lines[start : start + size])
        new = list(old)
        at = rng.randrange(len(new))
        indent = " " * (len(new[at]) - len(new[at].lstrip()))
        name = rng.choice(file.symbols())
        new[at] = new[at] + "  # checked before the call" if new[at].strip() else f"{indent}pass"
        for number in range(rng.randint(1, 9)):
            new.insert(at + 1, f"{indent}{name}_{number} = self._{name}(token, value_{number})")
        diff = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
        added = sum(line.startswith("+") for line in diff)
        removed = sum(line.startswith("-") for line in diff)
        result = "\n".join(
            [f"Edit applied: {file.path} +{added} -{removed}", *diff[:24], "Diagnostics: clean."]
        )
        return Edit(file.path, "\n".join(old), "\n".join(new), result)

    def tests(self, rng: random.Random, files: Sequence[SourceFile], error: str | None) -> str:
        """Return pytest's output: the tests that passed and, with ``error``, the traceback of a failed one."""
        file = rng.choice(files)
        stem = Path(file.path).stem
        lines = [
            f"Exit code: {1 if error else 0}",
            "============================= test session starts ==============================",
            "platform linux -- Python 3.11.4, pytest-9.0.1, pluggy-1.6.0",
            "rootdir: /work/workbench",
            "plugins: anyio-4.16.0, asyncio-1.3.0, hypothesis-6.170.15",
            "",
        ]
        names = rng.sample(sorted(set(file.symbols())), min(len(set(file.symbols())), rng.randint(8, 30)))
        lines += [f"tests/test_{stem}.py::test_{name.lower()} PASSED" for name in names]
        if error is None:
            return "\n".join([*lines, "", f"============== {len(names)} passed in 2.31s =============="])
        lines += ["", "=================================== FAILURES ===================================", ""]
        for frame in range(rng.randint(3, 6)):
            source = rng.choice(files)
            at = rng.randrange(max(1, len(source.lines) - 12))
            lines += [f"    {line}" for line in source.lines[at : at + rng.randint(4, 11)]]
            lines += [f">   {source.lines[at + 1].strip()}", "", f"{source.path}:{at + 2 + frame}: ", ""]
        lines += [f"E   {error}", "", f"FAILED tests/test_{stem}.py::test_{names[-1].lower()} - {error}"]
        return "\n".join([*lines, f"========= 1 failed, {len(names) - 1} passed in 3.07s ========="])

    def diff(self, rng: random.Random, files: Sequence[SourceFile]) -> str:
        """Return the output of ``git diff`` after some edits."""
        lines = ["Exit code: 0"]
        for file in rng.sample(list(files), min(len(files), rng.randint(1, 3))):
            edit = self.edit(rng, file)
            lines += [f"diff --git a/{file.path} b/{file.path}", f"--- a/{file.path}", f"+++ b/{file.path}"]
            lines += list(difflib.unified_diff(edit.old.split("\n"), edit.new.split("\n"), lineterm="", n=3))[
                2:
            ]
        return "\n".join(lines)


def _files(package: str) -> list[SourceFile]:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"the package {package} is not installed: run `make venv` first")
    root = Path(found.origin).parent
    files: list[SourceFile] = []
    for path in sorted(root.rglob("*.py")):
        lines = tuple(path.read_text("utf-8").split("\n"))
        if len(lines) > 80:
            files.append(SourceFile(f"src/{package}/{path.relative_to(root).as_posix()}", lines))
    return files
