"""When the work fails again and again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from daemon.model.messages import Message, NotePart, Part, TextPart, ToolCallPart, ToolResultPart
from daemon.planner.driver import Failures

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def play(script: str) -> list[str]:
    """Return the report after each word of ``script``: ``tool:argument`` with ``!`` for an error, ``~`` for a denial,
    ``#`` for exit code 1."""
    messages: list[Message] = []
    failures = Failures(0)
    told: list[str] = []

    def add(role: str, part: Part) -> None:
        fields = {
            "message_id": "m",
            "trace_id": "t",
            "role": role,
            "sequence": len(messages) + 1,
            "created_at": NOW,
        }
        messages.append(Message.model_validate({**fields, "content": (part,)}))

    for number, word in enumerate(script.split()):
        if word in ("person", "note"):
            add("user", TextPart(text="x") if word == "person" else NotePart(text="x"))
        else:
            name, _, argument = word.rstrip("!~#").partition(":")
            add(
                "assistant", ToolCallPart(id=f"c{number}", name=name, input=json.dumps({"command": argument}))
            )
            metadata = (
                {"denied": True} if word.endswith("~") else {"exit_code": 1} if word.endswith("#") else {}
            )
            error = word.endswith(("!", "~"))
            result = ToolResultPart(
                tool_call_id=f"c{number}", name=name, content="bad", is_error=error, metadata=metadata
            )
            add("tool", result)
        told.append(failures.seen(messages))
    return told


@pytest.mark.parametrize(
    ("script", "at"),
    [
        ("edit! edit! edit!", [2]),
        ("edit! write! patch!", [2]),
        ("edit! read edit! read edit!", [4]),
        ("edit! edit! edit edit! edit!", []),
        ("read! read! read!", [2]),
        ("read! glob! read! glob!", []),
        ("bash:pytest# edit bash:pytest# edit bash:pytest#", [4]),
        ("bash:pytest# bash:ls bash:pytest# bash:ls bash:pytest#", [4]),
        ("bash:a# bash:b# bash:c#", []),
        ("bash:a# bash:a bash:a# bash:a#", []),
        ("bash:a! bash:a! bash:a!", [2]),
        ("edit! edit! person edit!", []),
        ("edit! edit! note edit!", [3]),
        ("edit~ edit~ edit~ edit~", []),
        ("edit! edit! edit! edit! edit! edit!", [2, 5]),
        ("edit! edit! edit! bash:a# edit! edit!", [2]),
    ],
)
def test_three_failures_of_the_same_thing_are_told(script: str, at: list[int]) -> None:
    assert [place for place, words in enumerate(play(script)) if words] == at


def test_it_says_what_failed() -> None:
    assert play("bash:make# bash:make# bash:make#")[-1].endswith(
        "The same command failed 3 times, despite changes in between: make"
    )
    assert play("edit! edit! edit!")[-1] == "3 file changes in a row failed, the last one with: bad"
