"""The environment of commands: variables that programs need, without keys, and without those that change the meaning of
a command. Pure.

The daemon is started with it, too, because other processes of the user may read the environment of a process. Names do
not show which variables hold secrets. So variables that programs are known to need are passed, and of the rest those
that the user's setting ``environment`` names.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PASSED_ON = "GOALWRIGHT_ENVIRONMENT"
"""The variable by which the daemon knows the setting ``environment``: names and wildcards with spaces between them."""


def words(*texts: str) -> tuple[str, ...]:
    """Return the words of a table."""
    return tuple(" ".join(texts).split())


_NAMES = frozenset(
    words(
        # Session and terminal.
        "PATH HOME USER LOGNAME USERNAME SHELL PWD OLDPWD SHLVL HOSTNAME HOSTTYPE MACHTYPE OSTYPE _ TERM COLORTERM "
        "TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO COLUMNS LINES LANG LANGUAGE TZ TZDIR TMPDIR TMP TEMP TEMPDIR MAIL "
        "EDITOR VISUAL PAGER MANPATH INFOPATH LESS LESSCHARSET LS_COLORS LSCOLORS CLICOLOR CLICOLOR_FORCE NO_COLOR "
        "FORCE_COLOR BROWSER DISPLAY WAYLAND_DISPLAY XAUTHORITY DESKTOP_SESSION DBUS_SESSION_BUS_ADDRESS INVOCATION_ID "
        "XDG_SESSION_ID XDG_SESSION_TYPE XDG_SESSION_CLASS XDG_SESSION_DESKTOP ZDOTDIR CONTAINER DEBIAN_FRONTEND "
        # These are not keys, but let programs use keys while the user is there. Without them `git fetch` does not work;
        # the sandbox hides what they lead to.
        "SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS GIT_ASKPASS SSH_CONNECTION SSH_CLIENT SSH_TTY GPG_TTY "
        "GPG_AGENT_INFO GNUPGHOME "
        # Windows.
        "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT OS PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 "
        "APPDATA COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) COMMONPROGRAMW6432 LOCALAPPDATA ALLUSERSPROFILE PUBLIC "
        "USERPROFILE "
        "HOMEDRIVE HOMEPATH USERDOMAIN COMPUTERNAME NUMBER_OF_PROCESSORS PSMODULEPATH CHOCOLATEYINSTALL WSLENV "
        # Network.
        "HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY RSYNC_PROXY SSL_CERT_FILE SSL_CERT_DIR "
        # Compilers and builds.
        "CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS LIBS ARFLAGS FC FFLAGS "
        "ARCH CROSS_COMPILE CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH INCLUDE LIB LIBPATH LIBRARY_PATH "
        "MAKEFLAGS MAKE DESTDIR "
        "PREFIX SDKROOT DEVELOPER_DIR MACOSX_DEPLOYMENT_TARGET SOURCE_DATE_EPOCH ACLOCAL_PATH DISTCC_HOSTS VCPKG_ROOT "
        # Languages.
        "VIRTUAL_ENV VIRTUAL_ENV_PROMPT IPYTHONDIR MPLBACKEND MPLCONFIGDIR JDK_HOME JRE_HOME CLASSPATH M2_HOME M2 "
        "GEM_HOME GEM_PATH RUBYLIB RUBYOPT RUBY_VERSION RACK_ENV RAILS_ENV BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT "
        "BUNDLE_WITH BUNDLE_JOBS BUNDLE_BIN BUNDLE_APP_CONFIG BUNDLE_FROZEN BUNDLE_DEPLOYMENT PERL5LIB PERL5OPT "
        "PERL_MM_OPT PERL_MB_OPT PERL_LOCAL_LIB_ROOT LUA_PATH LUA_CPATH GHCRTS COMPOSER_HOME PHPRC PHP_INI_SCAN_DIR "
        "PNPM_HOME BUN_INSTALL DENO_DIR DENO_INSTALL FLUTTER_ROOT PUB_CACHE EMSDK MIX_ENV MIX_HOME HEX_HOME R_HOME "
        "R_LIBS R_LIBS_USER R_ENVIRON R_PROFILE TS_NODE_PROJECT TS_NODE_TRANSPILE_ONLY "
        # Variables that projects commonly read.
        "CI CONTINUOUS_INTEGRATION DEBUG VERBOSE LOG_LEVEL LOGLEVEL APP_ENV APP_DEBUG ENVIRONMENT STAGE HOST PORT "
        "BASE_URL TESTING HEADLESS DOCKER_HOST DOCKER_CONTEXT DOCKER_BUILDKIT DOCKER_DEFAULT_PLATFORM "
        "TOKENIZERS_PARALLELISM SPRING_PROFILES_ACTIVE ASPNETCORE_ENVIRONMENT ASPNETCORE_URLS DJANGO_SETTINGS_MODULE "
        "DJANGO_CONFIGURATION"
    )
)
"""Needed variables, in capitals. They pass whatever their names sound like."""

_FAMILIES = words(
    "LC_ XDG_ WSL_ PROCESSOR_ KONSOLE_ "
    "PYTHON PYENV_ PYTEST_ PIP_ PIPX_ PIPENV_ POETRY_ UV_ HATCH_ PDM_ CONDA_ _CONDA_ _CE_ MAMBA_ COVERAGE_ TOX_ NOX_ "
    "MYPY RUFF_ FLASK_ NUMBA_ JUPYTER_ NODE_ NPM_ NVM_ FNM_ VOLTA_ YARN_ PNPM_ COREPACK_ VITE_ NEXT_ NUXT_ TURBO_ "
    "JEST_ VITEST_ CYPRESS_ PLAYWRIGHT_ PUPPETEER_ CHROME_ REACT_APP_ BABEL_ ESLINT_ ESBUILD_ ELECTRON_ "
    "JAVA_ MAVEN_ GRADLE_ SDKMAN_ KOTLIN_ SCALA_ SBT_ COURSIER_ ANDROID_ "
    "GOPATH GOROOT GOBIN GOFLAGS GOCACHE GOMODCACHE "
    "GOPROXY GOPRIVATE GONOPROXY GONOSUMDB GOSUMDB GOTOOLCHAIN GOEXPERIMENT GOOS GOARCH GOARM GOAMD64 GOMAXPROCS "
    "GOMEMLIMIT GODEBUG GOWORK GOENV GOINSECURE GO111MODULE GOTMPDIR CGO_ CARGO_ RUST RUSTUP_ RUSTC_ SCCACHE_ CCACHE_ "
    "DOTNET_ NUGET_ MSBUILD VSCMD_ VCINSTALLDIR VCTOOLS CMAKE_ CTEST_ PKG_CONFIG MESON_ NINJA_ BAZEL CONAN_ QT_ GTK_ "
    "RBENV_ RVM_ ASDF_ MISE_ GOENV_ JENV_ NODENV_ PLENV_ PHPENV_ NIX_ GUIX_ HOMEBREW_ ERL_ ELIXIR_ OPAM OCAML CAML_ "
    "STACK_ CABAL_ GHCUP_ JULIA_ SWIFT_ LLVM_ CLANG_ ASAN_ UBSAN_ TSAN_ LSAN_ MSAN_ CUDA_ NVIDIA_ NCCL_ ROCM_ HIP_ "
    "OMP_ MKL_ OPENBLAS_ TF_CPP_ XLA_ PYTORCH_ TORCH_ LD_ DYLD_ MALLOC_ GDK_ GIO_ QML_ SDL_ MESA_ LIBGL_ VK_ ZIG_ "
    "GIT_ HG_ COMPOSE_ BUILDKIT_ BUILDX_ PRE_COMMIT_ TEXMF GTEST_"
)
"""How the names of needed variables begin, in capitals. They pass if they do not sound like a secret."""
_CERTIFICATES = re.compile(r".{0,60}(?:_CA_(?:BUNDLE|CERTS?)|_CAINFO|_SSL_CERT_FILE)", re.DOTALL)

_SECRET_WORDS = frozenset(
    words(
        "KEY KEYS TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASS PASSWD PASSPHRASE PWD CREDENTIAL CREDENTIALS "
        "CREDS AUTH AUTHTOKEN AUTHORIZATION PAT JWT BEARER COOKIE COOKIES SESSION WEBHOOK WEBHOOKS DSN LOGIN OTP"
    )
)
_SECRET_PARTS = words("SECRET PASSWORD PASSWD APIKEY ACCESSKEY PRIVATEKEY AUTHTOKEN CREDENTIAL")
_WORD = re.compile(r"[A-Z]+|[0-9]+")
_SECRET_ENDS = ("PASS", "TOKEN")
# Matches DATABASE_URL and similar. A proxy's password stays, because without it no command reaches the network. A
# command in the sandbox without network gets no proxy.
_SECRET_URL = re.compile(r"[a-z][a-z0-9+.-]{0,40}://[^/@\s]*:[^/@\s]+@", re.IGNORECASE)
# Variables that make bash run or find something other than the line says: startup files, functions, another folder for
# `cd`, options, an evaluated prompt. LD_PRELOAD and similar stay: the daemon itself was started with them, so they are
# the user's, and some systems do not work without.
_SHELL = re.compile(
    r"BASH_ENV|ENV|BASH_FUNC_.*|CDPATH|SHELLOPTS|BASHOPTS|PS[0-4]|PROMPT_COMMAND|GLOBIGNORE|IFS|BASH_XTRACEFD|POSIXLY_CORRECT"
)
# Set by a git hook or alias that started the daemon: commands would work on that repository.
_GIT = re.compile(r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|PREFIX|NAMESPACE)")
_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb", "NO_COLOR": "1"}
# A folder of the workspace may be a bare repository with its own settings files: git run inside would use it, and run
# the programs that they name. (The workspace's own .git/config is protected.) Environment settings win over files.
_GIT_SETTINGS = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))
_POSTGRESQL = re.compile(
    r"PG(?:HOST|HOSTADDR|PORT|USER|DATABASE|PASSWORD|PASSFILE|SERVICE|SERVICEFILE|SSL[A-Z]+)"
)
"""Variables with which PostgreSQL's own library connects the daemon to the database of ``store_url``."""
_GIT_SETTING = re.compile(r"GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_\d+)")


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that programs may have, set so that nothing pages, prompts or colours, and so
    that git runs no program that a folder of the workspace names. Idempotent."""
    patterns = environment.get(PASSED_ON, "").split()
    kept = {name: value for name, value in environment.items() if _passes(name, value, patterns)}
    kept = {
        name: value for name, value in kept.items() if not (_SHELL.fullmatch(name) or _GIT.fullmatch(name))
    }
    return kept | _git(environment) | _QUIET


GIT_ASKED = (
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
    "--no-optional-locks",
)
"""Options with which git runs nothing that a repository names, and fetches nothing; with ``git_environment``."""


def git_environment() -> dict[str, str]:
    """Return the environment of a git that is only asked: without settings of ours, locks or fetching of missing
    objects."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return scrubbed_environment(kept) | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "LC_ALL": "C",
    }


