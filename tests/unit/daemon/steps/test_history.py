"""The work so far in the format of seed 003."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.tokens import estimate_tokens
from daemon.steps.history import to_history_string
from tests.support.scenarios.conversation import Conversation

PLENTY = 100_000


def history(talk: Conversation, limit: int = PLENTY) -> str:
    return to_history_string(talk.plan, talk.messages, limit)


@pytest.mark.usefixtures("chinese")
def test_the_example_of_the_seed() -> None:
    talk = Conversation()
    talk.user("Change the configuration")
    explore, change, _ = talk.goals("探索代码库", "修改配置", "运行测试")
    talk.focus(explore)
    talk.step("glob_files", {}, "…", title="找到 15 个文件")
    talk.step("read_file", {"file_path": "config.yaml"}, "db_host=prod.db.com\nport=1")
    talk.done("主配置在 /src/config.yaml,包含数据库连接配置")
    talk.focus(change)
    talk.step("read_file", {"file_path": "config.yaml"}, title="已读取")
    assert (
        history(talk)
        == """\
[完成] 探索代码库
  → glob_files: 找到 15 个文件
  → read_file(config.yaml): db_host=prod.db.com
  总结: 主配置在 /src/config.yaml,包含数据库连接配置

[进行中] 修改配置
  → read_file(config.yaml): 已读取

[待做] 运行测试"""
    )


def test_nested_goals_are_indented_and_abandoned_ones_show_why() -> None:
    talk = Conversation()
    (top,) = talk.goals("build")
    talk.focus(top)
    a, b = talk.goals("plan A", "rest")
    talk.focus(a)
    talk.step("bash", {"command": "make"}, "Error 1", is_error=True)
    talk.abandon("the library is dead")
    talk.focus(b)
    talk.step("bash", {"command": "make"}, "boom\nmore", is_error=True)
    assert (
        history(talk)
        == """\
[in progress] build
  [failed] plan A
    Summary: the library is dead
  [in progress] rest
    → bash(make): error: boom"""
    )


def test_a_session_without_goals_has_one_entry_a_turn() -> None:
    talk = Conversation()
    talk.user("Look at\nthe parser, please")
    talk.step("read", {"file_path": "src/parser.py"}, "1→import re", title="src/parser.py")
    talk.says("It is recursive.\nAnd short.")
    talk.user("Add quotes")
    talk.step("edit", {"file_path": "src/parser.py"}, "done", title="parser.py +3 -1")
    assert (
        history(talk)
        == """\
[done] Look at the parser, please
  → read(src/parser.py): 1→import re
  Summary: It is recursive. And short.

[in progress] Add quotes
  → edit(src/parser.py): parser.py +3 -1"""
    )


def test_history_includes_work_before_goals_but_no_plan_calls() -> None:
    talk = Conversation()
    talk.user("Do it")
    talk.step("ls", {"path": "src"}, "a.py", title="src")
    talk.step("goal", {"add": "one"}, "added")
    (one,) = talk.goals("one")
    talk.focus(one)
    talk.step("goal", {"add": "two"}, "added")
    assert history(talk) == "[done] Do it\n  → ls(src): a.py\n\n[in progress] one".replace(
        "done", "in progress", 1
    )


def test_earlier_compactions_are_not_listed_as_work() -> None:
    talk = Conversation()
    talk.user("Do it")
    talk.compacted("<compact_summary>{}</compact_summary>", "Do it", 2)
    assert history(talk) == "[in progress] Do it"


@pytest.mark.parametrize("arguments", ["{", "[]", '{"command": 3}', "null"])
def test_calls_with_unreadable_arguments_are_listed_without_them(arguments: str) -> None:
    talk = Conversation()
    talk.user("go")
    talk.step("bash", {}, "out")
    call = talk.messages[1].tool_calls()[0].model_copy(update={"input": arguments})
    talk.messages[1] = talk.messages[1].model_copy(update={"content": (call,)})
    assert "  → bash: out" in history(talk)


def test_long_calls_are_shortened_to_one_line() -> None:
    talk = Conversation()
    talk.user("go")
    talk.step("bash", {"command": "cat <<E\n" + "x" * 500}, "\n\n" + "y" * 5_000)
    line = history(talk).splitlines()[1]
    assert line.startswith("  → bash(cat <<E xxx")
    assert len(line) < 350


def test_over_the_limit_results_are_cut_before_oldest_entries() -> None:
    talk = Conversation()
    goals = talk.goals(*(f"goal {n}" for n in range(20)))
    for goal in goals:
        talk.focus(goal)
        for number in range(10):
            talk.step("read", {"file_path": f"f{number}"}, "content " * 10)
        talk.done(f"summary {goal}")
    whole = history(talk)
    assert whole.count("→ read(") == 200
    some = history(talk, 1_500)
    assert 0 < some.count("→ read(") < 200
    assert "→ … (" in some
    assert some.count("Summary: ") == 20
    few = history(talk, 100)
    assert few.startswith("[… ")
    assert "summary 20" in few
    assert "summary 1\n" not in few


@given(st.lists(st.text(min_size=1, max_size=200), max_size=12), st.integers(min_value=20, max_value=500))
def test_history_respects_its_limit(said: list[str], limit: int) -> None:
    talk = Conversation()
    for text in said:
        talk.user(text)
        talk.step("bash", {"command": text}, text)
        talk.says(text)
    assert estimate_tokens(history(talk, limit)) <= limit + 40


@pytest.mark.parametrize(
    ("name", "arguments", "title", "content", "line"),
    [
        ("bash", {"command": "echo found", "description": "look"}, "look", "Exit code: 0\nfound", "found"),
        ("bash", {"command": "make"}, "make", "Exit code: 2\nboom", "Exit code: 2"),
        ("task", {"agent": "explore", "prompt": "Find E"}, "explore: Find E", "E is in e.py", "E is in e.py"),
        ("edit", {"file_path": "a.py"}, "a.py +3 -1", "done", "a.py +3 -1"),
        ("read", {"file_path": "a.py"}, "a.py", "1→import re", "1→import re"),
    ],
)
def test_result_line_shows_the_outcome_instead_of_the_call(
    name: str, arguments: dict[str, str], title: str, content: str, line: str
) -> None:
    talk = Conversation()
    talk.focus(talk.goals("look")[0])
    talk.step(name, arguments, content, title=title)
    (told,) = [one for one in history(talk).splitlines() if "→" in one]
    assert told.endswith(f"): {line}")


def test_abandoned_parent_shows_its_reason_without_its_work() -> None:
    talk = Conversation()
    top, rest = talk.goals("build", "rest")
    talk.focus(top)
    talk.goals("below")
    talk.focus(rest)
    talk.focus(top)
    talk.step("ls", {"path": "src"}, "a.py")
    talk.abandon("there is nothing to build")
    assert history(talk).splitlines()[:2] == ["[failed] build", "  Summary: there is nothing to build"]
    assert "a.py" not in history(talk)
