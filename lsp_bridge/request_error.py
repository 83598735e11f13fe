"""The error that a request is answered with."""

from __future__ import annotations


class RequestError(Exception):
    """Becomes a JSON-RPC error; the message says what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
