from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lsp_bridge.cli.run.goal_lines import GoalLines
from lsp_bridge.cli.run.totals import RunOutcome, Totals
from lsp_bridge.cli.run.view import JsonView, TextView, diagnostics_lines
from lsp_bridge.cli.text import Style
from lsp_bridge.protocol.permission_text import suggestion_words

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Screen:
    def __init__(self, **options: Any) -> None:
        self.raw = ""
        self.view = TextView(self.write, style=Style(color=False), **options)

    def write(self, text: str) -> None:
        self.raw += text

    def delta(self, kind: str, text: str, index: int = 0, **fields: Any) -> None:
        self.view.delta("s", {"kind": kind, "text": text, "messageId": "m", "index": index, **fields})

    def event(self, name: str, numbers: dict[str, Any] | None = None, /, **fields: Any) -> None:
        self.view.event("s", {"event": name, **fields}, {"goalNumbers": numbers})

    def part(self, part: dict[str, Any], index: int = 0) -> None:
        self.event("message_part_added", messageId="m", role="assistant", index=index, part=part)

    def message(self, role: str, *content: dict[str, Any], message_id: str = "m") -> None:
        self.event("message_added", message={"messageId": message_id, "role": role, "content": list(content)})

    def result(self, name: str, content: str = "", **fields: Any) -> None:
        part = {"type": "tool_result", "name": name, "toolCallId": "c1", "content": content, **fields}
        self.message("tool", part, message_id="t")

    @property
    def lines(self) -> list[str]:
        return self.raw.splitlines()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": name, "input": json.dumps(arguments)}


def test_streamed_text_is_shown_once() -> None:
    screen = Screen()
    for piece in ("Hello ", "wor", "ld."):
        screen.delta("text", piece)
    screen.part(text("Hello world."))
    screen.message("assistant", text("Hello world."), {"type": "finish", "reason": "end_turn"})
    assert screen.raw == "Hello world.\n"


def test_dropped_deltas_are_completed_from_the_stored_text() -> None:
    screen = Screen()
    screen.delta("text", "Hello ")
    screen.message("assistant", text("Hello world."))
    assert screen.raw == "Hello world.\n"


def test_text_with_a_hole_in_the_middle_is_shown_again_as_stored() -> None:
    screen = Screen()
    screen.delta("text", "Hello ")
    screen.delta("text", "ld.")
    screen.message("assistant", text("Hello world."))
    assert screen.lines == ["Hello ld.", "Hello world."]


def test_part_that_differs_from_its_deltas_is_shown_again_once() -> None:
    screen = Screen()
    screen.delta("text", "lone ? x")
    screen.part(text("lone \ufffd x"))
    screen.message("assistant", text("lone \ufffd x"))
    assert screen.lines == ["lone ? x", "lone \ufffd x"]


def test_text_without_any_delta_is_shown() -> None:
    screen = Screen()
    screen.message("assistant", text("One."), call("read", file_path="a.py"), text("Two."))
    assert screen.lines == ["One.", "Two."]


def test_reasoning_is_shown_only_when_wanted() -> None:
    for wanted in (False, True):
        screen = Screen(reasoning=wanted)
        screen.delta("reasoning", "hmm")
        screen.part({"type": "reasoning", "text": "hmm, well"})
        screen.delta("text", "Yes.", index=1)
        screen.message("assistant", {"type": "reasoning", "text": "hmm, well"}, text("Yes."))
        assert screen.lines == (["hmm, well", "Yes."] if wanted else ["Yes."])


def test_answer_that_breaks_off_begins_again() -> None:
    screen = Screen()
    screen.delta("text", "Hel")
    screen.event(
        "message_discarded", messageId="m", reason="the stream ended early or was not the expected JSON"
    )
    screen.delta("text", "Hel")
    screen.delta("text", "lo.")
    screen.message("assistant", text("Hello."))
    assert screen.lines == [
        "Hel",
        "  ⟲ the response was interrupted and starts again (the stream ended early or was not the expected JSON)",
        "Hello.",
    ]


def test_own_prompt_is_not_repeated_but_that_of_others_is_shown() -> None:
    screen = Screen(own_prompt="do it")
    screen.message("user", text("do it"))
    screen.message("user", text("and that"))
    assert screen.lines == ["› and that"]
    # A command is shown as it was typed.
    screen.message("user", {"type": "command", "text": "do it"}, text("Do it well."))
    screen.message("user", {"type": "command", "text": "/fix 1"}, text("Fix issue 1."))
    assert screen.lines == ["› and that", "› /fix 1"]


def test_tool_call_is_one_line_with_its_title() -> None:
    screen = Screen()
    screen.part(call("edit", file_path="shop/cart.py", old_string="a\nb"))
    screen.event("tool_started", toolCallId="c1", name="edit")
    screen.result("edit", "The file was edited.", title="shop/cart.py +3 -1")
    assert screen.lines == ["✓ edit shop/cart.py +3 -1"]


