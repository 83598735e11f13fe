"""Search without ripgrep: a separate program, so that a runaway pattern can be killed.

Only light modules, and nothing of the workspace: it is started with ``python -I``. One argument, JSON:
``{"pattern", "include", "excluded", "max_columns", "paths"}``; output as ``rg --null --line-number`` prints it:
path, NUL, line number, ``:``, text. Exit code 2 and a message on stderr for a bad pattern.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from tools.errors import ToolError
from tools.search.glob_pattern import compile_glob
from tools.text.lines import diff_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SNIFF_BYTES = 8192


def walk(root: str, excluded: frozenset[str], over: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the regular files below ``root`` with ``/``, relative to it, until ``over``; links are not followed."""
    stack = [""]
    while stack and not over():
        folder = stack.pop()
        try:
            with os.scandir(f"{root}/{folder}" if folder else root) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if over():
                return
            if entry.name in excluded:
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield path
            except OSError:
                continue


def _lines(data: bytes) -> list[str] | None:
    """Return the lines of a text file; None for a binary one."""
    for bom, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(bom):
            return diff_lines(data[2:].decode(codec, "replace"))
    if b"\0" in data[:SNIFF_BYTES]:
        return None
    return diff_lines(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"))


def main(argument: str) -> int:
    """Run one search in the current folder."""
    wanted: dict[str, Any] = json.loads(argument)
    try:
        pattern = re.compile(wanted["pattern"])
    except re.error as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    try:
        include = compile_glob(wanted["include"]) if wanted["include"] else None
    except ToolError as error:
        print(error, file=sys.stderr)
        return 2
    # The output has lines, so that a line end in a name would begin another one.
    paths = wanted["paths"] or (name for name in walk(".", frozenset(wanted["excluded"])) if "\n" not in name)
    width = wanted["max_columns"]
    out = sys.stdout.buffer
    found = False
    for path in paths:
        if include is not None and not include.match(path):
            continue
        try:
            with open(path, "rb") as file:  # noqa: PTH123  # pathlib would double the start-up time
                lines = _lines(file.read())
        except OSError:
            continue
        for number, line in enumerate(lines or (), 1):
            if pattern.search(line):
                found = True
                out.write(os.fsencode(path) + b"\0" + f"{number}:{line[:width]}\n".encode("utf-8", "replace"))
    return 0 if found else 1


def run(argument: str) -> None:
    """Be a program: ``main``, whose reader may go away at any time."""
    try:
        sys.exit(main(argument))
    except BrokenPipeError:
        sys.exit(0)
