"""Which commands may be allowed in general, and which words make a command do more than its name says. Pure.

"Always" may generalise only where no argument can run another program or write a file of the model's choice.
That is known for the few commands listed here; all others are remembered word by word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Limits:
    """What may follow a general command without being asked for. ``positional``: also words without a dash."""

    options: re.Pattern[str]
    positional: bool


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# None of their options writes or runs anything.
_READERS = _words(
    "ls cat head tail wc pwd echo grep stat du df basename dirname realpath readlink cmp cut nl md5sum sha256sum "
    "true false whoami uname nproc"
)
_GIT = _words("status diff log show blame shortlog describe rev-parse rev-list ls-files ls-tree merge-base")
_GIT_LISTS = frozenset({"git branch --list", "git tag --list", "git stash list"})
# Git takes unambiguous beginnings of long options.
_GIT_MORE = re.compile(
    r"--ou(?!tput-indicator-).*|--ext|--ext-.*|--extc.*|--exec.*|--open.*|--upload-p.*|--receive-p.*|--no-li?s?t?|-[oOx].*"
)
_GIT_MORE_BEFORE = re.compile(r"-c.*|-p|--pag.*|--exec-path.*|--config-env.*|--git-dir.*|--work-tree.*")

_PYTEST = _Limits(
    re.compile(
        r"-[qvxsl]*(?:[kmnr].*)?|--(?:lf|ff|nf|sw|last-failed|failed-first|stepwise|quiet|verbose|exitfirst|co|"
        r"collect-only|no-header|no-summary|no-cov|cov|showlocals|cov-report=term(?:-missing)?|"
        r"(?:tb|maxfail|durations|capture|color|cov|deselect|ignore)=.*)"
    ),
    positional=True,
)
_UNITTEST = _Limits(re.compile(r"-[vqfbc]+|-k.*|--(?:verbose|quiet|failfast|buffer|locals)"), positional=True)
_MAKE = _Limits(re.compile(r"-[knsBi]*(?:j\d*)?|--(?:silent|quiet|keep-going|dry-run)"), positional=False)
_NPM = _Limits(re.compile(r"-s|--silent"), positional=False)
_CARGO = _Limits(
    re.compile(
        r"-[vq]+|-r|-p.*|-j\d*|-F.*|--(?:release|all|workspace|lib|bins|tests|examples|doc|all-targets|all-features|"
        r"no-default-features|verbose|quiet|locked|offline|frozen|no-run|no-fail-fast|"
        r"(?:package|bin|test|example|features|exclude)(?:=.*)?)"
    ),
    positional=True,
)
_GO = _Limits(
    re.compile(
        r"--?(?:v|race|short|cover|failfast|json|(?:run|skip|bench|count|timeout|tags|parallel)(?:=.*)?)"
    ),
    positional=True,
)
_RUFF = _Limits(
    re.compile(
        r"-[qvs]+|--(?:quiet|verbose|silent|diff|statistics|preview|no-cache|no-fix|"
        r"(?:select|ignore|extend-select|output-format|target-version|line-length)(?:=.*)?)"
    ),
    positional=True,
)
_PYRIGHT = _Limits(re.compile(r"--(?:outputjson|warnings|stats|verbose|level|version)"), positional=True)
_TSC = _Limits(re.compile(r"--(?:pretty|strict|skipLibCheck)"), positional=False)

_RUNNERS: Mapping[str, _Limits] = {
    "pytest": _PYTEST,
    "python -m pytest": _PYTEST,
    "python3 -m pytest": _PYTEST,
    "uv run pytest": _PYTEST,
    "python -m unittest": _UNITTEST,
    "python3 -m unittest": _UNITTEST,
    "npm test": _NPM,
    "cargo test": _CARGO,
    "cargo build": _CARGO,
    "cargo check": _CARGO,
    "go test": _GO,
    "go build": _GO,
    "go vet": _GO,
    "ruff check": _RUFF,
    "basedpyright": _PYRIGHT,
    "pyright": _PYRIGHT,
    "tsc --noEmit": _TSC,
}
_NAME = re.compile(r"[A-Za-z0-9_][\w.:-]*", re.ASCII)

# Not general, but a person's own rule may allow them: the words that nobody means by such a rule.
_MORE = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)"),
    "sort": re.compile(r"-[^-]*o.*|--o.*|--co.*"),
    "tree": re.compile(r"-[^-]*o.*|--o.*"),
    "rg": re.compile(r"--pre|--pre=.*|--hostname-bin.*"),
    "printf": re.compile(r"-v.*"),
    "test": re.compile(r"-[vR]"),
}


def general_prefix(words: Sequence[str]) -> str:
    """The beginning of a command that may be allowed whatever follows, e.g. ``git log``; empty if none."""
    found = _limits(words)
    if found is not None:
        return found[0]
    if words[:1] and words[0] in _READERS:
        return words[0]
    two, three = " ".join(words[:2]), " ".join(words[:3])
    if three in _GIT_LISTS:
        return three
    return two if len(words) > 1 and words[0] == "git" and words[1] in _GIT else ""


def may_do_more(words: Sequence[str], *, expands: bool) -> bool:
    """Whether options could make a command write a file or run a program that its beginning does not tell.

    ``expands``: a variable, wildcard or brace may become any word. Always False for commands of which nothing
    is known: there is nothing general to get round, except by a rule of the person's own.
    """
    if not words:
        return False
    if (found := _limits(words)) is not None:
        prefix, limits = found
        rest = words[len(prefix.split(" ")) :]
        return expands or not all(_within(word, limits) for word in rest)
    if words[0] == "git":
        return (expands and general_prefix(words) != "") or _git_does_more(words[1:])
    more = _MORE.get(words[0])
    return more is not None and (expands or any(more.fullmatch(word) for word in words[1:]))


def _limits(words: Sequence[str]) -> tuple[str, _Limits] | None:
    for size in (1, 2, 3):
        prefix = " ".join(words[:size])
        if len(words) >= size and prefix in _RUNNERS:
            return prefix, _RUNNERS[prefix]
    if len(words) > 1 and words[0] == "make" and _NAME.fullmatch(words[1]):
        return f"make {words[1]}", _MAKE
    if len(words) > 2 and words[:2] == ["npm", "run"] and _NAME.fullmatch(words[2]):
        return f"npm run {words[2]}", _NPM
    return None


def _within(word: str, limits: _Limits) -> bool:
    if word.startswith("-"):
        return limits.options.fullmatch(word) is not None
    # Tests and sources of elsewhere are other people's programs.
    return limits.positional and not word.startswith(("/", "~", "@", "+")) and ".." not in word.split("/")


def _git_does_more(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if _GIT_MORE_BEFORE.fullmatch(words[at]):
            return True
        at += 2 if words[at] == "-C" else 1
    if words[at : at + 1] == ["ls-files"]:
        # Here -o and -x choose what is listed.
        return False
    return any(_GIT_MORE.fullmatch(word) for word in words[at + 1 :])
