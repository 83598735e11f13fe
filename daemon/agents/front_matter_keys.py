"""The words in an agent's front matter: known ones, and unknown ones that may be meant as a limit. Pure.

Agent files are written by hand, and for other programs, too. A misspelt limit would silently be lost, so a word that
resembles one is understood or rejected, and never skipped.
"""

from __future__ import annotations

import difflib
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from daemon.permission.matching import matches
from daemon.permission.rules_file import PERMISSIONS
from tools.localization import t
from tools.tool_names import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = (
    "description", "mode", "model", "tools", "permission", "permissions", "deny", "context", "insist", "read_only",
    "name",
)  # fmt: skip
TAKES_TOOLS = "disallowed_tools"
"""Key of other programs: tools that the agent has not."""
TOOLS = frozenset(
    {
        "goal", "step", "read_progress", "read", "ls", "glob", "grep", "symbols", "diagnostics", "edit", "patch",
        "write", "bash", "job", "task", "explore", "hand_over", "question", "webfetch",
        "skill",
    }
)  # fmt: skip
TOOL_NAMES = {
    "multiedit": "edit",
    "list": "ls",
    "todowrite": "goal",
    "todoread": "read_progress",
    "agent": "task",
    "askuserquestion": "question",
    "step": "goal",
}
"""How other programs call tools that are ours, too, and the other tool of the plan."""
_EDITING = frozenset({"write", "patch", "multiedit"})
"""Names that rules accept for ``edit``; allowing one of them does not allow all edits, so they stay unchanged."""
_RULE_NAMES = {name: own for name, own in TOOL_NAMES.items() if name not in _EDITING} | {
    "todoread": "goal",
    "read_progress": "goal",
}
_ELSEWHERE = frozenset(
    {
        "bashoutput", "codesearch", "exitplanmode", "killshell", "lsp", "notebookedit",
        "notebookread", "plan_enter", "plan_exit", "slashcommand", "websearch",
    }
)  # fmt: skip
"""Tools of other programs that do not exist here: forbidding them changes nothing."""
_SAME_KEYS = {
    "readonly": "read_only",
    "disallowedtools": TAKES_TOOLS,
    **{key.replace("_", ""): key for key in KEYS},
}
_LIMITING_KEYS = ("deny", "permission", "permissions", "tools", "insist", "read_only")
_LIMITS = tuple(key.replace("_", "") for key in _LIMITING_KEYS)
_LIMITING = re.compile(
    "access|allow|approv|ask|block|confine|confirm|den[iy]|disabl|exclu|except|forbid|insist|limit|never|perm|polic|"
    "prohibit|readonly|restrict|rule|safe|sandbox|secur|tool|trust"
)
_KEY_LINE = re.compile(r"\s*[\"']?([A-Za-z][\w -]{0,40})[\"']?\s*:(?:\s|$)")
_FENCE_LIKE = re.compile(r"\s*(?:[-\u2010-\u2015\u2212=_*+;~`]{2,}|[\u2013\u2014])\s*[\w{}]*\s*")


def key_of(written: str) -> str:
    """Return the known key for any case and hyphens; else the key as it is written."""
    return _SAME_KEYS.get(_squeezed(written), written)


def may_limit(key: str) -> bool:
    """Return whether an unknown key may be meant as a limit: by its words, or as a misspelling of a known one."""
    word = _squeezed(key)
    return _LIMITING.search(word) is not None or _is_mistyped(word)


def _is_mistyped(key: str) -> bool:
    return bool(difflib.get_close_matches(_squeezed(key), _LIMITS, 1, 0.7))


def head_without_fence(lines: Iterable[str]) -> int | None:
    """Return the number of a line, from 0, that looks like front matter without a fence; None: the text has no front
    matter.

    Such a line is a limit among keys in the first paragraph, or after a line like a fence.
    """
    fenced = False
    for number, line in enumerate(lines):
        if not line.strip():
            if number and not fenced:
                return None
            continue
        if _FENCE_LIKE.fullmatch(line):
            fenced = True
            continue
        match = _KEY_LINE.match(line)
        if match is not None:
            key = key_of(match[1])
            if key in (*_LIMITING_KEYS, TAKES_TOOLS) or (may_limit(key) if fenced else _is_mistyped(key)):
                return number
        elif not line.startswith(("#", "<!--", "//")) and not (fenced and line[0].isspace()):
            return None
        if match is not None and not fenced and key_of(match[1]) not in KEYS:
            return None
    return None


def permission_of(word: str) -> tuple[str, bool]:
    """Return a permission as rules name it, and whether any program knows it. Wildcards stay unchanged."""
    name = _folded(word.strip())
    name = _RULE_NAMES.get(name, name)
    known = name in (PERMISSIONS | _EDITING | _ELSEWHERE) or name.startswith(OUTSIDE)
    return name, known or (("*" in name or "?" in name) and bool(permissions_of(name)))


def permissions_of(pattern: str) -> list[str]:
    """Our permissions that a name or wildcard means."""
    pattern = "edit" if pattern in _EDITING else pattern
    return [name for name in sorted(PERMISSIONS) if matches(pattern, name)]


def tool_of(word: str) -> tuple[str, bool]:
    """Return a tool's name here, with its ``!``, and whether any program knows it."""
    sign = "!" if word.strip().startswith("!") else ""
    # In other programs "Bash(git *)" names a tool and its arguments; here rules restrict the arguments.
    name = _folded(word.strip("! ")).partition("(")[0].strip()
    name = TOOL_NAMES.get(name, name)
    known = name in _ELSEWHERE or name.startswith(OUTSIDE) or any(fnmatchcase(tool, name) for tool in TOOLS)
    return sign + name, known


def spelling_hint(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known word, as text for the user; empty when no known word is close."""
    near = difflib.get_close_matches(word.casefold().lstrip("!"), list(known), 1, 0.6)
    return t(" (did you mean {near}?)", near=near[0]) if near else ""


def _folded(name: str) -> str:
    """Return a name in lower case, except those of MCP and own tools, in which case makes a difference."""
    folded = name.casefold()
    prefix = next((one for one in OUTSIDE if folded.startswith(one)), None)
    return folded if prefix is None else prefix + name[len(prefix) :]


def _squeezed(key: str) -> str:
    return re.sub(r"[\s_-]", "", key).casefold()
