"""The output of a command: head and tail for the model; all of it, without secrets, in a file."""

from __future__ import annotations

import asyncio
import codecs
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from tools.files.regular_files import make_folder
from tools.text import terminal
from tools.text.truncate import head, tail

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_OUTPUT = 30_000
"""Characters of output the model gets, half from the beginning and half from the end."""
MAX_SPILL_BYTES = 64 * 1024 * 1024
_HELD = 64 * 1024
_BORDER = 24 * 1024
"""Characters beyond the shown part: they show whether the limit would split a secret."""
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


def whole_in(path: Path) -> str:
    """Return the place of a whole output for the model. Traces are hidden from commands in the sandbox."""
    return f"the whole output is in {path.as_posix()}: use read or grep"


class HeadTail:
    """The first and the last characters of a text that comes piece by piece."""

    def __init__(self, limit: int = MAX_OUTPUT) -> None:
        self.total = 0
        self._half = limit // 2
        self._limit = limit
        self._head = ""
        self._tail = ""

    @property
    def cut(self) -> bool:
        """It was longer than the limit."""
        return self.total > self._limit

    def add(self, text: str) -> None:
        """More of it."""
        self.total += len(text)
        room = max(0, self._half + _BORDER - len(self._head))
        self._head += text[:room]
        if room < len(text):
            self._tail = (self._tail + text[room:])[-self._half - _BORDER :]

    def text(self, where: str) -> str:
        """Return all, or head and tail; ``where`` names the place of the rest in the note about it."""
        if not self.cut:
            return self._head + self._tail
        known = self.total <= len(self._head) + len(self._tail)
        begun = head(self._head + self._tail if known else self._head, self._half)
        ended = tail(self._head + self._tail if known else self._tail, self._half)
        left_out = self.total - len(begun) - len(ended)
        return f"{begun}\n\n[… {left_out} characters left out; {where} …]\n\n{ended}"


class Output:
    """The output of a command, see the module. ``whole``: the file is written from the first byte, not only when there
    is much. Escape sequences of terminals are removed, except colours in the live output and in ``colored``."""

    def __init__(
        self,
        path: Path,
        live: Callable[[str], None] = lambda text: None,
        redact: Callable[[str], str] = lambda text: text,
        *,
        whole: bool = False,
    ) -> None:
        self.path = path
        self.shown = HeadTail()
        self.cut_bytes = 0
        """Bytes that exceeded the file's limit, or could not be written."""
        self._live = live
        self._whole = whole
        self._escapes = terminal.EscapeJoiner()
        self._colored: HeadTail | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._early: list[str] | None = []
        """Output before the file was begun."""
        self._sent = 0
        self._spill: _Spill | None = None
        self._redact = redact

    @property
    def spilled(self) -> bool:
        """Whether there is more than is shown, so that a file was started."""
        return self._spill is not None

    @property
    def stored(self) -> bool:
        """The file exists."""
        return self._spill is not None and self._spill.written > 0

    def feed(self, fd: int, data: bytes) -> None:
        """Bytes from the command; a character may be split between two calls."""
        self._add(self._decode(data))

    async def close(self) -> None:
        """After the last byte: the file is complete when this returns."""
        self._add(self._decode(b"", True))
        if self._spill is not None:
            await asyncio.to_thread(self._spill.close)
            self.cut_bytes += self._spill.lost

    def text(self) -> str:
        """Return the text for the model."""
        stored = whole_in(self.path) if self.stored else "it could not be stored"
        return self.shown.text(stored)

    def colored(self) -> str:
        """Return the same as ``text`` with its colours, or nothing where it has none or they could hide a secret."""
        if self._colored is None or self.shown.cut or self._redact(self.text()) != self.text():
            return ""
        return self._colored.text("")

    def _add(self, piece: str) -> None:
        piece = self._escapes.feed(piece)
        styled, text = terminal.styled(piece), terminal.plain(piece)
        if self._colored is None and styled != text:
            self._colored = HeadTail(4 * MAX_OUTPUT)
            self._colored.add(self.shown.text(""))
        if self._colored is not None:
            self._colored.add(styled)
        if styled:
            self._live(styled)
        if not text:
            return
        self.shown.add(text)
        if self._early is not None:
            self._early.append(text)
            if not (self._whole or self.shown.cut):
                return
            text, self._early = "".join(self._early), None
            self._spill = _Spill(self.path, self._redact)
        if self._spill is not None:
            # Limit it here as well: a flood must not wait in memory for the disk.
            if self._sent > MAX_SPILL_BYTES:
                self.cut_bytes += len(text)
                return
            self._sent += len(text)
            self._spill.put(text)


class _Spill:
    """Writes the file in a thread of its own: removing secrets from much text is no work for the event loop."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self.written = 0
        self.lost = 0
        self._path = path
        self._redact = redact
        self._held = ""
        self._file: BinaryIO | None = None
        self._failed = False
        self._thread = ThreadPoolExecutor(1, "spill")

    def put(self, text: str) -> None:
        """Called on the event loop; waits for nothing."""
        self._thread.submit(self._take, text, False)

    def close(self) -> None:
        """Blocking."""
        self._thread.submit(self._take, "", True).result()
        self._thread.shutdown()
        if self._file is not None:
            self._file.close()

    def _take(self, text: str, last: bool) -> None:
        self._held += text
        # A chunk may split a secret, so hold some text back and cut outside of secrets.
        cut = len(self._held) if last else _safe_cut(self._held)
        if cut:
            ready, self._held = self._held[:cut], self._held[cut:]
            self._write(self._redact(ready).encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None and not self._failed:
                make_folder(self._path.parent)
                self._file = self._path.open("wb")
            room = 0 if self._file is None else max(0, MAX_SPILL_BYTES - self.written)
            if self._file is not None:
                self._file.write(data[:room])
                self._file.flush()
            self.written += len(data[:room])
            self.lost += len(data) - len(data[:room])
        except OSError:
            # The command's own result matters more than the copy of its output, and reports that the copy is missing.
            self._failed = True
            self.lost += len(data)


def _safe_cut(text: str) -> int:
    """Return how much can be redacted alone: whole lines, and no unfinished key; all but the newest."""
    if len(text) < _HELD:
        at = text.rfind("\n") + 1
    else:
        at = max(text.rfind("\n"), text.rfind(" "), len(text) - _HELD // 2) + 1
    begins = text.rfind(_KEY_BEGINS, 0, at)
    if begins >= 0 and text.find(_KEY_ENDS, begins, at) < 0 and len(text) - begins < _HELD:
        return begins
    return min(at, len(text))
