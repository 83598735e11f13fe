"""``goalwright acp`` under the client of the protocol's own SDK: the real command, a real daemon, a scripted model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from acp import spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EmbeddedResourceContentBlock,
    EnvVariable,
    FileSystemCapabilities,
    McpServerStdio,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
    SseMcpServer,
    TextResourceContents,
    ToolCallUpdate,
)

from daemon.runtime import RuntimePaths
from lsp_bridge.cli.acp import live_session
from lsp_bridge.cli.acp.live_session import LiveSession
from lsp_bridge.cli.client import Client
from lsp_bridge.cli.launch import Greeting, LastingConnection, Launcher
from tests.support.drivers.command_line import PROGRAM, CommandLine, end_daemon, have_daemon
from tests.support.drivers.waiting import until
from tests.support.programs import mcp_server

READ = {"name": "read", "input": {"file_path": "a.py"}}
EDIT = {"name": "edit", "input": {"file_path": "a.py", "old_string": "limit = 1", "new_string": "limit = 2"}}
PLAN = {"name": "goal", "input": {"add": "look, change"}}
QUESTION = {"name": "question", "input": {"questions": [{"question": "Which?", "options": ["A", "B"]}]}}


class Editor:
    """An editor: keeps all updates, and answers questions by the beginning of an option's name."""

    def __init__(self, *answers: str) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[ToolCallUpdate, list[str]]] = []
        self.answers = list(answers)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, [option.name for option in options]))
        if not self.answers:
            await asyncio.Event().wait()
        wanted = self.answers.pop(0)
        if wanted == "fail":
            raise RequestError(-32603, "no such dialog")
        if not wanted:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        (chosen,) = (option.option_id for option in options if option.name.startswith(wanted))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def said(self) -> str:
        """What the agent said."""
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))


@asynccontextmanager
async def agent(
    goalwright: CommandLine, editor: Editor, offered: ClientCapabilities | None = None
) -> AsyncGenerator[ClientSideConnection]:
    goalwright.have_daemon()
    program, *arguments = PROGRAM
    async with spawn_agent_process(
        cast("Any", editor),
        program,
        *arguments,
        "acp",
        env=goalwright.env,
        cwd=goalwright.home,
        use_unstable_protocol=True,
    ) as (connection, _):
        known = await connection.initialize(protocol_version=1, client_capabilities=offered)
        assert known.protocol_version == 1
        yield connection


def scripted(goalwright: CommandLine, *turns: Sequence[dict[str, Any]]) -> str:
    (goalwright.workspace / "a.py").write_text("limit = 1\nprint(limit)\n")
    model = goalwright.script(*(list(turn) for turn in turns))
    goalwright.configure(model=model)
    return model


