"""Credentials for the Anthropic API: a key, a token, or a profile of the Anthropic SDK.

A profile (``ANTHROPIC_PROFILE``) represents a sign-in in a browser or the identity of a machine. The SDK gets and
renews its tokens. Only profiles import the SDK, because that takes more than a second.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from daemon.provider import errors
from daemon.provider.model_calls import ProviderError
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anthropic.lib.credentials import CredentialsFile, TokenCache

DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"
TOKEN = "ANTHROPIC_AUTH_TOKEN"
PROFILE = "ANTHROPIC_PROFILE"
BASE_URL = "ANTHROPIC_BASE_URL"
_TOKENS_BETA = "oauth-2025-04-20"
"""The beta that requests with a profile's token have to name."""


class Credential(Struct, frozen=True):
    """A server and the credential for it. Its ``repr`` hides the secrets."""

    base_url: str
    variable: str
    """The environment variable that holds the credential."""
    secret: str
    """A key, a token, or the name of a profile."""

    def __repr__(self) -> str:
        return f"Credential({self.base_url!r}, {self.variable!r})"

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Credential:
        """Read the environment of a client. Raises ProviderError when it has no credential or no usable address."""
        own_url = env.get(BASE_URL, "").strip()
        base_url = errors.checked_url(own_url, BASE_URL) if own_url else DEFAULT_BASE_URL
        # The first one that is set wins, in the SDK's order.
        for name in (KEY, TOKEN, PROFILE):
            if secret := env.get(name, "").strip():
                return cls(base_url, name, secret)
        raise errors.no_key("Anthropic", KEY)

    @property
    def imitated(self) -> bool:
        """Tell whether the server is not Anthropic's own."""
        return self.base_url != DEFAULT_BASE_URL


class AnthropicSignIn:
    """Make the headers that authorise requests, and keep the tokens of profiles."""

    def __init__(self) -> None:
        self._profiles: dict[Credential, tuple[CredentialsFile, TokenCache]] = {}

    async def headers(self, access: Credential) -> dict[str, str]:
        """Return the headers for one request. Raises ProviderError when a profile cannot sign in."""
        if access.variable == PROFILE:
            return await asyncio.to_thread(self._signed_in, access)
        headers = {"Authorization": f"Bearer {access.secret}"}
        if access.variable == KEY and access.imitated:
            headers["X-Api-Key"] = access.secret  # compatible servers often know only the older header
        if urlsplit(access.base_url).username:  # the sign-in of a gateway, which aiohttp sends as this header
            del headers["Authorization"]
        return headers

    def _signed_in(self, access: Credential) -> dict[str, str]:
        """Return headers with a profile's token, which the SDK renews before it expires. Blocks."""
        from anthropic import AnthropicError
        from anthropic.lib.credentials import CredentialsFile, TokenCache

        try:
            if access not in self._profiles:
                credentials = CredentialsFile(profile=access.secret)
                credentials.bind_base_url(access.base_url)
                self._profiles[access] = credentials, TokenCache(credentials)
            credentials, tokens = self._profiles[access]
            token = tokens.get_token()
            SECRETS.register_env({TOKEN: token})
            return {
                **credentials.extra_headers(),
                "Authorization": f"Bearer {token}",
                "anthropic-beta": _TOKENS_BETA,
            }
        except (AnthropicError, OSError, ValueError) as error:
            raise ProviderError(
                "auth",
                t(
                    "The profile {profile} ({profile2}) cannot sign in: {error}",
                    profile=access.secret,
                    profile2=PROFILE,
                    error=error,
                ),
            ) from error

    def refused(self, access: Credential) -> None:
        """Forget a token that the server rejected, so that the next request gets a new one."""
        if access in self._profiles:
            self._profiles[access][1].invalidate()
