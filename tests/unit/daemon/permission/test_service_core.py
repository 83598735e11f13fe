"""The permission service under the real core: cancel at every stage, answers at once, grants across restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from daemon.config import WORKSPACE_FILE
from daemon.loop.session import Session
from daemon.model.events import Delta, Event, PermissionAsked, PermissionReplied, ToolStarted
from daemon.model.meters import Metered
from daemon.model.permissions import Grant, Rule, Scope
from daemon.permission import grants as grants_module
from daemon.permission.grants import GrantStore, Lasting
from daemon.workspace_key import workspace_key
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold


def write(name: str) -> Call:
    return Call("write", {"file_path": name, "content": "made\n"})


def made(bench: Bench, *names: str) -> list[bool]:
    return [(bench.workspace / name).exists() for name in names]


def ended(bench: Bench) -> list[tuple[str, str]]:
    """How each question ended that was asked, in the order of asking."""
    replies = {event.request_id: (event.reply, event.by) for event in bench.events(PermissionReplied)}
    return [replies[event.request.request_id] for event in bench.events(PermissionAsked)]


@pytest.mark.parametrize("stage", ["before", "asking", "answered", "after"])
async def test_cancel_at_any_stage_leaves_no_request(tmp_path: Path, stage: str) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, write("a.py")], [Hold(), "ok"]) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        if stage != "before":
            hold.go.set()
            (request,) = await bench.asked()
            if stage != "asking":
                bench.core.permissions.reply(request.request_id, "once", None, "x")
            if stage == "after":
                await until(lambda: made(bench, "a.py")[0])
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert bench.core.permissions.pending() == []
        assert session.state.pending == {}
        if stage == "asking":
            assert ended(bench) == [("canceled", "")]
            assert made(bench, "a.py") == [False]
            late = bench.events(PermissionAsked)[0].request.request_id
            with pytest.raises(KeyError):
                bench.core.permissions.reply(late, "once", None, "late")


async def test_daemon_stop_writes_no_pending_edit(tmp_path: Path) -> None:
    async with daemon(tmp_path, write("a.py")) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
        await bench.core.close()
        await finish(turn)
        assert bench.core.permissions.pending() == []
    assert not (tmp_path / "workspace" / "a.py").exists()


async def test_of_two_concurrent_replies_one_is_recorded(tmp_path: Path) -> None:
    async with daemon(tmp_path, write("a.py"), "ok") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()

        async def answer(by: str) -> tuple[bool, str]:
            await asyncio.sleep(0)
            return bench.core.permissions.reply(request.request_id, "always", None, by, scope="user")

        answers = await asyncio.gather(answer("Ann"), answer("Bob"))
        assert answers == [(True, "Ann"), (False, "Ann")]
        assert (await finish(turn)).stop == "end_turn"
        assert [event.by for event in bench.events(PermissionReplied)] == ["Ann"]
        assert len(bench.core.grants.all()) == 1


@pytest.mark.parametrize("scope", ["session", "workspace", "user"])
async def test_grants_survive_a_restart_and_can_be_revoked(tmp_path: Path, scope: Scope) -> None:
    async with daemon(tmp_path, write("src/a.txt"), "ok") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        grants = [Grant(permission="edit", pattern="src/*.txt")]
        bench.core.permissions.reply(request.request_id, "always", None, "Ann", None, grants, scope)
        await finish(turn)
        session_id = session.session_id
    async with daemon(tmp_path, write("src/b.txt"), "ok", write("src/c.txt"), "ok") as bench:
        again = await bench.opened(session_id)
        assert (await finish(prompted(again, "go on"))).stop == "end_turn"
        assert made(bench, "src/a.txt", "src/b.txt") == [True, True]
        assert [rule.source for rule in again.state.granted] == (["session"] if scope == "session" else [])
        stored = bench.core.grants.all()
        assert [(grant.scope, grant.by) for grant in stored] == (
            [] if scope == "session" else [(scope, "Ann")]
        )
        # Of another session only what holds for more than one.
        other = bench.session()
        expected = "ask" if scope == "session" else "allow"
        assert other.rules.decide("edit", "src/x.txt").action == expected
        if scope == "session":
            return
        bench.core.grants.forget([grant.grant_id for grant in stored])
        turn = prompted(again, "once more")
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert made(bench, "src/c.txt") == [False]


@pytest.mark.parametrize("scope", ["workspace", "user"])
async def test_grant_withdrawn_elsewhere_ends_with_the_next_call(tmp_path: Path, scope: Lasting) -> None:
    """Another process withdraws it between two calls of one answer."""
    home, calls = tmp_path / "home", [write("src/a.txt"), Call("ls", {"path": "src"}), write("src/b.txt")]
    async with daemon(tmp_path, calls) as bench:
        grants = [Grant(permission="edit", pattern="src/*.txt")]
        (stored,) = bench.core.grants.add(grants, scope)
        here = home / "grants" / f"{workspace_key(bench.workspace)}.json"
        elsewhere = GrantStore(home / "grants.json", here, bench.core.now)

        def listened(item: Event | Delta | Metered) -> None:
            if isinstance(item, ToolStarted) and item.name == "ls":
                elsewhere.forget([stored.grant_id])

        session = bench.session()
        bench.core.bus.subscribe(session.session_id, listened)
        turn = prompted(session, "go")
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert made(bench, "src/a.txt", "src/b.txt") == [True, False]


async def test_grant_read_between_two_looks_is_not_kept_as_known(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        policy, here = session.policy, tmp_path / "home/grants" / f"{workspace_key(bench.workspace)}.json"
        elsewhere = GrantStore(tmp_path / "home/grants.json", here, bench.core.now)
        assert policy.rules.decide("edit", "src/a.txt").action == "ask"
        (stored,) = elsewhere.add([Grant(permission="edit", pattern="src/*.txt")], "user")
        session.state.set_granted(
            [Rule(permission="edit", pattern="docs/*.md", action="allow", source="session")]
        )
        assert policy.known_rules.decide("edit", "src/a.txt").action == "ask"
        elsewhere.forget([stored.grant_id])
        assert policy.rules.decide("edit", "src/a.txt").action == "ask"
        session.state.set_granted([])  # the log has none


async def test_building_a_request_looks_at_no_grant_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as bench:
        builder = bench.session().request_builder
        await builder.prepare()
        offered = builder.tool_specs()
        looks: list[Path] = []
        monkeypatch.setattr(grants_module, "stamp_of", looks.append)
        assert builder.request().tools is offered
        builder.publish()
        assert looks == []


async def test_workspace_grant_does_not_apply_in_another_workspace(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "home").symlink_to(home, target_is_directory=True)
    async with daemon(tmp_path / "one") as one, daemon(tmp_path / "two") as two:
        one.core.grants.add([Grant(permission="edit", pattern="here/*")], "workspace")
        one.core.grants.add([Grant(permission="edit", pattern="all/*")], "user")

        def decided(bench: Bench) -> list[str]:
            rules = bench.session().rules
            return [rules.decide("edit", target).action for target in ("here/x", "all/x")]

        assert decided(one) == ["allow", "allow"]
        assert decided(two) == ["ask", "allow"]


async def test_grant_does_not_override_a_workspace_deny(tmp_path: Path) -> None:
    async with daemon(tmp_path, write("vendor/a.py"), "ok") as bench:
        path = bench.workspace / WORKSPACE_FILE
        path.parent.mkdir()
        path.write_text(json.dumps({"permission": {"edit": {"vendor/*": "deny"}}}))
        bench.core.grants.add([Grant(permission="edit", pattern="*")], "user")
        bench.core.configuration.forget()
        session = bench.session()
        assert (await finish(prompted(session, "go"))).stop == "end_turn"
        assert made(bench, "vendor/a.py") == [False]
        result = next(m for m in session.state.messages if m.role == "tool").tool_result()
        assert result is not None
        assert "vendor/*" in result.content
        assert WORKSPACE_FILE.as_posix() in result.content


async def test_unanswered_requests_time_out_and_the_turn_goes_on(tmp_path: Path) -> None:
    steps = ([write("a.py"), write("b.py")], "I went on.")
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings={"permission_timeout_s": 0.05})
        assert (await finish(prompted(session, "go"))).stop == "end_turn"
        assert ended(bench) == [("reject", "timeout"), ("reject", "timeout")]
        assert made(bench, "a.py", "b.py") == [False, False]
        results = [m.tool_result() for m in session.state.messages if m.role == "tool"]
        assert all(result is not None and "Nobody answered" in result.content for result in results)


async def test_mode_change_answers_pending_requests(tmp_path: Path) -> None:
    async with daemon(tmp_path, write("a.py"), "ok") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
        bench.core.update_session(session, {"mode": "accept-edits"})
        bench.core.permissions.release(session.session_id, "Ann")
        assert (await finish(turn)).stop == "end_turn"
        assert ended(bench) == [("once", "Ann")]


@pytest.mark.parametrize("trust", ["unknown", "trusted"])
async def test_allow_rules_of_the_workspace_apply_once_trusted(tmp_path: Path, trust: str) -> None:
    async with daemon(tmp_path, write("a.py"), "ok") as bench:
        path = bench.workspace / WORKSPACE_FILE
        path.parent.mkdir()
        path.write_text(json.dumps({"permission": {"edit": "allow"}, "mode": "auto"}))
        bench.core.configuration.trusted.remove(bench.workspace)
        if trust == "trusted":
            bench.core.configuration.trusted.add(bench.workspace)
        bench.core.configuration.forget()
        session: Session = bench.session()
        assert session.mode == ("auto" if trust == "trusted" else "ask")
        turn = prompted(session, "go")
        if trust == "unknown":
            await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert len(bench.events(PermissionAsked)) == (trust == "unknown")
