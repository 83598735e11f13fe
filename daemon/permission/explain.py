"""Explain what a call would ask for, without making it: for users who want to know why."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec.structs import replace

from daemon.permission.layers import ALIASES, PATHS
from tools.access import Access
from tools.localization import t
from tools.paths import rule_target, without_tilde
from tools.sandbox.policy import SandboxPolicy, UnavailableError, no_sandbox
from tools.sandbox.prepare import available
from tools.tool import PermissionAsk, ToolError

LONGEST = 20_000
"""Characters of a command line or path."""
_PATHS = PATHS - {"external_directory"}


def asked_about(permission: str, target: str, workspace: Path, policy: SandboxPolicy) -> PermissionAsk:
    """Return the question that a call would ask. Blocking: resolved paths and hosts decide, so it reads the disk, and
    asks the DNS for ``webfetch``; changes nothing.

    ``target``: a path (relative to the workspace, absolute, with ``~``, or a wildcard), a command line for ``bash``, a
    URL for ``webfetch``, else the text that rules of this permission match. Raises ToolError.
    """
    permission = ALIASES.get(permission, permission)
    if not permission.strip() or not target.strip():
        raise ToolError(t("Name a permission, e.g. read, edit or bash, and a target."))
    if "\0" in target or len(target) > LONGEST:
        raise ToolError(
            t(
                "A target must not contain NUL characters or be longer than {longest} characters.",
                longest=LONGEST,
            )
        )
    if permission == "bash":
        # Imported here with its grammar, because it is rarely needed.
        from tools.shell.path_lookup import real_place
        from tools.shell.question import question

        ask = question(target, real_place(workspace))
        contained = sandbox_words(policy, workspace)[0] != ""
        return replace(ask, contained=contained, lifted=policy.lifts)
    if permission == "webfetch":
        from tools.webfetch import question_about

        return asyncio.run(question_about(target))
    if permission not in _PATHS:
        return PermissionAsk(permission, (target,), target)
    name, several = _named(target, workspace)
    if several:
        return PermissionAsk(permission, (), target, accesses=(Access(permission, name, several=True),))
    return PermissionAsk(permission, (name,), target)


def sandbox_words(policy: SandboxPolicy, workspace: Path) -> tuple[str, str]:
    """Return the sandbox of commands that run without approval, empty without one; and why there is none.

    Blocking the first time.
    """
    if policy.kind == "off":
        return "", ""
    try:
        available(workspace)
    except UnavailableError as error:
        return "", no_sandbox(error)
    return policy.words, ""


def _named(raw: str, workspace: Path) -> tuple[str, bool]:
    """Return a path as rules name it; whether it is a wildcard."""
    try:
        path = without_tilde(raw)
        path = path if path.is_absolute() else workspace / path
        if any(c in raw for c in "*?") and not os.path.lexists(path):
            return rule_target(Path(os.path.normpath(path)), workspace), True
        return rule_target(Path(os.path.realpath(path)), workspace), False
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolError(t("Not a usable path: {raw!r} ({error}).", raw=raw, error=error)) from error
