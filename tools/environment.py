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


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys and tokens, and set so that nothing pages, prompts or colours."""
    return {name: value for name, value in environment.items() if not _dropped(name, value)} | _QUIET


def _dropped(name: str, value: str) -> bool:
    if any(kind.fullmatch(name) for kind in (_SECRET, _SHELL, _GIT)):
        return True
    return _SECRET_URL.match(value) is not None and _PROXY.fullmatch(name) is None
