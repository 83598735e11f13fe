"""Code actions, lenses, progress and questions in any LSP editor: pytest-lsp over ``goalwright connect --stdio``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pytest
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient
from pytest_lsp.client import default_converter, register_lsp_features  # pyright: ignore[reportPrivateImportUsage]

from lsp_bridge.protocol.handshake import PROTOCOL_VERSION
from tests.support.drivers.command_line import PROGRAM, CommandLine
from tests.support.drivers.waiting import until

pytestmark = pytest.mark.timeout(180)

RATES = "LOCAL = 400\n" + "\n" * 10 + "FAR = 900\n"
CHEAPER = RATES.replace("400", "350").replace("900", "800")
WRITE = {"name": "write", "input": {"file_path": "${workspace}/rates.py", "content": CHEAPER}}
READ = {"name": "read", "input": {"file_path": "${workspace}/rates.py"}}
FIXED = "The rates are **cheaper** now."
CHANGE = [{"tool_calls": [READ]}, {"text": "Like this.", "tool_calls": [WRITE]}, {"text": FIXED}]
PROBLEM = types.Diagnostic(
    types.Range(types.Position(0, 0), types.Position(0, 5)),
    "LOCAL is too dear\nfor parcels",
    severity=types.DiagnosticSeverity.Error,
    source="checker",
    code="E42",
)
OTHER = types.Diagnostic(types.Range(types.Position(0, 8), types.Position(0, 11)), "a second thing")
ABLE = types.ClientCapabilities(
    window=types.WindowClientCapabilities(
        work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(support=True)
    ),
    workspace=types.WorkspaceClientCapabilities(
        code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    ),
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            code_action_literal_support=types.ClientCodeActionLiteralOptions(
                types.ClientCodeActionKindOptions([types.CodeActionKind.QuickFix])
            )
        )
    ),
)


class Editor:
    """An LSP editor, its displayed texts, and a user who answers its questions by ``answers``."""

    def __init__(self, client: LanguageClient, workspace: Path) -> None:
        self.client = client
        self.file = workspace / "rates.py"
        self.answers: list[str | None] = []
        self.asked: list[types.ShowMessageRequestParams] = []
        self.refreshes = 0
        self.created: list[types.ProgressToken] = []
        self._answerable = asyncio.Event()
        client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda params: self._refresh())

    @property
    def documents(self) -> list[str]:
        """The texts of what was shown."""
        return [Path(unquote(urlsplit(one.uri).path)).read_text() for one in self.client.shown_documents]

    def _refresh(self) -> None:
        self.refreshes += 1

    def person_answers(self, *titles: str | None) -> None:
        """Answer the questions in this order as the user, and leave further ones open."""
        self.answers = list(titles)

        async def ask(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
            self.asked.append(params)
            if not self.answers:
                await self._answerable.wait()
            title = self.answers.pop(0)
            return next((one for one in params.actions or () if one.title == title), None)

        self.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(ask)

    @property
    def document(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.file.as_uri())

    def open(self, text: str) -> None:
        item = types.TextDocumentItem(self.file.as_uri(), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, text: str, version: int = 2) -> None:
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, self.file.as_uri()),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def actions(
        self, *problems: types.Diagnostic, **context: Any
    ) -> list[types.CodeAction | types.Command]:
        at = types.Range(types.Position(0, 0), types.Position(0, 0))
        given = types.CodeActionContext(list(problems), **context)
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(self.document, at, given)
        )
        return list(found or ())

    async def lenses(self) -> dict[tuple[int, str], types.Command]:
        """By line and title."""
        found = await self.client.text_document_code_lens_async(types.CodeLensParams(self.document))
        return {(one.range.start.line, one.command.title): one.command for one in found or () if one.command}

    async def lens(self, line: int, title: str) -> types.Command:
        """A lens that is there, or comes when the lenses are refreshed."""
        found: dict[tuple[int, str], types.Command] = {}
        for refreshes in range(1, 20):
            if (line, title) in (found := await self.lenses()):
                break
            await until(
                lambda least=refreshes: self.refreshes >= least, f"the lens {title} in {found}", within_s=30
            )
        return found[line, title]

    async def run(self, command: types.Command | str, *arguments: Any, **more: Any) -> Any:
        name = command if isinstance(command, str) else command.command
        given = list(arguments) if isinstance(command, str) else list(command.arguments or ())
        async with asyncio.timeout(60):
            return await self.client.workspace_execute_command_async(
                types.ExecuteCommandParams(command=name, arguments=given, **more)
            )

    def progress(
        self,
    ) -> list[Any]:
        return [step for steps in self.client.progress_reports.values() for step in steps]

    async def ended(self) -> None:
        await until(
            lambda: any(one.kind == "end" for one in self.progress()), "the end of progress", within_s=60
        )

    def messages(self) -> str:
        return "\n".join(one.message for one in self.client.messages)


def make_client() -> LanguageClient:
    """pytest-lsp's client, whose lsprotocol takes every code action with a command for a bare command."""
    client = LanguageClient(converter_factory=converter)
    register_lsp_features(client)
    return client


