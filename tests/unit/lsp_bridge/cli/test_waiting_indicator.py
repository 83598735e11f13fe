"""The sign of life while the model reads the prompt."""

from __future__ import annotations

from typing import Any

import pytest

from lsp_bridge.cli.run.waiting_indicator import WaitingSign


class Seen:
    """A turn as the terminal sees it, with a clock of its own."""

    def __init__(self, *, live: bool) -> None:
        self.now = 100.0
        self.asking = False
        self.shown: list[str] = []
        self.told: list[str] = []
        show = self.shown.append if live else None
        self.waiting = WaitingSign(show, self.told.append, lambda: self.asking, clock=lambda: self.now)

    def after(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1
            self.waiting.tick()

    def message(self, role: str, *parts: str) -> None:
        content = [{"type": part} for part in parts]
        self.waiting.event({"event": "message_added", "message": {"role": role, "content": content}})


def event(name: str) -> dict[str, Any]:
    return {"event": name}


def test_a_terminal_shows_the_seconds() -> None:
    seen = Seen(live=True)
    seen.waiting.event(event("turn_started"))
    seen.message("user", "text")
    seen.after(5)
    assert seen.shown == [f"waiting for the model … {seconds} s" for seconds in (3, 4, 5)]
    seen.waiting.delta({"kind": "reasoning"})
    seen.after(60)
    assert len(seen.shown) == 3


def test_a_file_gets_a_line_now_and_then() -> None:
    seen = Seen(live=False)
    seen.waiting.event(event("turn_started"))
    seen.after(200)
    assert seen.told == [f"waiting for the model … {seconds} s" for seconds in (30, 90, 150)]


@pytest.mark.parametrize("live", [True, False])
def test_tools_are_not_waited_for_until_the_last_has_answered(live: bool) -> None:
    seen = Seen(live=live)
    seen.waiting.event(event("turn_started"))
    seen.message("assistant", "text", "tool_call", "tool_call")
    seen.waiting.delta({"kind": "tool_output"})
    seen.after(100)
    seen.message("tool", "tool_result")
    seen.after(100)
    assert (seen.shown, seen.told) == ([], [])
    seen.message("tool", "tool_result")
    seen.after(31)
    assert seen.shown or seen.told


def test_nothing_is_written_below_a_question_or_after_the_end() -> None:
    seen = Seen(live=True)
    seen.waiting.event(event("model_retry"))
    seen.asking = True
    seen.after(10)
    seen.asking = False
    seen.waiting.event(event("turn_ended"))
    seen.after(10)
    assert seen.shown == []
