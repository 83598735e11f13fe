"""What a shell command line would run, as far as can be told without a grammar. Pure.

A rule such as ``git log *`` must not let ``git log; rm -rf ~`` pass. So a line is split into its simple
commands, each of which is judged; what is beyond this splitter becomes one target ``sh -c <line>``, which no rule
for another command matches. (A parser with the real grammar replaces this.)
"""

from __future__ import annotations

import re
import shlex

_HARMLESS_REDIRECTION = re.compile(
    r"(?<![\w&>])(?:[012]?>>?|&>)\s*/dev/null(?=[\s;|&]|$)|(?<!\S)2>&1(?=[\s;|&]|$)"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _words(
    "if then else elif fi for while until do done case esac select function time coproc { } ! [[ (( "
    "eval exec source . command builtin trap alias"
)
_TWO_WORDS = _words(
    "git npm pnpm yarn bun npx docker cargo go gh kubectl uv pip pip3 poetry hatch make just dotnet mvn gradle "
    "gradlew systemctl apt apt-get brew conda bundle rails mix terraform helm"
)
_THREE_WORDS = frozenset(
    {"npm run", "pnpm run", "yarn run", "bun run", "uv run", "poetry run", "docker compose"}
)
# "Always" for one of these would mean always for everything, or for what cannot be undone.
_NEVER_GENERAL = _words(
    "sh bash zsh fish dash env xargs sudo doas su nohup timeout nice ssh python python3 node perl ruby php deno "
    "find parallel watch rm rmdir mv dd chmod chown kill pkill killall curl wget tee truncate shred mkfs npx"
)


def targets(command: str) -> tuple[str, ...]:
    """The simple commands of a line, in order; ``("sh -c …",)`` when they cannot be told for certain."""
    parts = _split(command.strip())
    if parts is None:
        return (f"sh -c {command.strip()}",)
    return tuple(dict.fromkeys(parts))


def suggestions(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns for "always" that cover all parts, e.g. ``git log *``. Empty when one should not be remembered."""
    patterns = [_pattern(part) for part in parts]
    return tuple(dict.fromkeys(patterns)) if all(patterns) else ()


def _pattern(part: str) -> str:
    try:
        words = shlex.split(part)
    except ValueError:
        return ""
    if not words or words[0] == "sh" or "=" in words[0]:
        return ""
    if "/" in words[0] and not words[0].startswith("./"):
        return ""
    exact = "" if re.search(r"[*?\\]", part) else part
    if words[0] in _NEVER_GENERAL:
        return exact
    size = 1
    if words[0] in _TWO_WORDS:
        size = 3 if " ".join(words[:2]) in _THREE_WORDS else 2
        if len(words) < size or any(word.startswith("-") for word in words[1:size]):
            # Options before the sub-command (``git -C x push``): nothing general can be said.
            return exact
    prefix = " ".join(words[:size])
    return f"{prefix} *" if part.startswith(prefix) else exact


def _split(line: str) -> list[str] | None:
    line = _HARMLESS_REDIRECTION.sub(" ", line.replace("\\\n", " "))
    parts: list[str] = []
    current: list[str] = []
    quote = ""
    at = 0
    while at < len(line):
        char = line[at]
        following = line[at + 1 : at + 2]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            current.append(char)
            at += 1
            char = line[at : at + 1]
        elif char == "`" or (char == "$" and following in "({'\""):
            if not (char == "$" and following == "{" and _plain_parameter(line[at:])) and not (
                quote and following in "'\""
            ):
                return None
        elif quote:
            quote = "" if char == '"' else quote
        elif char in "'\"":
            quote = char
        elif char in "<>()":
            return None
        elif char == "#" and (at == 0 or line[at - 1] in " \t\n;&|"):
            end = line.find("\n", at)
            at = len(line) if end < 0 else end
            continue
        elif char in ";|&\n":
            parts.append("".join(current))
            current = []
            at += 1
            continue
        current.append(char)
        at += 1
    parts.append("".join(current))
    parts = [
        " ".join(part.split(None)) if "'" not in part and '"' not in part else part.strip() for part in parts
    ]
    parts = [part for part in parts if part]
    if quote or not parts or any(_unclear(part) for part in parts):
        return None
    return parts


def _plain_parameter(text: str) -> bool:
    return re.match(r"\$\{\w+\}", text) is not None


def _unclear(part: str) -> bool:
    first = part.split(None, 1)[0]
    # A quoted, escaped or expanded first word may be any command; an assignment may change what one does.
    return first in _KEYWORDS or re.search(r"[\\'\"$*?\[{~=]", first) is not None
