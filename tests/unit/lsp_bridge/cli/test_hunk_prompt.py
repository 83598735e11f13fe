"""The terminal, too, can accept parts of a change, or a text of the user's own."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import stat
import termios
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.cli.console import Console
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.run.command import run
from lsp_bridge.cli.run.conversation import RunOptions
from lsp_bridge.cli.run.hunk_prompt import can_choose, pieces
from lsp_bridge.protocol.handshake import ErrorCode
from lsp_bridge.protocol.permission_text import typed_answer
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, FakeDaemon, RefuseError, Turn

TWO = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+ONE\n@@ -9,2 +9,2 @@ def f\n nine\n-@@ ten\n+TEN\n"
FILES: list[dict[str, Any]] = [
    {"path": "a.py", "diff": TWO, "hunks": 2, "shownHunks": [{"row": 2, "rows": 3}, {"row": 5, "rows": 4}]},
    {"path": "new.py", "diff": "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n", "hunks": 0},
]
ASKED = "[f]eedback: "
PIECE = "[b]ack: "


class Person:
    """Somebody at a terminal, in front of a request for ``FILES``."""

    def __init__(self, fake: FakeDaemon, home: Path) -> None:
        self.fake = fake
        self.out = io.StringIO()
        self.master, slave = pty.openpty()
        self.console = Console(out=self.out, err=self.out, tty=slave, live=True)
        self.launcher = Launcher(home=home, command=("/bin/false",))
        self.replies: list[dict[str, Any]] = []
        fake.script = self._script
        fake.handlers["goalwright/permission/content"] = self._content

    async def _script(self, turn: Turn) -> str:
        self.replies.append(await turn.ask(files=FILES))
        return "end_turn"

    async def _content(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {"before": "one\n", "after": "ONE\n", "binary": False}

    async def types(self, *answers: tuple[str, str]) -> str:
        """Answer question after question; what was shown."""
        running = asyncio.create_task(run(self.options, self.launcher, self.console))
        for text, after in answers:
            await until(lambda after=after: self.out.getvalue().endswith(after), f"the question {after!r}")
            self.out.write("<typed>")
            os.write(self.master, text.encode())
        assert await running == 0
        return self.out.getvalue()

    @property
    def options(self) -> RunOptions:
        return RunOptions(workspace=self.fake.paths.workspace, task="do it")


@pytest.fixture
async def person(tmp_path: Path) -> AsyncGenerator[Person]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        yield Person(fake, tmp_path / "home")


def test_hunks_are_shown_as_the_rows_that_the_daemon_names() -> None:
    first, second = pieces(FILES[0])
    assert first == "@@ -1 +1 @@\n-one\n+ONE"
    assert second == "@@ -9,2 +9,2 @@ def f\n nine\n-@@ ten\n+TEN"


async def test_hunks_that_are_not_shown_are_left_out(person: Person) -> None:
    async def script(turn: Turn) -> str:
        file = {**FILES[0], "shownHunks": FILES[0]["shownHunks"][:1]}
        person.replies.append(await turn.ask(files=[file]))
        return "end_turn"

    person.fake.script = script
    text = await person.types(("h\n", ASKED), ("a\n", PIECE))
    assert "1 more hunk of a.py is not shown here and is left out." in text
    assert "TEN" not in text.split("<typed>", 1)[1]
    assert person.replies[0]["files"] == [{"path": "a.py", "hunks": [0]}]


def test_two_or_more_parts_can_be_chosen_from() -> None:
    assert can_choose({"files": FILES})
    assert not can_choose({"files": FILES[1:]})
    assert not can_choose({"files": [{"path": "a", "hunks": 1}]})
    assert not can_choose({})


async def test_hunk_by_hunk(person: Person) -> None:
    text = await person.types(("h\n", ASKED), ("n\n", PIECE), ("y\n", PIECE), ("n\n", PIECE))
    (reply,) = person.replies
    assert reply["reply"] == "once"
    assert reply["files"] == [{"path": "a.py", "hunks": [1]}, {"path": "new.py", "hunks": []}]
    assert "hunk 2 of 2 of a.py" in text


@pytest.mark.parametrize(
    ("answers", "files"),
    [
        (["a"], [{"path": "a.py", "hunks": [0, 1]}]),
        (["y", "d"], [{"path": "a.py", "hunks": [0]}, {"path": "new.py", "hunks": []}]),
        (["n", "a"], [{"path": "a.py", "hunks": [1]}]),
    ],
)
async def test_the_rest_can_be_answered_at_once(
    person: Person, answers: list[str], files: list[dict[str, Any]]
) -> None:
    await person.types(("h\n", ASKED), *((f"{answer}\n", PIECE) for answer in answers))
    assert person.replies[0]["files"] == files


@pytest.mark.parametrize("answers", [["b"], ["y", "b"], ["d"], ["n", "n", "n"]])
async def test_going_back_or_choosing_nothing_asks_again(person: Person, answers: list[str]) -> None:
    await person.types(("h\n", ASKED), *((f"{answer}\n", PIECE) for answer in answers), ("y\n", ASKED))
    assert person.replies[0]["reply"] == "once"
    assert "files" not in person.replies[0]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that turns ONE into MINE, when it is asked to edit a.py."""
    script = tmp_path / "my editor"
    script.write_text('#!/bin/sh\ncase "$2" in */a.py) sed -i s/ONE/MINE/ "$2";; *) exit 3;; esac\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", f"'{script}' --wait")
    monkeypatch.delenv("VISUAL", raising=False)
    return script


@pytest.mark.usefixtures("editor")
async def test_edited_text_is_sent_as_the_answer(person: Person) -> None:
    await person.types(("e a.py\n", ASKED), ("y\n", "[y]es / [n]o: "))
    (reply,) = person.replies
    assert (reply["reply"], reply["files"]) == ("once", [{"path": "a.py", "text": "MINE\n"}])


@pytest.fixture
def running(editor: Path, tmp_path: Path) -> Path:
    """The file that the editor writes when it has changed the terminal; it runs until that file is gone."""
    running = tmp_path / "editor.pid"
    editor.write_text(
        f"#!/bin/sh\nstty -echo -icanon\necho $$ >'{running}.new'\nmv '{running}.new' '{running}'\n"
        f"while [ -e '{running}' ]; do sleep 0.02; done\nsed -i s/ONE/MINE/ \"$2\"\n"
    )
    return running


async def test_ctrl_c_in_the_editor_is_for_the_editor(person: Person, running: Path) -> None:
    async def press_ctrl_c() -> None:
        await until(running.exists, "the editor")
        os.kill(os.getpid(), signal.SIGINT)
        running.unlink()

    pressing = asyncio.create_task(press_ctrl_c())
    await person.types(("e a.py\n", ASKED), ("y\n", "[y]es / [n]o: "))
    await pressing
    assert person.replies[0]["files"] == [{"path": "a.py", "text": "MINE\n"}]


async def test_an_answer_from_elsewhere_ends_the_editor(person: Person, running: Path) -> None:
    modes = termios.tcgetattr(person.master)

    async def script(turn: Turn) -> str:
        asking = asyncio.create_task(turn.ask(files=FILES))
        await until(running.exists, "the editor")
        person.fake.requests_pending["r1"].set_result({"reply": "once", "by": "VS Code"})
        await asking
        await until(lambda: "(answered by VS Code: once)" in person.out.getvalue(), "the terminal is free")
        return "end_turn"

    person.fake.script = script
    await person.types(("e a.py\n", ASKED))
    with pytest.raises(ProcessLookupError):
        os.kill(int(running.read_text()), 0)
    assert termios.tcgetattr(person.master) == modes


@pytest.mark.usefixtures("editor")
async def test_edit_command_without_a_file_name_asks_for_one(person: Person) -> None:
    text = await person.types(("e\n", ASKED), ("n\n", ASKED))
    assert "Which file? Type: e a.py | new.py" in text


@pytest.mark.usefixtures("editor")
async def test_an_editor_that_fails_loses_nothing(person: Person) -> None:
    text = await person.types(("e new.py\n", ASKED), ("y\n", ASKED))
    assert "The editor failed:" in text
    assert person.replies[0]["reply"] == "once"


async def test_without_an_editor_editing_is_not_offered(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    assert "[e]dit" not in await person.types(("y\n", ASKED))


async def test_a_choice_that_the_daemon_refuses_is_asked_again(person: Person) -> None:
    reply = person.fake.handlers["goalwright/permission/reply"]

    async def refuse_parts(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("files"):
            raise RefuseError(ErrorCode.INVALID_PARAMS, "a.py cannot hold that")
        return await reply(connection, params)

    person.fake.handlers["goalwright/permission/reply"] = refuse_parts
    text = await person.types(("h\n", ASKED), ("a\n", PIECE), ("y\n", ASKED))
    assert "cannot hold that" in text
    assert person.replies[0]["reply"] == "once"


DATABASE = {
    "text": "Which database?",
    "options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}],
    "multiple": False,
}
EXTRAS = {"text": "Which extras?", "options": [{"label": "cache"}, {"label": "logs"}], "multiple": True}
WHY = {"text": "Why?", "options": []}


async def answer_questions(person: Person, *answers: tuple[str, str]) -> str:
    async def script(turn: Turn) -> str:
        person.replies.append(await turn.ask(questions=[DATABASE, EXTRAS, WHY], permission="question"))
        return "end_turn"

    person.fake.script = script
    return await person.types(*answers)


SKIP = "(Enter: skip): "


async def test_model_questions_are_answered_by_number_or_text(person: Person) -> None:
    text = await answer_questions(person, ("1\n", SKIP), ("2, 1\n", SKIP), ("It is small.\n", SKIP))
    (reply,) = person.replies
    assert reply["reply"] == "once"
    assert reply["answers"] == [
        {"chosen": ["SQLite"], "text": ""},
        {"chosen": ["logs", "cache"], "text": ""},
        {"chosen": [], "text": "It is small."},
    ]
    assert "1. SQLite — one file" in text
    assert "Number or several (1,3), or your own words" in text
    assert "asked because" not in text


async def test_invalid_option_numbers_are_asked_again(person: Person) -> None:
    text = await answer_questions(
        person, ("9\n", SKIP), ("1,2\n", SKIP), ("2\n", SKIP), ("3\n", SKIP), ("1\n", SKIP), ("\n", SKIP)
    )
    (reply,) = person.replies
    assert [answer["chosen"] for answer in reply["answers"]] == [["PostgreSQL"], ["cache"], []]
    assert text.count("Choose one number from 1 to 2.") == 2
    assert text.count("  Choose numbers from 1 to 2.") == 1


async def test_questions_that_are_all_skipped_are_refused_as_a_whole(person: Person) -> None:
    await answer_questions(person, ("\n", SKIP), ("\n", SKIP), (" \n", SKIP))
    assert person.replies[0]["reply"] == "reject"
    assert "answers" not in person.replies[0]


@pytest.mark.parametrize(
    ("line", "question", "chosen"),
    [
        ("2", DATABASE, ["PostgreSQL"]),
        ("1 2", DATABASE, None),  # only one may be chosen
        ("3", DATABASE, None),
        ("1,9", EXTRAS, None),
        ("1 but in memory", DATABASE, []),
        ("1 2 2", EXTRAS, ["cache", "logs"]),
        ("5", WHY, []),
    ],
)
def test_typed_line_is_parsed_as_choice_or_text(
    line: str, question: dict[str, Any], chosen: list[str] | None
) -> None:
    answer = typed_answer(question, line)
    if chosen is None:
        assert answer is None
    else:
        assert answer == {"chosen": chosen, "text": "" if chosen else line}