def test_call_without_a_title_shows_its_main_argument() -> None:
    screen = Screen()
    screen.part(call("grep", pattern="def total"))
    screen.result("grep", "cart.py")
    assert screen.lines == ["✓ grep def total"]


def test_plan_change_is_shown_as_plan_lines_only() -> None:
    screen = Screen()
    screen.event("goal_added", {"1": "1"}, goal={"id": "1", "description": "Read"}, parentId=None)
    screen.result("goal", "## Current Plan", title="+ Read")
    screen.result("goal", "There is no goal 9.", isError=True)
    assert screen.lines == ["  ○ 1. Read", "✗ goal There is no goal 9."]


def test_failed_tool_call_shows_the_beginning_of_the_error() -> None:
    screen = Screen()
    screen.part({**call("edit"), "input": "{not json"})
    screen.result("edit", "old_string was not found.\nNearest place: …", isError=True)
    assert screen.lines == ["✗ edit old_string was not found. Nearest place: …"]


def test_long_command_output_shows_its_end_indented() -> None:
    screen = Screen()
    screen.result("bash", "\n".join(f"  line {n}" for n in range(20)), title="pytest -q")
    assert screen.lines[0] == "✓ bash pytest -q"
    assert screen.lines[1] == "    … 12 lines"
    assert screen.lines[-1] == "      line 19"
    assert len(screen.lines) == 10


def test_diagnostics_are_printed_on_their_own_lines() -> None:
    content = (
        'Edit applied.\n<diagnostics file="/w/a.py">\nERROR [3:7] "x" is not defined\n'
        "WARNING [9:1] unused\n</diagnostics>\n"
    )
    screen = Screen()
    screen.result("edit", content, title="a.py +1 -1")
    assert screen.lines == [
        "✓ edit a.py +1 -1",
        '    ERROR /w/a.py [3:7] "x" is not defined',
        "    WARNING /w/a.py [9:1] unused",
    ]
    assert diagnostics_lines("no diagnostics here") == []


def test_model_and_tool_output_cannot_control_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jtext\r\x08"
    screen = Screen()
    screen.delta("text", evil)
    screen.message("assistant", text(evil), call("bash", command=evil))
    screen.result("bash", evil, title=evil)
    screen.message("user", text(evil))
    for name in ("notice", "model_retry", "message_discarded"):
        screen.event(name, text=evil, reason=evil, level="error", delayS=1.0, messageId="m")
    screen.event("goal_added", goal={"id": "1", "description": evil}, parentId=None)
    screen.view.request({"title": evil, "detail": evil, "files": [{"diff": evil}], "rule": {"pattern": evil}})
    assert not set(screen.raw) & {"\x1b", "\x07", "\r", "\x08"}


def test_status_line_is_replaced_and_never_breaks_text() -> None:
    screen = Screen(live=True, columns=20)
    screen.event("tool_started", toolCallId="c1", name="a tool with a long name")
    assert screen.raw == "\r\x1b[Ka tool with a long "
    screen.raw = ""
    screen.delta("text", "Hi")
    assert screen.raw == "\r\x1b[KHi"
    screen.event("tool_started", toolCallId="c1", name="x")
    assert screen.raw == "\r\x1b[KHi"


def test_live_output_of_a_command_is_the_status_line() -> None:
    screen = Screen(live=True)
    screen.part(call("bash", command="make"))
    screen.delta("tool_output", "one\ntwo\n", toolCallId="c1")
    assert screen.raw == "\r\x1b[Kbash make │ two"


def test_status_line_is_not_for_files() -> None:
    screen = Screen(live=False)
    screen.event("tool_started", toolCallId="c1", name="x")
    screen.delta("tool_output", "one", toolCallId="c1")
    assert screen.raw == ""


def test_odd_events_of_a_newer_daemon_are_passed_over() -> None:
    screen = Screen()
    for event in ("something_new", "message_added", "goal_updated", "goal_added", "notice", "goal_removed"):
        screen.event(event)
        screen.event(event, message=7, goal=[], updates=3, content="x", affectedGoals={}, goalId={})
    screen.delta("new kind", "x")
    screen.view.delta("s", {})


def test_request_shows_diff_and_the_rule_that_asked() -> None:
    screen = Screen()
    rule = {"permission": "edit", "pattern": "*", "action": "ask", "source": "shipped"}
    screen.view.request({"title": "edit a.py", "rule": rule, "files": [{"diff": "-a\n+b\n"}]})
    assert screen.lines == ["? edit a.py", "-a", "+b", "  asked because of the built-in rule edit: * → ask"]


