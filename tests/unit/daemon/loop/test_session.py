"""A session with real tools, a real store and models that play a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.context.window import CLEARED
from daemon.loop.queue import TurnResult
from daemon.model.events import (
    Delta,
    FileChanged,
    GoalAdded,
    GoalUpdated,
    MessageAdded,
    MessageDiscarded,
    ModelRetry,
    Notice,
    SessionUpdated,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import (
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from daemon.model.meters import Metered
from daemon.provider.model_calls import Complete, PartStop, Retry, TextDelta
from tests.support.drivers.core import ALLOW_ALL, Bench, check_pairs, daemon, finish, prompted, results, roles
from tests.support.fakes.models import USAGE, Call, End, Fail, Hold, Think

# -- a turn --


async def test_turn_end_reports_the_kind_of_the_model_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, Fail("auth", "The key was rejected."), "Fine.") as bench:
        session = bench.session()
        for _ in range(2):
            await session.prompt("hello")
        ended = [(event.stop_reason, event.error_kind) for event in bench.events(TurnEnded)]
        assert ended == [("error", "auth"), ("end_turn", "")]


async def test_a_prompt_is_answered_and_the_turn_ends(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Think("hm"), "Hello there."]) as bench:
        session = bench.session()
        result = await session.prompt("Say hello", prompt_id="p1")
        assert result == TurnResult("p1", "end_turn")
        user, answer = session.state.messages
        assert (user.role, user.text(), user.description) == ("user", "Say hello", "Say hello")
        assert answer.content[0] == ReasoningPart(text="hm", signature="sig")
        assert answer.stop_reason() == "end_turn"
        assert answer.usage == Usage(input=100, output=10, cache_read=1000, cache_write=50)
        assert answer.model == "fake"
        assert bench.text() == "Hello there."
        assert bench.text("reasoning") == "hm"
        assert not session.running
        assert session.status == "idle"


async def test_events_come_in_order_and_name_the_session(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        session = bench.session()
        await session.prompt("Say  hello\nnow", prompt_id="p1")
        names = [item.event for item in bench.heard if not isinstance(item, Delta | Metered)]
        assert names == [
            "session_updated",
            "turn_started",
            "message_added",
            "system_prompt_changed",
            "message_part_added",
            "message_added",
            "session_updated",
            "turn_ended",
            "trace_completed",
        ]
        first, last = bench.events(SessionUpdated)
        assert first.updates == {
            "title": "Say hello now",
            "titled_by": "prompt",
            "mission": "Say  hello\nnow",
        }
        assert last.updates == {"summary": "Hello."}
        assert bench.events(TurnStarted)[0].prompt_id == "p1"
        assert bench.events(TurnEnded)[0].stop_reason == "end_turn"


async def test_usage_and_cost_are_summed(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("ls", {"path": "."}), "Done.") as bench:
        session = bench.session()
        await session.prompt("look")
        assert session.state.trace.usage == Usage(input=200, output=20, cache_read=2000, cache_write=100)
        assert session.state.trace.total_cost == pytest.approx(0.02)
        assert session.state.trace.message_count == 4


async def test_tools_run_in_order_until_the_model_stops(tmp_path: Path) -> None:
    steps = [
        ["I look.", Call("ls", {"path": "."}), Call("read", {"file_path": "a.txt"})],
        Call("read", {"file_path": "b.txt"}),
        "There are two files.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        (bench.workspace / "a.txt").write_text("alpha\n")
        (bench.workspace / "b.txt").write_text("beta\n")
        session = bench.session()
        assert (await session.prompt("what is here?")).stop == "end_turn"
        assert roles(session.state.messages) == [
            *("user", "assistant", "tool", "tool"),
            *("assistant", "tool", "assistant"),
        ]
        listing, alpha, beta = results(session.state.messages)
        assert "a.txt" in listing.content
        assert "alpha" in alpha.content
        assert "beta" in beta.content
        assert [m.stop_reason() for m in session.state.messages if m.role == "assistant"] == [
            *("tool_use", "tool_use", "end_turn"),
        ]
        # The second call has the first one's results before it, in the order of the calls.
        sent = bench.models.requests[1].messages
        assert [m.role for m in sent] == ["user", "assistant", "tool"]
        assert [p.tool_call_id for p in sent[2].content if isinstance(p, ToolResultPart)] == [
            *("call_1", "call_2")
        ]
        assert [m.description for m in session.state.messages] == [
            *("what is here?", "I look.", "ls", "read", "tool call: read", "read", "There are two files.")
        ]


async def test_the_history_only_grows_so_that_the_prefix_stays_cached(tmp_path: Path) -> None:
    steps = [Call("goal", {"add": "a, b"}), Call("goal", {"focus": "1"}), Call("ls", {"path": "."}), "x", "y"]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session()
        await session.prompt("plan")
        await session.prompt("and on")
        for before, after in zip(bench.models.requests, bench.models.requests[1:], strict=False):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.system == before.system
            assert after.tools == before.tools


async def test_stop_reason_that_contradicts_the_calls_is_corrected(tmp_path: Path) -> None:
    call = ToolCallPart(id="c1", name="ls", input='{"path": "."}')
    wrong = Complete((call,), "end_turn", Usage(), "fake")
    async with daemon(tmp_path, [PartStop(0, call), wrong], ["No calls.", End("tool_use")]) as bench:
        session = bench.session()
        assert (await session.prompt("look")).stop == "end_turn"
        assert len(results(session.state.messages)) == 1


async def test_attachments_and_the_environment_reach_the_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, "A cat.") as bench:
        session = bench.session()
        session.policy.use(env={"ANTHROPIC_API_KEY": "secret-key-of-the-test"})
        picture = FilePart(name="a.png", media_type="image/png", data="AAAA")
        await session.prompt("", (picture,))
        request = bench.models.requests[0]
        assert request.messages[0].content == (picture,)
        assert request.env["ANTHROPIC_API_KEY"] == "secret-key-of-the-test"
        assert request.env["GOALWRIGHT_WORKSPACE"] == str(bench.workspace)
        assert bench.models.models == ["fake/model"]
        assert request.model == "model"
        assert session.state.trace.title == "Untitled"
        stored = b"".join(p.read_bytes() for p in bench.core.store.root.rglob("*") if p.is_file())
        assert b"secret-key-of-the-test" not in stored


async def test_only_tools_that_may_be_used_are_offered(tmp_path: Path) -> None:
    async with daemon(tmp_path, "ok", "ok") as bench:
        await bench.session().prompt("x")
        await bench.session(agent="plan").prompt("x")
        build, plan = ([tool.name for tool in r.tools] for r in bench.models.requests)
        assert set(build) - set(plan) == {"edit", "patch", "write"}
        assert "bash" in plan


# -- the plan --


async def test_messages_are_assigned_to_the_goal_they_were_made_for(tmp_path: Path) -> None:
    steps = [
        Call("goal", {"add": "look, change", "reason": "as asked"}),
        [Call("goal", {"focus": "1"}), Call("ls", {"path": "."})],
        [Call("ls", {"path": "."}), Call("goal", {"done": "nothing there", "focus": "2"})],
        "Now what?",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session()
        await session.prompt("do it")
        assert [goal.goal.description for goal in bench.events(GoalAdded)] == ["look", "change"]
        assert [e.goal_id for e in bench.events(GoalUpdated)] == ["1", "1", "2"]
        # A call belongs to the goal in focus when it ran: one that moves the focus to the goal before it.
        assert [(m.role, m.goal_id) for m in session.state.messages] == [
            ("user", None),
            ("assistant", None),
            ("tool", None),
            ("assistant", None),
            ("tool", None),
            ("tool", "1"),
            ("assistant", "1"),
            ("tool", "1"),
            ("tool", "1"),
            ("assistant", "2"),
        ]
        look, change = session.state.plan.snapshot().goals
        assert (look.status, look.summary) == ("completed", "nothing there")
        assert look.self_stats.message_count == 4
        assert look.self_stats.preview == "ls × 2"
        assert change.status == "in_progress"
        assert change.self_stats.message_count == 1
        assert session.state.plan.mission == "do it"


async def test_current_plan_is_at_the_end_of_each_request(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("goal", {"add": "a"}), "ok") as bench:
        await bench.session().prompt("plan it")
        before, after = bench.models.requests
        assert before.tail == ""
        assert after.tail.startswith("## Current Plan")
        assert "[ ] 1. a" in after.tail


async def test_plan_can_be_placed_in_the_system_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("goal", {"add": "a"}), "ok") as bench:
        await bench.session(settings={"plan_placement": "system"}).prompt("plan it")
        after = bench.models.requests[1]
        assert after.tail == ""
        assert after.system[-1].text.startswith("## Current Plan")


async def test_failed_plan_operation_is_an_error_result_without_effect(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("goal", {"focus": "7"}), "ok") as bench:
        session = bench.session()
        await session.prompt("x")
        assert results(session.state.messages)[0].is_error
        assert session.state.plan.snapshot().goals == []


async def test_affected_goals_tell_the_clients_the_new_numbers(tmp_path: Path) -> None:
    steps = [
        Call("goal", {"add": "a"}),
        Call("goal", {"focus": "1", "add": "b"}),
        Call("goal", {"focus": "1.1"}),
        Call("ls", {"path": "."}),
        "ok",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session()
        await session.prompt("x")
        last = bench.events(MessageAdded)[-1]
        assert [(a.goal_id, a.self_stats is not None) for a in last.affected_goals] == [
            ("2", True),
            ("1", False),
        ]
        tree = session.state.plan
        assert last.affected_goals[1].cumulative_stats == tree.goals["1"].cumulative_stats


# -- bad calls --


@pytest.mark.parametrize("raw", ["{", "[1]", "null", "", '{"path": 5}', '{"nope": 1}', "[" * 100_000])
async def test_invalid_arguments_are_an_error_result_and_turn_goes_on(tmp_path: Path, raw: str) -> None:
    async with daemon(tmp_path, Call("read", raw), "I see.") as bench:
        session = bench.session()
        assert (await session.prompt("x")).stop == "end_turn"
        (result,) = results(session.state.messages)
        assert result.is_error
        assert "read" in result.content


async def test_unknown_tool_is_an_error_result_listing_the_tools(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("reed", {}), "I see.") as bench:
        session = bench.session()
        assert (await session.prompt("x")).stop == "end_turn"
        (result,) = results(session.state.messages)
        assert result.is_error
        assert "read" in result.content
        assert result.name == "reed"


async def test_a_tool_that_is_not_offered_is_unknown_to_the_model(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with daemon(tmp_path, write, "I see.") as bench:
        session = bench.session(agent="plan")
        await session.prompt("x")
        (result,) = results(session.state.messages)
        assert result.is_error
        assert not (bench.workspace / "a.txt").exists()


async def test_long_answer_is_stored_once_even_after_a_stream_error(tmp_path: Path) -> None:
    long = "long words " * 4_000
    async with daemon(
        tmp_path, long, [long, Fail("bad_request", "It broke.")], [long, Call("ls", {})], "Done."
    ) as bench:
        session = bench.session(settings=ALLOW_ALL)
        for stop, stored in (("end_turn", 1), ("error", 1), ("end_turn", 2)):
            before = bench.core.store.last_event_id(session.session_id)
            assert (await session.prompt("talk")).stop == stop
            events = bench.core.store.events(session.session_id, after=before)
            assert sum(long in event.model_dump_json() for event in events) == stored


async def test_lone_surrogates_from_the_model_are_harmless(tmp_path: Path) -> None:
    steps = [
        ["cut \ud83d", Call("ls", '{"path": "\\ud83d"}')],
        Call("bash", {"command": "echo \ud83d"}),
        [TextDelta(0, "\ud83d"), TextDelta(0, "\ude00"), PartStop(0, TextPart(text="\ud83d\ude00"))],
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        assert (await session.prompt("x \ud83d")).stop == "end_turn"
        assert session.state.messages[-1].text() == "😀"
        for request in bench.models.requests:
            for message in request.messages:
                for part in message.content:
                    part.model_dump_json()


@pytest.mark.parametrize(
    "pieces",
    [
        ("lone \ud800", " x"),
        ("\ud83d", "\ude00!"),
        ("a\udc00b",),
        ("\ud83d", "\ud83d", "\ude00"),
        ("ends \ud83d",),
    ],
)
async def test_streamed_text_is_a_prefix_of_the_stored_text(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    deltas = [TextDelta(0, piece) for piece in pieces]
    async with daemon(tmp_path, [*deltas, PartStop(0, TextPart(text="".join(pieces)))]) as bench:
        session = bench.session()
        await session.prompt("x")
        stored, shown = session.state.messages[-1].text(), bench.text("text")
        assert stored in (shown, f"{shown}\ufffd")


# -- permission --

WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})


async def test_nothing_is_written_before_approval(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE, "Written.") as bench:
        session = bench.session()
        turn = prompted(session, "write it")
        (request,) = await bench.asked()
        assert session.status == "waiting"
        assert list(bench.workspace.glob("a.txt")) == []
        assert request.tool_call_id == "call_1"
        assert request.files[0].path == "a.txt"
        assert "+hello" in request.files[0].diff
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert (bench.workspace / "a.txt").read_text() == "hello\n"
        (changed,) = bench.events(FileChanged)
        assert (changed.path, changed.kind, changed.added, changed.version) == ("a.txt", "create", 1, "v1")
        assert bench.core.permissions.pending() == []


async def test_rejection_ends_the_turn_and_answers_every_call(tmp_path: Path) -> None:
    step = [Call("ls", {"path": "."}), WRITE, Call("ls", {"path": "."}), Call("nope", {})]
    async with daemon(tmp_path, step) as bench:
        session = bench.session()
        turn = prompted(session, "write it")
        await bench.answer("reject", by="Ann")
        result = await finish(turn)
        assert result.stop == "permission_denied"
        assert "Ann" in result.detail
        assert not (bench.workspace / "a.txt").exists()
        answers = results(session.state.messages)
        assert [r.is_error for r in answers] == [False, True, True, True]
        assert all("ermission denied" in r.content for r in answers[1:])
        assert bench.events(TurnEnded)[0].stop_reason == "permission_denied"
        stored = [m for m in bench.core.store.messages(session.session_id) if m.role == "tool"]
        assert [m.stop_reason() for m in stored] == [None, "permission_denied", None, None]
        bench.models.then("Understood.")
        assert (await session.prompt("then do something else")).stop == "end_turn"


async def test_rejection_with_feedback_continues_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, [WRITE, Call("ls", {"path": "."})], "Then not.") as bench:
        session = bench.session()
        turn = prompted(session, "write it")
        await bench.answer("reject", "use b.txt instead")
        assert (await finish(turn)).stop == "end_turn"
        first, second = results(session.state.messages)
        assert "use b.txt instead" in first.content
        assert second.is_error
        assert not (bench.workspace / "a.txt").exists()


async def test_denial_by_rule_is_an_error_result_and_turn_goes_on(tmp_path: Path) -> None:
    rules = {"permission": {"edit": {"*": "ask", "a.*": "deny"}}}
    async with daemon(tmp_path, [WRITE, Call("ls", {"path": "."})], "Then not.") as bench:
        session = bench.session(settings=rules)
        assert (await session.prompt("write it")).stop == "end_turn"
        refused, listed = results(session.state.messages)
        assert refused.is_error
        assert "a.*" in refused.content
        assert not listed.is_error
        assert bench.core.permissions.pending() == []


async def test_always_applies_to_this_session_only(tmp_path: Path) -> None:
    one = Call("write", {"file_path": "src/a.txt", "content": "x"})
    other = Call("write", {"file_path": "src/b.txt", "content": "x"})
    async with daemon(tmp_path, one, other, "ok", other) as bench:
        session = bench.session()
        turn = prompted(session, "write both")
        (request,) = await bench.asked()
        assert request.suggestions
        await bench.answer("always")
        assert (await finish(turn)).stop == "end_turn"
        assert (bench.workspace / "src" / "b.txt").exists()
        (bench.workspace / "src" / "b.txt").unlink()
        turn = prompted(bench.session(), "write it again")
        await bench.asked()
        await bench.answer("reject")
        await finish(turn)


async def test_session_grants_survive_a_restart(tmp_path: Path) -> None:
    one = Call("write", {"file_path": "src/a.txt", "content": "x"})
    other = Call("write", {"file_path": "src/b.txt", "content": "x"})
    async with daemon(tmp_path, one, "ok") as bench:
        session = bench.session()
        turn = prompted(session, "write it")
        await bench.answer("always")
        await finish(turn)
    async with daemon(tmp_path, other, "ok") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert (await finish(prompted(again, "write the other"))).stop == "end_turn"
        assert (bench.workspace / "src" / "b.txt").exists()


async def test_read_state_survives_a_restart(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("read", {"file_path": "a.txt"}), WRITE, "ok") as bench:
        (bench.workspace / "a.txt").write_text("old\n")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("read and write it")
    edit = Call("edit", {"file_path": "a.txt", "old_string": "hello", "new_string": "bye"})
    async with daemon(tmp_path, edit, "ok") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(config=again.config.overlaid(ALLOW_ALL, "editor", "test"))
        await again.prompt("edit it")
        assert (bench.workspace / "a.txt").read_text() == "bye\n"


async def test_three_equal_calls_trigger_loop_detection(tmp_path: Path) -> None:
    same = Call("ls", {"path": "."})
    async with daemon(tmp_path, same, same, same, "I stop.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "doom_loop"
        assert len(results(session.state.messages)) == 2
        await bench.answer("reject", "stop looking")
        assert (await finish(turn)).stop == "end_turn"
        assert "stop looking" in results(session.state.messages)[-1].content


# -- trouble with the model --


async def test_immediate_model_failure_ends_the_turn_with_its_message(tmp_path: Path) -> None:
    async with daemon(tmp_path, Fail("auth", "The key is wrong: set ANTHROPIC_API_KEY."), "Better.") as bench:
        session = bench.session()
        result = await session.prompt("go")
        assert (result.stop, result.detail) == ("error", "The key is wrong: set ANTHROPIC_API_KEY.")
        assert roles(session.state.messages) == ["user"]
        assert bench.events(TurnEnded)[0].detail == result.detail
        assert (await session.prompt("again")).stop == "end_turn"


async def test_mid_stream_failure_keeps_the_received_text(tmp_path: Path) -> None:
    step = ["I begin", Call("ls", {"path": "."}), TextDelta(2, "and"), Fail("network", "No connection.")]
    async with daemon(tmp_path, step, "Better.") as bench:
        session = bench.session()
        assert (await session.prompt("go")).stop == "error"
        answer = session.state.messages[1]
        assert answer.text() == "I beginand"
        assert answer.stop_reason() == "error"
        assert "No connection." in results(session.state.messages)[0].content
        assert (await session.prompt("again")).stop == "end_turn"
        check_pairs(session.state)


async def test_a_stream_that_just_stops_is_an_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, ["half", End(silent=True)], [End(silent=True)]) as bench:
        session = bench.session()
        assert (await session.prompt("go")).stop == "error"
        assert session.state.messages[1].text() == "half"
        result = await session.prompt("again")
        assert result.stop == "error"
        assert result.detail


async def test_retry_discards_the_streamed_text(tmp_path: Path) -> None:
    step = ["Wrong beginning", Call("ls", {"path": "."}), Retry(1, 0.5, "overloaded"), "Right."]
    async with daemon(tmp_path, step) as bench:
        session = bench.session()
        assert (await session.prompt("go")).stop == "end_turn"
        assert session.state.messages[1].text() == "Right."
        assert results(session.state.messages) == []
        (discarded,) = bench.events(MessageDiscarded)
        assert discarded.message_id == session.state.messages[1].message_id
        assert bench.events(ModelRetry)[0].delay_s == 0.5


async def test_cancel_after_a_retry_keeps_only_the_new_beginning(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, ["Wrong", Retry(1, 0, "x"), TextDelta(0, "Rig"), hold]) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        session.cancel()
        await finish(turn)
        assert session.state.messages[1].text() == "Rig"


async def test_empty_answer_is_an_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, [End()], [Think("only thinking")], "Better.") as bench:
        session = bench.session()
        for _ in range(2):
            result = await session.prompt("go")
            assert result.stop in ("error", "end_turn")
            if result.stop == "error":
                assert "empty" in result.detail
        assert (await session.prompt("again")).stop == "end_turn"
        assert session.state.trace.usage.total == 3 * USAGE.total
        assert session.state.trace.total_cost == pytest.approx(0.03)


async def test_refusal_without_an_answer_says_why(tmp_path: Path) -> None:
    async with daemon(tmp_path, [End(detail="I will not do this.")]) as bench:
        session = bench.session()
        result = await session.prompt("go")
        assert (result.stop, result.detail) == ("error", "I will not do this.")
        (notice,) = bench.events(Notice)
        assert (notice.level, notice.code, notice.text) == ("error", "written_call", "I will not do this.")


async def test_a_call_cut_off_by_the_token_limit_is_not_run(tmp_path: Path) -> None:
    half = ToolCallPart(id="c1", name="write", input='{"file_path": "a.txt", "content": "he')
    step = ["I write", PartStop(1, half), End("max_tokens", "The answer was cut off.")]
    async with daemon(tmp_path, step, "Sorry.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        result = await session.prompt("go")
        assert (result.stop, result.detail) == ("max_tokens", "The answer was cut off.")
        (answer,) = results(session.state.messages)
        assert answer.is_error
        assert not (bench.workspace / "a.txt").exists()
        await session.prompt("again")


async def test_calls_of_an_answer_that_was_refused_are_not_run(tmp_path: Path) -> None:
    call = ToolCallPart(id="c1", name="write", input='{"file_path": "a.txt", "content": "he"}')
    filtered = Complete((call,), "end_turn", Usage(), "fake", "The content filter ended the answer.")
    async with daemon(tmp_path, [PartStop(0, call), filtered], "Sorry.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        result = await session.prompt("go")
        assert (result.stop, result.detail) == ("end_turn", "The content filter ended the answer.")
        (answer,) = results(session.state.messages)
        assert answer.is_error and answer.content.startswith("Not run")
        assert not (bench.workspace / "a.txt").exists()
        await session.prompt("again")


async def test_overflow_clears_old_results_and_continues(tmp_path: Path) -> None:
    big = {"command": "seq -s x 6000"}
    turns = [step for _ in range(12) for step in (Call("bash", {**big, "timeout": _ + 1}), "ok")]
    overflow = Fail("overflow", "The prompt is too long.")
    steps = [*turns, "a", "b", overflow, "Now it fits.", "still"]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        for number in range(14):
            assert (await session.prompt(f"turn {number}")).stop == "end_turn"
        result = await session.prompt("one more")
        assert result.stop == "end_turn"
        assert session.state.messages[-1].text() == "Now it fits."
        before, after = bench.models.requests[-2:]
        cleared = [p for m in after.messages for p in m.content if isinstance(p, ToolResultPart)]
        assert sum(p.content == CLEARED for p in cleared) > 0
        assert sum(p.content != CLEARED for p in cleared) > 0
        assert len(before.messages) == len(after.messages)
        assert any("no longer sent" in notice.text for notice in bench.events(Notice))
        # The record keeps everything, and the next call goes on with the small context.
        assert all(r.content != CLEARED for r in results(session.state.messages))
        await session.prompt("and on")
        assert bench.models.requests[-1].messages[: len(after.messages)] == after.messages


async def test_overflow_with_nothing_to_clear_gives_advice(tmp_path: Path) -> None:
    async with daemon(tmp_path, Fail("overflow", "Too long."), Fail("overflow", "Too long.")) as bench:
        session = bench.session()
        for _ in range(2):
            result = await session.prompt("x" * 10)
            assert result.stop == "error"
            assert "the tools 3," in result.detail
            assert "a new session would not help" in result.detail


async def test_a_bug_in_a_provider_is_an_error_and_the_session_lives(tmp_path: Path) -> None:
    class Broken:
        def __init__(self, bench: Bench) -> None:
            self._models = bench.models

        def __call__(self, *args: object) -> None:
            raise RuntimeError("a bug")

    async with daemon(tmp_path, "Better.") as bench:
        session = bench.session()
        good = bench.models.stream
        bench.models.stream = Broken(bench)  # type: ignore[assignment,method-assign]  # a model with a bug
        result = await session.prompt("go")
        assert result.stop == "error"
        assert "bug" in result.detail
        assert bench.events(TurnEnded)[0].stop_reason == "error"
        bench.models.stream = good  # type: ignore[method-assign]  # and the real one again
        assert (await session.prompt("again")).stop == "end_turn"


async def test_error_between_call_and_result_leaves_no_open_call(tmp_path: Path) -> None:
    class NoResult:
        name = "ls"

    step = [Call("ls", {"path": "."}), Call("ls", {"path": "."})]
    async with daemon(tmp_path, step, "Better.") as bench:
        session = bench.session()
        good = session.services

        async def broken(*args: object) -> NoResult:
            return NoResult()

        session.services = replace(good, run_tool=broken)
        result = await session.prompt("go")
        assert result.stop == "error"
        assert "bug" in result.detail
        check_pairs(session.state)
        assert len(bench.events(TurnEnded)) == 1
        session.services = good
        assert (await session.prompt("again")).stop == "end_turn"
