"""The texts and dumps of seed 003, to the letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from daemon.model.messages import FilePart, Usage
from daemon.model.steps import Step
from daemon.steps.dumps import dump_json, dump_markdown, dump_tree
from daemon.steps.fold import StepFold
from daemon.steps.head import TraceHead
from daemon.steps.shortened import image_words
from daemon.steps.texts import to_history_string, to_todo_string
from daemon.steps.tree import StepTree
from tests.support.drivers.golden import check_golden
from tests.support.scenarios.step_events import Recorded, configuration_change

NOW = datetime(2024, 1, 15, 14, 30, 25, tzinfo=UTC)
TODO = """\
[✓] 探索代码库
[→] 修改配置
[ ] 运行测试"""
HISTORY = """\
[完成] 探索代码库
  → glob_files: 找到 15 个文件
  → read_file(config.yaml): db_host=prod.db.com
  总结: 主配置在 /src/config.yaml,包含数据库连接配置

[进行中] 修改配置
  → read_file(config.yaml): 已读取

[待做] 运行测试"""
TREE_TXT = """\
============================================================
 Step Tree Debug
 Generated: 2024-01-15 14:30:25
============================================================

## Trace
  trace_id: abc123
  task: 修改配置文件
  status: running
  total_steps: 5
  total_tokens: 1234
  total_cost: 0.0150

## Steps

├── [✓] goal: 探索代码库
│   id: a1b2c3d4...
│   duration: 1234ms
│   tokens: 500
│   cost: $0.0050
│   data:
│     description: 探索代码库
│   time: 14:30:10
│
│   ├── [✓] thought: 需要先了解项目结构
│   │   id: e5f6g7h8...
│   │   data:
│   │     content: 让我先看看项目的目录结构...
│   │   time: 14:30:11
│   │
│   ├── [✓] action: glob_files
│   │   id: i9j0k1l2...
│   │   duration: 50ms
│   │   data:
│   │     tool_name: glob_files
│   │     arguments: {"pattern": "**/*.py"}
│   │   time: 14:30:12
│   │
│   └── [✓] result: 找到 15 个文件
│       id: m3n4o5p6...
│       data:
│         output: ["src/main.py", "src/config.py"]
│       time: 14:30:12
│
└── [→] goal: 修改配置
    id: q7r8s9t0...
    time: 14:30:15
