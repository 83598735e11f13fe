"""What MCP servers ask during calls, in sessions of the real core with servers on the official SDK."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.mcp import service
from daemon.mcp.server_requests import MOST_REQUESTS
from daemon.model.events import PermissionReplied
from tests.support.drivers.core import Bench, daemon, finish, prompted, results
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail
from tests.support.programs import asking_mcp_server, bad_mcp_server
from tools.tool import QuestionAnswer

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
}
ALLOW = {"mcp__*": "allow"}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server takes longer than a user should wait."""
    monkeypatch.setattr(service, "WAIT_S", 30.0)


def configure(folder: Path, **settings: Any) -> None:
    (folder / "home").mkdir(exist_ok=True)
    servers = {
        name: {"command": sys.executable, "args": [program.__file__, *arguments]}
        for name, program, *arguments in [
            ("asking", asking_mcp_server),
            *([("bad", bad_mcp_server, settings.pop("bad"))] if "bad" in settings else []),
        ]
    }
    values = {"mcpServers": servers, "permission": ALLOW, **settings}
    (folder / "home" / "config.json").write_text(json.dumps(values))


def call(name: str, **arguments: Any) -> Call:
    return Call(f"mcp__asking__{name}", arguments)


def said(session: Any) -> str:
    (result,) = results(session.state.messages)
    return result.content.partition("<mcp_result>\n")[2].partition("\n</mcp_result>")[0]


def reply(bench: Bench, *answers: QuestionAnswer) -> None:
    (request, *_) = bench.core.permissions.pending()
    bench.core.permissions.reply(request.request_id, "once", None, "test", answers=answers)


async def test_a_form_is_asked_in_the_chat_until_it_fits(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM), "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.title == "The MCP server asking asks you"
        assert request.permission == "mcp_elicitation" and request.targets == ("asking",)
        assert "goes to the MCP server asking" in request.questions[0].text
        reply(bench, QuestionAnswer(text="Paris"))
        await until(
            lambda: [one for one in bench.core.permissions.pending() if one.request_id != request.request_id],
            "the question again",
        )
        (again,) = bench.core.permissions.pending()
        assert again.questions[0].text.startswith("city: choose one of the options.")
        reply(bench, QuestionAnswer(chosen=("Oslo",)))
        await finish(turn)
        assert said(session) == '["accept", {"city": "Oslo"}]'


async def test_fitting_answers_of_a_form_are_kept(tmp_path: Path) -> None:
    configure(tmp_path)
    fields = {"name": {"type": "string"}, "people": {"type": "integer"}}
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema={"type": "object", "properties": fields}), "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        reply(bench, QuestionAnswer(text="Ada"), QuestionAnswer(text="two"))
        pending = bench.core.permissions.pending
        await until(
            lambda: [one for one in pending() if one.request_id != request.request_id], "the question"
        )
        (again,) = pending()
        assert len(again.questions) == 1 and again.questions[0].text.startswith(
            "people: write a whole number."
        )
        reply(bench, QuestionAnswer(text="2"))
        await finish(turn)
        assert said(session) == '["accept", {"name": "Ada", "people": 2}]'


async def test_skipping_and_rules_decline(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM), "done")
        turn = prompted(session, "go")
        await bench.answer("reject")
        await finish(turn)
        assert said(session) == '["decline", null]'
        assert session.state.trace.last_stop_reason == "end_turn", "that is no rejection of the work"
    configure(tmp_path, permission={**ALLOW, "mcp_elicitation": {"ask*": "deny"}})
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM), "done")
        await finish(prompted(session, "go"), 60)
        assert said(session) == '["decline", null]'


async def test_nobody_answers_in_time(tmp_path: Path) -> None:
    configure(tmp_path, permission_timeout_s=0.2, mcp_timeout_s=60)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM), "done")
        await finish(prompted(session, "go"), 60)
        assert said(session) == '["cancel", null]'


async def test_the_time_of_the_user_is_not_the_calls(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM), "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        for connection in bench.core.mcp._connections.values():  # pyright: ignore[reportPrivateUsage]
            server = connection._session  # pyright: ignore[reportPrivateUsage]
            assert server is not None
            (running,) = server.calls
            assert running._clock is not None and running._clock.when() is None  # pyright: ignore[reportPrivateUsage]
        reply(bench, QuestionAnswer(chosen=("Rome",)))
        await finish(turn)
        assert said(session) == '["accept", {"city": "Rome"}]'
        assert request.request_id not in {one.request_id for one in bench.core.permissions.pending()}


async def test_a_page_is_shown_and_not_opened(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("page", url="https://sign.example/form?id=7"), "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert "https://sign.example/form?id=7" in request.questions[0].text
        assert "Goalwright does not open it" in request.questions[0].text
        reply(bench, QuestionAnswer(chosen=("I have opened it",)))
        await finish(turn)
        assert said(session) == "accept"


async def test_a_flood_of_forms_asks_a_few_in_turn(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema={"type": "object", "properties": {}}, times=300), "done")
        turn = prompted(session, "go")
        for number in range(1, MOST_REQUESTS + 1):
            await bench.asked()
            assert len(bench.core.permissions.pending()) == 1
            reply(bench, QuestionAnswer(chosen=("Accept",)))
            await until(
                lambda number=number: len(bench.events(PermissionReplied)) == number, f"answer {number}"
            )
        await finish(turn)
        lines = said(session).splitlines()
        assert lines.count('["accept", {}]') == MOST_REQUESTS
        assert sum("a call may ask 5 times" in line for line in lines) == 300 - MOST_REQUESTS