def converter() -> Converter:
    made = default_converter()

    def action(value: Any, _: object) -> types.Command | types.CodeAction:
        cls = types.Command if isinstance(value.get("command"), str) else types.CodeAction
        return made.structure(value, cls)

    made.register_structure_hook(types.Command | types.CodeAction, action)
    return made


class House:
    """A workspace with its daemon, and the editors that attach to it."""

    def __init__(self, command_line: CommandLine) -> None:
        self.command_line = command_line
        self.workspace = command_line.workspace
        (self.workspace / "rates.py").write_text(RATES)
        self.editors: list[Editor] = []

    async def editor(
        self, script: list[list[dict[str, Any]]], able: types.ClientCapabilities = ABLE, **options: Any
    ) -> Editor:
        model = self.command_line.script(*script)
        self.command_line.have_daemon()
        arguments = ("connect", "--stdio", "--workspace", str(self.workspace))
        config = ClientServerConfig(
            server_command=[*PROGRAM, *arguments],
            client_factory=make_client,
            server_env=self.command_line.env,
        )
        client = await config.start()
        assert isinstance(client, LanguageClient)
        editor = Editor(client, self.workspace)
        self.editors.append(editor)
        given = {
            "protocolVersion": PROTOCOL_VERSION,
            "client": "Plain",
            "settings": {"model": model},
            **options,
        }
        await client.initialize_session(
            types.InitializeParams(able, root_uri=self.workspace.as_uri(), initialization_options=given)
        )
        return editor

    async def close(self) -> None:
        for editor in self.editors:
            server = editor.client._server
            if server is not None and server.returncode is None:
                server.kill()
            await editor.client.stop()


@pytest.fixture
async def house(goalwright: CommandLine) -> AsyncIterator[House]:
    house = House(goalwright)
    yield house
    await house.close()
    await asyncio.to_thread(goalwright.end)
    assert "Traceback" not in goalwright.log(), goalwright.log()


def titled(actions: list[types.CodeAction | types.Command], title: str) -> types.Command:
    found = next(one for one in actions if one.title == title)
    assert isinstance(found, types.CodeAction)
    assert found.command is not None
    return found.command


FIX = "Fix with Goalwright: LOCAL is too dear for parcels"


async def test_code_actions_are_commands_that_carry_the_diagnostic(house: House) -> None:
    editor = await house.editor([])
    editor.open(RATES)
    actions = await editor.actions(PROBLEM, OTHER)
    fixes = [one for one in actions if isinstance(one, types.CodeAction) and one.kind == "quickfix"]
    assert [one.title for one in fixes] == [
        FIX,
        "Fix with Goalwright: a second thing",
        "Fix all 2 problems here with Goalwright",
        "Explain with Goalwright: these 2 problems",
    ]
    assert list(fixes[0].diagnostics or ()) == [PROBLEM]
    assert [one.edit or one.is_preferred for one in fixes] == [None] * 4
    assert fixes[0].command and fixes[0].command.arguments
    (argument,) = cast("Any", fixes[0].command.arguments)
    assert argument["uri"] == editor.file.as_uri()
    assert argument["version"] == 1
    assert argument["diagnostics"][0]["code"] == "E42"


