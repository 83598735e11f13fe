"""Finds the Chromium, Chrome or Edge that the tests drive; on a root CI machine it may install one.

``python -m tests.e2e.vscode.browser [--install]`` prints its path, or says what to do and exits 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "microsoft-edge-stable",
    "microsoft-edge",
    "msedge",
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
VARIABLE = "GOALWRIGHT_BROWSER"
_OFF = (
    # Each window would load two pages for the suggestions below an address bar that nobody sees.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # Playwright switches these off, but the browser obeys only the last list on its command line.
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "MediaRouter",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # /dev/shm is 64 MB in many containers, which a workbench can fill.
    "--disable-dev-shm-usage",
    # Most of a workbench's code never runs in a test.
    "--js-flags=--max-lazy",
    f"--disable-features={','.join(_OFF)}",
)
PACKAGES = ("chromium", "fonts-dejavu-core", "ripgrep", "bubblewrap", "neovim", "postgresql")
"""Debian packages for a bare CI machine: without a font all text is boxes, without bwrap there is no sandbox."""
PROGRAMS = ("bwrap", "nvim", "psql")
"""Besides the browser, what tests run and no package of Python or npm brings."""

MISSING = (
    "No Chromium, Chrome or Edge was found, and the end-to-end tests in real VS Code need one.\n"
    f"Install one, or name it in the variable {VARIABLE}=/path/to/chrome.\n"
    "On Debian or Ubuntu: apt-get install chromium"
)


def find(env: Mapping[str, str] = os.environ) -> Path | None:
    """The browser to use, or None. ``GOALWRIGHT_BROWSER`` is taken at its word."""
    if named := env.get(VARIABLE):
        return Path(named) if Path(named).is_file() else None
    for name in NAMES:
        if found := shutil.which(name, path=env.get("PATH")):
            return Path(found)
    return next((Path(place) for place in PLACES if Path(place).is_file()), None)


def may_install(env: Mapping[str, str] = os.environ) -> bool:
    """Only a CI machine that we are root of, and that has apt, gets packages from us."""
    ci = env.get("CI", "").lower() in ("1", "true")
    return ci and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install() -> None:
    """Install the browser and what it needs to show text. Raises CalledProcessError."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run(["apt-get", "-q", *command], check=True, env=env, stdin=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    """Print the browser's path."""
    found = find()
    complete = found is not None and all(map(shutil.which, PROGRAMS))
    if not complete and "--install" in arguments and may_install():
        try:
            apt_install()
        except subprocess.CalledProcessError as error:
            print(f"error: {error}", file=sys.stderr)
        found = find()
    if found is None:
        print(f"error: {MISSING}", file=sys.stderr)
        return 1
    print(f"Browser for the tests: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
