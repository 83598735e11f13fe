"""Wildcards of permission rules and names of files, pure.

``*`` is any text, also ``/``; ``?`` one character; ``\\`` is read as ``/``; a trailing `` *`` is optional. Patterns may
come from an untrusted workspace, so none may take more than length of pattern × length of target.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
import unicodedata

_ABSENT = "\U000f0000\U000f0001\U000f0002"
"""Private characters that represent "any text" where a wildcard is compared with a pattern."""
_UNTIDY = re.compile(r"\\|//|(?:^|/)\.\.?(?:/|$)|./$")
_SPARE_END = re.compile(r"(?<=[^/. ])[. ]+(?=/|$)")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:(?:/|$)|\.\.(?:/|$)")
_NAMED_PLACE = re.compile(r"(?:/|[A-Za-z]:/|(?:\.\./)+)[^/*?]+(?:/|$)")


def home() -> str:
    """Return the user's home folder, with ``/``; by the current environment."""
    # Not Path.home(), which takes twenty times as long: listings ask for each file.
    folder = os.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    return folder.replace("\\", "/").rstrip("/")


def expanded(pattern: str, home_folder: str) -> str:
    """Return a pattern with ``/`` and with the home folder for a leading ``~``."""
    text = pattern.replace("\\", "/")
    return home_folder + text[1:] if text == "~" or text.startswith("~/") else text


def regex(text: str) -> str:
    """Return an expression for an expanded pattern, anchored at its end.

    Text between two stars is matched at its first occurrence and never tried again (atomic groups): if the rest matches
    at all, it matches after the first occurrence.
    """
    first, *others = (re.escape(part).replace(r"\?", ".") for part in re.split(r"\*+", text))
    if not others:
        return first + r"\Z"
    *middle, last = others
    if not first and not middle and last:
        return rf".*+(?<={last})\Z"
    return first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}\\Z"


def forms(text: str) -> tuple[str, ...]:
    """Return the pattern itself and, where its trailing `` *`` may be left out, the pattern without it."""
    return (text[:-2], text) if text.endswith(" *") else (text,)


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str, home_folder: str) -> re.Pattern[str]:
    alternatives = (f"(?:{regex(form)})" for form in forms(expanded(pattern, home_folder)))
    return re.compile("|".join(alternatives), re.DOTALL)


def matches(pattern: str, target: str) -> bool:
    """Return whether a wildcard pattern covers a target: ``*`` any text (also ``/``), ``?`` one character."""
    if pattern == "*":
        return True
    home_folder = home() if pattern.startswith("~") else ""
    return _compiled(pattern, home_folder).match(target.replace("\\", "/")) is not None


def covers(pattern: str, wildcard: str) -> bool:
    """Return whether ``pattern`` covers everything that ``wildcard`` could mean. No for some strange pairs, never yes
    wrongly but for patterns with private characters."""
    one = wildcard.replace("?", _ABSENT[0])
    return matches(pattern, one.replace("*", _ABSENT)) and matches(pattern, one.replace("*", ""))


def intersects(one: str, other: str) -> bool:
    """Return whether some text is covered by both wildcards (`` *`` at the end of ``one`` is optional, ``~``
    expanded)."""
    home_folder = home() if one.startswith("~") else ""
    wildcard = re.sub(r"\*+", "*", other.replace("\\", "/"))
    return any(_meet(re.sub(r"\*+", "*", form), wildcard) for form in forms(expanded(one, home_folder)))


def _meet(one: str, other: str) -> bool:
    """Run two automata in parallel: bit ``j`` of ``row`` says that ``other[:j]`` is compatible with the read part of
    ``one``."""
    if not _ends_agree(one, other):
        return False
    whole = (1 << (len(other) + 1)) - 1
    any_one = star = 0
    exact: dict[str, int] = {}
    for index, char in enumerate(other):
        if char == "*":
            star |= 1 << index
        elif char == "?":
            any_one |= 1 << index
        else:
            exact[char] = exact.get(char, 0) | 1 << index
    single = ~star & (whole >> 1)
    row = 1 | (star & 1) << 1
    for char in one:
        if char == "*":
            lowest = row & -row
            row = whole & ~(lowest - 1)
            continue
        fits = single if char == "?" else any_one | exact.get(char, 0)
        row = ((row & fits) << 1) | (row & star)
        row |= (row & star) << 1
        if not row:
            return False
    return bool(row >> len(other) & 1)


def _ends_agree(one: str, other: str) -> bool:
    """Return a quick look at the literal beginnings and ends, which settles nearly every pair."""
    for a, b in ((one, other), (one[::-1], other[::-1])):
        for left, right in zip(a, b, strict=False):
            if left == "*" or right == "*":
                break
            if left != right and left != "?" and right != "?":
                return False
    return True


def is_plain(pattern: str) -> bool:
    """Return whether it means exactly one text."""
    return "*" not in pattern and "?" not in pattern and not pattern.startswith("~")


def is_general(pattern: str) -> bool:
    """Return whether it names nothing: ``*`` and equivalents."""
    return pattern == "*" or (set(pattern) <= {"*", "/", " "} and pattern.startswith("*"))


def normal(target: str, root: str = "") -> str:
    """Return a path as rules name it: with ``/``, without ``.`` and ``..``; relative inside of ``root`` (absolute, or
    empty when not known), else absolute or beginning with ``..``."""
    text = tidy(target)
    if root and root != "/":
        if text == ".." or text.startswith("../"):
            text = tidy(f"{root}/{text}")
        if text == root:
            return "."
        if text.startswith(root) and text[len(root)] == "/":
            return text[len(root) + 1 :]
    return text


def tidy(path: str) -> str:
    """Without backslashes, doubled slashes, ``.`` and ``..`` as far as possible. Empty stays empty."""
    if not _UNTIDY.search(path):
        return path
    text = posixpath.normpath(path.replace("\\", "/"))
    return text[1:] if text.startswith("//") else text


def normal_pattern(pattern: str, home_folder: str, root: str = "", stands_for: str = "") -> tuple[str, ...]:
    """Return the forms of a pattern for files: itself, and relative to the workspace when it leads into it.

    ``stands_for``: the workspace of which ``root`` is a copy; a path into it means the copy, too.
    """
    text = re.sub(r"/{2,}", "/", expanded(pattern, home_folder))
    while text.startswith("./"):
        text = text[2:]
    meant = stands_for or root
    if meant and meant != "/":
        if text.startswith("../"):
            text = tidy(f"{meant}/{text}")
        for folder in dict.fromkeys((meant, root)):
            if fold(text).startswith(fold(folder) + "/"):
                return text, text[len(folder) + 1 :]
    return (text,)


def fold(path: str) -> str:
    """Return a path as the least particular file system would compare it: case, compatible characters (NFKC), invisible
    characters, dots and blanks at the end of a name make no difference."""
    if path.isascii():
        text = path.lower()
    else:
        visible = "".join(
            c for c in path if unicodedata.category(c) != "Cf" and not "\ufe00" <= c <= "\ufe0f"
        )
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    return _SPARE_END.sub("", text)


def is_outside(name: str) -> bool:
    """Return whether a normalized path is outside the workspace."""
    return _ABSOLUTE.match(name) is not None


def names_place(pattern: str) -> bool:
    """Return whether a pattern names a place outside of the workspace: ``/etc/*``, ``~/notes/x``; not ``*`` or
    ``/*``."""
    text = expanded(pattern, home())
    return text != pattern.replace("\\", "/") or _NAMED_PLACE.match(text) is not None
