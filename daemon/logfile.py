"""The daemon's log: a file of bounded size that also has what libraries and crashes print to stderr."""

from __future__ import annotations

import faulthandler
import logging
import logging.handlers
import os
import sys
from io import TextIOWrapper
from pathlib import Path

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


def configure_logging(path: Path | None, *, level: int = logging.INFO) -> None:
    """Log to ``path`` (at most twice ``MAX_BYTES``, old entries in ``daemon.log.1``), or to stderr when None."""
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = _LogFile(
            path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(handler)
    # Libraries that tell about each request, keys in the address included.
    for name in ("httpx", "httpx2", "httpcore", "httpcore2", "asyncio", "watchdog"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # pygls logs whole messages when something is wrong with them, and `initialize` carries keys.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    faulthandler.enable(file=2)
