"""An MCP server on the official SDK that wants OAuth, with the SDK's own authorization server beside it on one port.

Usage: ``python guarded_mcp_server.py [HOW]``. Prints its port. The page for the user signs in at once.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
LIFE_S = 1 if HOW == "short" else 3600


class Provider:
    """Keeps everything in memory. ``access`` can be emptied from outside, like tokens that are revoked."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.renewed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        if HOW == "denies":
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issued(client, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.renewed += 1
        return self._issued(client, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _issued(self, client: OAuthClientInformationFull, scopes: list[str]) -> OAuthToken:
        token, renewal = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        client_id = client.client_id or ""
        self.access[token] = AccessToken(token=token, client_id=client_id, scopes=scopes)
        self.refresh[renewal] = RefreshToken(token=renewal, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=token, expires_in=LIFE_S, refresh_token=renewal)


def main() -> None:
    # Listening before anybody is told, and all the time: a free port may be somebody else's a moment later.
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    provider = Provider()
    server = MCPServer(
        "guarded",
        version="1",
        auth_server_provider=provider,  # pyright: ignore[reportArgumentType]
        auth=AuthSettings.model_validate(
            {
                "issuer_url": base,
                "resource_server_url": f"{base}/mcp",
                "validate_token_resource": False,
                "client_registration_options": ClientRegistrationOptions(enabled=HOW != "closed"),
            }
        ),
    )

    @server.tool()
    def secret() -> str:  # pyright: ignore[reportUnusedFunction]
        """Return what only users with a token see."""
        return "the plan"

    @server.custom_route("/control", methods=["GET"])
    async def control(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """``?do=revoke``: no access token is valid any more; ``forget``: nor is any renewal."""
        match request.query_params.get("do"):
            case "revoke":
                provider.access.clear()
            case "forget":
                provider.access.clear()
                provider.refresh.clear()
            case _:
                pass
        return JSONResponse({"renewed": provider.renewed, "clients": len(provider.clients)})

    print(port, flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run([listening])


if __name__ == "__main__":
    main()
