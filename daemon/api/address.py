"""The address of the trace API, and the errors of opening it. Both `lazy_server` and `serving` need them."""

from __future__ import annotations

from msgspec import Struct


class ApiError(Exception):
    """Raised when the API cannot be opened; the message says why and what to do."""


class PortTakenError(ApiError):
    """Its port cannot be had."""


class OpenApi(Struct, frozen=True):
    """Where an open API is."""

    url: str
    """``http://127.0.0.1:PORT``, without a slash at its end."""
    token: str

    def __repr__(self) -> str:
        return f"OpenApi({self.url!r})"  # without the token

    @property
    def page(self) -> str:
        """The address of the web page, with the token."""
        return f"{self.url}/?token={self.token}"
