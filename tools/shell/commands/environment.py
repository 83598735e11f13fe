"""Variables before a command: which of them make another program of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.shell.syntax import Word

_HARMLESS = re.compile(
    r"CI|TZ|LANG|LC_[A-Z]+|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|PY_COLORS|DEBUG|VERBOSE|"
    r"NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONIOENCODING|PYTHONHASHSEED"
)
# They name programs, libraries or files of settings that the command then runs or loads.
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


def opaque(assignments: Sequence[tuple[str, Word]], *, alone: bool = False) -> str:
    """Why rules cannot tell what a command with these variables runs; empty when they do not matter.

    ``alone``: there is no command; then they hold for the commands after it when they were exported before.
    """
    for name, value in assignments:
        base = re.split(r"[\[+]", name)[0]
        if _SEARCHED.fullmatch(base) and value.known and _LOCAL.fullmatch(value.text):
            continue
        # For a command of its own IFS means nothing, so ``IFS= read`` is harmless.
        if (alone and base == "IFS") or _SEARCHED.fullmatch(base) or _DANGEROUS.fullmatch(base):
            after = "the commands after it run" if alone else "the command runs"
            return f"the variable {base} decides what {after}"
    return ""


def changes_nothing(assignments: Sequence[tuple[str, Word]]) -> bool:
    """Whether a command with these variables is the command without them, as far as rules are concerned. Values with
    ``$`` or backticks are code where a makefile takes them."""
    return all(
        (_HARMLESS.fullmatch(name) or not (_SETTINGS.fullmatch(name) or _SEARCHED.fullmatch(name)))
        and not _DANGEROUS.fullmatch(name)
        and _is_plain(name, value)
        for name, value in assignments
    )


def _is_plain(name: str, value: Word) -> bool:
    # What was exported before stands there as it was written, with its name.
    text = value.text if value.known else value.source.removeprefix(f"{name}=")
    return bool(value.known or re.fullmatch(r"[\w./:@%+,-]*|'[^'$`]*'", text)) and not re.search(
        r"[$`]", text
    )


def harmless(assignments: Sequence[tuple[str, Word]]) -> bool:
    """Whether they are known to change nothing but how something looks."""
    return all(_HARMLESS.fullmatch(name) for name, _ in assignments)
