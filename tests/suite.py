"""Runs every test: those of the extension beside pytest's, then says what the time went to. ``make test`` calls it.

``python -m tests.suite [arguments of pytest]``. ``--write-times`` alone writes the times of the last run to
``tests/times.json``, which later runs are compared with.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection

from tests.part_times import EXPECTED, EXTENSION, MEASURED, RESULTS, ROOT, Part, grown, read, table, write

_PARALLEL = ("-n", "auto", "--dist", "worksteal")
_LOG = RESULTS / "extension-tests.log"
_END_S = 60
_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
_AGAIN_AT_MOST = 6


class ExtensionTests:
    """``npm test`` in the background; what it prints goes to a file, so that it does not mix with pytest's."""

    def __init__(self) -> None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        self._began = self._ended = time.monotonic()
        with _LOG.open("wb") as log:
            self.process = subprocess.Popen(
                ["npm", "test", "--silent"],
                cwd=ROOT / "vscode-extension",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()

    def _wait(self) -> None:
        self.process.wait()
        self._ended = time.monotonic()

    def end(self) -> tuple[bool, Part]:
        """Wait for the end, print what failed, and return whether nothing did, and what it took."""
        self._waiting.join()
        passed = self.process.returncode == 0
        said = _LOG.read_text(errors="replace")
        count = re.search(r"tests (\d+)", said)
        tests = int(count[1]) if count else 0
        print(f"\n=== extension: {tests} tests, " + ("none failed" if passed else f"some FAILED:\n{said}"))
        return passed, Part(tests, self._ended - self._began)


def run(arguments: list[str]) -> int:
    """Run both suites and print the time by part. Returns 0 when nothing failed, 130 when interrupted."""
    began = time.monotonic()
    MEASURED.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    extension = ExtensionTests()
    # Without byte code on disk each worker and each daemon would compile every module that it imports.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest"]
    tests = subprocess.Popen([*command, "--cache-clear", *_PARALLEL, *arguments], cwd=ROOT, env=env)
    try:
        status = tests.wait()
        passed, part = extension.end()
        measured = {EXTENSION: part, **read(MEASURED)}
        again = to_try_again(json.loads(_FAILED.read_text())) if status == 1 else []
        if again:
            print("\n=== once more, with nothing beside them:", *again, sep="\n  ", flush=True)
            tests = subprocess.Popen([*command, "-n0", "--last-failed"], cwd=ROOT, env=env)
            status = tests.wait()
    except KeyboardInterrupt:
        for process in (tests, extension.process):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            tests.wait(_END_S)
        return 130
    write(MEASURED, measured)
    expected = read(EXPECTED)
    minutes = (time.monotonic() - began) / 60
    print(f"\n=== seconds by part (all tests added up; the run took {minutes:.1f} minutes)")
    print(table(measured, expected))
    if os.environ.get("CI"):
        for line in grown(measured, expected):
            print(line)
    if again and status == 0:
        print("=== PASSED ONLY ALONE, and is to be looked into:", *again, sep="\n  ")
    outcome = "passed" if passed and status == 0 else "FAILED"
    print(f"=== {outcome}: Python {_words(status == 0)}, extension {_words(passed)}")
    return 0 if passed and status == 0 else 1


def to_try_again(failed: Collection[str]) -> list[str]:
    """Return the failed tests that deserve a second try: a few end-to-end tests, whose deadlines a busy machine misses.

    Any other failure, and more than a few, stand as they are.
    """
    few = len(failed) <= _AGAIN_AT_MOST and all(name.startswith("tests/e2e/") for name in failed)
    return sorted(failed) if few else []


def _words(passed: bool) -> str:
    return "passed" if passed else "failed"


def main(arguments: list[str]) -> int:
    """Run the suite, or write down what the last run took."""
    if arguments == ["--write-times"]:
        write(EXPECTED, read(MEASURED))
        return 0
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
