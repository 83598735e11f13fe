"""How many clicks and keys the most frequent actions take; ``python -m tests.e2e.clicks`` counts all of them."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.flows import flows
from tests.e2e.vscode.hand import Hand
from tests.e2e.vscode.shared import SharedWindow

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

TARGETS = {
    "accept one edit": "1 click",
    "accept three edits of a step": "1 click",
    "retry after an error": "1 click",
}
"""Setting a key and switching the model are counted where a window without a key is open: ``test_vscode_models.py``."""


@pytest.mark.parametrize("name", TARGETS)
async def test_it_takes_no_more_than_its_target(
    with_model: WithModel, shared_window: SharedWindow, name: str
) -> None:
    flow = next(flow for flow in flows(shared_window.folder) if flow.name == name)
    workspace = flow.prepare(shared_window.workspace)
    async with with_model(flow.replies(workspace)) as (_, window):
        await window.show_chat()
        hand = Hand(window.page)
        await flow.do(window, workspace, hand)
    assert hand.words == TARGETS[name]
    assert flow.most is not None
    assert hand.actions <= flow.most
