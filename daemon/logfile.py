"""The daemon's log: a file of bounded size that also has what libraries and crashes print to stderr.

Everything that goes through ``logging`` is written without secrets, including tracebacks and uncaught exceptions.
Direct output to stderr by a library, or by the interpreter when it dies, cannot be filtered.
"""

from __future__ import annotations

import faulthandler
import logging
import logging.handlers
import os
import sys
import threading
from typing import TYPE_CHECKING

from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from io import TextIOWrapper
    from pathlib import Path
    from types import TracebackType

MAX_BYTES = 2_000_000
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _LogFile(logging.handlers.RotatingFileHandler):
    """Takes stderr along to the new file when it begins one."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        if sys.platform != "win32":
            os.fchmod(stream.fileno(), 0o600)
        os.dup2(stream.fileno(), 2)
        return stream


class _Formatter(logging.Formatter):
    """Without secrets: the message with all its arguments, the traceback and the stack."""

    def format(self, record: logging.LogRecord) -> str:
        return SECRETS.text(super().format(record))


def configure_logging(path: Path | None, *, level: int = logging.INFO) -> None:
    """Log to ``path`` (at most twice ``MAX_BYTES``, old entries in ``daemon.log.1``), or to stderr when None."""
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = _LogFile(
            path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    handler.setFormatter(_Formatter(_FORMAT))
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(handler)
    # Libraries that log each request, including keys in the address.
    for name in ("httpx", "httpx2", "httpcore", "httpcore2", "asyncio", "watchdog"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # pygls logs whole messages when they are invalid, and `initialize` contains keys.
    # The MCP SDK ("mcp" and "client") logs messages of servers, too, as many as they like to send.
    for name in ("pygls", "mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    faulthandler.enable(file=2)


def _uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    logging.getLogger("daemon").critical("not caught", exc_info=(kind, error or kind(), traceback))
