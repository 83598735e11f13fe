"""Patches for tests: rendered by git, by difflib and in the envelope form, and spoilt in the usual ways."""

from __future__ import annotations

import difflib
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tools.patch import parse_patch
from tools.patching.plan import apply_hunks
from tools.tool import ToolError


def by_git(folder: Path, old: bytes, new: bytes, context: int) -> bytes:
    """Return the output of ``git diff -U<context>`` for two contents of ``x.txt``."""
    for side, data in (("a", old), ("b", new)):
        (folder / side).mkdir(exist_ok=True)
        (folder / side / "x.txt").write_bytes(data)
    command = ["git", "diff", "--no-index", "--no-prefix", "--text", f"-U{context}", "a/x.txt", "b/x.txt"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout


def by_difflib(old: str, new: str, context: int) -> str:
    """``difflib.unified_diff``, with the marks for a missing final line end that it leaves out."""
    out: list[str] = []
    for line in difflib.unified_diff(lines(old), lines(new), "a/x.txt", "b/x.txt", n=context):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


def envelope(old: str, new: str, context: int, headings: bool = False) -> str:
    """The ``*** Begin Patch`` form; final line ends cannot be told in it."""
    a, b = [line.rstrip("\n") for line in lines(old)], [line.rstrip("\n") for line in lines(new)]
    out = ["*** Begin Patch", "*** Update File: x.txt"]
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(context):
        above = [
            m.group().strip() for line in a[: group[0][1]] if (m := re.match(r"\s*(?:def|class) .*", line))
        ]
        out.append(f"@@ {above[-1]}" if headings and above else "@@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [" " + line for line in a[i1:i2]]
            else:
                out += ["-" + line for line in a[i1:i2]] + ["+" + line for line in b[j1:j2]]
    return "\n".join([*out, "*** End Patch", ""])


def lines(text: str) -> list[str]:
    """Lines as ``diff`` sees them, with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _headers(change: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    return lambda patch: re.sub(r"(?m)^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@(.*)$", change, patch)


def spoilings(rng: random.Random) -> dict[str, Callable[[str], str]]:
    """The ways in which models and mail programs spoil a unified diff, without making another one of it."""

    def counted(m: re.Match[str]) -> str:
        return f"@@ -{m[1]},{rng.randint(0, 30)} +{m[3]},{rng.randint(0, 30)} @@{m[5]}"

    def numbered(m: re.Match[str]) -> str:
        by = rng.randint(1, 40)
        return f"@@ -{int(m[1]) + by}{m[2] or ''} +{int(m[3]) + by}{m[4] or ''} @@{m[5]}"

    return {
        "as it is": lambda patch: patch,
        "without index line": lambda patch: re.sub(r"(?m)^index .*\n", "", patch),
        "wrong numbers": _headers(numbered),
        "wrong numbers, no index": lambda patch: re.sub(r"(?m)^index .*\n", "", _headers(numbered)(patch)),
        "wrong counts": _headers(counted),
        "no counts": _headers(lambda m: f"@@ -{m[1]} +{m[3]} @@"),
        "bare @@": _headers(lambda m: "@@"),
        "dots": _headers(lambda m: "@@ ... @@"),
        "blank context bare": lambda patch: re.sub(r"(?m)^ $", "", patch),
        "crlf": lambda patch: patch.replace("\n", "\r\n"),
        "in a fence": lambda patch: f"Do this:\n\n```diff\n{patch}```\nand then:\n\n- rest\n",
        "without git": lambda patch: re.sub(r"(?m)^(diff --git|index) .*\n", "", patch),
    }


def applied(patch: str, old: bytes, fuzz: int = 2) -> bytes | ToolError:
    """The content of the one file after the patch, or why it was refused."""
    try:
        file, *others = parse_patch(patch)
        if others:
            return ToolError(f"{others[0].names} does not exist.")
        return apply_hunks(old, file, fuzz)[0]
    except ToolError as error:
        return error
