"""The environment that commands get: without keys, and without what changes the meaning of a command. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# By name. Whole families where single names do not tell (AWS_*, AZURE_*): a command that needs them can be started
# by the person. SSH_AUTH_SOCK stays: it is no key but a way to use one while the person is there, without it no
# `git fetch` works, and each command is approved; the sandbox hides it.
_SECRET = re.compile(
    r"(?:.*_)?(?:API_?KEYS?|TOKEN|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|PAT|PRIVATE_?KEY)|"
    r".*_(?:KEY|PASS|PWD|AUTH|DSN)|.*(?:SECRET|PASSWORD|API_?KEY|ACCESS_KEY|AUTH_TOKEN).*|"
    r"(?:ANTHROPIC|OPENAI|GOALWRIGHT|AWS|AZURE|ARM|GOOGLE_APPLICATION|TF_VAR|VAULT)_.*|GOOGLE_CREDENTIALS|KUBECONFIG",
    re.IGNORECASE,
)
# By value: DATABASE_URL and its like. A proxy's password stays: without it nothing reaches the network.
_SECRET_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s]*:[^/@\s]+@", re.IGNORECASE)
_PROXY = re.compile(r".*_PROXY", re.IGNORECASE)
# What makes bash run or find something else than the line says: files it reads first, functions for names, another
# folder for `cd`, options, a prompt that is evaluated. LD_PRELOAD and the like stay: the daemon itself was started
# with them, so they are the person's, and some systems do not work without.
_SHELL = re.compile(
    r"BASH_ENV|ENV|BASH_FUNC_.*|CDPATH|SHELLOPTS|BASHOPTS|PS[0-4]|PROMPT_COMMAND|GLOBIGNORE|IFS|BASH_XTRACEFD|POSIXLY_CORRECT"
)
# Of a git hook or alias from which the daemon was started: commands would work on that repository.
_GIT = re.compile(r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|PREFIX|NAMESPACE)")
_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb", "NO_COLOR": "1"}
# A folder of the workspace may be a bare repository, its settings files like any other: git would find it by being run
# there, and run what they name. (The workspace's own .git/config is protected.) Environment settings win over files.
_GIT_SETTINGS = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))
_GIT_SETTING = re.compile(r"GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_\d+)")


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys and tokens, and set so that nothing pages, prompts or colours, and so that git
    runs no program that a folder of the workspace names."""
    kept = {name: value for name, value in environment.items() if not _dropped(name, value)}
    return (
        {name: value for name, value in kept.items() if not _GIT_SETTING.fullmatch(name)}
        | _git(kept)
        | _QUIET
    )


def _git(environment: Mapping[str, str]) -> dict[str, str]:
    """GIT_CONFIG_COUNT and its like: the person's own settings, then ours."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    given = range(int(count)) if re.fullmatch(r"\d{1,4}", count, re.ASCII) else range(0)
    settings = [
        (environment[f"GIT_CONFIG_KEY_{n}"], environment[f"GIT_CONFIG_VALUE_{n}"])
        for n in given
        if f"GIT_CONFIG_KEY_{n}" in environment and f"GIT_CONFIG_VALUE_{n}" in environment
    ]
    settings = [setting for setting in settings if setting not in _GIT_SETTINGS]
    settings += _GIT_SETTINGS
    named = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings):
        named |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return named


def _dropped(name: str, value: str) -> bool:
    if any(kind.fullmatch(name) for kind in (_SECRET, _SHELL, _GIT)):
        return True
    return _SECRET_URL.match(value) is not None and _PROXY.fullmatch(name) is None