async def test_fix_action_reports_progress_asks_and_shows_the_result(house: House) -> None:
    # The second answer takes its time: most machines tell the editor of the reading meanwhile.
    slow = {**CHANGE[1], "delay_ms": 1_000}
    editor = await house.editor([[CHANGE[0], slow, {"text": FIXED + " So far." * 100}]])
    editor.open(RATES)
    editor.person_answers("Show diff", "Accept")
    begun = await editor.run(titled(await editor.actions(PROBLEM), FIX))
    assert set(begun) == {"sessionId", "promptId"}
    await editor.ended()
    await until(lambda: FIXED in editor.messages(), "the answer as a message", within_s=60)
    # A document that nobody asked for would take the place of the code.
    assert len(editor.documents) == 1
    title = "Show Goalwright's last answer"
    assert f"more characters)\nThe code action “{title}” opens all of it." in editor.messages()
    (show,) = [one for one in await editor.actions() if one.title == title]
    assert isinstance(show, types.CodeAction) and show.command is not None
    await editor.run(show.command)
    await until(lambda: len(editor.documents) == 2, "the answer", within_s=60)
    assert [one.take_focus for one in editor.client.shown_documents] == [False, False]
    assert editor.file.read_text() == CHEAPER
    assert "-LOCAL = 400" in editor.documents[0]
    assert FIXED in editor.documents[1]
    assert "shipped" not in editor.asked[0].message
    assert "the built-in rule edit" in editor.asked[0].message
    assert [one.title for one in editor.asked[0].actions or ()] == ["Accept", "Reject", "Show diff"]
    steps = editor.progress()
    assert isinstance(steps[0], types.WorkDoneProgressBegin)
    assert steps[0].title == "Goalwright: Fix rates.py:1"
    assert steps[0].cancellable
    said = [one.message or "" for one in steps]
    assert any(one.startswith(("read ", "write ")) for one in said), said
    assert any(one.startswith("waiting for your answer") for one in said)
    assert isinstance(steps[-1], types.WorkDoneProgressEnd)


async def test_hunks_are_decided_one_by_one_and_sent_with_the_last(house: House) -> None:
    editor = await house.editor([CHANGE])
    editor.open(RATES)
    editor.person_answers()
    await editor.run(titled(await editor.actions(PROBLEM), FIX))
    reject = await editor.lens(11, "Reject")
    accept = await editor.lens(0, "Accept")
    assert set(await editor.lenses()) == {
        (0, "Accept all 2 changes"),
        (0, "Reject all"),
        (0, "Show diff"),
        (0, "Accept"),
        (0, "Reject"),
        (11, "Accept"),
        (11, "Reject"),
    }
    await editor.run(reject)
    assert (11, "Rejected (accept instead)") in await editor.lenses()
    assert (0, "Accept the other change") in await editor.lenses()
    assert editor.file.read_text() == RATES
    await editor.run(accept)
    await editor.ended()
    assert editor.file.read_text() == RATES.replace("400", "350")
    assert await editor.lenses() == {}
    with pytest.raises(JsonRpcException, match="This request is no longer open:"):
        await editor.run(accept)


async def test_change_cannot_be_accepted_after_the_user_edited_it(house: House) -> None:
    editor = await house.editor([[*CHANGE[:2], {"text": "Then not."}]])
    editor.open(RATES)
    editor.person_answers()
    await editor.run(titled(await editor.actions(PROBLEM), FIX))
    accept = await editor.lens(11, "Accept")
    editor.change("# rates\n" + RATES)
    with pytest.raises(
        JsonRpcException, match="was changed in the editor since this was proposed, so it cannot be accepted"
    ):
        await editor.run(accept)
    lenses = await editor.lenses()
    assert (12, "Reject") in lenses, "placed where the line is now"
    assert editor.file.read_text() == RATES
    editor.change(RATES, 3)
    await editor.run((await editor.lenses())[0, "Reject all"])
    await editor.ended()
    assert editor.file.read_text() == RATES