def test_request_hides_nothing_of_what_is_approved() -> None:
    evil = "ok \x1b]; touch PWNED;\x07" + " " * 300 + "; touch TAIL"
    screen = Screen()
    rule = {"permission": "bash", "pattern": evil, "action": "ask", "source": "user"}
    request = {"title": evil, "detail": evil, "files": [{"diff": f"+{evil}"}], "rule": rule}
    screen.view.request(request)
    assert [
        line for line in screen.lines if "␛]; touch PWNED;␇" not in line or "touch TAIL" not in line
    ] == []
    # The title says the whole command, so it is not said again.
    assert len(screen.lines) == 3
    grants = [{"permission": "bash", "pattern": pattern} for pattern in (evil, "a\nb")]
    request = {"permission": "bash", "suggestions": grants}
    assert suggestion_words(request).endswith("; touch TAIL, a␊b")


def test_always_for_a_tool_of_a_server_names_the_tool() -> None:
    name = "mcp__docs__look"
    grants = [{"permission": name, "pattern": "definition f61448c4e85c9fae"}]
    assert suggestion_words({"permission": name, "suggestions": grants}) == f"this definition of {name}"


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"by": "terminal"}, "by you"),
        ({"by": "VS Code"}, "by you in VS Code"),
        ({"by": "terminal", "feedback": "use a\nset"}, "“use a␊set”"),
        ({"by": "timeout", "rule": True}, "nobody answered in time"),
        ({"rule": True}, "Your rule edit: *.lock → deny forbids that."),
        ({"after_rejection": True}, "the call before it was rejected"),
    ],
)
def test_rejected_call_says_why(metadata: dict[str, Any], why: str) -> None:
    content = "Permission denied. Your rule edit: *.lock → deny forbids that."
    part = {"title": "rejected", "isError": True, "metadata": {"denied": True, **metadata}}
    screen = Screen()
    screen.result("edit", content, **part)
    result = {"type": "tool_result", "name": "edit", "content": content, **part}
    screen.event("branch_message_added", branchId="A", message={"role": "tool", "content": [result]})
    assert screen.lines == [f"✗ edit rejected: {why}", f"A │ ✗ edit rejected: {why}"]


def test_rejection_by_a_run_without_a_user_says_what_to_do() -> None:
    screen = Screen()
    screen.view.rejecting("there is no terminal to ask on")
    screen.result("edit", title="rejected", isError=True, metadata={"denied": True, "by": "terminal"})
    assert screen.lines == ["✗ edit rejected: there is no terminal to ask on"]


def test_retries_and_notices_are_printed() -> None:
    screen = Screen()
    screen.event("model_retry", attempt=1, delayS=2.4, reason="The model is overloaded")
    screen.event("notice", level="warning", text="No key is set.")
    assert screen.lines == ["  ⟲ The model is overloaded: trying again in 2 s", "  No key is set."]


def test_last_line_shows_session_tokens_and_cost() -> None:
    screen = Screen()
    totals = Totals()
    spent = {"usage": {"input": 1000, "output": 200, "cacheRead": 30000}, "totalCost": 0.0123}
    totals.follow({"event": "message_added"}, spent, counts=True)
    totals.follow({"event": "message_added", "message": {"usage": None}}, {}, counts=True)
    screen.delta("text", "done")
    outcome = RunOutcome("end_turn", "", "s1")
    outcome.usage = totals
    screen.view.finish(outcome)
    assert screen.lines == ["done", "session s1 · 31,200 tokens (97 % of the input from the cache) · $0.012"]


def test_last_line_shows_the_context_size() -> None:
    screen = Screen()
    outcome = RunOutcome("end_turn", "", "s1")
    outcome.meter = {"contextTokens": 45_000, "contextWindow": 200_000}
    screen.view.finish(outcome)
    assert screen.lines == ["session s1 · 0 tokens · context 45,000 of 200,000"]
    outcome.meter["windowAssumed"] = True
    assert outcome.words().endswith("context 45,000 of 200,000 (assumed)")


def test_compaction_messages_and_notes_are_not_shown() -> None:
    screen = Screen()
    for kind, role in (("request", "user"), ("summary", "assistant"), ("carried", "user")):
        mark = {"type": "compaction", "kind": kind, "reason": "threshold", "keepFrom": 9}
        screen.message(role, text("very long"), mark, message_id=kind)
    screen.message("user", {"type": "note", "text": "Note: since your last message the user …"})
    assert screen.lines == []


def test_json_lines_carry_events_and_end_with_the_result() -> None:
    lines: list[str] = []
    view = JsonView(lines.append)
    view.event("s1", {"event": "notice", "text": "two\nlines\u2028"}, {})
    view.delta("s1", {"kind": "text"})
    view.finish(RunOutcome("error", "why", None))
    parsed = [json.loads(line) for line in lines]
    assert [line["type"] for line in parsed] == ["event", "delta", "result"]
    assert all(line.count("\n") == 1 for line in lines)
    assert parsed[-1]["usage"]["cost"] == 0
    assert (parsed[-1]["stopReason"], parsed[-1]["detail"], parsed[-1]["sessionId"]) == ("error", "why", None)


