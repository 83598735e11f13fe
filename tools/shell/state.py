"""What is known of the shell at a place of a command line: variables, the folder, what it exports. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

MAX_FOLDERS = 4

DANGEROUS = re.compile(
    r"(?:PATH|IFS|LD_\w*|DYLD_\w*|ENV|BASH\w*|PROMPT_COMMAND|PS[0124]|SHELLOPTS|GLOBIGNORE|CDPATH|HOME|EXECIGNORE"
    r"|POSIXLY_CORRECT|OLDPWD|PWD|FUNCNEST)\Z",
    re.ASCII,
)
"""Variables that change which program a name means, what the shell does, or where it looks."""

ENVIRONMENT = re.compile(
    r"(?:GIT_\w*|\w*PAGER|\w*EDITOR|VISUAL|LESS\w*|PYTHON\w*|VIRTUAL_ENV|UV_\w*|PIP_\w*|PYTEST_\w*|NODE_\w*|NPM_\w*"
    r"|npm_\w*|PERL\w*|RUBY\w*|JAVA\w*|_JAVA\w*|JDK_\w*|\w*_OPTIONS|\w*OPTS|\w*FLAGS|\w*_COMMAND|\w*_WRAPPER|CC|CXX|LD"
    r"|AR|MAKE\w*|SSH_\w*|SHELL|TMPDIR|XDG_\w*|RIPGREP_CONFIG_PATH|CARGO\w*|RUST\w*|GO[A-Z]*|GCC_\w*|TAR_\w*|BROWSER"
    r"|GREP_\w*|MANPAGER|INPUTRC|LANG|LC_\w*|HTTP_PROXY|HTTPS_PROXY|ALL_PROXY|http_proxy|https_proxy|all_proxy|DOCKER_\w*"
    r"|KUBECONFIG|AWS_\w*)\Z",
    re.ASCII,
)
"""Variables that a program may find in its environment although the line does not export them: they may be exported
already. An assignment to one shows in the text of every later command."""

UNKNOWABLE = re.compile(
    r"(?:_|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w*|BASH\w*|COMP_\w*|FUNCNAME|DIRSTACK|GROUPS|HISTCMD|OPTIND|OPTARG|UID|EUID"
    r"|PPID|PIPESTATUS|REPLY|MAPFILE|COPROC|SHLVL|HOSTNAME)\Z",
    re.ASCII,
)


EVALUATED = re.compile(r"(?:S?RANDOM|SECONDS|LINENO|EPOCH\w*|HISTCMD|OPTIND|MAILCHECK|TMOUT)\Z", re.ASCII)
"""Variables of the shell whose value is evaluated as arithmetic when they are set."""


_STDIN = re.compile(r"-|(?:.*/)?dev/(?:stdin|fd(?:/.*)?)|(?:.*/)?proc/.*")


def is_stdin(path: str) -> bool:
    """Whether a path may lead to what the shell passes in, however it is written."""
    return _STDIN.fullmatch(posixpath.normpath(path)) is not None


@dataclass(frozen=True, slots=True)
class State:
    """``folders``: where the shell may be; None: anywhere."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: tuple[str, ...] | None = (".",)
    stack: tuple[tuple[str, ...] | None, ...] | None = ()
    """Folders that ``popd`` returns to; None when not known."""
    exported: tuple[tuple[str, str], ...] = ()
    """Names and assignments (as shell text) that later commands get."""

    def without(self, names: Iterable[str]) -> State:
        """These variables are no longer known."""
        gone = set(names) & self.variables.keys()
        if not gone:
            return self
        return replace(
            self, variables={name: text for name, text in self.variables.items() if name not in gone}
        )

    def with_value(self, name: str, value: str) -> State:
        return replace(self, variables={**self.variables, name: value})

    def forgetful(self) -> State:
        """Nothing is known of variables that the line could change."""
        return replace(self, variables={"HOME": self.variables["HOME"]} if "HOME" in self.variables else {})

    def lost(self) -> State:
        """Anywhere."""
        return replace(self.without(("PWD",)), folders=None, stack=None)

    def moved(self, target: str) -> State:
        """After a ``cd`` to a known target that worked."""
        here = self.without(("PWD",))
        if target.startswith(("/", "~")):
            return replace(here, folders=(posixpath.normpath(target),))
        if self.folders is None:
            return here
        return replace(here, folders=tuple(dict.fromkeys(_below(folder, target) for folder in self.folders)))


def _below(folder: str, target: str) -> str:
    joined = posixpath.normpath(posixpath.join(folder, target))
    if folder.startswith("~") and not joined.startswith("~"):
        # "~/.." would become "." by its text alone.
        return posixpath.join(folder, target)
    # A folder of that name is not home.
    return f"./{joined}" if joined.startswith("~") and not folder.startswith("~") else joined


def join(first: State | None, second: State | None) -> State | None:
    """What is known when either may be the case; None: it is never reached."""
    if first is None or first is second:
        return second
    if second is None:
        return first
    variables = first.variables
    if variables is not second.variables:
        variables = {name: text for name, text in variables.items() if second.variables.get(name) == text}
    folders: tuple[str, ...] | None = None
    if first.folders is not None and second.folders is not None:
        both = tuple(dict.fromkeys((*first.folders, *second.folders)))
        folders = both if len(both) <= MAX_FOLDERS else None
    stack = first.stack if first.stack == second.stack else None
    exported = tuple(dict.fromkeys((*first.exported, *second.exported)))
    return State(variables, folders, stack, exported)