async def test_cancel_of_the_progress_stops_the_turn(house: House) -> None:
    editor = await house.editor([[{"text": "slow " * 200, "chunk": 1, "delay_ms": 50}]])
    editor.open(RATES)
    await editor.run(titled(await editor.actions(PROBLEM), FIX))
    await until(lambda: len(editor.client.progress_reports) == 1, "progress", within_s=60)
    (token,) = editor.client.progress_reports
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await editor.ended()
    assert editor.progress()[-1].message == "stopped"
    await until(lambda: "Goalwright was stopped" in editor.messages(), "the result", within_s=60)
    assert editor.documents == []


async def test_cancel_of_a_waiting_turn_is_said_too(house: House) -> None:
    editor = await house.editor([[{"text": "slow " * 200, "chunk": 1, "delay_ms": 50}]])
    editor.open(RATES)
    fix = titled(await editor.actions(PROBLEM), FIX)
    await editor.run(fix)
    await until(lambda: len(editor.client.progress_reports) == 1, "progress", within_s=60)
    (first,) = editor.client.progress_reports
    await editor.run(fix)
    await until(lambda: len(editor.client.progress_reports) == 2, "the second progress", within_s=60)
    (waiting,) = editor.client.progress_reports.keys() - {first}
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(waiting))
    await until(lambda: "Goalwright was stopped" in editor.messages(), "the result", within_s=60)
    assert not [one for one in editor.client.progress_reports[first] if cast("Any", one).kind == "end"]
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(first))
    await until(lambda: [one.kind for one in editor.progress()].count("end") == 2, "both ends", within_s=60)


async def test_command_with_client_work_done_token_ends_with_the_turn(house: House) -> None:
    editor = await house.editor([[{"text": FIXED}]], types.ClientCapabilities())
    editor.open(RATES)
    argument = {"uri": editor.file.as_uri(), "range": None}
    with pytest.raises(JsonRpcException, match="has not answered anything"):
        await editor.run("goalwright.showAnswer")
    await editor.run("goalwright.explain", argument, work_done_token="mine")
    kinds = [cast("Any", one).kind for one in editor.client.progress_reports["mine"]]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    await until(lambda: FIXED in editor.messages(), "the answer as a message", within_s=60)


async def test_limited_client_gets_commands_and_can_answer_with_one(house: House) -> None:
    editor = await house.editor([CHANGE], types.ClientCapabilities())
    editor.open(RATES)
    actions = await editor.actions(PROBLEM)
    assert all(isinstance(one, types.Command) for one in actions)
    fix = next(one for one in actions if one.title == FIX)
    assert isinstance(fix, types.Command)
    await editor.run(fix)
    # Its library answers questions with an error.
    await until(lambda: "goalwright.acceptChanges" in editor.messages(), "what can be done", within_s=60)
    await editor.run("goalwright.acceptChanges")
    await until(lambda: FIXED in editor.messages(), "the answer", within_s=60)
    assert editor.file.read_text() == CHEAPER
    assert editor.progress() == []


async def test_answer_in_one_editor_closes_the_question_in_all(house: House) -> None:
    editor = await house.editor([CHANGE])
    second = await house.editor([CHANGE], client="Second")
    editor.open(RATES)
    second.open(RATES)
    editor.person_answers()
    await editor.run(titled(await editor.actions(PROBLEM), FIX))
    await second.run(await second.lens(0, "Accept all 2 changes"))
    await editor.ended()
    assert editor.file.read_text() == CHEAPER
    assert await editor.lenses() == {}


async def test_a_client_with_a_chat_is_handed_the_prompt(house: House) -> None:
    editor = await house.editor([], chat=True)
    editor.open(RATES)
    editor.change(RATES.replace("400", "444"))
    made = await editor.run(titled(await editor.actions(PROBLEM), FIX))
    assert made["kind"] == "prompt"
    assert made["text"].startswith("Fix this problem in @rates.py:1.\n")
    assert "> error in line 1 (checker, E42): LOCAL is too dear\n> for parcels" in made["text"]
    assert "1\tLOCAL = 444" in made["text"]
    assert "not saved yet" in made["text"]
    at = {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}}
    asked = await editor.run("goalwright.ask", {"uri": editor.file.as_uri(), "range": at})
    assert asked == {"kind": "reference", "text": "@rates.py:1-2 "}


