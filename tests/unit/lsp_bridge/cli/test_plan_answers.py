"""A plan at a terminal: it shows goals, not the JSON that the model wrote."""

from __future__ import annotations

from typing import Any

import pytest

from lsp_bridge.cli.run.view import TextView
from lsp_bridge.cli.text import Style

ASK = '<planning>\nAnswer with JSON: {"steps": [{"goal": "what will be achieved"}]}\n</planning>'
PLAN = '{"steps": [{"goal": "Read it"}]}'


def added(role: str, kind: str, text: str, name: str) -> dict[str, Any]:
    message = {"messageId": name, "role": role, "content": [{"type": kind, "text": text}]}
    return {"event": "message_added", "message": message}


def told(*answers: str, note: str = ASK) -> str:
    written: list[str] = []
    view = TextView(written.append, style=Style(False))
    for number, answer in enumerate(answers):
        view.event("s", added("user", "note", note, f"ask {number}"), {})
        name = f"answer {number}"
        for piece in (answer[:5], answer[5:]):
            view.delta("s", {"kind": "text", "messageId": name, "index": 0, "text": piece})
        part = {"type": "text", "text": answer}
        view.event(
            "s",
            {"event": "message_part_added", "role": "assistant", "messageId": name, "index": 0, "part": part},
            {},
        )
        view.event("s", added("assistant", "text", answer, name), {})
    return "".join(written)


@pytest.mark.parametrize("answer", [PLAN, f"```json\n{PLAN}\n```", '{"steps": null}'])
def test_the_json_of_a_plan_is_not_shown(answer: str) -> None:
    assert told(answer) == ""


@pytest.mark.parametrize("answer", ["There are three files.", f"I think: {PLAN}", "{oh"])
def test_words_for_the_person_are_shown_once(answer: str) -> None:
    assert told(answer) == f"{answer}\n"
    assert told(PLAN, answer) == f"{answer}\n"


def test_json_that_nobody_asked_for_as_a_plan_is_an_answer() -> None:
    assert told(PLAN, note="<planning>\nWork on goal 1\n</planning>") == f"{PLAN}\n"
