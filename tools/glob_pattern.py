"""Glob patterns as people write them, as regular expressions over ``/``-separated relative paths. Pure."""

from __future__ import annotations

import re

from tools.base import ToolError


def compile_glob(pattern: str) -> re.Pattern[str]:
    """``*`` and ``?`` stop at ``/``, ``**`` does not; ``[a-z]``, ``[!a]``, ``{a,b}`` and ``\\`` work as usual.

    A pattern without ``/`` matches names at any depth, as in ``.gitignore``. Raises ToolError when malformed.
    """
    pattern = pattern.replace("\\\\", "\\").removeprefix("./")
    prefix = "" if "/" in pattern else "(?:.*/)?"
    try:
        return re.compile(prefix + _translate(pattern.lstrip("/")) + r"\Z", re.DOTALL)
    except re.error as error:
        raise ToolError(f"Not a usable glob pattern: {pattern!r} ({error}).") from error


def split_base(pattern: str) -> tuple[str, str]:
    """The folder a pattern begins with, up to its first wildcard, and the rest: ``/a/b/**/*.py`` → ``/a/b``."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if re.search(r"[*?\[{]", part) or index == len(parts) - 1:
            return "/".join(parts[:index]) or ("/" if pattern.startswith("/") else ""), "/".join(
                parts[index:]
            )
    return "", pattern


def _translate(pattern: str) -> str:
    out: list[str] = []
    depth = 0
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            stars = at - 1
            while pattern[at : at + 1] == "*":
                at += 1
            whole = at - stars > 1 and (stars == 0 or pattern[stars - 1] in "/{,")
            if whole and pattern[at : at + 1] == "/":
                out.append("(?:.*/)?")
                at += 1
            else:
                out.append(".*" if at - stars > 1 else "[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = pattern.find("]", at + 1 + (pattern[at : at + 1] in ("!", "^")))
            if end < 0:
                out.append(r"\[")
                continue
            body = pattern[at:end].replace("\\", r"\\").replace("[", r"\[").replace("&&", r"&\&")
            out.append("[" + ("^/" + body[1:] if body[0] in "!^" else body) + "]")
            at = end + 1
        elif char == "{" and _closes(pattern, at):
            out.append("(?:")
            depth += 1
        elif char == "}" and depth:
            out.append(")")
            depth -= 1
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _closes(pattern: str, at: int) -> bool:
    depth = 1
    while at < len(pattern) and depth:
        depth += {"{": 1, "}": -1}.get(pattern[at], 0)
        at += 1
    return depth == 0
