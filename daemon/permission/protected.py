"""Files that stay protected although a rule allows everything around them, pure: secrets, and files that make other
programs run something (git's own, editors' settings, start-up files of shells).

Only a rule that names such a file allows it. Names are compared as on the least strict file system.
"""

from __future__ import annotations

import os
import re

from msgspec import Struct

from daemon.permission.matching import expanded, fold, home, intersects, is_outside, matches, regex
from tools.files.protected_names import FOLDERS as EDIT_FOLDERS
from tools.files.protected_names import (
    GIT_FILES,
    OTHER_FILES,
    SECRET_FOLDERS,
    SECRET_NAMES,
    SHELL_FILES,
    WORKSPACE_FILE,
)
from tools.localization import noted, t

PROTECTED_PERMISSIONS = frozenset({"read", "edit"})


class Kind(Struct, frozen=True):
    """One kind of protected thing. ``folder``: everything below; then a rule must name the folder itself."""

    what: str
    """Description for the user."""
    literal: str
    """Text that a rule's pattern must contain to name it, folded."""
    folder: bool = False


OWN_STATE = noted("Goalwright's own state")
_ENV = Kind(noted("secrets in .env files"), ".env")
_NO_SECRETS = (".example", ".sample", ".template", ".dist")

SECRET_FILES: tuple[tuple[str, Kind], ...] = tuple(
    (pattern, Kind(what, pattern.strip("*"))) for pattern, what in SECRET_NAMES.items()
)
EDIT_FILES: tuple[tuple[str, Kind], ...] = (
    (f"*{WORKSPACE_FILE}", Kind(noted("a VS Code workspace"), WORKSPACE_FILE)),
    *((name, Kind(noted("a shell start-up file"), name)) for name in SHELL_FILES),
    *((name, Kind(noted("git's settings"), name)) for name in GIT_FILES),
    *((name, Kind(what, name)) for name, what in OTHER_FILES.items()),
)
_SECRET_FILE, _EDIT_FILE = (
    re.compile("|".join(regex(pattern) for pattern, _ in files), re.DOTALL)
    for files in (SECRET_FILES, EDIT_FILES)
)
"""Most names are none of these, and one search finds that out."""
_GIT_CONFIG = re.compile(r"(?:^|/)\.git/(?:.*/)?config(?:\.worktree)?$")
_ENVIRONMENT = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?environ$")
_VERSIONS = re.compile(r"(?:^|/)\.trace/(?:.*/)?(?:files|result[^/]*)(?:/|$)")
_GIT_SHORT = re.compile(r"(?<![^/])git~\d+(?![^/])")
_STREAM = re.compile(r"(?<=[^/]):[^/]*")
_SECRET_HINT = (
    r"\.env|\.pem|\.key|id_(?:rsa|ed25519|ecdsa|dsa)|\.(?:p12|pfx|jks|keystore|kdbx|ppk)|netrc|credentials|\.py?pirc|"
    r"\.pgpass|\.npmrc|\.vault|\.htpass|\.boto|\.s3cfg|\.ssh|\.gnupg|\.aws|\.kube|\.azure|\.config/|\.docker|\.cargo|"
    r"\.password|keyrings|\.git|git~|goalwright|\.trace|/proc/"
)
_EDIT_HINT = (
    r"\.vscode|\.husky|\.devcon|\.code-w|rc$|zshenv|rofile|log(?:in|out)$|aliases$|fish$|\.x|\.pam_|"
    r"\.(?:idea|zed|fleet|helix|g?vim|lvim|nvim|exrc|dir-locals|mise|config/|tool-ver|autoenv|yarnrc|pnpmfile)|"
    r"\.(?:claude|cursor|windsurf|codex|gemini|opencode|roo|continue|kiro|amazonq|qwen|trae|crush|cline|kilocode|augment|"
    r"junie|factory|goose|codebuddy|mcp|aider)|"
    r"\.(?:circleci|buildkite|drone|woodpecker|gitea|forgejo|semaphore|tekton|build|azure|teamcity|cirrus|travis|overcommit)|"
    r"\.(?:gdbinit|lldbinit|irb|pry|pdb|ghci|ocamlinit)|pre-commit|lefthook|git-hooks|appveyor|-pipelines\.y|cloudbuild|"
    r"buildspec|codemagic|bitrise|wercker|opencode\.json|crush\.json|jenkinsfile|mise\.(?:local\.)?toml|vimrc"
)
_HINTS = {"read": re.compile(_SECRET_HINT), "edit": re.compile(f"{_SECRET_HINT}|{_EDIT_HINT}")}
"""Nothing is protected without one of these: one search instead of a hundred, as listings ask for each file."""


def may_be_protected(permission: str, folded: str) -> bool:
    """Return a quick look: no means that nothing but the place of Goalwright's state folder could protect the name.
    ``permission``: ``read`` or ``edit``."""
    # Windows' streams end a name earlier than it looks.
    return ":" in folded or _HINTS[permission].search(folded) is not None


