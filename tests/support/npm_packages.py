"""npm packages that tests need, put into a folder of ``.build`` once for each lock file. No install script is run.

The standard library is enough for it: ``make`` fetches them while pip still fills the virtual environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / ".build"
"""Everything downloaded or produced by runs and tests; git-ignored, safe to delete."""
MANIFEST = ("package.json", "package-lock.json", ".npmrc")


class InstallError(Exception):
    """The packages could not be put in place; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages that ``package.json`` and lock beside ``installer`` name, in ``.build/<name>``."""

    name: str
    what: str
    """In words, for messages, e.g. ``language servers``."""
    installer: Path
    """The module that installs them: when it changes, they are installed again."""
    seconds: int
    """About how long that takes."""

    @property
    def prefix(self) -> Path:
        """Where they go."""
        return BUILD / self.name

    def ensure(self, ready: Callable[[], bool], finish: Callable[[], None]) -> None:
        """Install when missing or outdated. Safe to call from several processes.

        ``ready``: whether the outcome is there. ``finish`` is what is to be done after ``npm ci``. Raises InstallError
        when npm is missing or fails.
        """
        BUILD.mkdir(exist_ok=True)
        stamp, wanted = self.prefix / ".installed", self._fingerprint()
        with (BUILD / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (stamp.is_file() and stamp.read_text() == wanted and ready()):
                self._install()
                finish()
                stamp.write_text(wanted)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
        for file in (Path(__file__), self.installer, *(self.installer.with_name(name) for name in MANIFEST)):
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def _install(self) -> None:
        if shutil.which("npm") is None:
            raise InstallError(
                f"npm is needed to fetch {self.what}: install Node.js 20 or newer and try again"
            )
        print(f"Fetching {self.what} into .build/{self.name} (once, about {self.seconds} s) ...", flush=True)
        shutil.rmtree(self.prefix, ignore_errors=True)
        self.prefix.mkdir(parents=True)
        for name in MANIFEST:
            shutil.copy2(self.installer.with_name(name), self.prefix / name)
        npm_ci(self.prefix)


def npm_ci(folder: Path, *options: str) -> None:
    """Install what the lock in ``folder`` names. Raises InstallError."""
    command = [shutil.which("npm") or "npm", "ci", "--ignore-scripts", "--loglevel=error", *options]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(
            f"`{' '.join(command)}` failed in {folder}:\n{(done.stdout + done.stderr)[-3000:]}\n"
            "Is the npm registry reachable? Then run the same make target again."
        )