async def test_a_session_in_a_foreign_editor(goalwright: CommandLine) -> None:
    model = scripted(
        goalwright,
        [{"text": "Hm.", "tool_calls": [PLAN, READ]}, {"tool_calls": [EDIT]}, {"text": "Done."}],
        [{"tool_calls": [QUESTION]}, {"text": "Thanks."}],
    )
    editor = Editor("Allow once", "Allow once", "B")
    commands = goalwright.home / ".goalwright" / "commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text("---\nargument-hint: [issue]\n---\nFix $1.\n")
    async with agent(goalwright, editor) as connection:
        made = await connection.new_session(cwd=str(goalwright.workspace), mcp_servers=[])
        await until(lambda: editor.of("available_commands_update"), "the commands")
        offered = editor.of("available_commands_update")[0]["availableCommands"]
        assert {one["name"]: one.get("input") for one in offered}["fix"] == {"hint": "[issue]"}
        assert made.modes is not None
        assert made.modes.current_mode_id == "ask"
        assert {option.id: option.current_value for option in made.config_options or ()} == {
            "model": model,
            "agent": "build",
        }
        done = await connection.prompt(session_id=made.session_id, prompt=[text_block("change it")])
        assert done.stop_reason == "end_turn"
        assert editor.said() == "Hm.Done."
        call, options = editor.asked[0]
        assert call.title == "Edit a.py (+1 -1)"
        assert [option.partition(" (")[0] for option in options] == [
            "Allow once",
            "Always",
            "Always",
            "Always",
            "Reject",
        ]
        assert (goalwright.workspace / "a.py").read_text() == "limit = 2\nprint(limit)\n"
        states = {
            one["toolCallId"]: one["status"] for one in editor.of("tool_call_update") if "status" in one
        }
        assert [*states.values()] == ["completed", "completed"]
        assert [one["kind"] for one in editor.of("tool_call")] == ["read", "edit"]
        diff = editor.of("tool_call_update")[-1]["content"][0]
        assert (diff["oldText"], diff["newText"]) == (
            "limit = 1\nprint(limit)\n",
            "limit = 2\nprint(limit)\n",
        )
        assert [entry["content"] for entry in editor.of("plan")[-1]["entries"]] == ["1 look", "2 change"]

        link = ResourceContentBlock(
            type="resource_link", name="a.py", uri=(goalwright.workspace / "a.py").as_uri()
        )
        outside = goalwright.folder / "outside.txt"
        outside.write_text("here\n")
        other = ResourceContentBlock(type="resource_link", name="outside.txt", uri=outside.as_uri())
        await connection.prompt(session_id=made.session_id, prompt=[text_block("see "), link, other])
        asked = editor.asked[1][0]
        assert asked.title == f"Attach {outside}"
        (over,) = (one for one in editor.of("tool_call_update") if one["toolCallId"] == asked.tool_call_id)
        assert over["status"] == "completed"  # no result will follow
        assert editor.asked[2][1] == ["A", "B", "Skip"]
        assert (
            "B"
            in next(one for one in editor.of("tool_call_update")[::-1] if "content" in one)["content"][0][
                "content"
            ]["text"]
        )

        await connection.prompt(session_id=made.session_id, prompt=[text_block("/undo")])
        assert (goalwright.workspace / "a.py").read_text() == "limit = 1\nprint(limit)\n"
        assert "> Undone: " in editor.said()
        await connection.set_session_mode(session_id=made.session_id, mode_id="accept-edits")
        await until(lambda: editor.of("current_mode_update") != [])
        with pytest.raises(RequestError, match="nonsense"):
            await connection.set_config_option(
                session_id=made.session_id, config_id="model", value="nonsense"
            )

        listed = await connection.list_sessions(cwd=str(goalwright.workspace))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(made.session_id, "change it")]
    # The session is the daemon's: another client has it.
    shown = goalwright.run("sessions")
    assert "change it" in shown.stdout

    again = Editor()
    async with agent(goalwright, again) as connection:
        await connection.load_session(
            cwd=str(goalwright.workspace), session_id=made.session_id, mcp_servers=[]
        )
        assert again.of("user_message_chunk")[0]["content"]["text"] == "change it"
        assert again.said() == "Hm.Done.Thanks."
        assert [entry["content"] for entry in again.of("plan")[-1]["entries"]] == ["1 look", "2 change"]
        forked = await connection.fork_session(cwd=str(goalwright.workspace), session_id=made.session_id)
        assert forked.session_id != made.session_id
        with pytest.raises(RequestError) as unknown:
            await connection.load_session(cwd=str(goalwright.workspace), session_id="20250101-000000-nobody")
        assert unknown.value.code == -32002


async def test_servers_and_prompts_that_the_editor_passes(goalwright: CommandLine) -> None:
    call = {"name": "mcp__mine__surroundings", "input": {}}
    scripted(goalwright, [{"tool_calls": [call]}, {"text": "Done."}], [{"text": "Seen."}])
    assert goalwright.run("trust").returncode == 0
    mine = McpServerStdio(
        name="mine",
        command=sys.executable,
        args=[mcp_server.__file__],
        env=[EnvVariable(name="API_TOKEN", value="hunter2-very-secret-value")],
    )
    old = SseMcpServer(type="sse", name="old", url="https://example.org/sse", headers=[])
    editor = Editor("Allow once")
    async with agent(goalwright, editor) as connection:
        made = await connection.new_session(cwd=str(goalwright.workspace), mcp_servers=[mine, old])
        await until(lambda: "mcp__mine__review" in str(editor.of("available_commands_update")), "prompts", 60)
        assert "MCP servers of the editor are not used: old (it speaks neither" in editor.said()
        await connection.prompt(session_id=made.session_id, prompt=[text_block("look")])
        assert editor.asked[0][0].title == "mine: surroundings"
        text = "/mcp__mine__review a.py, as in @mine:docs://guide"
        await connection.prompt(session_id=made.session_id, prompt=[text_block(text)])
        assert editor.said().endswith("Seen.")
        with pytest.raises(RequestError, match="needs: path"):
            await connection.prompt(session_id=made.session_id, prompt=[text_block("/mcp__mine__review")])
        assert processes() != []
        await connection.close_session(session_id=made.session_id)
        await until(lambda: processes() == [], "the end of the server")
        await connection.load_session(
            cwd=str(goalwright.workspace), session_id=made.session_id, mcp_servers=[mine]
        )
        links = [one["content"] for one in editor.of("user_message_chunk") if "uri" in one["content"]]
        assert links == [], "no link makes the editor open what a server names"
        await until(lambda: processes() != [], "the server of the loaded session", 60)
    await until(lambda: processes() == [], "the end with the connection")
    for file in (*goalwright.home.rglob("*"), *goalwright.workspace.rglob("*")):
        if file.is_file():
            assert b"hunter2-very-secret-value" not in file.read_bytes(), file