def protected(permission: str, name: str, folded: str, root: str = "") -> tuple[Kind, ...]:
    """Return the kinds of protected things that a normal path is, for reading or changing it. ``root``: of the
    workspace."""
    if permission not in PROTECTED_PERMISSIONS:
        return ()
    found = list(_kinds(permission, folded)) if may_be_protected(permission, folded) else []
    if (state := _in_state_folder(name, folded, root)) and state not in found:
        found.append(state)
    return tuple(found)


def may_protect(permission: str, wildcard: str, folded: str) -> tuple[Kind, ...]:
    """Return the kinds that a wildcard may match. A bare ``*`` does not count."""
    if permission not in PROTECTED_PERMISSIONS:
        return ()
    if permission == "edit" and folded == "*":
        return (Kind(t("any file (the name is only known at run time)"), ".git", folder=True),)
    found = list(_kinds(permission, folded))
    parts = folded.split("/")
    for part in parts:
        if set(part) == {"*"} or not set(part) & {"*", "?"}:
            continue
        if matches(part, ".env") or matches(part, ".env.local") or matches(part, ".envrc"):
            found.append(_ENV)
        folders = SECRET_FOLDERS | (EDIT_FOLDERS if permission == "edit" else {})
        found += [
            Kind(what, folder, folder=True)
            for folder, what in folders.items()
            if matches(part, folder.split("/")[0])
        ]
    last = parts[-1]
    if set(last) != {"*"} and set(last) & {"*", "?"}:
        files = (*SECRET_FILES, *(EDIT_FILES if permission == "edit" else ()), ("*.env", _ENV))
        found += [kind for pattern, kind in files if _could_be(pattern, last)]
    return tuple(dict.fromkeys(found))


def _could_be(pattern: str, wildcard: str) -> bool:
    """Return whether a wildcard could match: ``config.*`` may be ``config.key``, but ``*.py`` does not count as
    ``id_rsa.py``."""
    open_end = "*" in wildcard.rpartition(".")[2] and "." in wildcard
    return matches(wildcard, pattern.strip("*")) or (
        open_end and pattern.startswith("*") and intersects(pattern, wildcard)
    )


def _kinds(permission: str, folded: str) -> list[Kind]:
    """Return the kinds by the parts of a name, including Windows' streams (``.env::$DATA``) and short names
    (``git~1``)."""
    name = _GIT_SHORT.sub(".git", _STREAM.sub("", folded))
    last = name.rpartition("/")[2]
    found: list[Kind] = []
    if _is_env(last):
        found.append(_ENV)
    if not last.endswith(".pub") and _SECRET_FILE.match(last):
        found += [kind for pattern, kind in SECRET_FILES if matches(pattern, last)]
    inside = f"/{name}/"
    found += [
        Kind(what, folder, folder=True) for folder, what in SECRET_FOLDERS.items() if f"/{folder}/" in inside
    ]
    if permission == "edit":
        found += [
            Kind(what, folder, folder=True)
            for folder, what in EDIT_FOLDERS.items()
            if f"/{folder}/" in inside
        ]
        if _EDIT_FILE.match(last):
            found += [kind for pattern, kind in EDIT_FILES if matches(pattern, last)]
    else:
        if _GIT_CONFIG.search(name):
            found.append(Kind(t("git's settings, which may hold passwords"), ".git", folder=True))
        if _VERSIONS.search(name):
            found.append(Kind(t("old versions of files"), ".trace", folder=True))
    if _ENVIRONMENT.match(name):
        found.append(Kind(t("the environment of a process"), "environ"))
    return found


def _is_env(name: str) -> bool:
    if ".env" not in name or name.endswith(_NO_SECRETS):
        return False
    return name.startswith((".env.", ".env-", ".env_", ".env~")) or name.endswith((".env", ".envrc"))


def _in_state_folder(name: str, folded: str, root: str) -> Kind | None:
    """Return whether a name is in Goalwright's own folder, which has the token for approvals, and the grants."""
    if is_outside(name) and "/.goalwright/" in f"{folded}/":
        return Kind(OWN_STATE, ".goalwright", folder=True)
    if not is_outside(name) and folded.startswith(".goalwright/run"):
        return Kind(OWN_STATE, ".goalwright", folder=True)
    whole = folded if not root or is_outside(name) else f"{fold(root)}/{folded}"
    for named in ("~/.goalwright", os.environ.get("GOALWRIGHT_HOME")):
        state = fold(expanded(named, home()).rstrip("/")) if named else ""
        if state and (whole == state or whole.startswith(state + "/")):
            return Kind(OWN_STATE, state.rpartition("/")[2], folder=True)
    return None


def is_specific(pattern: str, kinds: tuple[Kind, ...]) -> bool:
    """Return whether a rule's pattern names a protected kind, and so may allow it."""
    text = fold(expanded(pattern, home()))
    folders = [kind for kind in kinds if kind.folder]
    if folders:
        return all(f"/{kind.literal}/" in f"/{text}/" for kind in folders)
    return all(kind.literal in text for kind in kinds)
