"""Texts that a full compaction keeps word for word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.compaction import carried_over, cut_middle
from daemon.context.tokens import estimate_tokens
from daemon.model.messages import SubtaskPart
from daemon.steps.history import to_history_string
from tests.support.scenarios.conversation import Conversation

PLENTY = 100_000


def carried(talk: Conversation, keep_from: int | None = None, limit: int = PLENTY) -> str:
    return carried_over(talk.messages, talk.plan, talk.next if keep_from is None else keep_from, limit).text


def test_carried_text_is_all_user_messages_without_model_text() -> None:
    talk = Conversation()
    talk.user("Build a parser.\n\n  Never touch vendor/.  ", files=["spec.pdf"])
    talk.step("read", {"file_path": "a.py"}, "secret content", text="I look first")
    talk.says("Done so far.")
    talk.user("", files=["screen.png"])
    talk.user("Now quotes", note="the user moved a goal")
    text = carried(talk)
    places = [
        text.index(part)
        for part in (
            "Build a parser.\n\n  Never touch vendor/.  ",
            "[attached: spec.pdf]",
            "[attached: screen.png]",
            "Now quotes",
            "Continue the work",
        )
    ]
    assert places == sorted(places)
    for other in ("secret content", "I look first", "Done so far", "moved a goal"):
        assert other not in text


def test_messages_kept_in_the_window_are_not_carried() -> None:
    talk = Conversation()
    talk.user("first")
    talk.says("yes")
    kept = talk.user("second")
    assert "second" not in carried(talk, kept.sequence)
    assert "first" in carried(talk, kept.sequence)


def test_task_of_a_sub_agent_is_carried_like_a_user_message() -> None:
    talk = Conversation()
    talk.add("user", SubtaskPart(agent="general", prompt="Count the files."))
    assert "Count the files." in carried(talk)


def test_very_long_message_is_kept_whole_if_there_is_room() -> None:
    talk = Conversation()
    long = "BEGIN " + "w" * 60_000 + " MIDDLE " + "v" * 60_000 + " END"
    talk.user(long)
    found = carried_over(talk.messages, talk.plan, talk.next, PLENTY)
    assert long in found.text
    assert (found.shortened, found.left_out) == (0, 0)


def test_the_longest_messages_are_cut_first_and_counted() -> None:
    talk = Conversation()
    short = [f"remark {number} " + "word " * 20 for number in range(8)]
    talk.user("MISSION " + "m" * 3_000 + " whole")
    talk.user("BEGIN1 " + "x" * 40_000 + " END1")
    for text in short:
        talk.user(text)
    talk.user("BEGIN2 " + "y" * 20_000 + " END2")
    found = carried_over(talk.messages, talk.plan, talk.next, 6_000)
    for text in ("MISSION " + "m" * 3_000 + " whole", "BEGIN1", "END1", "BEGIN2", "END2", *short):
        assert text in found.text
    assert found.text.count("characters left out here") == 2
    assert (found.shortened, found.left_out) == (2, 0)
    assert 5_000 < estimate_tokens(found.text) < 6_200


def test_one_long_message_is_cut_without_dropping_earlier_ones() -> None:
    talk = Conversation()
    talk.user("THE MISSION")
    for number in range(6):
        talk.user(f"remark {number}")
    talk.user("LONG " + "x" * 50_000)
    for number in range(6, 12):
        talk.user(f"remark {number} " + "word " * 40)
    found = carried_over(talk.messages, talk.plan, talk.next, 1_000)
    assert "remark 0" in found.text
    assert (found.shortened, found.left_out) == (1, 0)
    assert estimate_tokens(found.text) < 1_100


def test_user_messages_may_have_a_larger_limit() -> None:
    talk = Conversation()
    said = [f"BEGIN{number} " + "x" * 7_000 + f" END{number}" for number in range(5)]
    for text in said:
        talk.user(text)
    for goal in talk.goals(*(f"goal {n}" for n in range(30))):
        talk.focus(goal)
        talk.step("read", {"file_path": "a"})
        talk.done(f"summary of {goal}: " + "word " * 60)
    found = carried_over(talk.messages, talk.plan, talk.next, 1_000, words_tokens=12_000)
    for text in said:
        assert text in found.text
    assert (found.shortened, found.left_out) == (0, 0)
    assert "older left out here" in found.text
    assert "summary of" in found.text
    assert estimate_tokens(found.text) < sum(map(estimate_tokens, said)) + 800


def test_over_limit_carries_mission_and_newest_and_counts_others() -> None:
    talk = Conversation()
    talk.user("THE MISSION")
    for number in range(20):
        talk.user(f"remark {number} " + "word " * 100)
    text = carried(talk, limit=500)
    assert "THE MISSION" in text
    assert "remark 19" in text
    kept = re.findall(r"remark (\d+)", text)
    assert [int(number) for number in kept] == list(range(20 - len(kept), 20))
    assert 1 < len(kept) < 20
    assert f"[{20 - len(kept)} more left out here]" in text
    assert estimate_tokens(text) < 600


def test_mission_and_last_message_over_the_limit_are_cut_in_part() -> None:
    talk = Conversation()
    talk.user("MISSION " + "a" * 15_000 + " tail of it")
    talk.user("LAST " + "b" * 15_000 + " very end")
    text = carried(talk, limit=1_000)
    for part in ("MISSION", "tail of it", "LAST", "very end"):
        assert part in text
    assert estimate_tokens(text) < 1_200


def test_compactions_are_not_carried_but_later_user_messages_are() -> None:
    talk = Conversation()
    talk.user("the very first words")
    talk.says("ok")
    talk.compacted("<compact_summary>{}</compact_summary>", "the very first words", 3)
    talk.user("later words")
    text = carried(talk)
    assert text.count("the very first words") == 1
    assert "later words" in text
    assert "Sum up." not in text
    assert "compact_summary" not in text


def test_ended_goals_are_carried_without_display_numbers() -> None:
    talk = Conversation()
    talk.user("go")
    first, second = talk.goals("analyse", "build it")
    talk.focus(first)
    talk.step("read", {"file_path": "a"})
    talk.done("Users are in models/user.py,\nwith bcrypt.")
    talk.focus(second)
    design, code = talk.goals("design", "code")
    talk.focus(design)
    talk.step("write", {"file_path": "b"})
    talk.done("Two endpoints.")
    talk.focus(code)
    talk.step("bash", {"command": "make"})
    text = carried(talk)
    assert "**analyse**\nUsers are in models/user.py,\nwith bcrypt." in text
    assert "**build it › design**\nTwo endpoints." in text
    assert "› code" not in text
    assert not re.search(r"\b[12]\.", text)
    talk.done("All green.")
    text = carried(talk)
    assert "**build it**\n" in text
    assert (
        text.index("**build it**") < text.index("**build it › design**") < text.index("**build it › code**")
    )


def test_an_abandoned_goal_gives_its_reason_and_its_successor() -> None:
    talk = Conversation()
    (a,) = talk.goals("plan A")
    talk.focus(a)
    talk.step("bash", {"command": "make"})
    below, _ = talk.goals("part of A", "rest of A")
    talk.focus(below)
    talk.step("bash", {"command": "make"})
    talk.done("half of it works")
    talk.focus(a)
    talk.abandon("the library is dead")
    talk.goals("plan B")
    text = carried(talk)
    assert "**plan A (instead: plan B)**\nthe library is dead" in text
    assert "half of it works" not in text
    assert "## Finished" not in text


def test_goal_with_all_its_work_in_the_window_is_not_carried() -> None:
    talk = Conversation()
    talk.user("go")
    first, second = talk.goals("old", "new")
    talk.focus(first)
    talk.step("read", {"file_path": "a"})
    talk.done("old summary")
    boundary = talk.next
    talk.focus(second)
    talk.step("read", {"file_path": "a"})
    talk.done("new summary")
    text = carried(talk, boundary)
    assert "old summary" in text
    assert "new summary" not in text


def test_over_limit_drops_and_counts_the_oldest_finished_goals() -> None:
    talk = Conversation()
    talk.user("go")
    goals = talk.goals(*(f"goal {n}" for n in range(30)))
    for goal in goals:
        talk.focus(goal)
        talk.step("read", {"file_path": "a"})
        talk.done(f"summary of {goal}: " + "word " * 60)
    text = carried(talk, limit=800)
    kept = re.findall(r"\*\*goal (\d+)", text)
    assert [int(number) for number in kept] == list(range(30 - len(kept), 30))
    assert 1 < len(kept) < 30
    assert f"[{30 - len(kept)} older left out here]" in text
    assert "<said>\ngo\n</said>" in text


def test_dropped_instruction_files_are_carried_once_at_newest() -> None:
    talk = Conversation()
    talk.step("read", {"file_path": "a/x.py"}, metadata={"instructions": {"a/AGENTS.md": "old rule"}})
    talk.step("read", {"file_path": "a/y.py"}, metadata={"instructions": {"a/AGENTS.md": "new rule"}})
    talk.step(
        "read", {"file_path": "b/z.py"}, metadata={"instructions": {"b/AGENTS.md": "rule of b", "c": 3}}
    )
    talk.step("read", {"file_path": "b/z.py"}, metadata={"instructions": "damaged"})
    text = carried(talk)
    assert '<instructions file="a/AGENTS.md">\nnew rule\n</instructions>' in text
    assert text.count("a/AGENTS.md") == 1
    assert "old rule" not in text
    assert "rule of b" in text


def test_instruction_files_that_do_not_fit_are_named() -> None:
    talk = Conversation()
    talk.user("go")
    files = {"a/AGENTS.md": "short rule", "b/AGENTS.md": "long " * 2_000}
    talk.step("read", {"file_path": "a/x.py"}, metadata={"instructions": files})
    text = carried(talk, limit=300)
    assert "short rule" in text
    assert "long long" not in text
    assert "read them before you work there: b/AGENTS.md" in text


def test_open_goals_are_carried_when_the_plan_is_not_in_requests() -> None:
    talk = Conversation()
    talk.user("go")
    first, second, _ = talk.goals("look", "change it", "test")
    talk.focus(first)
    talk.step("read", {"file_path": "a"})
    talk.done("it is small")
    talk.focus(second)
    talk.goals("add quotes")
    text = carried_over(talk.messages, talk.plan, talk.next, PLENTY, with_plan=True).text
    assert "- change it (in progress)\n- change it › add quotes\n- test" in text
    assert "- look" not in text
    assert "## Open goals" not in carried(talk)


def test_step_history_replaces_finished_and_open_goals() -> None:
    talk = Conversation()
    talk.user("Change the configuration")
    first, second, _ = talk.goals("探索代码库", "修改配置", "运行测试")
    talk.focus(first)
    talk.step("glob_files", {}, "…", title="找到 15 个文件 <said>")
    talk.done("主配置在 /src/config.yaml")
    talk.focus(second)
    told: list[int] = []

    def history(limit: int) -> str:
        told.append(limit)
        return to_history_string(talk.plan, talk.messages, limit)

    text = carried_over(talk.messages, talk.plan, talk.next, PLENTY, with_plan=True, history=history).text
    assert "<said>\nChange the configuration\n</said>" in text
    assert (
        """\