"""


def step(step_id: str, kind: str, text: str, second: int, **more: Any) -> Step:
    return Step.model_validate(
        {
            "step_id": f"{step_id}-0000-4000-8000-000000000000",
            "trace_id": "abc123",
            "step_type": kind,
            "status": "completed",
            "sequence": second,
            "description": text,
            "created_at": datetime(2024, 1, 15, 14, 30, second, tzinfo=UTC),
            **more,
        }
    )


def folded(log: Recorded) -> StepFold:
    fold = StepFold(log.trace_id)
    for event in log.events:
        fold.apply(event)
    return fold


def hierarchy() -> Recorded:
    """Goals below goals, one that failed and one that was dropped, an image, text that is none of ours."""
    log = configuration_change()
    log.say("", ("c4", "screenshot", '{"url": "http://localhost"}'))
    image = FilePart(name="a.png", media_type="image/png", data="iVBORw0KGgo" + "A" * 4000)
    log.answer("c4", "screenshot", "``` </details> \x1b[31m\u202e", images=(image,))
    log.add("备份配置", "改端口", under="2")
    log.focus("4")
    log.say("I <b>try</b> `it` ![x](http://evil/x.png).", ("c5", "bash", '{"command": "cp a b"}'))
    log.answer("c5", "bash", "exit code 1\nno space left", title="cp a b", is_error=True)
    log.abandon("磁盘已满")
    log.focus("5")
    log.say("端口是 8080。")
    log.end()
    return log


def test_the_todo_list_is_the_seeds() -> None:
    assert to_todo_string(folded(configuration_change()).tree) == TODO


@pytest.mark.usefixtures("chinese")
def test_the_history_is_the_seeds() -> None:
    log = configuration_change()
    assert to_history_string(folded(log).tree) == HISTORY


def test_the_labels_of_the_history_are_english_by_default() -> None:
    lines = to_history_string(folded(configuration_change()).tree).split("\n")
    assert [line for line in lines if line.startswith("[")] == [
        "[done] 探索代码库",
        "[in progress] 修改配置",
        "[to do] 运行测试",
    ]
    assert "  Summary: 主配置在 /src/config.yaml,包含数据库连接配置" in lines


def test_the_text_dump_of_the_seeds_steps_is_the_seeds() -> None:
    first = "a1b2c3d4-0000-4000-8000-000000000000"
    steps = [
        step("a1b2c3d4", "goal", "探索代码库", 10, duration_ms=1234, tokens=500, cost=0.005,
             data={"description": "探索代码库"}),
        step("e5f6g7h8", "thought", "需要先了解项目结构", 11, parent_id=first,
             data={"content": "让我先看看项目的目录结构..."}),
        step("i9j0k1l2", "action", "glob_files", 12, parent_id=first, duration_ms=50,
             data={"tool_name": "glob_files", "arguments": {"pattern": "**/*.py"}}),
        step("m3n4o5p6", "result", "找到 15 个文件", 12, parent_id=first,
             data={"output": ["src/main.py", "src/config.py"]}),
        step("q7r8s9t0", "goal", "修改配置", 15, status="in_progress"),
    ]  # fmt: skip
    head = TraceHead("abc123")
    head.task = "修改配置文件"
    took = {"running": True, "usage": Usage(input=1234), "total_cost": 0.015}
    head.trace = head.trace.model_copy(update=took)
    assert dump_tree(head, StepTree("abc123", steps), now=NOW) == TREE_TXT


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("name", ["example", "hierarchy"])
def test_texts_and_dumps_of_a_trace_are_the_golden_ones(name: str) -> None:
    fold = folded(configuration_change() if name == "example" else hierarchy())
    for suffix, dump in (("txt", dump_tree), ("md", dump_markdown), ("json", dump_json)):
        check_golden(f"tree_{name}.{suffix}", dump(fold.head, fold.tree, now=NOW))
    check_golden(f"todo_{name}.txt", to_todo_string(fold.tree) + "\n")
    check_golden(f"history_{name}.txt", to_history_string(fold.tree) + "\n")


def test_an_image_is_its_size_and_how_it_begins() -> None:
    data = "iVBORw0KGgo" + "A" * (3_227_240 - 11)
    assert image_words("image/png", data) == (
        "<IMAGE_DATA: 2363.7KB, data:image/png;base64, preview: iVBORw0KGgo...>"
    )


def test_no_dump_holds_an_image_or_a_secret() -> None:
    log = Recorded()
    log.begin()
    secret = "sk-ant-api03-" + "Zb3" * 31
    inline = "data:image/jpeg;base64," + "Q" * 5000
    log.say(f"The key is {secret}", ("c1", "bash", json.dumps({"command": f"echo {secret} {inline}"})))
    image = FilePart(name="a.png", media_type="image/png", data="iVBORw0KGgo" + "A" * 50_000)
    log.answer("c1", "bash", f"{secret}\n{inline}", images=(image,))
    fold = folded(log)
    for dump in (dump_tree, dump_markdown, dump_json):
        text = dump(fold.head, fold.tree, now=NOW)
        assert secret not in text
        assert "QQQQQQQQQQQQQ" not in text
        assert "AAAAAAAAAAAAA" not in text
        assert len(text) < 6000


def test_no_text_of_a_model_or_file_leaves_its_fence_in_markdown() -> None:
    fold = folded(hierarchy())
    text = dump_markdown(fold.head, fold.tree, now=NOW)
    outside: list[str] = []
    fence = ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line.removesuffix("json")
        else:
            outside.append(line)
    assert not fence
    assert outside.count("</details>") == sum(line.startswith("<details") for line in outside)
    assert not [line for line in outside if "evil" in line and "<summary>" not in line]
    assert not [line for line in outside if "<b>try" in line]