def daemon_environment(environment: Mapping[str, str], passed_on: Iterable[str]) -> dict[str, str]:
    """Return the environment for starting a daemon: the part that its programs may have, and its own variables.

    ``passed_on``: the setting ``environment``.
    """
    own = {
        name: value
        for name, value in environment.items()
        if name.startswith("GOALWRIGHT_") or _POSTGRESQL.fullmatch(name)
    }
    own[PASSED_ON] = " ".join(word for pattern in passed_on for word in pattern.split())
    return scrubbed_environment({**environment, **own}) | own


def kept_back(environment: Mapping[str, str], passed_on: Iterable[str]) -> list[str]:
    """Return the names of the variables that programs do not get, but could by the setting ``environment``."""
    patterns = list(passed_on)
    return sorted(
        name
        for name, value in environment.items()
        if not _passes(name, value, patterns)
        and not (_SHELL.fullmatch(name) or _GIT_SETTING.fullmatch(name) or name.startswith("GOALWRIGHT_"))
    )


def _passes(name: str, value: str, patterns: Iterable[str]) -> bool:
    """Return whether a variable is passed to programs. ``patterns``: the user's choice of further variables.

    A full name passes the variable whatever its value; a wildcard passes no secrets.
    """
    if name in patterns:
        return True
    if _GIT_SETTING.fullmatch(name) or name.startswith("GOALWRIGHT_"):
        return False
    capital = name.upper()
    if capital not in _NAMES:
        known = capital.startswith(_FAMILIES) or _CERTIFICATES.fullmatch(capital) is not None
        if not known and not any(fnmatchcase(name, pattern) for pattern in patterns):
            return False
        if _sounds_secret(capital):
            return False
    return is_proxy(name) or not _looks_secret(value)


