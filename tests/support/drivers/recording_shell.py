"""A real bash whose programs only write down that they were called: what a command line really runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("aa", "bb", "cc", "git", "rm", "no")
"""``no`` fails, the others work."""

_RECORDER = """#!/bin/sh
{ printf '%s\\001' "${0##*/}" "$PWD" "$@"; printf '\\002'; } >> 'RECORD'/$$
exit EXIT
"""


@dataclass(frozen=True)
class Call:
    """A program that ran: its arguments with its name, and its folder relative to where the line started."""

    words: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Run:
    """The effects of a line."""

    calls: tuple[Call, ...]
    files: frozenset[str]
    """New files, relative to where the line started."""


class RecordingShell:
    """Runs lines below ``root``; each in a fresh folder with the folders ``d1`` and ``d1/d2`` and the file ``f1``."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._programs = self._root / "programs"
        self._programs.mkdir(parents=True, exist_ok=True)
        self._record = self._root / "record"
        for name in PROGRAMS:
            script = self._programs / name
            # Not by a variable, which a line may remove.
            recorder = _RECORDER.replace("RECORD", str(self._record))
            script.write_text(recorder.replace("EXIT", "1" if name == "no" else "0"))
            script.chmod(0o755)
        self.home = self._root / "home"
        self.workspace = self._root / "workspace"

    def run(self, line: str, timeout_s: float = 4) -> Run:
        """Run a line with ``bash -c``; one that does not end is killed."""
        for folder in (self.home, self.workspace, self._record):
            shutil.rmtree(folder, ignore_errors=True)
        # Each program has a file of its own there: several write at the same time.
        self._record.mkdir()
        for folder in (self.home, self.workspace):
            (folder / "d1" / "d2").mkdir(parents=True)
            (folder / "f1").write_text("")
        env = {
            "PATH": str(self._programs), "HOME": str(self.home), "LC_ALL": "C.UTF-8", "FUNCNEST": "9",
        }  # fmt: skip
        process = subprocess.Popen(
            ["/bin/bash", "-c", line],
            cwd=self.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=timeout_s)
        with suppress(ProcessLookupError):  # what it left in the background would write beside the next line
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        calls: list[Call] = []
        written = "".join(
            path.read_bytes().decode(errors="surrogateescape") for path in self._record.iterdir()
        )
        for entry in written.split("\x02")[:-1]:
            name, *more = entry.split("\x01")[:-1]
            if not more or not more[0]:
                continue  # of a program that was killed while it wrote
            folder, *words = more
            calls.append(Call((name, *words), os.path.relpath(folder, self.workspace)))
        return Run(tuple(calls), frozenset(self._files()))

    def _files(self) -> list[str]:
        found = [path for top in (self.home, self.workspace) for path in top.rglob("*") if not path.is_dir()]
        known = {self.home / "f1", self.workspace / "f1"}
        return [os.path.relpath(path, self.workspace) for path in found if path not in known]
