"""Slash commands in Markdown files: found, parsed, expanded, and what the session makes of them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from daemon.agents.own_files import MAX_FILE
from daemon.loop.attachments import attached
from daemon.loop.command_use import NamedFile, named_files
from daemon.loop.session import Session
from daemon.model.events import Notice
from daemon.model.messages import AgentPart, CommandPart, Message, SubtaskPart, TextPart
from daemon.model.permissions import Trust
from daemon.skills.commands import Commands, FoundCommands, expanded
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import Step
from tests.support.scenarios.subagents import with_subagents
from tools.tool import ToolError

USER = "home/commands"
"""``~/.goalwright/commands`` of these tests."""
THEIRS = "workspace/.claude/commands"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def found(tmp_path: Path, trust: Trust = "trusted") -> FoundCommands:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    return Commands((tmp_path / "workspace").resolve(), tmp_path / "home").all(trust)


# -- finding --


def test_commands_are_named_after_their_folder_and_file(tmp_path: Path) -> None:
    nearest_first = ["workspace/.goalwright/commands", THEIRS, USER, ".claude/commands"]
    for number, place in enumerate(nearest_first):
        for later in range(number + 1):
            put(tmp_path / place / "git" / f"Do{later}.md", place)
    put(tmp_path / USER / "notes.txt", "no command")
    put(tmp_path / USER / ".hidden" / "x.md", "no command")
    put(tmp_path / USER / "a b.md", "no command")
    told = {name: one.text for name, one in found(tmp_path).commands.items()}
    assert told == {f"git:do{at}": place for at, place in enumerate(nearest_first)}
    told = {name: one.text for name, one in found(tmp_path, "unknown").commands.items()}
    assert set(told.values()) == set(nearest_first[2:])


def test_front_matter_of_other_programs_is_read(tmp_path: Path) -> None:
    head = (
        "description: Fix an issue\nargument-hint: [issue] [priority]\nallowed-tools: Bash(git add:*), Read"
    )
    put(tmp_path / USER / "fix.md", f"---\n{head}\nagent: plan\nmodel: fake/small\n---\nFix $1.")
    put(tmp_path / USER / "bare.md", "# Tidy up\nAll of it.")
    put(tmp_path / USER / "alias.md", "---\nmodel: haiku\n---\nGo.")
    fix, bare, alias = (found(tmp_path).commands[name] for name in ("fix", "bare", "alias"))
    assert (fix.description, fix.hint, fix.agent, fix.model) == (
        "Fix an issue", "[issue] [priority]", "plan", "fake/small",
    )  # fmt: skip
    assert (bare.description, bare.takes_arguments) == ("Tidy up", False)
    assert alias.model == ""
    assert [one.partition("/commands/")[2] for one in found(tmp_path).problems] == [
        "alias.md: 'haiku' is not of the form provider/model: the session's model is used"
    ]


def test_unusable_command_files_are_reported(tmp_path: Path) -> None:
    put(tmp_path / "secret.md", "the user's own notes")
    (tmp_path / THEIRS).mkdir(parents=True)
    (tmp_path / THEIRS / "out.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / THEIRS / "zero.md").symlink_to("/dev/zero")
    put(tmp_path / THEIRS / "large.md", "x" * (MAX_FILE + 1))
    put(tmp_path / THEIRS / "broken.md", "---\ndescription: [\n---\nx")
    put(tmp_path / THEIRS / "empty.md", "---\ndescription: d\n---\n")
    told = found(tmp_path)
    assert not told.commands
    assert [Path(one.partition(":")[0]).stem for one in told.problems] == [
        "broken", "empty", "large", "out", "zero",
    ]  # fmt: skip


# -- arguments --


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("Fix $ARGUMENTS, only $ARGUMENTS.", "$1 a", "Fix $1 a, only $1 a."),
        ("Move $1 to $2.", "'a b' c d", "Move a b to c."),
        ("Move $1 to $2.", "don't", "Move don't to ."),
        ("It costs $10 or $x.", "", "It costs $10 or $x."),
        ("Tidy up.", "src", "Tidy up.\n\nsrc"),
        ("Tidy up.", "", "Tidy up."),
    ],
)
def test_arguments_take_their_places(template: str, arguments: str, text: str) -> None:
    assert expanded(template, arguments) == text


def test_files_in_a_text_are_found_as_in_the_composer() -> None:
    text = 'See @src/a.py, (@b.md:3-9) and "@c.py:4"; not me@example.com, @docs/ or @ alone. @src/a.py'
    assert named_files(text) == [
        NamedFile("src/a.py"), NamedFile("b.md", 3, 9), NamedFile("c.py", 4, 4),
    ]  # fmt: skip
    assert [one.name for one in named_files(text)] == ["src/a.py", "b.md:3-9", "c.py:4"]


# -- in a session --


def said(session: Session, at: int = 0) -> Message:
    return [message for message in session.state.messages if message.role == "user"][at]


def sent(bench: Bench) -> str:
    (message,) = bench.models.requests[0].messages
    return "\n".join(getattr(part, "text", "") for part in message.content)


async def test_a_command_is_shown_as_typed_and_sent_in_full(tmp_path: Path) -> None:
    put(tmp_path / THEIRS / "fix.md", "---\nmodel: fake/small\n---\nFix issue $1 well.")
    async with daemon(tmp_path, "Done.", "Done.") as bench:
        session = bench.session()
        await session.prompt("/fix 12")
        typed, meant = said(session).content
        assert (typed, meant) == (CommandPart(text="/fix 12"), TextPart(text="Fix issue 12 well."))
        assert said(session).description == "/fix 12"
        assert session.state.trace.title == "/fix 12"
        assert sent(bench) == "Fix issue 12 well."
        # Its model answers this prompt only.
        assert bench.models.requests[0].model == "small"
        assert session.model == "fake/model"
        await session.prompt("And now?")
        assert bench.models.requests[-1].model == "model"


@pytest.mark.parametrize("text", ["/etc/hosts is wrong", "/none 1", "/fix:more", "see /fix"])
async def test_other_prompts_with_a_slash_stay_as_they_are(tmp_path: Path, text: str) -> None:
    put(tmp_path / THEIRS / "fix.md", "Fix it.")
    async with daemon(tmp_path, "Done.") as bench:
        session = bench.session()
        await session.prompt(text)
        assert said(session).content == (TextPart(text=text),)


async def test_commands_of_an_untrusted_folder_are_plain_text(tmp_path: Path) -> None:
    put(tmp_path / THEIRS / "fix.md", "Fix it.")
    async with daemon(tmp_path, "Done.", trusted=False) as bench:
        session = bench.session()
        await session.prompt("/fix 12")
        assert said(session).content == (TextPart(text="/fix 12"),)
        told = [one.text for one in bench.events(Notice) if "sent as text" in one.text]
        assert told == [
            "/fix is sent as text: the commands of this folder are not used, because the folder is not trusted."
        ]


async def test_unknown_and_broken_commands_are_announced_as_text(tmp_path: Path) -> None:
    put(tmp_path / THEIRS / "broken.md", "---\ndescription: [\n---\nx")
    async with daemon(tmp_path, "Done.", "Done.", "Done.") as bench:
        session = bench.session()
        for prompt in ("/nope 12", "/broken 12", "/usr/bin is full"):
            await session.prompt(prompt)
        first, second = [one.text for one in bench.events(Notice) if "sent as text" in one.text]
        assert first == "/nope is sent as text: there is no such command."
        assert second.startswith("/broken is sent as text: ") and "broken.md" in second


async def test_commands_that_rules_deny_to_read_do_not_exist(tmp_path: Path) -> None:
    put(tmp_path / THEIRS / "fix.md", "Fix it.")
    async with daemon(tmp_path, "Done.") as bench:
        session = bench.session(settings={"permission": {"read": {"*": "allow", ".claude/*": "deny"}}})
        await session.prompt("/fix")
        assert said(session).content == (TextPart(text="/fix"),)


async def test_agent_of_a_command_takes_over_or_does_the_task(tmp_path: Path) -> None:
    for agent in ("plan", "explore", "gone"):
        put(tmp_path / USER / f"{agent}.md", f"---\nagent: {agent}\n---\nDo $1.")
    models: dict[str, list[Step]] = {"s1": ["Found."]}
    async with with_subagents(tmp_path, ["One.", "Two.", "Three.", "Four."], models) as (bench, _):
        session = bench.session()
        for agent in ("explore", "gone", "plan"):
            await session.prompt(f"/{agent} it")
        users = [message.content[:2] for message in session.state.messages if message.role == "user"]
        assert users[0][1] == SubtaskPart(agent="explore", prompt="Do it.")
        assert users[1][1] == TextPart(text="Do it.")
        assert users[2][1] == AgentPart(agent="plan")
        assert session.agent.name == "plan"
        await session.prompt("/plan again")
        assert said(session, -1).content[1:] == (TextPart(text="Do again."),)
        assert any("There is no agent gone" in one.text for one in bench.events(Notice))


async def test_files_that_a_command_names_are_attached_by_the_rules(tmp_path: Path) -> None:
    put(tmp_path / THEIRS / "look.md", "Look at @a.py:2-3 and @$1, not @gone.py.")
    put(tmp_path / "workspace" / "a.py", "one\ntwo\nthree\nfour\n")
    put(tmp_path / "workspace" / "b.py", "b\n")
    put(tmp_path / "workspace" / "secret.py", "s\n")
    rules = {"permission": {"read": {"*": "allow", "secret.py": "deny"}}}
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=rules)
        parts = await attached(session, (), "p1", "/look b.py")
        assert [(part.name, base64.b64decode(part.data or "")) for part in parts] == [
            ("a.py:2-3", b"two\nthree\n"), ("b.py", b"b\n"),
        ]  # fmt: skip
        with pytest.raises(ToolError, match="secret"):
            await attached(session, (), "p2", "/look secret.py")
        assert await attached(session, (), "p3", "Look at @a.py.") == ()
        too_long = await attached(session, (), "p4", "/look " + "b" * 300)
        assert [part.name for part in too_long] == ["a.py:2-3"]


async def test_a_skill_is_called_by_its_name(tmp_path: Path) -> None:
    put(tmp_path / "home/skills/pdf/SKILL.md", "---\ndescription: d\n---\nFill forms.")
    closed = "---\ndescription: d\nuser-invocable: false\n---\nFor the model."
    put(tmp_path / "home/skills/inner/SKILL.md", closed)
    async with daemon(tmp_path, "Done.", "Done.") as bench:
        session = bench.session()
        await session.prompt("/pdf form.pdf")
        typed, meant = said(session).content
        assert typed == CommandPart(text="/pdf form.pdf")
        assert isinstance(meant, TextPart)
        assert "Fill forms." in meant.text
        assert meant.text.endswith("\n\nform.pdf")
        await session.prompt("/inner")
        assert session.state.messages[-2].content == (TextPart(text="/inner"),)
