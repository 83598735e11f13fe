"""The terminal of a run: where to write, whether it can show colours, and who can be asked."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from lsp_bridge.cli.text import Style, fit, shown_line
from tools.json_access import strings
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


class OutputFailedError(OSError):
    """Raised when the output cannot be written, e.g. because the disk is full; the message is for the user."""

    def __str__(self) -> str:
        return str(self.strerror)


class Console:
    """Where a command writes, and whom it can ask."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        color: bool = False,
        color_err: bool = False,
        live: bool = False,
        columns: int = 80,
        tty: int | None = None,
    ) -> None:
        """``out`` is stdout; ``live``: it is a terminal that can rewrite its last line. ``tty`` is a file descriptor to
        ask a user on, None without one."""
        self.out = out
        self.err = err
        self.color = color
        self.color_err = color_err
        self.live = live
        self.columns = columns
        self.tty = tty
        self.on_gone: Callable[[], None] | None = None
        """Called once when ``out`` cannot be written any more, because its reader is gone (``| head``) or it failed."""
        self.failure: OutputFailedError | None = None
        """Why ``out`` failed, which ``on_gone`` was called for."""
        self._gone = False
        self._problems = set[str]()
        """Problems that were printed."""

    @staticmethod
    def of_process(*, color: bool = True) -> Console:
        """Return the console of this process. ``NO_COLOR`` and ``TERM=dumb`` are honoured."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError):
                # A character that the terminal's encoding lacks must not end the program.
                stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        shown, told = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
        smart = os.environ.get("TERM") != "dumb"
        color = color and smart and not os.environ.get("NO_COLOR")
        return Console(
            out=sys.stdout,
            err=sys.stderr,
            color=color and shown,
            color_err=color and told,
            live=smart and shown,
            columns=_columns(sys.stdout),
            tty=_descriptor() if shown or told else None,
        )

    @property
    def style(self) -> Style:
        """The colours of ``out``."""
        return Style(self.color)

    @property
    def err_style(self) -> Style:
        """The colours of ``err``."""
        return Style(self.color_err)

    def write(self, text: str) -> None:
        """To ``out``, at once."""
        with self._until_gone():
            self.out.write(text)
            self.out.flush()

    def line(self, text: str = "") -> None:
        """Write a line to ``out``."""
        self.write(text + "\n")

    def row(self, text: str) -> None:
        """Write a line of a list to ``out``; a terminal gets what fits."""
        self.line(fit(text, self.columns) if self.live else text)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes to ``out`` unchanged, at once: for programs, never for a screen."""
        with self._until_gone():
            self.out.buffer.write(data)
            self.out.flush()

    @contextlib.contextmanager
    def _until_gone(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            _drop_the_rest(self.out)
            if not isinstance(error, BrokenPipeError):
                words = t("The output cannot be written: {strerror}", strerror=error.strerror)
                self.failure = OutputFailedError(error.errno, words)
                if self.on_gone is None:
                    raise self.failure from error
            if self.on_gone is not None and not self._gone:
                self._gone = True
                self.on_gone()

    def let_go(self, *_: object) -> None:
        """Handle a signal: where a write would wait for a reader who does not read, discard all further output.

        A write that waits already then ends, too, and the event loop can handle the signal.
        """
        import select

        for stream in (self.out, self.err):
            with contextlib.suppress(OSError, ValueError):
                if not select.select([], [stream.fileno()], [], 0)[1]:
                    _drop_the_rest(stream)

    def tell(self, text: str) -> None:
        """Write to ``err`` at once; failures are ignored."""
        with contextlib.suppress(OSError):
            self.err.write(text)
            self.err.flush()

    def warn(self, text: str) -> None:
        """A line to ``err``."""
        self.tell(text + "\n")

    def problem(self, text: str) -> None:
        """Tell of something wrong in the user's files, once, whatever text they put into it."""
        if text not in self._problems:
            self._problems.add(text)
            self.warn(self.err_style.yellow(shown_line(text)))

    def problems(self, found: Mapping[str, Any]) -> None:
        """Tell of the ``problems`` in an answer of the daemon."""
        for text in strings(found.get("problems")):
            self.problem(text)


def _drop_the_rest(stream: TextIO) -> None:
    """Discard all further output; otherwise the interpreter would fail once more when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _columns(stream: TextIO) -> int:
    # Importing shutil would take a tenth of the time to the first request.
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or 80
    return 80


def _descriptor() -> int | None:
    if _is_terminal(sys.stdin):
        return sys.stdin.fileno()
    # The task may have been piped in while a user sits at the terminal.
    with contextlib.suppress(OSError):
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    return None