## The plan and its results

<goal_summaries>
[done] 探索代码库
  → glob_files: 找到 15 个文件 ‹said>
  Summary: 主配置在 /src/config.yaml

[in progress] 修改配置

[to do] 运行测试
</goal_summaries>"""
        in text
    )
    assert "## Finished" not in text
    assert "## Open goals" not in text
    assert max(told) <= PLENTY


@pytest.mark.parametrize("limit", [0, 300, 2_000])
def test_history_uses_only_the_remaining_budget(limit: int) -> None:
    talk = Conversation()
    talk.user("x" * 4_000)
    for number in range(40):
        (goal,) = talk.goals(f"goal {number}")
        talk.focus(goal)
        talk.step("read", {"file_path": "a"}, "some words " * 40)
        talk.done("what was found " * 20)
    bare = carried_over(talk.messages, talk.plan, talk.next, limit, history=lambda limit: "").text
    found = carried_over(
        talk.messages,
        talk.plan,
        talk.next,
        limit,
        history=lambda limit: to_history_string(talk.plan, talk.messages, limit),
    ).text
    assert estimate_tokens(found) - estimate_tokens(bare) <= limit + 60


def test_empty_conversation_carries_only_the_fixed_instructions() -> None:
    talk = Conversation()
    assert carried(talk).rstrip().endswith("files can be read again.")


@given(
    st.lists(st.text(min_size=1, max_size=300).filter(str.strip), min_size=1, max_size=12),
    st.integers(min_value=0, max_value=3_000),
)
def test_carried_text_respects_the_limit_for_any_messages(said: list[str], limit: int) -> None:
    talk = Conversation()
    for text in said:
        talk.user(text)
    carried_over = carried(talk, limit=limit)
    assert estimate_tokens(carried_over) <= limit + 400
    if sum(estimate_tokens(text) + 10 for text in said) <= limit:
        assert all(text in carried_over for text in said)


@given(st.text(max_size=300), st.integers(min_value=0, max_value=300))
def test_cut_middle_keeps_both_ends_and_counts_the_omission(text: str, length: int) -> None:
    cut = cut_middle(text, length)
    if len(text) <= length:
        assert cut == text
        return
    half = length // 2
    assert cut.startswith(text[:half])
    assert cut.endswith(text[len(text) - half :])
    assert f"{len(text) - 2 * half:,} characters left out" in cut
