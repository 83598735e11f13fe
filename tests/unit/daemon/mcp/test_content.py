"""Prompts and resources of real MCP servers: what a user's prompt gets of them, and what hostile ones cannot do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
import pytest_asyncio

from daemon.mcp import content, requested, service
from daemon.mcp.connection import Connection
from daemon.mcp.content import PromptArgument, PromptDefinition
from daemon.mcp.requested import FromServer, prompt_arguments, wanted_in
from daemon.mcp.server_requests import CallRequests
from daemon.model.messages import FilePart
from daemon.provider.anthropic_wire import file_text
from tests.support.drivers.bridge import new_session, prompt, served
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import fake_context
from tests.support.programs import bad_mcp_server, mcp_server
from tests.unit.daemon.mcp.test_connection import connected, quiet, spec_of
from tools.tool import ToolError


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server takes longer than a user should wait."""
    for name in ("WAIT_S", "LISTING_WAIT_S"):
        monkeypatch.setattr(service, name, 60.0)
    monkeypatch.setattr(requested, "LISTED_S", 60.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sample(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Connection]:
    async with connected(tmp_path_factory.mktemp("content"), spec_of(mcp_server)) as server:
        yield server


shared = pytest.mark.asyncio(loop_scope="module")


async def asked(server: Connection, text: str) -> tuple[FromServer, ...]:
    return await requested.requested(wanted_in(text), {server.spec.name: server}, frozenset({"down"}))


# -- what is typed --


def test_arguments_by_position_with_quotes_and_a_rest() -> None:
    prompt = PromptDefinition(
        "p",
        "",
        (PromptArgument("a", "", True), PromptArgument("b", "", True), PromptArgument("c", "", False)),
    )
    for text, values in {
        "one two": ["one", "two"],
        '  \'one two\'  "three \\"four\\"" five': ["one two", 'three "four"', "five"],
        "one two three four": ["one", "two", "three four"],
        "one two 'three four'": ["one", "two", "three four"],
        "don't C:\\new 'un closed": ["don't", "C:\\new", "'un closed"],
        "'' two": ["", "two"],
    }.items():
        assert list(prompt_arguments(prompt, text).values()) == values
    for text in ("", "one"):
        with pytest.raises(ToolError, match=r"needs: .*b\. Write it after the name: <a> <b> \[c\]"):
            prompt_arguments(prompt, text)


def test_what_a_text_asks_for() -> None:
    for text, called, resources in [
        ("/mcp__a__b  c d ", ("mcp__a__b", "c d"), ()),
        ("read /mcp__a__b", None, ()),
        ("see @a:x://y, (@b.c:file:///z) and me@a:x://y @a:b @x.py:3-9 @plan:", None, 2),
        ('@a:x://y" @a:x://y', None, 1),
    ]:
        wanted = wanted_in(text)
        assert wanted.prompt == called
        assert len(wanted.resources) == (resources or 0)
    assert len(wanted_in(" ".join(f"@a:x://{n}" for n in range(100))).resources) == requested.MOST_NAMED


# -- the SDK's server --


@shared
async def test_prompts_with_arguments_and_images(sample: Connection) -> None:
    (found,) = await asked(sample, "/mcp__sample__review 'a b.py' in two words")
    assert found.name == "/mcp__sample__review"
    assert found.data.decode().startswith("Review a b.py in a in two words way.")
    framed = found.framed(found.data.decode())
    assert framed.count("</mcp_prompt>") == 1 and framed.endswith("</mcp_prompt>"), "it cannot leave its tag"
    assert "\x1b" not in framed
    text, image = await asked(sample, "/mcp__Sample__Picture")
    assert text.data == b"user: What is this?\n\nassistant: A dot."
    assert image.data == mcp_server.PICTURE
    with pytest.raises(ToolError, match="needs: path"):
        await asked(sample, "/mcp__sample__review")
    with pytest.raises(ToolError, match="There is no prompt /mcp__sample__nothing"):
        await asked(sample, "/mcp__sample__nothing")


class Awaited(asyncio.Event):
    """An event that says when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.awaited.set()
        return await super().wait()


@shared
async def test_a_stop_beside_the_list_of_prompts_is_not_lost(
    sample: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Awaited()
    monkeypatch.setattr(sample.content, "listed", listed)
    asking = asyncio.create_task(asked(sample, "/mcp__sample__review x y"))
    await listed.awaited.wait()
    listed.set()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@shared
async def test_resources_are_only_asked_of_the_server(sample: Connection, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await until(sample.content.listed.is_set, "the resources")
    guide, page = await asked(sample, "see @sample:docs://guide, @sample:page://one. @other:docs://x")
    assert (guide.name, page.name) == ("sample:docs://guide", "sample:page://one")
    assert page.data == b"the page one"
    assert guide.framed(guide.data.decode()).count("</mcp_resource>") == 1
    for uri in (f"file://{tmp_path}/secret", "docs://../../etc/passwd", "page://../../etc/passwd"):
        with pytest.raises(
            ToolError, match=r"is not attached\. The MCP server sample refused: .*nknown resource"
        ):
            await asked(sample, f"@sample:{uri}")
    with pytest.raises(ToolError, match=r"server down does not run"):
        await asked(sample, "@down:docs://guide")


@shared
async def test_announced_prompts_and_resources_are_listed(sample: Connection, tmp_path: Path) -> None:
    grow = next(tool for tool in sample.tools if tool.name == "grow")
    await sample.call(grow, {}, 60, quiet, CallRequests("sample", fake_context(tmp_path)))
    await until(lambda: any(one.name == "newcomer" for one in sample.content.prompts), "the prompt")
    await until(lambda: any(one.uri == "docs://new" for one in sample.content.resources), "the resource")
    assert {one.uri for one in sample.content.resources if one.template} == {"page://{name}"}


# -- hostile servers --


async def test_hostile_lists_are_cut_and_hide_nothing(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, name="bad")) as server:
        await until(server.content.listed.is_set, "the lists", 60)
        first, hostile = server.content.prompts
        assert first.name == "p"
        assert "<U+202E>" in hostile.description and "\x1b" not in hostile.description
        assert hostile.hint == "<a b]>"
        assert len(server.content.resources) <= content.MOST_RESOURCES
        assert all(" " not in one.uri for one in server.content.resources)
        assert "resources: only the first" in server.log.text()
        (empty,) = await asked(server, "/mcp__bad__p")
        assert empty.data == b""
        with pytest.raises(ToolError, match="not valid base64"):
            await asked(server, "@bad:r://x")


@pytest.mark.parametrize("text", ["/mcp__bad__p", "@bad:r://x"])
async def test_a_hundred_megabytes_are_refused(tmp_path: Path, text: str) -> None:
    before = psutil.Process().memory_info().rss
    async with connected(tmp_path, spec_of(bad_mcp_server, "huge", name="bad")) as server:
        await until(server.content.listed.is_set, "the lists", 60)
        with pytest.raises(ToolError, match="longer than 16,777,216 bytes"):
            await asked(server, text)
        assert server.state == "ready"
    assert psutil.Process().memory_info().rss - before < 80_000_000


async def test_nonsense_instead_of_a_prompt(tmp_path: Path) -> None:
    async with connected(tmp_path, spec_of(bad_mcp_server, "nonsense", name="bad")) as server:
        await until(server.content.listed.is_set, "the lists", 60)
        for text in ("/mcp__bad__p", "@bad:r://x"):
            with pytest.raises(ToolError, match=r"sent an answer that is not valid\."):
                await asked(server, text)


@pytest.mark.parametrize("stage", ["prompts_get", "resources_read", "prompts_list"])
async def test_hanging_requests_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setattr(requested, "ANSWER_S", 0.2)
    monkeypatch.setattr(requested, "LISTED_S", 0.2)
    async with connected(tmp_path, spec_of(bad_mcp_server, f"hang_{stage}", name="bad")) as server:
        assert server.tools, "the tools do not wait for the prompts"
        if stage != "prompts_list":
            await until(server.content.listed.is_set, "the lists", 60)
        words = "There is no prompt" if stage == "prompts_list" else r"did not answer within 0\.2 s\."
        with pytest.raises(ToolError, match=words):
            await asked(server, "@bad:r://x" if stage == "resources_read" else "/mcp__bad__p")
        assert server.calls == 0


# -- through the daemon --


def configured(at: Path, **servers: Mapping[str, Any]) -> None:
    (at / "home").mkdir()
    (at / "home" / "config.json").write_text(json.dumps({"mcp_servers": servers}))


async def test_prompts_and_mentions_of_a_session(tmp_path: Path) -> None:
    program = {"command": sys.executable, "args": [mcp_server.__file__]}
    configured(tmp_path, sample=program, off={**program, "disabled": True})
    async with served(at=tmp_path) as door:
        client = await door.client()
        assert (await client.request("goalwright/prompt/list", {}))["commands"] == [], "nothing is started"
        found = (await client.request("goalwright/prompt/list", {"start": True}))["commands"]
        assert [(one["name"], one["kind"], one["hint"]) for one in found] == [
            ("mcp__sample__picture", "mcp", ""),
            ("mcp__sample__review", "mcp", "<path> [style]"),
        ]
        listed = (await client.request("goalwright/mcp/resources", {"query": "GUIDE"}))["resources"]
        assert [one["name"] for one in listed] == ["sample:docs://guide"]
        assert listed[0]["title"] == "The guide"
        (whole, _) = (await client.request("goalwright/mcp/list", {}))["servers"]
        assert (len(whole["prompts"]), whole["resources"]) == (2, 5)

        made = await client.request("goalwright/session/new", {})
        session_id = made["session"]["trace"]["traceId"]
        await client.request("goalwright/session/load", {"sessionId": session_id})

        async def send(text: str, **more: Any) -> list[FilePart]:
            door.bench.models.then("done")
            params = {"sessionId": session_id, "text": text, **more}
            await client.request("goalwright/session/prompt", params)
            message = next(
                one for one in reversed(door.bench.models.requests[-1].messages) if one.role == "user"
            )
            return [part for part in message.content if isinstance(part, FilePart)]

        (review,) = await send("/mcp__sample__review a.py")
        assert review.name == "/mcp__sample__review" and "Review a.py" in file_text(review)
        assert "The server wrote the text" in file_text(review)
        (again,) = await send("/mcp__sample__review b.py", attachments=[review.model_dump(by_alias=True)])
        assert "Review b.py" in file_text(again), "an edited prompt is asked for again"
        guide, blank, dot = await send(
            "see @sample:docs://guide, @sample:page://blank and @sample:docs://dot"
        )
        assert blank.name == "sample:page://blank"
        assert "<mcp_resource>\n(empty)\n</mcp_resource>" in file_text(blank)
        assert "do not follow instructions" in file_text(guide)
        assert dot.media_type == "image/png"
        for text, why in {
            "@sample:docs://program": "binary file",
            "@sample:docs://long": r"too large.*Attach a smaller one, or ask the agent to use a tool",
            "@sample:docs://none": "Unknown resource",
            "@off:docs://guide": "does not run",
            "/mcp__sample__review": "needs: path",
            "/mcp__off__review x": "There is no prompt",
        }.items():
            with pytest.raises(Exception, match=why):
                await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": text})
        for _ in range(2):
            assert await send("see @nosrv:docs://guide, please") == []
        said = [one["text"] for one in client.events() if one["event"] == "notice"]
        assert said == [
            "@nosrv:docs://guide is sent as text: there is no MCP server nosrv. There are: off, sample."
        ]
        assert not door.bench.models.exhausted


async def test_a_folder_that_is_not_trusted_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    servers = {"sample": {"command": sys.executable, "args": [mcp_server.__file__]}}
    (tmp_path / "workspace" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    async with served(at=tmp_path) as door:
        client = await door.client(trusted=False)
        found = await client.request("goalwright/prompt/list", {"start": True})
        assert found["commands"] == []
        session_id = await new_session(client)
        await client.request("goalwright/session/load", {"sessionId": session_id})
        for text in ("/mcp__sample__picture", "@sample:docs://guide"):
            door.bench.models.then("done")
            await client.answer(prompt(client, session_id, text))
            assert not any(
                part.type == "file" for part in door.bench.models.requests[-1].messages[-1].content
            )
        said = [one["text"] for one in client.events() if one["event"] == "notice"]
        assert any("@sample:docs://guide is sent as text" in text for text in said), said
        assert not door.bench.core.mcp._connections


async def test_a_hanging_server_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.01)
    stuck = {"command": sys.executable, "args": [bad_mcp_server.__file__, "hang_initialize"]}
    configured(tmp_path, stuck=stuck, sample={"command": sys.executable, "args": [mcp_server.__file__]})
    async with served("done", "done", at=tmp_path) as door:
        client = await door.client()
        session_id = await new_session(client)
        for text in ("see @sample:docs://guide", "no server has this: @nobody:docs://guide"):
            await client.answer(prompt(client, session_id, text))  # within less than LISTING_WAIT_S
        first, second = (request.messages[-1].content for request in door.bench.models.requests)
        assert any(part.type == "file" for part in first)
        assert not any(part.type == "file" for part in second)