async def test_a_question_ends_with_its_call(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("forgetful", asked=str(tmp_path / "asked")), "done")
        turn = prompted(session, "go")
        await bench.asked()
        (tmp_path / "asked").touch()
        await finish(turn)
        assert said(session) == "done already"
        await until(lambda: not bench.core.permissions.pending(), "the end of the question")
        (answer,) = bench.events(PermissionReplied)
        assert answer.reply == "canceled"


async def test_stop_withdraws_the_question(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("form", schema=FORM))
        turn = prompted(session, "go")
        await bench.asked()
        session.cancel()
        await finish(turn)
        assert not bench.core.permissions.pending()


async def test_nothing_is_asked_outside_of_a_call(tmp_path: Path) -> None:
    configure(tmp_path, bad="ask_outside")
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(Call("mcp__bad__work"), "done")
        await finish(prompted(session, "go"), 60)
        assert "Goalwright does not answer" in said(session)
        assert "while no tool call runs" in said(session)
        assert not bench.core.permissions.pending()


async def test_two_sessions_at_once_are_not_mixed_up(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        first, second = bench.session(), bench.session()
        bench.models.then(call("form", schema=FORM), call("form", schema=FORM))
        one = prompted(first, "go")
        await bench.asked()
        two = prompted(second, "go")
        bench.models.then("done", "done")
        await finish(two, 60)
        assert "several sessions use this server" in said(second)
        reply(bench, QuestionAnswer(chosen=("Rome",)))
        await finish(one)
        assert said(first) == '["accept", {"city": "Rome"}]'


async def test_sampling_asks_and_is_paid_by_the_session(tmp_path: Path) -> None:
    configure(tmp_path)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("sample", text="Say \u202ehello.", tokens=9_000_000, system="Be kind."))
        bench.models.then("Hello!", "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "mcp_sampling" and request.targets == ("asking",)
        assert request.title == f"The MCP server asking wants an answer of {session.model}"
        assert request.detail == "system: Be kind.\n\nuser: Say <U+202E>hello."
        assert "gets up to 4,000 tokens" in request.notes[0]
        assert [grant.pattern for grant in request.suggestions] == ["asking"]
        await bench.answer()
        await finish(turn)
        assert json.loads(said(session))[1:] == ["Hello!", "endTurn"]
        asked = bench.models.requests[1]
        assert asked.max_tokens == 4_000 and not asked.tools and len(asked.messages) == 1
        assert session.state.trace.total_cost == pytest.approx(0.03), "two answers and the server's"


async def test_always_sampling_is_for_one_configuration(tmp_path: Path) -> None:
    configure(tmp_path)
    sampled: list[Any] = [call("sample"), "Hello!", "done"]
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(*sampled)
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        bench.core.permissions.reply(request.request_id, "always", None, "test", scope="user")
        await finish(turn)
        bench.models.then(*sampled)
        await finish(prompted(session, "again"), 60)  # nothing is asked
    other = {"command": sys.executable, "args": [asking_mcp_server.__file__, "another"]}
    configure(tmp_path, mcpServers={"asking": other})
    async with daemon(tmp_path) as bench:
        for answer in ("once", "always", None):
            session = bench.session()
            bench.models.then(*sampled)
            turn = prompted(session, "go")
            if answer is not None:
                (request,) = await bench.asked()
                assert "another server had this name" in str(request), request
                await bench.answer(answer)
            await finish(turn, 60)
            assert "Hello!" in said(session)


async def test_sampling_that_is_not_granted(tmp_path: Path) -> None:
    configure(tmp_path, permission={**ALLOW, "mcp_sampling": "allow"})
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("sample", size=500_000), "done")
        await finish(prompted(session, "go"), 60)
        assert "at most 200,000 characters" in said(session)
        bench.models.then(call("sample"), Fail("server", "The server is down."), "done")
        await finish(prompted(session, "again"), 60)
        assert "The server is down" in results(session.state.messages)[-1].content
    configure(tmp_path, mode="auto")
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("sample"), "done")
        turn = prompted(session, "go")
        await bench.answer("reject", "no", "test")
        await finish(turn)
        assert "the user rejected it" in said(session)
        assert len(bench.models.requests) == 2


async def test_sampling_stops_at_the_budget(tmp_path: Path) -> None:
    configure(tmp_path, permission={**ALLOW, "mcp_sampling": "allow"}, budget_usd=0.01)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("sample"))
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "budget"
        await bench.answer("reject", "enough")
        await finish(turn, 60)
        assert "Stopped at the budget" in results(session.state.messages)[0].content
        assert len(bench.models.requests) == 1


async def test_a_request_of_many_megabytes(tmp_path: Path) -> None:
    configure(tmp_path, permission={**ALLOW, "mcp_sampling": "allow"})
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(call("sample", size=20_000_000), "done")
        await finish(prompted(session, "go"), 60)
        assert "longer than 16,777,216 bytes" in said(session)
        assert len(bench.models.requests) == 2
