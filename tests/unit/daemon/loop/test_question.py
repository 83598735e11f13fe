"""The model asks the user in the middle of a turn: the real loop, inbox and store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.loop.session import Session
from daemon.model.events import PermissionReplied
from daemon.model.messages import ToolResultPart
from daemon.model.permissions import PermissionRequest
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call
from tools.tool import QuestionAnswer, ToolError

ASK = Call("question", {"questions": [{"question": "Which database?", "options": ["SQLite", "PostgreSQL"]}]})
TWO = Call(
    "question",
    {"questions": [{"question": "Which?", "options": ["a", "b"], "multiple": True}, {"question": "Why?"}]},
)
SQLITE = (QuestionAnswer(chosen=("SQLite",)),)


def results(session: Session) -> list[ToolResultPart]:
    return [found for m in session.state.messages if m.role == "tool" and (found := m.tool_result())]


def reply(bench: Bench, request: PermissionRequest, *answers: QuestionAnswer) -> None:
    done = bench.core.permissions.reply(request.request_id, "once", None, "test", answers=answers)
    assert done == (True, "test")


@pytest.mark.parametrize("settings", [{}, ALLOW_ALL, {"mode": "auto"}, {"permission": {"question": "ask"}}])
async def test_question_reaches_the_user_in_every_mode(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with daemon(tmp_path, ASK, "I take SQLite.") as bench:
        session = bench.session(settings=settings)
        turn = prompted(session, "store it")
        (request,) = await bench.asked()
        assert session.status == "waiting"
        assert (request.permission, request.title, request.suggestions) == ("question", "Which database?", ())
        assert [option.label for option in request.questions[0].options] == ["SQLite", "PostgreSQL"]
        # A rule that comes to allow everything gives no answer.
        bench.core.permissions.release(None, "test")
        assert bench.core.permissions.pending() == [request]
        reply(bench, request, *SQLITE)
        assert (await finish(turn)).stop == "end_turn"
        (result,) = results(session)
        assert "Answer: SQLite" in result.content
        assert result.title == "SQLite"
        assert bench.events(PermissionReplied)[-1].answers == SQLITE


async def test_invalid_answers_are_refused_and_the_question_stays_open(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, TWO, "Good.") as bench:
        turn = prompted(bench.session(), "go")
        (request,) = await bench.asked()
        permissions = bench.core.permissions
        one, none = QuestionAnswer(chosen=("a",)), QuestionAnswer()
        for answers, words in [
            ((), "2 questions, but 0 answers were given"),
            ((one,), "2 questions, but one answer was given"),
            ((none, none), "No question is answered:"),
            ((QuestionAnswer(chosen=("c",)), none), "'c' is not an option"),
            ((one, QuestionAnswer(text="x" * 20_001)), "20001 characters"),
        ]:
            with pytest.raises(ToolError, match=words):
                permissions.reply(request.request_id, "once", None, "test", answers=answers)
        with pytest.raises(ToolError, match="this question only"):
            permissions.reply(request.request_id, "always", None, "test", answers=(one, none))
        assert permissions.pending() == [request]
        reply(bench, request, QuestionAnswer(chosen=("b", "a", "b"), text=" both "), none)
        await finish(turn)
        assert bench.events(PermissionReplied)[-1].answers[0] == QuestionAnswer(
            chosen=("b", "a"), text="both"
        )


async def test_answers_fit_only_questions_and_their_number_of_options(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with daemon(tmp_path, write, ASK, "Good.") as bench:
        turn = prompted(bench.session(), "go")
        (request,) = await bench.asked()
        with pytest.raises(ToolError, match="This request has no questions:"):
            bench.core.permissions.reply(request.request_id, "once", None, "test", answers=SQLITE)
        await bench.answer()
        (request,) = await bench.asked()
        both = QuestionAnswer(chosen=("SQLite", "PostgreSQL"))
        with pytest.raises(ToolError, match="takes one option"):
            bench.core.permissions.reply(request.request_id, "once", None, "test", answers=(both,))
        await bench.answer("reject")
        await finish(turn)


async def test_skipped_question_lets_the_turn_continue(tmp_path: Path) -> None:
    async with daemon(tmp_path, ASK, "Then SQLite.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.answer("reject")
        assert (await finish(turn)).stop == "end_turn"
        (result,) = results(session)
        assert (result.title, result.is_error) == ("skipped", False)


async def test_question_times_out_or_is_denied_by_a_rule(tmp_path: Path) -> None:
    async with daemon(tmp_path, ASK, "Then SQLite.") as bench:
        session = bench.session(settings={"permission_timeout_s": 0.05})
        await finish(prompted(session, "go"))
        assert "Nobody answered" in results(session)[0].content
    async with daemon(tmp_path, "Hello.") as bench:
        await finish(prompted(bench.session(settings={"permission": {"question": "deny"}}), "go"))
        assert "question" not in {tool.name for tool in bench.models.requests[0].tools}


@pytest.mark.parametrize("agent", ["build", "plan"])
async def test_agents_that_work_for_the_user_may_ask(tmp_path: Path, agent: str) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        await finish(prompted(bench.session(agent=agent), "go"))
        assert "question" in {tool.name for tool in bench.models.requests[0].tools}
    assert not load_agent("explore").has_tool("question")


async def test_cancel_while_it_waits_closes_the_call(tmp_path: Path) -> None:
    async with daemon(tmp_path, ASK, "Hello again.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert bench.core.permissions.pending() == []
        assert results(session)[0].title == "canceled"
        assert (await finish(prompted(session, "again"))).stop == "end_turn"


async def test_question_is_asked_again_after_a_restart(tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    async with daemon(first, ASK) as bench:
        session = bench.session()
        turn = prompted(session, "go", prompt_id="p1")
        await bench.asked()
        shutil.copytree(first, copy)
        session.cancel()
        await turn
    shutil.rmtree(first)
    copy.rename(first)
    async with daemon(first, "SQLite it is.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.status == "waiting"
        assert again.resume()
        (request,) = await bench.asked()
        assert request.questions[0].text == "Which database?"
        reply(bench, request, *SQLITE)
        await until(lambda: not again.running, "the end of the turn")
        assert "Answer: SQLite" in results(again)[0].content
        assert again.state.messages[-1].text() == "SQLite it is."
