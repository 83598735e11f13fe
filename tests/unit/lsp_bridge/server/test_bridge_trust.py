"""Whether the workspace's own programs may be started, when several clients are attached that say different things."""

from __future__ import annotations

import pytest

from daemon.provider.choose import ModelChoice
from lsp_bridge.protocol.sessions import InitializationOptions
from lsp_bridge.server.connection import Bridge
from lsp_bridge.server.requests.request_context import ClientState


async def no_model(env: dict[str, str], configured: str | None) -> ModelChoice:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("said", "listed", "trusted"),
    [
        ([], True, True),
        ([], False, False),
        ([None], True, True),
        ([None], False, False),
        ([True], False, True),
        ([True, None], False, True),
        ([False], True, False),
        ([True, False], True, False),
    ],
)
def test_one_restricted_client_revokes_trust_else_list_decides(
    said: list[bool | None], listed: bool, trusted: bool
) -> None:
    bridge = Bridge("0", no_model)
    bridge.clients += [ClientState(InitializationOptions(trusted=client)) for client in said]
    assert bridge.trusts(listed) is trusted
