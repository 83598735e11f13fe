"""Our messages in the shape of the Anthropic Messages API."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.model.messages import OPEN_FILE, FilePart, FinishPart, ReasoningPart, ToolResultPart
from daemon.provider.anthropic_wire import VERSION, build, thinking_of, to_messages, version_for
from daemon.provider.model_calls import PromptMessage, SystemBlock, ToolSpec
from tests.support.fakes.model_messages import check_anthropic
from tests.support.scenarios.model_requests import READ, assistant, call, request, result, thought, user


def blocks(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


def marked(args: dict[str, Any]) -> list[str]:
    """Where the cache breakpoints are."""
    found = [f"tool {tool['name']}" for tool in args.get("tools", ()) if "cache_control" in tool]
    found += [f"system {i}" for i, block in enumerate(args.get("system", ())) if "cache_control" in block]
    for i, message in enumerate(args["messages"]):
        found += [
            f"message {i}.{j}" for j, block in enumerate(message["content"]) if "cache_control" in block
        ]
    return found


def png(name: str = "a.png") -> FilePart:
    return FilePart(name=name, media_type="image/png", data="iVBO")


def test_neighbours_of_one_role_become_one_message() -> None:
    out = to_messages([user("a"), user("b"), assistant("c"), assistant("d"), user("e")])
    assert [message["role"] for message in out] == ["user", "assistant", "user"]
    assert [block["text"] for block in out[0]["content"]] == ["a", "b"]


def test_tool_results_come_first_in_the_following_user_message() -> None:
    out = to_messages(
        [user("a"), assistant(call("c1"), call("c2")), result("c1"), user("and?"), result("c2")]
    )
    assert [message["role"] for message in out] == ["user", "assistant", "user"]
    assert blocks(out[2]) == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in out[2]["content"][:2]] == ["c1", "c2"]


def test_failed_result_is_marked_and_empty_result_gets_a_filler() -> None:
    out = to_messages(
        [user("a"), assistant(call("c1"), call("c2")), result("c1", "no", is_error=True), result("c2", "")]
    )
    first, second = out[2]["content"]
    assert first["is_error"] is True
    assert "is_error" not in second
    assert second["content"] == [{"type": "text", "text": "(no output)"}]


def test_images_of_a_tool_are_part_of_its_result() -> None:
    out = to_messages([user("a"), assistant(call("c1")), result("c1", "a picture", images=(png(),))])
    assert blocks(out[2]["content"][0]) == ["text", "image"]


def test_signed_and_redacted_thinking_is_sent_unchanged() -> None:
    redacted = ReasoningPart(text="", redacted="opaque")
    out = to_messages([user("a"), assistant(thought("why", "s1"), redacted, "b"), user("c")])
    assert out[1]["content"][:2] == [
        {"type": "thinking", "thinking": "why", "signature": "s1"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]


def test_hidden_thinking_keeps_its_signature() -> None:
    out = to_messages([user("a"), assistant(thought("", "s1"), "b"), user("c")])
    assert out[1]["content"][0] == {"type": "thinking", "thinking": "", "signature": "s1"}


def test_thinking_without_a_signature_is_left_out() -> None:
    out = to_messages([user("a"), assistant(thought("why", None), "b"), user("c")])
    assert blocks(out[1]) == ["text"]


def test_message_of_thinking_only_is_dropped_and_users_merge() -> None:
    out = to_messages([user("a"), assistant(thought("I was cancelled")), user("b")])
    assert [message["role"] for message in out] == ["user"]
    assert [block["text"] for block in out[0]["content"]] == ["a", "b"]


def test_blank_text_and_finish_parts_are_never_sent() -> None:
    from datetime import UTC, datetime

    finish = FinishPart(reason="end_turn", time=datetime(2026, 1, 1, tzinfo=UTC))
    out = to_messages([user("a", " \n"), assistant("", finish, "b"), user("c")])
    assert [len(message["content"]) for message in out] == [1, 1, 1]


@pytest.mark.parametrize("text", ["{not json", "[1, 2]", '"text"'])
def test_non_object_arguments_are_wrapped_in_an_object(text: str) -> None:
    out = to_messages([user("a"), assistant(call("c1", text)), result("c1")])
    assert out[1]["content"][0]["input"] == {"_invalid_json": text}


def test_invalid_ids_and_names_are_sanitized_in_call_and_result() -> None:
    out = to_messages(
        [user("a"), assistant(call("functions.read:0", name="no such.tool")), result("functions.read:0")]
    )
    use, answer = out[1]["content"][0], out[2]["content"][0]
    assert use["id"] == answer["tool_use_id"] == "functions_read_0"
    assert use["name"] == "no_such_tool"


def test_attachments_are_sent_by_their_media_type() -> None:
    pdf = FilePart(name="a.pdf", media_type="application/pdf", data="JVBE")
    note = FilePart(name="a.txt", media_type="text/plain", data=base64.b64encode("grüße".encode()).decode())
    blob = FilePart(
        name="a.bin", media_type="application/octet-stream", data=base64.b64encode(b"\xff\xfe").decode()
    )
    path = FilePart(name="src/a.py", media_type="text/x-python")
    shown = FilePart(name="src/b.py:3-9", media_type=OPEN_FILE)
    content = to_messages([user("see", png(), pdf, note, blob, path, shown)])[0]["content"]
    assert [block["type"] for block in content] == ["text", "image", "document", *["text"] * 4]
    assert content[1]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBO"}
    assert content[3]["text"] == '<file name="a.txt">\ngrüße\n</file>'
    assert "not readable" in content[4]["text"]
    assert "src/a.py" in content[5]["text"]
    assert content[6]["text"] == "[open in the user's editor: src/b.py:3-9]"


def test_breakpoints_are_on_system_prompt_and_last_user_messages() -> None:
    tools = (READ, ToolSpec("edit", "", {"type": "object"}))
    system = (SystemBlock("a", cache=True), SystemBlock("b", cache=True), SystemBlock("c", cache=True))
    talk = (user("a"), assistant("b"), user("c"), assistant(call("c1")), result("c1"))
    args = build(request(*talk, tools=tools, system=system))
    assert marked(args) == ["system 1", "system 2", "message 2.0", "message 4.0"]


def test_without_system_breakpoint_the_last_tool_has_one() -> None:
    tools = (READ, ToolSpec("edit", "", {"type": "object"}))
    args = build(request(user("a"), tools=tools, system=(SystemBlock("a"),)))
    assert marked(args) == ["tool edit", "message 0.0"]


def test_stable_prefix_before_the_goal_has_a_breakpoint() -> None:
    talk = [user("a"), assistant(call("c1")), result("c1"), user("note")]
    for number in range(2, 5):
        talk += [assistant(call(f"c{number}")), result(f"c{number}")]
    system = (SystemBlock("a", cache=True), SystemBlock("b", cache=True))
    args = build(replace(request(*talk, system=system), stays=3))
    # Not behind the note, which is the goal's own, although it is sent in the same message.
    assert marked(args) == ["system 1", "message 2.0", "message 6.0", "message 8.0"]
    assert [block["type"] for block in args["messages"][2]["content"]] == ["tool_result", "text"]
    again = build(replace(request(*talk, system=system), stays=0))
    assert marked(again) == ["system 0", "system 1", "message 6.0", "message 8.0"]


def test_stable_prefix_may_end_with_a_model_message() -> None:
    thinking = assistant(ReasoningPart(text="hm", signature="s"), call("c1"))
    talk = (user("a"), thinking, result("c1"), assistant(call("c2")), result("c2"), assistant("x"), user("b"))
    assert marked(build(replace(request(*talk), stays=2)))[1] == "message 1.1"
    # The end of one of the last two user messages has a breakpoint anyway.
    assert marked(build(replace(request(user("a")), stays=1))) == ["system 0", "message 0.0"]


def test_tail_comes_after_the_last_breakpoint() -> None:
    args = build(request(user("a"), assistant(call("c1")), result("c1"), tail="## Current Plan"))
    last = args["messages"][-1]["content"]
    assert last[-1] == {"type": "text", "text": "## Current Plan"}
    assert "cache_control" in last[-2]


def test_resent_messages_are_equal_up_to_the_last_breakpoint() -> None:
    first = build(request(user("a"), tail="plan 1"))
    second = build(request(user("a"), assistant(call("c1")), result("c1"), tail="plan 2"))
    assert second["messages"][0]["content"] == first["messages"][0]["content"][:-1]


@pytest.mark.parametrize(
    ("model", "how"),
    [
        ("claude-3-5-haiku-latest", "none"),
        ("claude-3-7-sonnet-latest", "budget"),
        ("claude-sonnet-4-20250514", "budget"),
        ("claude-haiku-4-5-20251001", "budget"),
        ("claude-sonnet-4-6", "adaptive"),
        ("claude-opus-4-8", "adaptive"),
        ("claude-opus-5", "adaptive_default"),
        ("claude-haiku-5-5", "adaptive_default"),
        ("claude-sonnet-5-5", "between_tools"),
        ("claude-opus-5-5", "always"),
        ("claude-fable-5-2", "always"),
        ("kimi-k3", "budget"),
    ],
)
def test_how_models_think(model: str, how: str) -> None:
    assert thinking_of(model) == how


@pytest.mark.parametrize(
    ("model", "off", "on"),
    [
        ("claude-3-5-haiku-latest", None, None),
        ("claude-haiku-4-5", None, {"type": "enabled", "budget_tokens": 5000}),
        ("claude-opus-4-8", None, {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-5-5", {"type": "disabled"}, {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", {"type": "between_tools"}, {"type": "adaptive", "display": "summarized"}),
        (
            "claude-opus-5-5",
            {"type": "adaptive", "display": "summarized"},
            {"type": "adaptive", "display": "summarized"},
        ),
    ],
)
def test_thinking_parameter_fits_the_model(model: str, off: object, on: object) -> None:
    assert build(request(model=model)).get("thinking") == off
    assert build(request(model=model, thinking_tokens=5000)).get("thinking") == on


def test_answer_tokens_are_added_to_the_thinking_budget() -> None:
    args = build(request(model="claude-haiku-4-5", thinking_tokens=20_000, max_tokens=8_000))
    assert args["max_tokens"] == 28_000
    assert build(request(model="claude-haiku-4-5", thinking_tokens=1))["thinking"]["budget_tokens"] == 1024


def test_budget_model_does_not_start_thinking_in_a_tool_loop() -> None:
    talk = (user("a"), assistant(call("c1")), result("c1"))
    assert "thinking" not in build(request(*talk, model="claude-haiku-4-5", thinking_tokens=5000))
    signed = (user("a"), assistant(thought("why"), call("c1")), result("c1"))
    assert "thinking" in build(request(*signed, model="claude-haiku-4-5", thinking_tokens=5000))


@pytest.mark.parametrize(("budget", "effort"), [(2_000, "low"), (8_000, "medium"), (32_000, "high")])
def test_thinking_budget_becomes_effort_for_newer_models(budget: int, effort: str) -> None:
    args = build(request(model="claude-opus-5-5", thinking_tokens=budget))
    assert args["output_config"] == {"effort": effort}


def test_temperature_is_sent_only_to_models_that_accept_it() -> None:
    old = build(request(model="claude-sonnet-4-6", temperature=0.2))
    assert (old["temperature"], version_for(old)) == (0.2, "2023-06-01")
    new = build(request(model="claude-sonnet-5-5", temperature=0.2))
    thinking = build(request(model="claude-sonnet-4-6", temperature=0.2, thinking_tokens=4000))
    for args in (new, thinking):
        assert "temperature" not in args
        assert version_for(args) == VERSION


def test_earlier_thinking_can_be_left_out() -> None:
    args = build(request(user("a"), assistant(thought("why"), "b"), user("c")), replay_thinking=False)
    assert blocks(args["messages"][1]) == ["text"]


def test_long_mixed_conversation_satisfies_the_api() -> None:
    talk = [
        user("a"),
        user("", png()),
        assistant(thought("x"), "b", call("c1"), call("c.2", "{bad")),
        PromptMessage("tool", (ToolResultPart(tool_call_id="c1", name="read", content=""),)),
        result("c.2", "broken", is_error=True),
        user("go on"),
        assistant(thought("cut off")),
        user("still there?"),
        assistant("yes"),
        user("good"),
    ]
    for model in ("claude-haiku-4-5", "claude-sonnet-5-5", "claude-opus-5-5"):
        args = build(request(*talk, model=model, thinking_tokens=3000, tail="# plan"))
        check_anthropic(args, "2026-10-21")


def test_always_thinking_model_uses_low_effort_for_short_answers() -> None:
    short = build(replace(request(user("sum up"), model="claude-opus-5-5"), max_tokens=4_000))
    assert short["output_config"] == {"effort": "low"}
    assert "output_config" not in build(
        replace(request(user("work"), model="claude-opus-5-5"), max_tokens=16_000)
    )