def processes() -> list[int]:
    """The servers of this test that run."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "environ"])
        if mcp_server.__file__ in (process.info["cmdline"] or ())
        and (process.info["environ"] or {}).get("API_TOKEN") == "hunter2-very-secret-value"
    ]


class EditorWithFiles(Editor):
    """An editor with open files, of which some have unsaved text."""

    def __init__(self, *answers: str) -> None:
        super().__init__(*answers)
        self.buffers: dict[str, str] = {}

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        text = self.buffers.get(path)
        return ReadTextFileResponse(content=Path(path).read_text() if text is None else text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.buffers[path] = content
        Path(path).write_text(content)


async def test_unsaved_text_is_read_and_changed_in_the_editor(goalwright: CommandLine) -> None:
    edit = {"file_path": "a.py", "old_string": "print(limit)", "new_string": "print(limit, '𝄞')"}
    scripted(
        goalwright,
        [{"tool_calls": [READ]}, {"tool_calls": [{"name": "edit", "input": edit}]}, {"text": "Done."}],
    )
    editor = EditorWithFiles("Allow once")
    files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
    link = goalwright.folder / "link"
    link.symlink_to(goalwright.workspace)
    path = str(link / "a.py")
    editor.buffers[path] = "limit = 9\u2028# 𝄞\nprint(limit)\n"
    async with agent(goalwright, editor, ClientCapabilities(fs=files)) as connection:
        with pytest.raises(RequestError):  # its id is not used to read files
            await connection.load_session(cwd=str(link), session_id="20250101-000000-nobody", mcp_servers=[])
        made = await connection.new_session(cwd=str(link), mcp_servers=[])
        await connection.prompt(session_id=made.session_id, prompt=[text_block("change it")])
    read = next(one for one in editor.of("tool_call_update") if "content" in one)
    assert "limit = 9" in read["content"][0]["content"]["text"]
    assert editor.buffers[path] == "limit = 9\u2028# 𝄞\nprint(limit, '𝄞')\n"
    assert Path(path).read_text() == editor.buffers[path]


async def test_rejecting_canceling_and_a_restarted_daemon(goalwright: CommandLine) -> None:
    scripted(
        goalwright,
        [{"tool_calls": [READ]}, {"tool_calls": [EDIT]}, {"text": "Not done."}],
        [{"tool_calls": [EDIT]}, {"text": "Not done either."}],
        [{"text": "Here."}],
    )
    editor = Editor("fail")
    async with agent(goalwright, editor) as connection:
        made = await connection.new_session(cwd=str(goalwright.workspace), mcp_servers=[])
        await connection.prompt(session_id=made.session_id, prompt=[text_block("change it")])
        assert editor.of("tool_call_update")[-1]["status"] == "failed"
        assert "> The editor could not ask" in editor.said()
        assert (goalwright.workspace / "a.py").read_text() == "limit = 1\nprint(limit)\n"

        turn = asyncio.create_task(
            connection.prompt(session_id=made.session_id, prompt=[text_block("again")])
        )
        await until(lambda: len(editor.asked) == 2)
        waiting = asyncio.create_task(
            connection.prompt(session_id=made.session_id, prompt=[text_block("and then this")])
        )
        await asyncio.sleep(0)  # sent before the cancellation
        await connection.cancel(session_id=made.session_id)
        assert [(await one).stop_reason for one in (turn, waiting)] == ["cancelled", "cancelled"]

        # The editor answers what it asked, too, perhaps before it cancels.
        outside = goalwright.folder / "outside.txt"
        outside.write_text("here\n")
        link = ResourceContentBlock(type="resource_link", name="outside.txt", uri=outside.as_uri())
        editor.answers.append("")
        done = await connection.prompt(session_id=made.session_id, prompt=[link])
        assert done.stop_reason == "cancelled"

        goalwright.stop()
        goalwright.have_daemon()
        done = await connection.prompt(session_id=made.session_id, prompt=[text_block("are you there?")])
        assert done.stop_reason == "end_turn"
        assert editor.said().endswith("Here.")
        with pytest.raises(RequestError, match="No key was found"):  # the address of Ollama is none
            await connection.authenticate(method_id="environment")
        with pytest.raises(RequestError, match="There is no sign-in other"):
            await connection.authenticate(method_id="other")
        with pytest.raises(RequestError, match="absolute"):
            await connection.new_session(cwd="relative", mcp_servers=[])
        with pytest.raises(RequestError, match="does not exist"):
            await connection.new_session(cwd=str(goalwright.workspace / "gone"), mcp_servers=[])
        with pytest.raises(RequestError, match=r"^Invalid params: mode must be one of: ask, .*auto\.$"):
            await connection.set_session_mode(session_id=made.session_id, mode_id="god")
        with pytest.raises(
            RequestError, match=r"^Invalid params: cwd must be given; mcpServers must be given\.$"
        ):
            await connection._conn.send_request("session/new", {})  # pyright: ignore[reportPrivateUsage]
        assert [one.session_id for one in (await connection.list_sessions()).sessions] == [made.session_id]


async def test_prompt_that_only_names_an_agent_waits_for_no_turn(
    goalwright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(goalwright, [{"text": "Planned."}])
    goalwright.have_daemon()
    monkeypatch.setattr(live_session, "_LAST_EVENTS_S", 3600.0)
    editor = Editor()
    connection = LastingConnection(Launcher(home=goalwright.home / ".goalwright"), goalwright.workspace)
    client = await connection.get(lambda: Greeting(client="ACP"))
    made = await client.request("goalwright/session/new", {})

    async def connect() -> Client:
        return client

    session = LiveSession(
        made["session"]["trace"]["traceId"], goalwright.workspace, cast("Any", editor), connect
    )
    client.on_notification(session.notified)
    assert await session.prompt("@plan", []) == "end_turn"
    assert await session.prompt("What is to be done?", []) == "end_turn"
    assert editor.said().endswith("Planned.")
    await session.close()
    await connection.close()


@pytest.fixture
def other(goalwright: CommandLine) -> Generator[Path]:
    """A folder with a daemon of its own."""
    folder = goalwright.folder / "other"
    folder.mkdir()
    paths = RuntimePaths.for_workspace(folder, goalwright.home / ".goalwright")
    have_daemon(goalwright.forker, paths, goalwright.env, ("connect",))
    yield folder
    end_daemon(paths)


async def test_loading_and_closing_a_running_session(goalwright: CommandLine, other: Path) -> None:
    scripted(goalwright, [{"text": "one two three four", "chunk": 4, "delay_ms": 300}], [{"text": "Here."}])
    editor = Editor()
    async with agent(goalwright, editor) as connection:
        made = await connection.new_session(cwd=str(goalwright.workspace), mcp_servers=[])
        page = TextResourceContents(uri="https://x.example/?q=1", text="a page")
        embedded = EmbeddedResourceContentBlock(type="resource", resource=page)
        prompt: list[Any] = [text_block("go"), embedded]
        turn = asyncio.create_task(connection.prompt(session_id=made.session_id, prompt=prompt))
        await until(lambda: editor.said() != "")
        for enter in (connection.load_session, connection.resume_session, connection.fork_session):
            with pytest.raises(RequestError, match=r"There is no .*goalwright sessions"):
                await enter(cwd=str(other), session_id=made.session_id, mcp_servers=[])
        # A failure changes nothing about open sessions.
        await connection.set_session_mode(session_id=made.session_id, mode_id="ask")
        editor.updates.clear()
        await connection.load_session(
            cwd=str(goalwright.workspace), session_id=made.session_id, mcp_servers=[]
        )
        said, shown = (one["content"] for one in editor.of("user_message_chunk"))
        assert (said["text"], shown["resource"]["text"]) == ("go", "a page")
        assert shown["resource"]["uri"] == page.uri
        assert editor.said().startswith("one ")
        await connection.close_session(session_id=made.session_id)
        assert (await turn).stop_reason == "cancelled"
        link = goalwright.folder / "link"
        link.symlink_to(goalwright.workspace)
        for name in (goalwright.workspace, link):
            await connection.resume_session(cwd=str(name), session_id=made.session_id)
        editor.updates.clear()
        await connection.prompt(session_id=made.session_id, prompt=prompt)
        assert (editor.said(), editor.of("user_message_chunk")) == ("Here.", [])


def test_without_an_editor_the_command_ends(goalwright: CommandLine) -> None:
    done = goalwright.run("acp")  # from /dev/null
    assert (done.returncode, done.stdout) == (2, "")
    assert "started by an editor" in done.stderr
    into_file = ["sh", "-c", '"$0" "$@" acp > answers', *PROGRAM]
    done = subprocess.run(
        into_file,
        cwd=goalwright.folder,
        env=goalwright.env,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "started by an editor" in done.stderr) == (2, True), done.stderr