def goal(goal_id: str, parent: str | None = None, status: str = "pending", **fields: Any) -> dict[str, Any]:
    return {"id": goal_id, "parentId": parent, "description": f"goal {goal_id}", "status": status, **fields}


def test_plan_events_are_printed_as_short_lines() -> None:
    lines = GoalLines(Style(color=False))
    told: list[str] = []
    for number in ("1", "2"):
        told += lines.apply({"event": "goal_added", "goal": goal(number), "parentId": None}, {number: number})
    told += lines.apply(
        {"event": "goal_updated", "goalId": "1", "updates": {"status": "in_progress"}, "currentId": "1"}, {}
    )
    told += lines.apply({"event": "goal_added", "goal": goal("3", "1"), "parentId": "1"}, {"3": "1.1"})
    told += lines.apply({"event": "goal_updated", "goalId": "3", "updates": {}, "currentId": "3"}, {})
    told += lines.apply(
        {
            "event": "goal_updated",
            "goalId": "3",
            "updates": {"status": "completed", "summary": "read it"},
            "affectedGoals": [{"goalId": "1", "status": "completed", "summary": "all read"}],
            "currentId": None,
        },
        {},
    )
    gone = {"status": "abandoned", "summary": "too hard"}
    told += lines.apply({"event": "goal_updated", "goalId": "2", "updates": gone}, {"2": None})
    told += lines.apply({"event": "goal_added", "goal": goal("4"), "parentId": None}, {"4": "2"})
    told += lines.apply({"event": "goal_removed", "goalId": "4", "currentId": None}, {"4": None})
    assert told == [
        "  ○ 1. goal 1",
        "  ○ 2. goal 2",
        "  → 1. goal 1",
        "  ○ 1.1. goal 3",
        "  → 1.1. goal 3",
        "  ✓ 1.1. goal 3 → read it",
        "  ✓ 1. goal 1 → all read",
        "  ⊘ 2. goal 2 → too hard",
        "  ○ 2. goal 4",
        "  − 2. goal 4",
    ]


def test_plan_edits_of_a_user_are_shown_with_the_client_name() -> None:
    lines = GoalLines(Style(color=False))
    lines.load({"goals": [goal("1"), goal("2")]}, {"1": "1", "2": "2"})
    told = lines.apply({"event": "goal_added", "goal": goal("3"), "by": "VS Code"}, {"3": "3"})
    moved = {"event": "goal_moved", "goalId": "3", "parentId": None, "beforeId": "1", "by": "VS Code"}
    told += lines.apply(moved, {"3": "1", "1": "2", "2": "3"})
    moved = {"event": "goal_moved", "goalId": "2", "parentId": "1", "beforeId": None, "by": "VS Code"}
    told += lines.apply(moved, {"2": "2.1"})
    assert told == [
        "  ○ 3. goal 3  (VS Code)",
        "  ○ 1. goal 3  (VS Code)",
        "  ○ 2.1. goal 2  (VS Code)",
    ]
    assert lines.apply({"event": "goal_moved", "goalId": "nonsense", "parentId": "1"}, {}) == []


def test_repeated_goal_events_print_one_line() -> None:
    screen = Screen()
    goal = {"id": "1", "description": "Explore"}
    screen.event("goal_added", {"1": "1"}, goal=goal, parentId=None)
    screen.event("goal_updated", goalId="1", updates={}, currentId="1")
    screen.event("goal_updated", goalId="1", updates={"status": "in_progress"}, currentId="1")
    screen.event("goal_updated", goalId="1", updates={"status": "completed", "summary": "ok"})
    assert screen.lines == ["  ○ 1. Explore", "  → 1. Explore", "  ✓ 1. Explore → ok"]


def test_a_choice_that_is_awaited_names_the_commands() -> None:
    screen = Screen()
    branches = screen.view.open_branches
    branches.load(
        {"B": {"id": "B", "exploreStartId": "0"}, "C": {"id": "C", "exploreStartId": "1", "removed": True}}
    )
    for name in "DEF":
        branches.follow({"event": "branch_started", "exploreStartId": "1", "branch": {"id": name}})
    branches.follow({"event": "branch_removed", "branchId": "D"})
    screen.event("notice", level="info", text="Choose.", code="explore_choice_awaited", about="1")
    assert "`goalwright explore pick E` (or parts: `pick E:PATH F:PATH`)" in screen.raw
    assert "`goalwright explore leave`" in screen.raw
