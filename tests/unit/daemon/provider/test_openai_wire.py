"""Our messages in the shape of chat completions."""

from __future__ import annotations

from daemon.model.messages import FilePart
from daemon.provider.model_calls import SystemBlock
from daemon.provider.openai_wire import to_messages, tools
from tests.support.fakes.model_messages import check_openai
from tests.support.scenarios.model_requests import READ, assistant, call, request, result, thought, user

PNG = FilePart(name="a.png", media_type="image/png", data="iVBO")


def test_the_system_prompt_is_one_message_and_text_is_a_string() -> None:
    out = to_messages(request(user("hi"), system=(SystemBlock("a"), SystemBlock(" "), SystemBlock("b"))))
    assert out == [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "hi"}]


def test_user_neighbours_and_the_tail_are_joined() -> None:
    out = to_messages(request(user("a"), user("b"), system=(), tail="# plan"))
    assert out == [{"role": "user", "content": "a\n\nb\n\n# plan"}]


def test_the_tail_follows_tool_results_as_a_user_message() -> None:
    out = to_messages(request(user("a"), assistant(call("c1")), result("c1"), tail="# plan"))
    assert [message["role"] for message in out[-2:]] == ["tool", "user"]


def test_images_are_data_urls() -> None:
    out = to_messages(request(user("see", PNG), system=()))
    assert out[0]["content"][0]["image_url"] == {"url": "data:image/png;base64,iVBO"}


def test_images_of_tools_follow_behind_all_results_of_the_step() -> None:
    talk = (
        user("a"),
        assistant(call("c1"), call("c2")),
        result("c1", images=(PNG,)),
        result("c2"),
        assistant("b"),
    )
    out = to_messages(request(*talk, system=()))
    assert [message["role"] for message in out] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    check_openai({"messages": out})


def test_calls_are_always_valid_json_and_results_never_empty() -> None:
    out = to_messages(request(user("a"), assistant("b", call("c1", "{bad")), result("c1", ""), system=()))
    assert out[1]["tool_calls"][0]["function"]["arguments"] == '{"_invalid_json": "{bad"}'
    assert out[1]["content"] == "b"
    assert out[2]["content"] == "(no output)"


def test_errors_are_told_in_words_once() -> None:
    talk = (user("a"), assistant(call("c1"), call("c2")), result("c1", "no", is_error=True))
    out = to_messages(request(*talk, result("c2", "Error: no", is_error=True), system=()))
    assert [message["content"] for message in out[2:]] == ["Error: no", "Error: no"]


def test_reasoning_goes_back_only_when_it_is_wanted() -> None:
    talk = request(user("a"), assistant(thought("why"), "b"), user("c"), system=())
    assert "reasoning_content" not in to_messages(talk)[1]
    assert to_messages(talk, replay_reasoning=True)[1]["reasoning_content"] == "why"


def test_an_assistant_message_with_nothing_to_say_is_left_out() -> None:
    out = to_messages(request(user("a"), assistant(thought("cut off")), user("b"), system=()))
    assert out == [{"role": "user", "content": "a\n\nb"}]


def test_tools_are_functions() -> None:
    assert tools((READ,))[0]["function"]["parameters"]["type"] == "object"
