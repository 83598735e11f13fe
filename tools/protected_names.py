"""Names that make other programs run something, so that changing them is more than changing a file. Pure data.

The rules ask about them whatever broad rules allow (``daemon.permission.protected``), the sandbox keeps
them from change.
"""

from __future__ import annotations

from tools.localization import noted

_AGENT = noted("the settings of a coding agent")
_CI = noted("what a build server runs")

FOLDERS = {
    ".git": noted("git's own files"),
    ".goalwright": noted("Goalwright's settings"),
    ".vscode": noted("VS Code's settings and tasks"),
    ".trace": noted("Goalwright's traces"),
    ".husky": noted("git hooks"),
    ".devcontainer": noted("the settings of a container"),
    ".idea": noted("the settings of an editor"),
    ".zed": noted("the settings of an editor"),
    ".fleet": noted("the settings of an editor"),
    **dict.fromkeys(
        (
            ".claude",
            ".cursor",
            ".windsurf",
            ".codex",
            ".gemini",
            ".opencode",
            ".roo",
            ".continue",
            ".kiro",
            ".amazonq",
        ),
        _AGENT,
    ),
    **dict.fromkeys(
        (
            ".github/workflows",
            ".github/actions",
            ".circleci",
            ".buildkite",
            ".gitea/workflows",
            ".forgejo/workflows",
        ),
        _CI,
    ),
}
"""What they hold, in words, by name; of some only with the folder before it."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish", ".inputrc",
    ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".envrc", ".pam_environment",
    "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files, in lower case."""
GIT_FILES = (".gitconfig", ".gitmodules", ".gitattributes")
OTHER_FILES = {
    ".pre-commit-config.yaml": noted("git hooks"),
    "lefthook.yml": noted("git hooks"),
    ".lefthook.yml": noted("git hooks"),
    ".gitlab-ci.yml": _CI,
    ".travis.yml": _CI,
    ".drone.yml": _CI,
    ".woodpecker.yml": _CI,
    "jenkinsfile": _CI,
    ".devcontainer.json": noted("the settings of a container"),
    ".exrc": noted("the settings of an editor"),
    ".nvimrc": noted("the settings of an editor"),
    ".nvim.lua": noted("the settings of an editor"),
    "mise.toml": noted("a start-up file of the shell"),
    ".mise.toml": noted("a start-up file of the shell"),
    ".yarnrc.yml": noted("what yarn runs"),
    "azure-pipelines.yml": _CI,
    "bitbucket-pipelines.yml": _CI,
    ".mcp.json": _AGENT,
    "opencode.json": _AGENT,
    ".aider.conf.yml": _AGENT,
}
"""What they hold, in words, by name in lower case."""
WORKSPACE_FILE = ".code-workspace"
"""The end of a VS Code workspace's name."""
_NAMES = frozenset((*(name for name in FOLDERS if "/" not in name), *SHELL_FILES, *GIT_FILES, *OTHER_FILES))
_WITH_PARENT = tuple(f"/{name}" for name in FOLDERS if "/" in name)


def is_protected_name(path: str) -> bool:
    """Whether the last part of ``path``, a name in the workspace with ``/``, is such a name."""
    name = path.rpartition("/")[2].lower()
    if name in _NAMES or name.endswith(WORKSPACE_FILE):
        return True
    return f"/{path.lower()}".endswith(_WITH_PARENT)
