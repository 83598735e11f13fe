"""Names of secrets, and names that make other programs run something. Pure data.

The rules ask about them whatever broad rules allow (``daemon.permission.protected``). The sandbox hides the secrets of
the home folder and keeps the others from change.
"""

from __future__ import annotations

from tools.localization import noted

_AGENT = noted("coding agent settings")
_CI = noted("build server configuration")
_HOOKS = noted("git hooks")
_EDITOR = noted("editor settings")
_TOOLS = noted("files that a version manager runs")
_PACKAGES = noted("files that a package manager runs")
_START = noted("files that a program runs at start-up")


def _each(what: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(" ".join(names).split(), what)


SECRET_NAMES = {
    **_each(
        noted("a private key or certificate"),
        "*.pem *.key id_rsa* id_ed25519* id_ecdsa* id_dsa* *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk",
    ),
    **_each(
        noted("stored credentials"),
        ".netrc _netrc .git-credentials .pypirc .pgpass .npmrc .vault-token .htpasswd .boto .s3cfg",
    ),
}
"""Descriptions of files with secrets by name, as wildcards, wherever they are."""
SECRET_FOLDERS = {
    ".ssh": noted("SSH keys and settings"),
    ".gnupg": noted("GnuPG keys"),
    ".aws": noted("credentials of AWS"),
    ".kube": noted("credentials of Kubernetes"),
    ".azure": noted("credentials of Azure"),
    ".config/gcloud": noted("credentials of Google Cloud"),
    ".config/gh": noted("credentials of GitHub"),
    ".docker/config.json": noted("credentials of Docker"),
    **_each(noted("credentials of Cargo"), ".cargo/credentials .cargo/credentials.toml"),
    **_each(noted("stored passwords"), ".password-store .local/share/keyrings"),
}
"""Descriptions of folders, and files in folders, with secrets."""
FOLDERS = {
    ".git": noted("git's own files"),
    ".goalwright": noted("Goalwright's settings"),
    ".vscode": noted("VS Code's settings and tasks"),
    ".trace": noted("Goalwright's traces"),
    ".devcontainer": noted("container settings"),
    **_each(_HOOKS, ".husky .githooks .git-hooks"),
    **_each(_EDITOR, ".idea .zed .fleet .helix .vim"),
    **_each(
        _AGENT,
        ".claude .cursor .windsurf .codex .gemini .opencode .roo .continue .kiro .amazonq .qwen .trae .crush .cline",
        ".kilocode .augment .junie .factory .goose .codebuddy",
    ),
    **_each(
        _CI,
        ".github/workflows .github/actions .circleci .buildkite .gitea/workflows .gitea/actions .forgejo/workflows",
        ".forgejo/actions .woodpecker .semaphore .tekton .builds .azure-pipelines .teamcity",
    ),
    **_each(_TOOLS, ".mise .config/mise .config/mise.toml .config/mise.local.toml"),
}
"""Descriptions of protected folders by name; some count only with the folder before it."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish", ".inputrc",
    ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".envrc", ".autoenv", ".autoenv.zsh", ".pam_environment",
    "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files, in lower case."""
GIT_FILES = (".gitconfig", ".gitmodules", ".gitattributes")
_LEFTHOOK = tuple(
    f"{dot}lefthook{local}.{end}"
    for dot in ("", ".")
    for local in ("", "-local")
    for end in ("yml", "yaml", "toml", "json")
)
OTHER_FILES = {
    **_each(
        _HOOKS,
        *_LEFTHOOK,
        ".pre-commit-config.yaml .pre-commit-config.yml .overcommit.yml .huskyrc .huskyrc.json .huskyrc.js",
        ".simple-git-hooks.json .simple-git-hooks.js .simple-git-hooks.cjs",
        "simple-git-hooks.json simple-git-hooks.js simple-git-hooks.cjs",
    ),
    **_each(
        _CI,
        ".gitlab-ci.yml .travis.yml .drone.yml .drone.yaml .drone.star .drone.jsonnet .woodpecker.yml .woodpecker.yaml",
        ".cirrus.yml .cirrus.yaml .cirrus.star appveyor.yml .appveyor.yml cloudbuild.yaml cloudbuild.yml",
        "cloudbuild.json buildspec.yml buildspec.yaml codemagic.yaml bitrise.yml wercker.yml .build.yml jenkinsfile",
        "azure-pipelines.yml azure-pipelines.yaml .azure-pipelines.yml bitbucket-pipelines.yml",
    ),
    ".devcontainer.json": noted("container settings"),
    **_each(_EDITOR, ".exrc .vimrc _vimrc .gvimrc .lvimrc .nvimrc .nvim.lua .dir-locals.el .dir-locals-2.el"),
    **_each(_TOOLS, "mise.toml .mise.toml mise.local.toml .mise.local.toml .tool-versions"),
    **_each(_PACKAGES, ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs"),
    **_each(_START, ".gdbinit .lldbinit .pdbrc .irbrc .pryrc .rprofile .ghci .ocamlinit"),
    **_each(
        _AGENT, ".mcp.json opencode.json opencode.jsonc .opencode.json crush.json .crush.json .aider.conf.yml"
    ),
}
"""Descriptions of other protected files by name in lower case."""
WORKSPACE_FILE = ".code-workspace"
"""The end of a VS Code workspace's name."""
_NAMES = frozenset((*(name for name in FOLDERS if "/" not in name), *SHELL_FILES, *GIT_FILES, *OTHER_FILES))
_WITH_PARENT = tuple(f"/{name}" for name in FOLDERS if "/" in name)


def is_protected_name(path: str) -> bool:
    """Return whether the last part of ``path``, a name in the workspace with ``/``, is such a name."""
    name = path.rpartition("/")[2].lower()
    if name in _NAMES or name.endswith(WORKSPACE_FILE):
        return True
    return f"/{path.lower()}".endswith(_WITH_PARENT)
