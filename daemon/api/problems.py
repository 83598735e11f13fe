"""HTTP status and words for requests that fail, the same for REST and WebSocket."""

from __future__ import annotations

import logging

from daemon.api.listing import ParameterError
from daemon.api.security import UNREACHABLE
from daemon.api.step_views import AnswerTooLargeError, NotFoundError
from daemon.store.trace_store import NewerFormatError, RefusedError, TooSlowError, UnreachableError

log = logging.getLogger(__name__)

_STATUS: dict[type[Exception], int] = {
    NotFoundError: 404,
    NewerFormatError: 409,
    AnswerTooLargeError: 413,
    ParameterError: 422,
    TooSlowError: 503,
    UnreachableError: 503,
}
_WORDS: dict[type[Exception], str] = {
    UnreachableError: UNREACHABLE,
    RefusedError: "The database refused this. The log of the server says why.",
}
"""In place of the error's own, which name hosts and tables."""


def problem_of(error: Exception) -> tuple[int, str]:
    """Return HTTP's status and the words for an error of the API or the store."""
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    words = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), None)
    if words is not None or status == 500:
        log.warning("a trace cannot be read: %s", error)
    # The message itself says what to do, because not everything can be rebuilt.
    return status, words or str(error)
