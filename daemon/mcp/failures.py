"""Why a server does not work or does not answer, in words for the user."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import ValidationError

from tools.localization import t
from tools.redaction.redactor import SECRETS
from tools.text.terminal import shown_brief
from tools.text.validation import wrong_value

if TYPE_CHECKING:
    from daemon.mcp.configuration import McpServerSpec

_LONGEST, _LOOKED_AT = 500, 10_000
"""Characters of a server's text that are shown, and that are searched for secrets."""
_NO_JSON = "Failed to parse JSON response"
"""How the SDK's error begins; the rest quotes what the server sent."""

_TOO_LONG = re.compile(r"the answer is longer than ([\d,]+) bytes$")
"""How ours ends when a server's answer over HTTP is too long; the SDK puts its own words before it."""


def brief(text: str) -> str:
    """Return a text of the server, for one line, without secrets."""
    return shown_brief(SECRETS.text(" ".join(text[:_LOOKED_AT].split())), _LONGEST)


def invalid(error: Exception) -> str:
    """Say what is wrong with an answer, without the words of libraries for programmers."""
    return wrong_value(error) if isinstance(error, ValidationError) else brief(str(error))


def unreadable_line(error: Exception) -> str:
    """Quote what a server sent instead of a message; else tell the error."""
    said: object = str(error)
    if isinstance(error, ValidationError):
        said = error.errors(include_url=False)[0]["input"]
    elif isinstance(error, json.JSONDecodeError):
        said = error.doc
    return brief(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said))


def host_of(url: str) -> str:
    """Return where a URL leads, without what may be a key in it."""
    return urlsplit(url).netloc.rpartition("@")[2]


def why_down(error: BaseException, spec: McpServerSpec, status: int, timeout_s: float) -> str:
    """Describe why a connection failed. ``status``: of the last answer over HTTP that was an error, else 0."""
    import httpx2  # loaded with the SDK by now
    from mcp.shared.exceptions import MCPError
    from mcp_types import REQUEST_TIMEOUT

    error = _first(error)
    if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
        return t("it did not answer within {seconds:g} s", seconds=timeout_s)
    if spec.command and isinstance(error, OSError):
        path, reason = str(error.filename or spec.command[0]), error.strerror or str(error)
        return t("{path} cannot be started: {reason}", path=brief(path), reason=reason)
    if spec.url and isinstance(error, httpx2.TransportError | OSError):
        return t("{host} cannot be reached: {reason}", host=host_of(spec.url), reason=brief(str(error)))
    if status:
        return t("{host} answers with the status {status}", host=host_of(spec.url), status=status)
    words = error.message if isinstance(error, MCPError) else str(error)
    if (long := _TOO_LONG.search(words)) is not None:
        return t("it sent an answer that is too large: at most {limit} bytes are read", limit=long[1])
    if words.startswith(_NO_JSON) or isinstance(error, ValueError):  # pydantic's
        return t("it sent something that is no MCP message")
    return brief(words or type(error).__name__)


def _first(error: BaseException) -> BaseException:
    """Return the first error of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return _first(error.exceptions[0])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return error


def exit_words(code: int | None) -> str:
    """Describe the end of a process; ``code`` negative: a signal."""
    if code is None or code >= 0:
        return t("it ended with exit code {code}", code=code)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return t("it was ended by the signal {name}", name=name)


def sentence(text: str) -> str:
    """Return a text with a full stop, so that another one can follow."""
    return text if text.endswith((".", "!", "?", "。", "…")) else t("{text}.", text=text)
