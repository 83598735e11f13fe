"""The Agent Client Protocol: what an editor is shown and asked, from the daemon's words. Pure."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from acp.schema import (
    AllowedOutcome,
    AudioContentBlock,
    BlobResourceContents,
    DeniedOutcome,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PermissionOption,
    RequestPermissionResponse,
    ResourceContentBlock,
    TextResourceContents,
    ToolCallUpdate,
)

from lsp_bridge.cli.acp import questions
from lsp_bridge.cli.acp.content import (
    UnsupportedContentError,
    diffs,
    plan_entries,
    prompt_of,
    text_block,
    usage_of,
)
from lsp_bridge.cli.acp.updates import Translator

WORK = Path("/work/shop")


def said(updates: list[Any]) -> list[str]:
    return [update.content.text for update in updates]


def delta(text: str, message: str = "m1", index: int = 0) -> dict[str, Any]:
    return {"kind": "text", "messageId": message, "index": index, "text": text}


def added(*parts: dict[str, Any], role: str = "assistant", message: str = "m1") -> dict[str, Any]:
    return {"event": "message_added", "message": {"messageId": message, "role": role, "content": [*parts]}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# -- updates --


def test_text_is_sent_once_whatever_deltas_were_lost() -> None:
    follower = Translator(WORK)
    assert said(follower.delta(delta("Hel"))) == ["Hel"]
    part = {
        "event": "message_part_added",
        "role": "assistant",
        "messageId": "m1",
        "index": 0,
        "part": text("Hello."),
    }
    assert said(follower.event(part)) == ["lo."]
    assert said(follower.event(added(text("Hello."), text("More.")))) == ["More."]


def test_an_interrupted_answer_is_sent_anew() -> None:
    follower = Translator(WORK)
    follower.delta(delta("Hel"))
    follower.event({"event": "message_discarded", "messageId": "m1"})
    assert said(follower.event(added(text("Hello.")))) == ["Hello."]


def test_the_editors_own_prompt_is_not_echoed() -> None:
    follower = Translator(WORK)
    follower.prompted("do it")
    assert follower.event(added(text("do it"), role="user")) == []
    assert said(follower.event(added(text("do it"), role="user", message="m2"))) == ["do it"]


def test_a_command_is_shown_as_it_was_typed() -> None:
    follower = Translator(WORK)
    command = ({"type": "command", "text": "/fix 1"}, text("Fix issue 1."))
    assert said(follower.event(added(*command, role="user"))) == ["/fix 1"]
    follower.prompted("/fix 1")
    assert follower.event(added(*command, role="user", message="m2")) == []


def test_a_plan_as_json_and_summaries_are_not_shown() -> None:
    follower = Translator(WORK)
    note = {"type": "note", "text": '<planning>\n{"steps": [{"goal": "…"}]}'}
    follower.event(added(text("plan it"), note, role="user"))
    assert follower.delta(delta("{")) == []
    assert follower.event(added(text('{"steps": []}'))) == []
    assert (
        follower.event(added({"type": "compaction", "kind": "summary"}, text("summary"), message="m3")) == []
    )


def test_plan_calls_are_hidden_and_others_have_a_kind() -> None:
    follower = Translator(WORK)
    calls = [
        {"type": "tool_call", "id": "c1", "name": "goal", "input": '{"add": "x"}'},
        {"type": "tool_call", "id": "c2", "name": "bash", "input": '{"command": "ls"}'},
        {"type": "tool_call", "id": "c3", "name": "mcp__x__y", "input": "not json"},
    ]
    shown: Any = follower.event(added(*calls))
    assert [(one.tool_call_id, one.kind, one.title) for one in shown] == [
        ("c2", "execute", "bash ls"),
        ("c3", "other", "mcp__x__y"),
    ]
    assert follower.event({"event": "tool_started", "toolCallId": "c1", "name": "goal"}) == []
    failed = {
        "type": "tool_result",
        "toolCallId": "c2",
        "name": "bash",
        "content": "no\u202e",
        "isError": True,
    }
    result: Any = follower.event(added(failed, role="tool", message="m2"))[0]
    assert (result.status, result.content[0].content.text) == ("failed", "no<U+202E>")


def test_notices_are_marked_as_no_words_of_the_model() -> None:
    follower = Translator(WORK)
    assert said(follower.event({"event": "notice", "text": "one\ntwo"})) == ["\n\n> one\n> two\n\n"]
    restored = {"event": "files_restored", "action": "redo", "target": "edit of a.py"}
    assert said(follower.event(restored)) == ["\n\n> Redone: edit of a.py\n\n"]


def test_the_cost_is_left_out_where_the_price_is_unknown() -> None:
    meter = {"contextTokens": 10, "contextWindow": 100, "cost": 0.0, "costKnown": False}
    assert usage_of(meter) == (10, 100, None)
    assert Translator.meter({}) == []


# -- content --


def test_diffs_become_old_and_new_text_hunk_by_hunk() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9,2 @@\n d\n+e\n"
    assert [(one.path, one.old_text, one.new_text) for one in diffs(patch, WORK)] == [
        ("/work/shop/x", "a\nc\n", "b\nc\n"),
        ("/work/shop/x", "d\n", "d\ne\n"),
    ]
    (new,) = diffs("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", WORK)
    assert (new.old_text, new.new_text) == (None, "a\n")
    assert diffs("no diff", WORK) == []
    assert diffs("@@ -1 +1 @@\nbroken", WORK) == []


def test_a_prompt_keeps_its_order_and_attaches_files() -> None:
    blocks = [
        text_block("see "),
        ResourceContentBlock(type="resource_link", name="a b.py", uri="file:///work/shop/a%20b.py"),
        text_block(" and "),
        ResourceContentBlock(type="resource_link", name="page", uri="https://example.org/x"),
        EmbeddedResourceContentBlock(
            type="resource", resource=TextResourceContents(uri="file:///work/shop/c.py", text="grüß")
        ),
        EmbeddedResourceContentBlock(
            type="resource",
            resource=BlobResourceContents(uri="x:1", blob="AAAA", mime_type="application/pdf"),
        ),
        ImageContentBlock(type="image", data="AAAA", mime_type="image/png"),
    ]
    words, files = prompt_of(blocks, WORK)
    assert words == "see @a b.py and [page](https://example.org/x)"
    assert [file["name"] for file in files] == ["a b.py", "c.py", "x:1", "image"]
    assert base64.b64decode(files[1]["data"]).decode() == "grüß"
    with pytest.raises(UnsupportedContentError):
        prompt_of([AudioContentBlock(type="audio", data="AAAA", mime_type="audio/wav")], WORK)


def test_the_plan_is_sorted_and_has_no_abandoned_goals() -> None:
    goals = [
        {"id": "1", "description": "one", "status": "completed"},
        {"id": "2", "description": "gone", "status": "abandoned"},
        {"id": "3", "description": "ten", "status": "pending"},
        {"id": "4", "description": "below", "status": "in_progress"},
    ]
    entries = plan_entries({"goals": goals}, {"1": "1", "3": "10", "4": "2.1"})
    assert [(one.content, one.status) for one in entries] == [
        ("1 one", "completed"),
        ("2.1 below", "in_progress"),
        ("10 ten", "pending"),
    ]


# -- questions --


class Asker:
    """Chooses the option with this number, or cancels."""

    def __init__(self, *numbers: int | None) -> None:
        self.calls: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self._numbers = list(numbers)

    async def __call__(
        self, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.calls.append((call, options))
        number = self._numbers.pop(0)
        if number is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = options[number].option_id
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))


COMMAND = {
    "toolCallId": "c1",
    "tool": "bash",
    "permission": "bash",
    "title": "Run rm -r build (and 1 more line)",
    "detail": "rm -r build\nmake",
    "modelSays": "harmless",
    "warnings": ["cannot be undone"],
    "suggestions": [{"permission": "bash", "pattern": "make *"}],
    "rule": {"permission": "bash", "pattern": "*", "action": "ask", "source": "shipped"},
}


@pytest.mark.parametrize(
    ("number", "reply"),
    [
        (0, {"reply": "once"}),
        (1, {"reply": "always", "scope": "session"}),
        (2, {"reply": "always", "scope": "workspace"}),
        (3, {"reply": "always", "scope": "user"}),
        (4, {"reply": "reject"}),
        (None, {"reply": "reject"}),
    ],
)
async def test_each_option_is_an_answer(number: int | None, reply: dict[str, str]) -> None:
    assert await questions.permission(COMMAND, WORK, Asker(number)) == reply


async def test_a_question_shows_all_and_the_models_words_last() -> None:
    asker = Asker(0)
    await questions.permission(COMMAND, WORK, asker)
    content: Any = asker.calls[0][0].content
    lines = content[0].content.text.split("\n")
    assert lines[:3] == ["rm -r build", "make", "! cannot be undone"]
    assert lines[-1] == 'the model says: "harmless"'


async def test_a_budget_is_continued_or_stopped() -> None:
    asker = Asker(0)
    assert await questions.permission({"permission": "budget", "title": "Limit"}, WORK, asker) == {
        "reply": "once"
    }
    assert [option.kind for option in asker.calls[0][1]] == ["allow_once", "reject_once"]


async def test_questions_of_the_model_are_asked_one_by_one() -> None:
    options = [{"label": "A"}, {"label": "B", "description": "better"}]
    request = {"questions": [{"text": "Which?", "options": options}, {"text": "Sure?", "options": options}]}
    asked = Asker(1, 2)
    assert await questions.permission(request, WORK, asked) == {
        "reply": "once",
        "answers": [{"chosen": ["B"], "text": ""}, {"chosen": [], "text": ""}],
    }
    assert [option.name for option in asked.calls[0][1]] == ["A", "B — better", "Skip"]
    assert await questions.permission(request, WORK, Asker(2, None)) == {"reply": "reject"}


async def test_a_question_that_wants_text_goes_back_to_the_model() -> None:
    answer = await questions.permission({"questions": [{"text": "Name?"}]}, WORK, Asker())
    assert answer["reply"] == "reject"
    assert "cannot show this question" in answer["feedback"]


async def test_a_branch_is_chosen_or_left_to_the_model() -> None:
    branches = [
        {"id": "A", "description": "one", "status": "completed"},
        {"id": "B", "description": "two", "status": "abandoned"},
    ]
    exploration = {"exploreStartId": "1", "branches": branches}
    asker = Asker(0)
    assert await questions.branch(exploration, asker) == "A"
    assert [option.name for option in asker.calls[0][1]] == ["Merge A: one", "Let the model choose"]
    assert await questions.branch(exploration, Asker(1)) == ""
    assert await questions.branch(exploration, Asker(None)) == ""