def is_proxy(name: str) -> bool:
    """Return whether a variable names the way to the network, maybe with a password."""
    return name.upper().endswith("_PROXY")


def _sounds_secret(name: str) -> bool:
    together, parts = name.replace("_", "").replace("-", ""), _WORD.findall(name)
    return (
        not _SECRET_WORDS.isdisjoint(parts)
        or any(word.endswith(_SECRET_ENDS) for word in parts)
        or any(part in together for part in _SECRET_PARTS)
    )


def _looks_secret(value: str) -> bool:
    if _SECRET_URL.match(value) is not None:
        return True
    from tools.redaction import secret_shapes  # a client that finds a daemon needs none

    return next(secret_shapes.spans(value.encode(errors="replace"), is_json=False), None) is not None


def _git(environment: Mapping[str, str]) -> dict[str, str]:
    """GIT_CONFIG_COUNT and its like: the user's own settings without keys, then ours."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    given = range(int(count)) if re.fullmatch(r"\d{1,4}", count, re.ASCII) else range(0)
    settings = [
        (environment[f"GIT_CONFIG_KEY_{n}"], environment[f"GIT_CONFIG_VALUE_{n}"])
        for n in given
        if f"GIT_CONFIG_KEY_{n}" in environment and f"GIT_CONFIG_VALUE_{n}" in environment
    ]
    settings = [one for one in settings if one not in _GIT_SETTINGS and not _git_key(*one)]
    settings += _GIT_SETTINGS
    named = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings):
        named |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return named


def _git_key(name: str, value: str) -> bool:
    """Return whether a setting of git holds a key: a header for a server, a password."""
    return name.lower().endswith(".extraheader") or _looks_secret(value)