async def test_ask_offers_choices_unless_the_question_is_given(
    house: House,
) -> None:
    editor = await house.editor([[{"text": "One."}], [{"text": "Two."}]])
    editor.open(RATES)
    editor.person_answers("Look for mistakes")
    await editor.run("goalwright.ask", {"uri": editor.file.as_uri()})
    await until(lambda: any("One." in one for one in editor.documents), "the answer", within_s=60)
    await editor.run("goalwright.ask", {"uri": editor.file.as_uri(), "question": "Why?"})
    await until(lambda: any("Two." in one for one in editor.documents), "the answer", within_s=60)
    assert len(editor.asked) == 1


async def test_untrusted_folder_offers_no_code_actions_that_edit(house: House) -> None:
    editor = await house.editor([], trusted=False)
    editor.open(RATES)
    actions = await editor.actions(PROBLEM)
    assert [one.title for one in actions] == [
        "Explain with Goalwright: LOCAL is too dear for parcels",
        "Explain this line with Goalwright",
        "Ask Goalwright about this line",
    ]
    with pytest.raises(JsonRpcException, match="This folder is not trusted, so nothing is changed in it"):
        await editor.run("goalwright.fix", {"uri": editor.file.as_uri(), "diagnostics": [{"message": "x"}]})


async def test_invalid_command_returns_an_error_and_daemon_survives(house: House) -> None:
    editor = await house.editor([])
    for command, arguments, words in [
        ("goalwright.nothing", [], "There is no command goalwright.nothing"),
        ("goalwright.fix", [], "uri"),
        ("goalwright.fix", [{"uri": editor.file.as_uri()}], "no problem to fix"),
        ("goalwright.fix", [{"uri": 5}], "uri"),
        ("goalwright.explain", ["text"], "goalwright.explain"),
        ("goalwright.explain", [{"uri": "untitled:1"}], "files on disk"),
        ("goalwright.explain", [{"uri": (house.workspace / "none.py").as_uri()}], "cannot be read"),
        ("goalwright.acceptHunk", [{"requestId": "perm_x", "path": "a", "hunk": 0}], "Nothing was done"),
        ("goalwright.acceptChanges", [], "No request is waiting"),
    ]:
        with pytest.raises(JsonRpcException, match=words):
            await editor.run(command, *arguments)
    assert await editor.lenses() == {}
    await editor.client.shutdown_session()


QUESTION = {"question": "Which rate?", "options": ["350", {"label": "380", "description": "as last year"}]}
ASKS = [{"tool_calls": [{"name": "question", "input": {"questions": [QUESTION]}}]}, {"text": FIXED}]


async def test_a_question_of_the_model_is_answered_by_a_button(house: House) -> None:
    editor = await house.editor([ASKS])
    editor.open(RATES)
    editor.person_answers("380")
    await editor.run(titled(await editor.actions(PROBLEM), FIX))
    await editor.ended()
    (asked,) = editor.asked
    assert [action.title for action in asked.actions or ()] == ["350", "380", "Skip", "Answer in a terminal"]
    assert asked.message.splitlines() == [
        "Goalwright asks:",
        "Which rate?",
        "  1. 350",
        "  2. 380 — as last year",
    ]
    await until(lambda: FIXED in editor.messages(), "the answer", within_s=60)


async def test_answer_command_takes_free_text_to_a_model_question(house: House) -> None:
    editor = await house.editor([ASKS], types.ClientCapabilities())
    editor.open(RATES)
    fix = next(one for one in await editor.actions(PROBLEM) if one.title == FIX)
    assert isinstance(fix, types.Command)
    with pytest.raises(JsonRpcException, match="No question is waiting"):
        await editor.run("goalwright.answer", {"answers": [{"text": "365"}]})
    await editor.run(fix)
    await until(lambda: "goalwright.answer" in editor.messages(), "what can be done", within_s=60)
    with pytest.raises(JsonRpcException, match="'400' is not an option of"):
        await editor.run("goalwright.answer", {"answers": [{"chosen": ["400"]}]})
    await editor.run("goalwright.answer", {"answers": [{"text": "365"}]})
    await until(lambda: FIXED in editor.messages(), "the answer", within_s=60)
