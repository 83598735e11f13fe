"""Variables and builtins that change what the commands of a line mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.localization import t
from tools.shell.words import names

if TYPE_CHECKING:
    from tools.shell.words import Word

_HARMLESS = re.compile(
    r"CI|TZ|LANG|LC_[A-Z]+|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|PY_COLORS|DEBUG|VERBOSE|"
    r"NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONIOENCODING|PYTHONHASHSEED"
)
# They change the shell that reads the line: which program a name means, where it looks, what it evaluates.
_SHELL = re.compile(
    r"(?:PATH|IFS|LD_\w*|DYLD_\w*|ENV|BASH\w*|PROMPT_COMMAND|PS[0124]|SHELLOPTS|GLOBIGNORE|CDPATH|HOME|EXECIGNORE|"
    r"POSIXLY_CORRECT|OLDPWD|PWD|FUNCNEST|S?RANDOM|SECONDS|LINENO|EPOCH\w*|HISTCMD|OPTIND|MAILCHECK|TMOUT)\Z",
    re.ASCII,
)
# They name programs, libraries or files of settings that a command then runs or loads.
_DANGEROUS = re.compile(
    r"PATH|HOME|SHELL|ENV|PS[0-4]|CDPATH|BASH_.*|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|GLOBIGNORE|ZDOTDIR|"
    r"(?:.*_)?(?:PAGER|EDITOR|BROWSER|VISUAL|ASKPASS)|LESS.*|MANPAGER|LD_.*|DYLD_.*|GCONV_PATH|"
    r"GIT_.*|XDG_.*|SSH_.*|PYTHON(?:STARTUP|HOME|INSPECT|BREAKPOINT|WARNINGS|EXECUTABLE|USERBASE)|PYTEST_.*|PERL.*|"
    r"RUBY.*|NODE_OPTIONS|(?i:NPM_CONFIG_.*)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|MAVEN_OPTS|GRADLE_OPTS|"
    r"MAKE.*|GNUMAKEFLAGS|RUSTC.*|RUSTFLAGS|CARGO_.*|GOFLAGS|GOENV|GOROOT|GOPROXY|CC|CXX|LD|TAR_OPTIONS|TAPE|"
    r"RIPGREP_CONFIG_PATH|GREP_OPTIONS|CURL_HOME|WGETRC|PIP_.*|UV_.*|DOCKER_.*|KUBECONFIG|HISTFILE|INPUTRC|"
    r"OPENSSL_.*|SSL_CERT_.*|GOALWRIGHT_.*"
)
# Beside those: programs find settings, files or more options in them, so that the command is not the plain one.
_SETTINGS = re.compile(
    r"PYTHON.*|VIRTUAL_ENV|CONDA_.*|NODE_.*|(?i:NPM_.*|YARN_.*|PNPM_.*)|BUN_.*|DENO_.*|COREPACK_.*|TS_NODE_.*|JAVA.*|"
    r".*_OPTIONS|.*OPTS|.*FLAGS|.*_COMMAND|.*_WRAPPER|.*_CMD|AR|AS|CPP|NM|FC|RANLIB|STRIP|OBJCOPY|PKG_CONFIG.*|TMPDIR|"
    r"TMP|TEMP|CARGO.*|RUST.*|GO(?!OS$|ARCH$|ARM$)[A-Z]+|GCC_.*|COMPILER_PATH|CPATH|LIBRARY_PATH|C_INCLUDE_PATH|TAR_.*|"
    r"GREP_.*|(?i:.*_proxy)|AWS_.*|ANSIBLE_.*|TF_.*|COVERAGE_.*|LLVM_.*|GEM_.*|BUNDLE_.*|COMPOSER_.*|ELECTRON_.*|R_.*|"
    r"LUA_.*|JULIA_.*|MALLOC_.*|GLIBC_.*|IFS|PWD|OLDPWD|TERMINFO.*|LOCPATH|NLSPATH|HOSTALIASES|VIM.*|EXINIT|MYVIMRC"
)
_SEARCHED = re.compile(r"PYTHONPATH|NODE_PATH")
# Within the workspace: its modules are what the command runs anyway.
_LOCAL = re.compile(r"(?![/~])(?!(?:.*[/:])?\.\.(?:[/:]|$))[\w./:-]*")

Pairs = Sequence[tuple[str, "Word"]]


def opaque(pairs: Pairs, *, alone: bool = False) -> str:
    """Why rules cannot tell what a command with these variables runs; empty when they do not matter.

    ``alone``: there is no command, or it exports them; then they hold for the commands after it.
    """
    for name, value in pairs:
        if _SEARCHED.fullmatch(name) and value.known and _LOCAL.fullmatch(value.text) and not alone:
            continue
        settings = alone and _SETTINGS.fullmatch(name) and not _HARMLESS.fullmatch(name)
        if settings or _SEARCHED.fullmatch(name) or _DANGEROUS.fullmatch(name):
            after = t("the commands after it run") if alone else t("the command runs")
            return t("the variable {name} decides what {after}", name=name, after=after)
        if alone and re.search(
            r"[$`]", value.text if value.known else re.sub(r"[^']*'|[^']*$", "", value.source, count=1)
        ):
            return t("a variable holds what may be code")
    return ""


def changes_nothing(pairs: Pairs) -> bool:
    """Whether a command with these variables is the command without them, as far as rules are concerned. Values with
    ``$`` or backticks are code where a makefile takes them."""
    return all(
        (_HARMLESS.fullmatch(name) or not (_SETTINGS.fullmatch(name) or _SEARCHED.fullmatch(name)))
        and not _DANGEROUS.fullmatch(name)
        and value.known
        and not re.search(r"[$`]", value.text)
        for name, value in pairs
    )


def harmless(pairs: Pairs) -> bool:
    """Whether they are known to change nothing but how something looks."""
    return all(_HARMLESS.fullmatch(name) for name, _ in pairs)


def changes_shell(name: str) -> bool:
    """Whether this variable changes how the rest of the line is read."""
    return _SHELL.match(name) is not None


DECLARES = frozenset(["export", "declare", "typeset", "local", "readonly"])
_SETS_NAMES = DECLARES | frozenset(["read", "unset", "getopts", "mapfile", "readarray"])
_CHANGES = names("shopt enable bind complete compgen compopt fc let coproc alias unalias trap hash")
_SET = re.compile(r"[-+][eux]+o?|[-+]o|pipefail|errexit|nounset|xtrace")
_DECLARE_OPTIONS = re.compile(r"-[xrgp]+")


def decides(name: str, args: Sequence[Word]) -> str:
    """Why this builtin changes what the rest of the line means, or evaluates its words; empty when it does not."""
    texts = [word.text for word in args]
    first = texts[0] if texts else ""
    changes = name in _CHANGES
    if name == "set":
        changes = not texts or not all(word.known and _SET.fullmatch(word.text) for word in args)
        changes = changes and not (first == "--" and args[0].known)
    if name in ("eval", "source", ".") and not all(word.known for word in args):
        changes = True
    if name in ("printf", "jobs", "wait") and first.startswith("-"):
        # Also where an expansion may be the option.
        changes = re.match(r"-(?:[prv]|x)", first) is not None
    if name == "printf" and args and not args[0].known and not re.match(r"\"[^$`\"-]|'", args[0].source):
        changes = True
    if changes:
        return t("{name} changes what commands mean", name=name)
    if name not in _SETS_NAMES:
        return ""
    for word in args:
        given = re.match(r"(\w+)(?:\+?=|\Z)", word.text, re.ASCII)
        option = word.text.startswith("-")
        if name in DECLARES and option and not _DECLARE_OPTIONS.fullmatch(word.text):
            return t("{name} {text} evaluates values", name=name, text=word.text)
        if name in ("mapfile", "readarray") and word.text.startswith("-C"):
            return t("{name} -C runs a command", name=name)
        if (
            (given is None and not word.known)
            or word.glob
            or ("[" in word.text.partition("=")[0] and not option)
        ):
            return t("{name} sets a variable whose name shows only at run time", name=name)
        if given is not None and changes_shell(given[1]) and name != "unset":
            return t("it changes {given}", given=given[1])
        if name in DECLARES and word.text.partition("=")[2].startswith("("):
            return t("{name} evaluates values", name=name)
    return ""
