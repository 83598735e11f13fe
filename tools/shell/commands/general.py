"""Which commands may be allowed in general, and which words make a command do more than its name says.

"Always" may generalise only where no argument can run another program or write a file of the model's choice.
That is known for the few commands listed here; all others are remembered word by word.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.shell.commands.words import Call, may_be_option, words


@dataclass(frozen=True, slots=True)
class _Limits:
    """What may follow a general command without being asked for. ``positional``: also words without a dash."""

    options: re.Pattern[str]
    positional: bool


# None of their options writes or runs anything.
_READERS = words(
    "ls cat head tail wc pwd echo grep stat du df basename dirname realpath readlink cmp cut nl md5sum sha256sum "
    "true false whoami uname nproc"
)
_GIT = words("status diff log show blame shortlog describe rev-parse rev-list ls-files ls-tree merge-base")
_GIT_LISTS = frozenset({"git branch --list", "git tag --list", "git stash list"})
# Git takes unambiguous beginnings of long options. What writes is a file of its own (see ``git``), but a rule for
# reading does not mean it either.
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

# Not general, but a person's own rule may allow them: the words that nobody means by such a rule. (What ``find -exec``
# runs is judged by itself.)
_MORE = {
    "find": re.compile(r"-(?:delete|fprint|fprint0|fprintf|fls)"),
    "sort": re.compile(r"-[^-]*o.*|--o.*|--co.*"),
    "tree": re.compile(r"-[^-]*o.*|--o.*"),
    "rg": re.compile(r"--pre|--pre=.*|--hostname-bin.*"),
    "printf": re.compile(r"-v.*"),
    "test": re.compile(r"-[vR]"),
}


def limits(call: Call) -> tuple[str, str]:
    """The beginning that may be allowed whatever follows, e.g. ``git log`` (empty if none), and why the words after
    it may do more than that; the latter also for some commands that are not general.
    """
    name = call.simple.words[0].text
    texts = (name, *(word.text for word in call.args))
    expands = any(may_be_option(word) for word in call.args)
    if (found := _runner(texts)) is not None:
        prefix, limit = found
        rest = texts[len(prefix.split(" ")) :]
        if expands or not all(_within(word, limit) for word in rest):
            return prefix, f"its options may do more than {prefix} alone"
        return prefix, ""
    prefix = _prefix(texts)
    if name == "git":
        more = (expands and prefix != "") or _git_does_more(texts[1:])
        return prefix, "its options may do more than show something" if more else ""
    pattern = _MORE.get(name)
    if pattern is not None and (expands or any(pattern.fullmatch(text) for text in texts[1:])):
        return prefix, f"its options may do more than {name} alone"
    return prefix, ""


# They run what their words name; what they are asked to do there, rules can read.
_BY_NAME = words(
    "docker podman nerdctl docker-compose lxc kubectl oc helm npx bunx uvx pnpx pipx dlx ssh mosh sftp ftp rsh lftp "
    "hyperfine entr perf"
)
_NOT_BY_NAME = re.compile(
    r"-c.*|--ca.*|--node-opt.*|--node-arg.*|--she.*|--script-sh.*|-o.*|-F.*|--conf.*|--kubeconf.*|-E.*|-S.*"
)


# Options that name a program, of commands that otherwise only use files.
_RUNS: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("diff3", "sdiff"), re.compile(r"--di.*")),
    "sort": re.compile(r"--com.*"),
}


def runs(call: Call) -> str:
    """Why the words of a command name a program, or a place, that rules do not see."""
    pattern = _RUNS.get(call.name)
    if pattern is not None and any(pattern.fullmatch(word.text) for word in call.args):
        return f"an option of {call.name} names a program that it runs"
    if call.name == "find":
        texts = [word.text for word in call.args]
        for at, text in enumerate(texts):
            if text in ("-execdir", "-okdir"):
                command = itertools.takewhile(lambda each: each not in (";", "+"), texts[at + 2 :])
                named = any(each != "{}" and not re.fullmatch(r"-\w+|--|\d+", each) for each in command)
                if named or "/" in "".join(texts[at + 1 : at + 2]):
                    return f"find {text} runs it in a folder that shows only at run time"
    return ""


def by_name(call: Call) -> bool:
    """Whether a rule that begins with the command's name says what it runs: no code and no settings among its words."""
    if call.name not in _BY_NAME:
        return False
    if call.name in ("docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc", "helm", "lxc"):
        return True
    leading = itertools.takewhile(lambda word: word.text.startswith("-"), call.args)
    return not any(_NOT_BY_NAME.fullmatch(word.text) for word in leading)


def _prefix(texts: Sequence[str]) -> str:
    if texts[0] in _READERS:
        return texts[0]
    two, three = " ".join(texts[:2]), " ".join(texts[:3])
    if three in _GIT_LISTS:
        return three
    return two if len(texts) > 1 and texts[0] == "git" and texts[1] in _GIT else ""


def _runner(texts: Sequence[str]) -> tuple[str, _Limits] | None:
    for size in (1, 2, 3):
        prefix = " ".join(texts[:size])
        if len(texts) >= size and prefix in _RUNNERS:
            return prefix, _RUNNERS[prefix]
    if len(texts) > 1 and texts[0] == "make" and _NAME.fullmatch(texts[1]):
        return f"make {texts[1]}", _MAKE
    if len(texts) > 2 and tuple(texts[:2]) == ("npm", "run") and _NAME.fullmatch(texts[2]):
        return f"npm run {texts[2]}", _NPM
    return None


def _within(word: str, limit: _Limits) -> bool:
    if word.startswith("-"):
        return limit.options.fullmatch(word) is not None
    # Tests and sources of elsewhere are other people's programs.
    return limit.positional and not word.startswith(("/", "~", "@", "+")) and ".." not in word.split("/")


def _git_does_more(texts: Sequence[str]) -> bool:
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        if _GIT_MORE_BEFORE.fullmatch(texts[at]):
            return True
        at += 2 if texts[at] == "-C" else 1
    if texts[at : at + 1] == ("ls-files",):
        # Here -o and -x choose what is listed.
        return False
    return any(_GIT_MORE.fullmatch(text) for text in texts[at + 1 :])
