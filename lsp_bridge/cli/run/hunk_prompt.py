"""Accept parts of a proposed change at a terminal: hunk by hunk, or a text from the user's own editor.

The questions are those of ``git add -p``, which users know.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from lsp_bridge.cli.text import shown_line
from tools.json_access import integer, mappings, string
from tools.localization import n, t

FileAnswers = list[dict[str, Any]]
"""As ``permission/reply`` takes them in ``files``."""


ReadLine = Callable[[str], Awaitable[str | None]]
"""Asks the user the question for a line; None when the input has ended."""


def pieces(file: Mapping[str, Any]) -> list[str]:
    """Return the hunks that the diff of a file shows to their end: nobody accepts what they cannot see."""
    rows = string(file.get("diff")).split("\n")
    found: list[str] = []
    for hunk in mappings(file.get("shownHunks")):
        first = integer(hunk.get("row"))
        found.append("\n".join(rows[first : first + integer(hunk.get("rows"))]))
    return found


def can_choose(request: Mapping[str, Any]) -> bool:
    """Return whether there is more than one part to choose from."""
    return sum(max(1, integer(file.get("hunks"))) for file in mappings(request.get("files"))) > 1


async def choose(
    request: Mapping[str, Any], ask: ReadLine, show: Callable[[str], None]
) -> FileAnswers | None:
    """Ask about each hunk, and each file without hunks. None: the user went back, or left nothing."""
    chosen: FileAnswers = []
    kept = 0
    rest = ""
    for file in mappings(request.get("files")):
        path, count = string(file.get("path")), integer(file.get("hunks"))
        shown = shown_line(path)
        hunks = pieces(file)
        wanted: list[int] = []
        for number in range(max(1, count)):
            if count and number >= len(hunks):
                show(
                    n(
                        "  {count} more hunk of {path} is not shown here and is left out.",
                        "  {count} more hunks of {path} are not shown here and are left out.",
                        count - number,
                        path=shown,
                    )
                )
                break
            word = rest
            if not rest:
                what = shown
                if count:
                    show(hunks[number])
                    what = t("hunk {number} of {count} of {path}", number=number + 1, count=count, path=shown)
                word = await _one_of(
                    ask, t("Apply {what}? [y]es / [n]o / [a]ll the rest / [d]one / [b]ack: ", what=what)
                )
                if word == "b":
                    return None
                rest = {"a": "y", "d": "n"}.get(word, "")
            if (rest or word) == "y":
                kept += 1
                wanted.append(number)
        if count or not wanted:
            chosen.append({"path": path, "hunks": wanted})
    if kept == 0:
        show(t("  Nothing of the change would remain: reject it instead."))
        return None
    return chosen


async def _one_of(ask: ReadLine, question: str) -> str:
    while True:
        line = await ask(question)
        if line is None:
            return "b"
        word = line.strip().lower()[:1]
        if word and word in "ynadb":
            return word


def editor() -> list[str]:
    """Return the user's editor as a command, empty when none is configured."""
    import shlex

    try:
        return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError:  # an unclosed quote
        return []


async def edited(name: str, text: str, command: list[str], terminal: int) -> str:
    """Return ``text`` as the user left it in the editor. Raises OSError when that cannot be started or fails."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="goalwright-") as folder:
        # The name's ending chooses the editor's language.
        path = Path(folder) / (Path(name).name or "file")
        await asyncio.to_thread(path.write_bytes, text.encode("utf-8", "surrogatepass"))
        with _terminal_kept(terminal):
            process = await asyncio.create_subprocess_exec(*command, str(path), stdin=terminal)
            # Ctrl-C is for the editor, as with git. Not before its start, because it would inherit that.
            interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                # Somebody else has answered: the terminal is needed for what follows.
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
                raise
            finally:
                signal.signal(signal.SIGINT, interrupt)
        if code != 0:
            raise OSError(t("{command} ended with {returncode}", command=command[0], returncode=code))
        data = await asyncio.to_thread(path.read_bytes)
    return data.decode("utf-8", "surrogatepass")


@contextlib.contextmanager
def _terminal_kept(terminal: int) -> Generator[None]:
    """Give a terminal its modes back: a program that is ended may leave it without echo."""
    if sys.platform == "win32":
        yield
        return
    import termios

    try:
        modes = termios.tcgetattr(terminal)
    except termios.error as error:  # the terminal is gone
        raise OSError(*error.args) from error
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
