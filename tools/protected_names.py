"""Names that make other programs run something, so that changing them is more than changing a file. Pure data.

The rules ask about them whatever broad rules allow (``daemon.permission.protected``), the sandbox keeps
them from change.
"""

from __future__ import annotations

FOLDERS = {
    ".git": "git's own files",
    ".goalwright": "Goalwright's settings",
    ".vscode": "VS Code's settings and tasks",
    ".trace": "Goalwright's traces",
    ".husky": "git hooks",
    ".devcontainer": "the settings of a container",
}
"""What they hold, in words, by name."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish", ".inputrc",
    ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".envrc", ".pam_environment",
    "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files, in lower case."""
GIT_FILES = (".gitconfig", ".gitmodules")
WORKSPACE_FILE = ".code-workspace"
"""The end of a VS Code workspace's name."""
