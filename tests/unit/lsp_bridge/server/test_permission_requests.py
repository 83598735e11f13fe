"""The user's permission requests, over the real wire: lasting answers, rules, revoking, trust and modes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.config import WORKSPACE_FILE
from daemon.loop.children import close_child, open_child
from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold

READ = Call("read", {"file_path": "a.py"})


def write(name: str) -> Call:
    return Call("write", {"file_path": name, "content": "made\n"})


class Person:
    """A client with a session."""

    def __init__(self, door: Door, client: Raw, session_id: str) -> None:
        self.door, self.client, self.session_id = door, client, session_id

    def prompt(self, text: str = "go") -> int:
        return self.client.ask("goalwright/session/prompt", {"sessionId": self.session_id, "text": text})

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.client.request(f"goalwright/{method}", params)

    async def asked(self, number: int = 1) -> dict[str, Any]:
        """The newest request that waits, as soon as there are so many."""
        permissions = self.door.bench.core.permissions
        await until(lambda: len(permissions.pending(self.session_id)) >= number)
        return (await self.do("permission/list", sessionId=self.session_id))["requests"][-1]

    async def reply(self, request: dict[str, Any], reply: str = "always", **params: Any) -> dict[str, Any]:
        return await self.do("permission/reply", requestId=request["requestId"], reply=reply, **params)

    async def rules(self, *, here: bool = True) -> dict[str, Any]:
        return await self.do("permission/rules", **({"sessionId": self.session_id} if here else {}))

    async def explained(self, permission: str, target: str, *, here: bool = True) -> dict[str, Any]:
        session = {"sessionId": self.session_id} if here else {}
        return await self.do("permission/explain", permission=permission, target=target, **session)

    async def refused(self, method: str, **params: Any) -> tuple[int, str]:
        error = await self.client.refused(f"goalwright/{method}", params)
        return error.code, str(error)


async def person(door: Door, name: str = "test", **options: Any) -> Person:
    client = await door.client(name, **options)
    session = (await client.request("goalwright/session/new", {}))["session"]
    found = Person(door, client, session["trace"]["traceId"])
    await found.do("session/load", sessionId=found.session_id)
    return found


def settings_of(door: Door, values: object) -> None:
    path = door.bench.workspace / WORKSPACE_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))


def not_trusted(door: Door) -> None:
    """Nobody has said anything about the folder."""
    door.bench.core.configuration.trusted.remove(door.bench.workspace)


def made(door: Door, *names: str) -> list[bool]:
    return [(door.bench.workspace / name).exists() for name in names]


async def test_a_request_names_its_rule_and_all_that_is_asked_about() -> None:
    async with served(write("src/a.py"), "ok") as door:
        me = await person(door, settings={"permission": {"edit": "ask"}})
        number = me.prompt()
        request = await me.asked()
        assert request["rule"]["source"] == "editor"
        assert [(r["permission"], r["target"], r["action"]) for r in request["reasons"]] == [
            ("edit", "src/a.py", "ask")
        ]
        assert request["suggestions"] == [{"permission": "edit", "pattern": "src/*"}]
        await me.reply(request, "once")
        assert (await me.client.answer(number))["stopReason"] == "end_turn"


@pytest.mark.parametrize("scope", ["session", "workspace", "user"])
async def test_edited_always_grant_has_its_scope_and_can_be_revoked(scope: str) -> None:
    steps = (write("src/a.py"), "ok", write("src/b.py"), "ok", write("src/c.py"), "ok")
    async with served(*steps) as door:
        me = await person(door, "Ann")
        number = me.prompt()
        grants = [{"permission": "edit", "pattern": "src/*.py"}]
        assert (await me.reply(await me.asked(), grants=grants, scope=scope))["accepted"]
        assert (await me.client.answer(number))["stopReason"] == "end_turn"
        replied = await me.client.event("permission_replied")
        assert (replied["remembered"], replied["scope"]) == (grants, scope)
        await me.client.answer(me.prompt("again"))  # unasked
        (granted,) = (await me.rules())["grants"]
        assert (granted["scope"], granted["pattern"]) == (scope, "src/*.py")
        other = await person(door)
        seen = [grant["pattern"] for grant in (await other.rules())["grants"]]
        assert seen == ([] if scope == "session" else ["src/*.py"])
        params = {"grantIds": [granted["grantId"], "grant_unknown"], "sessionId": me.session_id}
        assert (await me.do("permission/forget", **params))["forgotten"] == [granted]
        assert (await me.do("permission/forget", **params))["forgotten"] == []
        if scope == "session":
            forgotten = await me.client.event("permission_forgotten")
            assert (forgotten["grants"], forgotten["by"]) == (grants, "Ann")
        assert (await me.rules())["grants"] == []
        number = me.prompt("once more")
        await me.reply(await me.asked(), "reject")
        assert (await me.client.answer(number))["stopReason"] == "permission_denied"
        assert made(door, "src/a.py", "src/b.py", "src/c.py") == [True, True, False]


async def test_wider_always_grant_releases_requests_of_other_sessions() -> None:
    async with served(write("src/a.py"), write("src/b.py"), "ok", "ok") as door:
        one, other = await person(door), await person(door, "other")
        first = one.prompt()
        request = await one.asked()
        second = other.prompt()
        await other.asked()
        await one.reply(request, scope="workspace")
        assert (await one.client.answer(first))["stopReason"] == "end_turn"
        assert (await other.client.answer(second))["stopReason"] == "end_turn"
        assert made(door, "src/a.py", "src/b.py") == [True, True]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"grants": []}, "answer once"),
        ({"grants": [{"permission": "edit", "pattern": " "}]}, "empty"),
        ({"grants": [{"permission": "bash", "pattern": "*"}]}, "not about 'bash'"),
        ({"grants": [{"permission": "edit", "pattern": "a\nb"}], "scope": "user"}, "line break"),
        ({"scope": "everything"}, "scope"),
        ({"grants": [{"permission": "edit"}]}, "pattern"),
    ],
)
async def test_invalid_always_reply_leaves_the_request_pending(params: dict[str, Any], words: str) -> None:
    async with served(write("a.py"), "ok") as door:
        me = await person(door)
        number = me.prompt()
        request = await me.asked()
        code, said = await me.refused(
            "permission/reply", requestId=request["requestId"], reply="always", **params
        )
        assert (code, words in said) == (ErrorCode.INVALID_PARAMS, True), said
        assert await me.asked() == request
        await me.reply(request, "once")
        assert (await me.client.answer(number))["stopReason"] == "end_turn"
        assert (await me.rules())["grants"] == []


async def test_unstorable_grant_is_an_error_and_request_stays_pending() -> None:
    async with served(write("a.py"), "ok") as door:
        me = await person(door)
        number = me.prompt()
        request = await me.asked()
        (door.bench.core.state_folder / "grants.json.lock").mkdir()
        code, said = await me.refused(
            "permission/reply", requestId=request["requestId"], reply="always", scope="user"
        )
        assert (code, "for the session only" in said) == (ErrorCode.STORE_FAILED, True), said
        await me.reply(await me.asked(), "always", scope="session")
        assert (await me.client.answer(number))["stopReason"] == "end_turn"


async def test_of_two_concurrent_answers_one_counts() -> None:
    async with served(write("a.py"), "ok") as door:
        me = await person(door, "Ann")
        other = await door.client("Bob")
        number = me.prompt()
        request_id = (await me.asked())["requestId"]
        mine = me.client.ask(
            "goalwright/permission/reply", {"requestId": request_id, "reply": "always", "scope": "user"}
        )
        theirs = other.ask("goalwright/permission/reply", {"requestId": request_id, "reply": "reject"})
        answers = [await me.client.answer(mine), await other.answer(theirs)]
        assert sorted(answer["accepted"] for answer in answers) == [False, True]
        winner = "Ann" if answers[0]["accepted"] else "Bob"
        assert {answer["by"] for answer in answers} == {winner}
        stop = (await me.client.answer(number))["stopReason"]
        assert stop == ("end_turn" if winner == "Ann" else "permission_denied")
        assert len((await me.rules())["grants"]) == (winner == "Ann")


async def test_reply_to_an_unknown_request_is_refused() -> None:
    async with served() as door:
        me = await person(door)
        code, _ = await me.refused("permission/reply", requestId="perm_x", reply="once")
        assert code == ErrorCode.UNKNOWN_REQUEST
        code, _ = await me.refused("permission/rules", sessionId="nonsense")
        assert code == ErrorCode.UNKNOWN_SESSION


# -- rules and reasons --


async def test_rules_are_listed_with_files_from_weak_to_strong() -> None:
    async with served() as door:
        not_trusted(door)
        core = door.bench.core
        user_file = core.state_folder / "config.json"
        user_file.parent.mkdir(exist_ok=True)
        user_file.write_text(json.dumps({"permission": {"bash": "deny"}}))
        settings_of(door, {"permission": {"edit": {"*.lock": "deny"}}})
        me = await person(door, settings={"permission": {"read": "ask"}})
        for here in (True, False):
            found = await me.rules(here=here)
            sources = list(dict.fromkeys(rule["source"] for rule in found["rules"]))
            assert sources[:4] == ["shipped", "user", "editor", "workspace"]
            files = {rule["file"] for rule in found["rules"]}
            assert {str(user_file), WORKSPACE_FILE.as_posix()} <= files
            assert (found["mode"], found["trust"]) == ("ask", "unknown")


@pytest.mark.parametrize("here", [True, False])
async def test_explain_decides_without_asking(here: bool) -> None:
    async with served() as door:
        workspace = door.bench.workspace
        (workspace / "link.txt").symlink_to(workspace / "secret" / "key.txt")
        settings_of(door, {"permission": {"read": {"secret/*": "deny"}}})
        me = await person(door)
        for target in ("secret/x", "./a/../secret/x", str(workspace / "secret" / "x"), "link.txt"):
            found = await me.explained("read", target, here=here)
            assert found["action"] == "deny", target
            rule = found["reasons"][0]["rule"]
            assert (rule["pattern"], rule["file"]) == ("secret/*", WORKSPACE_FILE.as_posix())
        for inside in ("a.py", "./~"):
            assert (await me.explained("read", inside, here=here))["action"] == "allow"
        assert (await me.explained("write", "a.py", here=here))["action"] == "ask"
        assert (await me.explained("edit", "/etc/passwd", here=here))["action"] == "ask"
        assert (await me.explained("read", "sec*", here=here))["action"] in ("ask", "deny")
        assert (await me.explained("doom_loop", "read", here=here))["action"] == "ask"
        assert door.bench.core.permissions.pending() == []


async def test_explain_lists_everything_a_command_would_do() -> None:
    async with served() as door:
        not_trusted(door)
        (door.bench.workspace / "link").symlink_to(".env")
        settings_of(door, {"permission": {"read": {"*.env": "deny"}}})
        me = await person(door, settings={"permission": {"bash": {"*": "ask", "cat *": "allow"}}})
        for command in ("cat .env", "ls && cat ./x/../.env", "cat link", "echo $(cat .env)"):
            found = await me.explained("bash", command)
            assert found["action"] == "deny", command
            denied = found["reasons"][0]
            assert (denied["permission"], denied["target"]) == ("read", ".env")
            assert denied["rule"]["file"] == WORKSPACE_FILE.as_posix()
        assert (await me.explained("bash", "cat a.py"))["action"] == "allow"
        found = await me.explained("bash", "git reset --hard", here=False)
        assert found["action"] == "ask"
        assert found["warnings"]
        assert (await me.explained("bash", "((("))["action"] == "ask"


async def test_explain_judges_private_addresses_as_webfetch_does() -> None:
    async with served() as door:
        me = await person(door)
        found = await me.explained("webfetch", "http://127.0.0.1:8080/a")
        assert found["action"] == "deny"
        denied = found["reasons"][0]
        assert (denied["permission"], denied["target"]) == ("private_address", "127.0.0.1:8080")
        for public in ("https://8.8.8.8/", "https://not-found.invalid/"):
            assert (await me.explained("webfetch", public))["action"] == "ask"


@pytest.mark.parametrize(
    ("permission", "target"),
    [("", "x"), ("read", " "), ("read", "a\0b"), ("bash", "x" * 20_001), ("webfetch", "no address")],
)
async def test_invalid_explain_request_is_refused(permission: str, target: str) -> None:
    async with served() as door:
        me = await person(door)
        code, said = await me.refused("permission/explain", permission=permission, target=target)
        assert code == ErrorCode.INVALID_PARAMS
        assert said


@pytest.mark.parametrize("works", [False, True])
async def test_explain_reads_changed_rules_before_the_next_prompt(works: bool) -> None:
    async with served(write("src/a.py")) as door:
        me = await person(door)
        for here in (True, False):
            assert (await me.explained("read", "a.py", here=here))["action"] == "allow"
        if works:
            me.prompt()
            await me.asked()
        settings_of(door, {"permission": {"read": {"a.py": "deny"}}, "tempo": 3})
        for here in (True, False):
            explained = await me.explained("read", "a.py", here=here)
            assert explained["action"] == "deny"
            assert any("tempo" in problem for problem in explained["problems"])
            rules = (await me.rules(here=here))["rules"]
            assert ("read", "a.py") in [(rule["permission"], rule["pattern"]) for rule in rules]


async def test_explain_tells_of_a_file_that_cannot_be_read() -> None:
    async with served() as door:
        me = await person(door)
        settings_of(door, {"permission": {"read": "denied"}})
        code, said = await me.refused("permission/explain", permission="read", target="a.py")
        assert code == ErrorCode.CONFIG_BROKEN
        assert "Nothing is done until this is fixed" in said
        assert WORKSPACE_FILE.as_posix() in said


async def test_explain_includes_grants_of_the_session() -> None:
    async with served(write("src/a.py"), "ok") as door:
        me = await person(door)
        number = me.prompt()
        await me.reply(await me.asked())
        await me.client.answer(number)
        assert (await me.explained("edit", "src/b.py"))["action"] == "allow"
        assert (await me.explained("edit", "src/b.py", here=False))["action"] == "ask"


async def test_what_an_agent_that_only_tightens_allows_is_not_listed() -> None:
    async with served() as door:
        agents = door.bench.workspace / ".goalwright" / "agents"
        agents.mkdir(parents=True)
        rules = "{edit: allow, bash: {'*': deny, 'make *': allow}}"
        (agents / "mine.md").write_text(f"---\nmode: primary\npermission: {rules}\n---\nYou work.\n")
        client = await door.client("test")
        session = (await client.request("goalwright/session/new", {"agent": "mine"}))["session"]
        me = Person(door, client, session["trace"]["traceId"])
        listed = [rule for rule in (await me.rules())["rules"] if rule["source"] == "agent"]
        own = [(rule["permission"], rule["pattern"], rule["action"]) for rule in listed]
        assert own == [("hand_over", "*", "deny"), ("bash", "*", "deny"), ("bash", "make *", "allow")]


async def test_inherited_limits_are_listed_and_explained() -> None:
    async with served() as door:
        me = await person(door)
        session = door.bench.core.live(me.session_id)
        assert session is not None
        session.policy.agent = load_agent("plan")
        helper = open_child(session, "s1", load_agent("general"))
        below = Person(door, me.client, helper.session_id)
        words = {rule["words"] for rule in (await below.rules())["rules"] if rule["action"] == "deny"}
        assert any("this agent is read-only" in text for text in words)
        denied = [(rule["permission"], rule["source"]) for rule in (await below.rules())["rules"]]
        assert ("edit", "agent") in denied
        explained = await below.explained("bash", "make")
        assert explained["action"] == "deny"
        assert "this agent is read-only" in json.dumps(explained)
        assert (await below.explained("bash", "ls"))["action"] == "ask"
        await close_child(helper)


# -- trust and modes --


async def test_loosening_workspace_rules_apply_only_when_trusted() -> None:
    async with served(write("a.py"), "ok", write("b.py"), "ok") as door:
        not_trusted(door)
        settings_of(door, {"permission": {"edit": "allow"}, "max_tokens": 999})
        me = await person(door)
        number = me.prompt()
        await me.reply(await me.asked(), "once")
        await me.client.answer(number)
        idle = [(rule["source"], rule["permission"]) for rule in (await me.rules())["rules"] if rule["idle"]]
        assert idle == [("workspace", "edit")]
        assert "goalwright trust" in (await me.client.event("notice", code="config"))["text"]
        door.bench.core.configuration.trusted.add(door.bench.workspace)
        status = await me.do("daemon/status")
        assert (status["trust"], status["notice"]) == ("trusted", "")
        assert not any(rule["idle"] for rule in (await me.rules())["rules"])
        assert (await me.client.answer(me.prompt()))["stopReason"] == "end_turn"
        assert made(door, "a.py", "b.py") == [True, True]
        session = door.bench.core.live(me.session_id)
        assert session is not None
        assert session.config.settings.model.max_tokens == 999
        door.bench.core.configuration.trusted.remove(door.bench.workspace)
        assert (await me.explained("edit", "c.py"))["action"] == "ask"


@pytest.mark.parametrize(
    ("word", "listed", "trust"),
    [
        (True, False, "trusted"),
        (True, True, "trusted"),
        (False, False, "restricted"),
        (False, True, "restricted"),
        (None, False, "unknown"),
        (None, True, "trusted"),
    ],
)
async def test_client_trust_overrides_the_trust_list(word: bool | None, listed: bool, trust: str) -> None:
    async with served() as door:
        not_trusted(door)
        if listed:
            door.bench.core.configuration.trusted.add(door.bench.workspace)
        me = await person(door, trusted=word)
        session = door.bench.core.live(me.session_id)
        assert session is not None
        assert (session.trust, session.config.trusted) == (trust, trust == "trusted")
        assert (await me.do("daemon/status"))["trust"] == trust
        info = (await me.do("session/list"))["sessions"][0]
        assert (info["trust"], info["mode"]) == (trust, "plan" if trust == "restricted" else "ask")


async def test_in_a_restricted_folder_nothing_is_changed_or_offered() -> None:
    async with served([READ, write("a.py")], "ok") as door:
        me = await person(door, trusted=False, settings={"permission": {"*": "allow"}, "mode": "auto"})
        assert (await me.client.answer(me.prompt()))["stopReason"] == "end_turn"
        assert made(door, "a.py") == [False]
        offered = {tool.name for tool in door.bench.models.requests[0].tools}
        assert not offered & {"edit", "write", "patch", "bash"}
        assert "read" in offered
        for mode in ("ask", "accept-edits", "auto"):
            code, said = await me.refused("session/set", sessionId=me.session_id, mode=mode)
            assert (code, "Trust it in the editor" in said) == (ErrorCode.INVALID_PARAMS, True)


@pytest.mark.parametrize("by", ["load", "events"])
async def test_revoked_trust_restricts_running_sessions_at_once(by: str) -> None:
    hold = Hold()
    async with served([hold, write("a.py")], "ok") as door:
        me = await person(door, trusted=True, settings={"permission": {"edit": "allow"}})
        number = me.prompt()
        await hold.reached.wait()
        other = await door.client("VS Code", trusted=False)
        params = {"sessionId": me.session_id} | ({"afterEventId": 0} if by == "events" else {})
        await other.request(f"goalwright/session/{by}", params)
        hold.go.set()
        assert (await me.client.answer(number))["stopReason"] == "end_turn"
        assert made(door, "a.py") == [False]


async def test_auto_is_for_trusted_folders() -> None:
    async with served() as door:
        not_trusted(door)
        me = await person(door)
        code, said = await me.refused("session/set", sessionId=me.session_id, mode="auto")
        assert (code, "goalwright trust" in said) == (ErrorCode.INVALID_PARAMS, True)
        code, _ = await me.refused("session/set", sessionId=me.session_id, mode="yolo")
        assert code == ErrorCode.INVALID_PARAMS
        session = door.bench.core.live(me.session_id)
        assert session is not None
        assert session.state.trace.mode is None
        door.bench.core.configuration.trusted.add(door.bench.workspace)
        done = await me.do("session/set", sessionId=me.session_id, mode="auto")
        assert (done["session"]["mode"], session.mode) == ("auto", "auto")


async def test_a_session_begins_in_a_mode_or_not_at_all() -> None:
    async with served() as door:
        not_trusted(door)
        me = await person(door)
        before = len((await me.do("session/list"))["sessions"])
        code, said = await me.refused("session/new", mode="auto")
        assert (code, "goalwright trust" in said) == (ErrorCode.INVALID_PARAMS, True)
        assert len((await me.do("session/list"))["sessions"]) == before
        assert (await me.do("session/new", mode="plan"))["session"]["mode"] == "plan"


async def test_ineffective_auto_mode_is_reported() -> None:
    async with served("ok") as door:
        not_trusted(door)
        me = await person(door, settings={"mode": "auto"})
        assert "goalwright trust" in (await me.do("daemon/status"))["notice"]
        number = me.prompt()
        assert "goalwright trust" in (await me.client.event("notice", code="mode"))["text"]
        await me.client.answer(number)


async def test_mode_is_stored_with_its_session_and_answers_requests() -> None:
    async with served(write("a.py"), write("b.py"), "ok", write("c.py"), "ok") as door:
        me = await person(door)
        number = me.prompt()
        await me.asked()
        done = await me.do("session/set", sessionId=me.session_id, mode="accept-edits")
        assert done["session"]["mode"] == "accept-edits"
        assert (await me.client.answer(number))["stopReason"] == "end_turn"
        assert made(door, "a.py", "b.py") == [True, True]
        loaded = await me.do("session/load", sessionId=me.session_id)
        assert loaded["session"]["mode"] == loaded["session"]["trace"]["mode"] == "accept-edits"
        await me.do("session/set", sessionId=me.session_id, mode="plan")
        await me.client.answer(me.prompt())
        assert made(door, "c.py") == [False]


async def test_damaged_grant_file_is_reported_and_otherwise_ignored() -> None:
    async with served("ok") as door:
        door.bench.core.state_folder.mkdir(exist_ok=True)
        (door.bench.core.state_folder / "grants.json").write_text("{")
        me = await person(door)
        assert "grants.json" in (await me.do("daemon/status"))["notice"]
        number = me.prompt()
        assert "grants.json" in (await me.client.event("notice", code="config"))["text"]
        assert (await me.client.answer(number))["stopReason"] == "end_turn"


# -- commands in the background --


async def test_without_jobs_the_list_is_empty_and_kill_is_refused() -> None:
    async with served() as door:
        me = await person(door)
        assert (await me.do("job/list"))["jobs"] == []
        assert (await me.do("job/list", sessionId=me.session_id))["jobs"] == []
        code, said = await me.refused("job/kill", sessionId=me.session_id, jobId="job_9")
        assert (code, "job_9" in said) == (ErrorCode.UNKNOWN_REQUEST, True)
        code, _ = await me.refused("job/list", sessionId="nonsense")
        assert code == ErrorCode.UNKNOWN_SESSION
