"""The totals of a run are the growth of the session's totals, as sent beside events, while it ran."""

from __future__ import annotations

from typing import Any

from lsp_bridge.cli.run.totals import Totals

Json = dict[str, Any]


def view(tokens: int, cost: float, unpriced: int = 0) -> Json:
    usage = {"input": tokens, "output": 1, "cacheRead": 2, "cacheWrite": 3, "unpriced": unpriced}
    return {"usage": usage, "totalCost": cost}


def test_run_totals_leave_out_earlier_turns_and_titles() -> None:
    totals = Totals()
    totals.follow({}, view(100, 1.0), counts=False)
    totals.follow({"event": "message_added"}, view(150, 1.5), counts=False)
    totals.follow({"event": "message_added"}, view(160, 1.75), counts=True)
    totals.follow({"event": "session_updated"}, view(1000, 9.0), counts=True)
    # A branch and a sub-agent: their share is in the session's totals.
    totals.follow(
        {"event": "branch_message_added"}, {"status": None, "usage": None, "totalCost": None}, counts=True
    )
    totals.follow({"event": "subagent_completed"}, view(1005, 9.5), counts=True)
    took = {"input": 15, "output": 0, "cacheRead": 0, "cacheWrite": 0, "unpriced": 0, "cost": 0.75}
    assert totals.to_json() == took


def test_without_a_known_price_the_cost_is_none() -> None:
    totals = Totals()
    totals.follow({"event": "message_added"}, view(5, 0.0, 11), counts=True)
    totals.follow({"event": "subagent_completed"}, view(12, 0.0, 18), counts=True)
    assert (totals.to_json()["input"], totals.to_json()["cost"]) == (12, None)
    assert totals.words().endswith(" · unknown price")
    totals.follow({"event": "message_added"}, view(13, 0.5, 18), counts=True)
    assert (totals.to_json()["unpriced"], totals.to_json()["cost"]) == (18, 0.5)
    assert totals.words().endswith(" · ≥ $0.50")
