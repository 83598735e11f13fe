"""Instruction files of other programs, their scopes, and imports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.context.instruction_text import MAX_DEPTH
from daemon.context.instructions import MAX_INSTRUCTIONS, ON_DEMAND, NestedInstructions, read_instructions
from daemon.context.rule_files import MAX_FILE, parse
from tests.support.drivers.core import daemon, results
from tests.support.fakes.models import Call


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    return workspace, home


def shown(workspace: Path, home: Path, *, trusted: bool = True) -> dict[str, str]:
    found = read_instructions(workspace, home, trusted=trusted)
    return {path.removeprefix(f"{workspace}/"): text for path, text in found.items()}


# -- scopes --


def test_files_for_the_whole_project_come_in_a_stable_order(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    names = {
        "AGENTS.md": "1", ".github/copilot-instructions.md": "2", ".cursorrules": "3",
        ".github/instructions/a.instructions.md": '---\napplyTo: "**"\n---\n4',
        ".cursor/rules/b.mdc": "---\ndescription: d\nglobs:\nalwaysApply: true\n---\n5",
        ".clinerules/c.md": "6",
    }  # fmt: skip
    for name, text in reversed(names.items()):
        put(workspace / name, text)
    assert shown(workspace, home) == dict(zip(names, "123456", strict=True))
    assert shown(workspace, home, trusted=False) == {"AGENTS.md": "1"}


def test_cline_rules_may_be_one_file(folders: tuple[Path, Path]) -> None:
    put(folders[0] / ".clinerules", "Be brief.")
    assert shown(*folders) == {".clinerules": "Be brief."}


@pytest.mark.parametrize(
    ("folder", "head", "always", "globs"),
    [
        (
            ".cursor/rules",
            "globs: *.ts,src/**/*.{js,jsx}\nalwaysApply: false",
            False,
            ("*.ts", "src/**/*.{js,jsx}"),
        ),
        (".cursor/rules", "globs:\n  - '*.ts'\n  - ./docs/", False, ("*.ts", "docs/**")),
        (".cursor/rules", 'globs: ["a.py", "b.py"]', False, ("a.py", "b.py")),
        (".cursor/rules", "alwaysApply: false", False, ()),
        (".github/instructions", "applyTo: '**/*.py'", False, ("**/*.py",)),
        (".github/instructions", "description: none", False, ()),
        (".clinerules", "paths:\n  - src/**", False, ("src/**",)),
        (".clinerules", "author: me", True, ()),
    ],
)
def test_scopes_are_read_as_their_programs_write_them(
    folder: str, head: str, always: bool, globs: tuple[str, ...]
) -> None:
    rule = parse(folder, "x", f"---\n{head}\n---\n\nThe rule.")
    assert (rule.text, rule.always, rule.globs) == ("The rule.", always, globs)


async def test_a_rule_comes_with_the_first_file_that_it_is_about(tmp_path: Path) -> None:
    put(tmp_path / ".cursor/rules/py.mdc", "---\nglobs: *.py\n---\nType everything.")
    put(tmp_path / ".github/instructions/ts.instructions.md", "---\napplyTo: web/**/*.ts\n---\nNo any.")
    put(tmp_path / "web" / "AGENTS.md", "The web.")
    nested = NestedInstructions(tmp_path)
    assert await nested.for_files(["a.txt"], {}) == {}
    first = await nested.for_files(["main.py"], {})
    assert first == {".cursor/rules/py.mdc": "Type everything."}
    assert await nested.for_files(["sub/other.py"], first) == {}
    assert await nested.for_files(["web/src/a.ts"], {}) == {
        "web/AGENTS.md": "The web.",
        ".github/instructions/ts.instructions.md": "No any.",
    }
    assert await nested.for_files(["node_modules/x/a.py", "/etc/a.py", "../a.py"], {}) == {}
    assert await NestedInstructions(tmp_path, trusted=False).for_files(["main.py"], {}) == {}
    assert await nested.for_files(["main.py"], {}, readable=lambda name: False) == {}
    # A changed file is shown again.
    put(tmp_path / ".cursor/rules/py.mdc", "---\nglobs: *.py\n---\nType nothing.")
    assert await nested.for_files(["main.py"], first) == {".cursor/rules/py.mdc": "Type nothing."}


def test_described_rules_and_those_beyond_the_limit_are_listed(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace / ".cursor/rules/db.mdc", "---\ndescription: Database migrations\n---\nBack up first.")
    put(workspace / ".cursor/rules/manual.mdc", "Only when it is named.")
    for number in range(4):
        put(workspace / f".clinerules/{number}.md", f"{number}" * MAX_FILE)
    found = shown(workspace, home)
    assert list(found) == [".clinerules/0.md", ".clinerules/1.md", ON_DEMAND]
    assert found[ON_DEMAND].splitlines()[1:] == [
        "- .cursor/rules/db.mdc: Database migrations", "- .clinerules/2.md", "- .clinerules/3.md",
    ]  # fmt: skip


def test_links_and_devices_among_rule_files_are_not_sent(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace.parent / "secret.md", "the user's own notes")
    for name in (".cursorrules", ".clinerules/a.md"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).symlink_to(workspace.parent / "secret.md")
    (workspace / ".clinerules/zero.md").symlink_to("/dev/zero")
    if hasattr(os, "mkfifo"):
        os.mkfifo(workspace / ".clinerules/pipe.md")
    assert shown(workspace, home) == {}


# -- imports --


def test_import_lines_are_replaced_by_their_files(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(
        workspace / "CLAUDE.md",
        "# Rules\n- @docs/style.md\nSee @README.md.\n```\n@docs/style.md\n```\n@types/node",
    )
    put(workspace / "docs/style.md", "Use tabs.\n@more.md")
    put(workspace / "docs/more.md", "Never spaces.")
    put(workspace / "README.md", "hello")
    assert shown(workspace, home)["CLAUDE.md"].splitlines() == [
        "# Rules", "[docs/style.md]", "Use tabs.", "[more.md]", "Never spaces.", "See @README.md.", "```",
        "@docs/style.md", "```", "@types/node",
    ]  # fmt: skip
    assert shown(workspace, home, trusted=False)["CLAUDE.md"].splitlines()[1] == "- @docs/style.md"


def test_import_cycles_and_depth_are_cut(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    put(workspace / "AGENTS.md", "@a.md\n@deep0.md")
    put(workspace / "a.md", "A\n@a.md\n@AGENTS.md")
    for number in range(MAX_DEPTH + 3):
        put(workspace / f"deep{number}.md", f"level {number}\n@deep{number + 1}.md")
    text = shown(workspace, home)["AGENTS.md"]
    assert text.startswith("[a.md]\nA\n@a.md\n@AGENTS.md\n[deep0.md]\nlevel 0\n")
    assert text.endswith(f"level {MAX_DEPTH - 1}\n@deep{MAX_DEPTH}.md")


def test_imports_stay_in_the_workspace_and_below_the_limit(folders: tuple[Path, Path]) -> None:
    workspace, home = folders
    secret = put(workspace.parent / "secret.md", "the user's own notes")
    (workspace / "link.md").symlink_to(secret)
    put(workspace / "denied.md", "denied")
    put(workspace / "binary", "a\0b")
    lines = ["@../secret.md", f"@{secret}", "@link.md", "@~/secret.md", "@denied.md", "@binary", "@/dev/zero"]
    put(workspace / "AGENTS.md", "\n".join(lines))
    found = read_instructions(workspace, home, readable=lambda name: name != "denied.md")
    assert found[str(workspace / "AGENTS.md")].splitlines() == lines
    for number in range(4):
        put(workspace / f"{number}.md", "x" * (MAX_INSTRUCTIONS // 2))
    put(workspace / "AGENTS.md", "@0.md\n@1.md\n@2.md\n@3.md")
    text = shown(workspace, home)["AGENTS.md"]
    assert text.count("x") == MAX_INSTRUCTIONS
    assert text.endswith("@2.md\n@3.md")


async def test_own_file_imports_from_home_and_rules_are_respected(tmp_path: Path) -> None:
    put(
        tmp_path / "home" / "AGENTS.md",
        "@../notes/mine.md\n@../notes/denied.md\n@../.ssh/config\n@trusted.json",
    )
    put(tmp_path / "notes" / "mine.md", "Speak plainly.")
    put(tmp_path / "notes" / "denied.md", "A denied note.")
    put(tmp_path / ".ssh" / "config", "Host secret")
    put(tmp_path / "workspace" / "AGENTS.md", "@.env\n@ok.md")
    put(tmp_path / "workspace" / ".env", "TOKEN=1")
    put(tmp_path / "workspace" / "ok.md", "All is well.")
    put(tmp_path / "workspace" / ".cursorrules", "Hidden by a rule.")
    rules = {"read": {"*": "allow", f"{tmp_path}/notes/denied.md": "deny", ".cursorrules": "deny"}}
    async with daemon(tmp_path, "Done.") as bench:
        await bench.session(settings={"permission": rules}).prompt("Go.")
        text = "\n".join(block.text for block in bench.models.requests[0].system)
        assert "Speak plainly." in text
        assert "All is well." in text
        for secret in (
            "A denied note.",
            "Host secret",
            "TOKEN",
            "Hidden",
            str(tmp_path / "workspace") + '"]',
        ):
            assert secret not in text, secret


async def test_rules_ask_for_everything_and_instructions_still_count(tmp_path: Path) -> None:
    put(tmp_path / "workspace" / "AGENTS.md", "Use tabs.")
    async with daemon(tmp_path, "Done.") as bench:
        await bench.session(settings={"permission": {"*": "ask"}}).prompt("Go.")
        assert "Use tabs." in "\n".join(block.text for block in bench.models.requests[0].system)


async def test_scoped_rule_follows_the_result_about_its_file(tmp_path: Path) -> None:
    put(tmp_path / "workspace" / ".cursor/rules/py.mdc", "---\nglobs: *.py\n---\nType everything.")
    put(tmp_path / "workspace" / "a.py", "x = 1\n")
    read = Call("read", {"file_path": "a.py"})
    async with daemon(tmp_path, read, read, "Done.") as bench:
        session = bench.session()
        await session.prompt("Go.")
        first, second = (one.content for one in results(session.state.messages))
        assert first.endswith('<instructions file=".cursor/rules/py.mdc">\nType everything.\n</instructions>')
        assert "Type everything." not in second
