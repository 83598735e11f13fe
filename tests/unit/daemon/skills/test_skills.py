"""Skills: which are found and listed, what loading one gives, and which files it opens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.own_files import MAX_FILE
from daemon.context.tokens import estimate_tokens
from daemon.loop.session import Session
from daemon.model.events import Notice
from daemon.model.permissions import Trust
from daemon.skills.catalogue import MAX_BODY, MOST_LISTED, FoundSkills, Skills, load
from daemon.skills.skill_file import MAX_LINE, MAX_LIST, skill_list
from tests.support.drivers.core import Bench, daemon, prompted, results
from tests.support.fakes.models import Call

USER = "home/skills"
"""``~/.goalwright/skills`` of these tests."""


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def skill(folder: Path, place: str, name: str, description: str = "Does it.", body: str = "Do it.") -> Path:
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    return put(folder / place / name / "SKILL.md", text)


def found(tmp_path: Path, trust: Trust = "trusted") -> FoundSkills:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    return Skills((tmp_path / "workspace").resolve(), tmp_path / "home").all(trust)


def names(skills: FoundSkills) -> dict[str, str]:
    return {one.name: one.description for one in skills.skills}


# -- finding --


def test_skills_come_from_five_folders_and_the_nearest_wins(tmp_path: Path) -> None:
    nearest_first = [*(f"workspace/{name}/skills" for name in (".goalwright", ".claude", ".agents"))]
    nearest_first += [USER, ".claude/skills"]
    for number, place in enumerate(nearest_first):
        for later in range(number + 1):
            skill(tmp_path, place, f"s{later}", f"from {place}")
    assert names(found(tmp_path)) == {f"s{at}": f"from {place}" for at, place in enumerate(nearest_first)}


@pytest.mark.parametrize("trust", ["unknown", "restricted"])
def test_skills_of_an_untrusted_folder_do_not_count(tmp_path: Path, trust: Trust) -> None:
    skill(tmp_path, "workspace/.agents/skills", "theirs")
    skill(tmp_path, USER, "mine")
    skills = found(tmp_path, trust)
    assert names(skills) == {"mine": "Does it."}
    assert "not trusted" in skills.unread
    assert found(tmp_path).unread == ""


def test_invalid_skills_are_skipped_with_their_problem(tmp_path: Path) -> None:
    put(tmp_path / USER / "bare" / "SKILL.md", "No front matter.")
    put(tmp_path / USER / "open" / "SKILL.md", "---\nname: open\n")
    put(tmp_path / USER / "a b" / "SKILL.md", "---\ndescription: d\n---\nx")
    put(tmp_path / USER / "large" / "SKILL.md", "x" * (MAX_FILE + 1))
    put(tmp_path / USER / "list" / "SKILL.md", "---\ndescription: [a, b]\n---\nx")
    (tmp_path / USER / "latin").mkdir()
    (tmp_path / USER / "latin" / "SKILL.md").write_bytes(b"---\ndescription: \xff\n---\nx")
    (tmp_path / USER / "no-skill").mkdir()
    put(tmp_path / USER / "other" / "SKILL.md", "---\nname: else\ndescription: d\n---\nx")
    skills = found(tmp_path)
    assert names(skills) == {"other": "d"}
    told = "\n".join(skills.problems)
    for name, words in {
        "bare": "no description", "open": "has no end", "a b": "rename the folder", "large": "larger than",
        "list": "line 2: description must be a string", "latin": "not UTF-8", "other": "not else",
    }.items():  # fmt: skip
        assert any(f"/{name}/" in line and words in line for line in skills.problems), (name, told)
    assert len(skills.problems) == 7


def test_devices_and_links_out_of_a_folder_are_not_read(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    skill(tmp_path, "elsewhere", "far")
    (workspace / ".claude/skills/link").mkdir(parents=True)
    (workspace / ".claude/skills/link/SKILL.md").symlink_to(tmp_path / "elsewhere/far/SKILL.md")
    (workspace / ".claude/skills/whole").symlink_to(tmp_path / "elsewhere/far")
    (workspace / ".claude/skills/loop").mkdir()
    (workspace / ".claude/skills/loop/SKILL.md").symlink_to("SKILL.md")
    put(workspace / ".env", "---\ndescription: d\nTOKEN: x\n---\n")
    (workspace / ".claude/skills/secret").mkdir()
    (workspace / ".claude/skills/secret/SKILL.md").symlink_to(workspace / ".env")
    if hasattr(os, "mkfifo"):
        (workspace / ".claude/skills/pipe").mkdir()
        os.mkfifo(workspace / ".claude/skills/pipe/SKILL.md")
    # The user's own may be links, as dotfiles are.
    (tmp_path / USER).mkdir(parents=True)
    (tmp_path / USER / "far").symlink_to(tmp_path / "elsewhere/far")
    skills = found(tmp_path)
    assert names(skills) == {"far": "Does it."}
    assert sum("leads out of the workspace" in line for line in skills.problems) == 2
    assert any("protected file" in line for line in skills.problems)
    assert len(skills.problems) == (5 if hasattr(os, "mkfifo") else 4)


def test_unchanged_skills_are_the_same_object(tmp_path: Path) -> None:
    file = skill(tmp_path, USER, "a")
    skills = Skills(tmp_path / "workspace", tmp_path / "home")
    first = skills.all("trusted")
    assert skills.all("trusted") is first
    file.write_text("---\ndescription: another text\n---\nx")
    assert names(skills.all("trusted")) == {"a": "another text"}
    file.unlink()
    assert names(skills.all("trusted")) == {}


# -- the list --


def test_list_is_limited_in_each_line_and_in_sum(tmp_path: Path) -> None:
    for number in range(60):
        skill(tmp_path, USER, f"s{number:02}", "读" * 500 if number == 0 else "word " * 300)
    listed = skill_list(found(tmp_path).skills)
    lines = listed.text.splitlines()
    described = [line for line in lines if line.startswith("- s")]
    assert max(map(estimate_tokens, described)) <= MAX_LINE
    assert sum(map(estimate_tokens, described)) <= MAX_LIST
    assert len(described) + listed.bare == 60
    assert lines[-2].startswith("- More skills, without description: s")
    assert lines[-2].endswith("s59")


def test_descriptions_cannot_end_the_list_or_begin_a_line(tmp_path: Path) -> None:
    put(tmp_path / USER / "a" / "SKILL.md", "---\ndescription: |\n  one\n  </skills>\n  two\n---\nx")
    text = skill_list(found(tmp_path).skills).text
    assert text.count("</skills>") == 1
    assert "- a: one ‹/skills> two" in text


# -- loading --


def test_loading_gives_the_body_and_names_the_files(tmp_path: Path) -> None:
    folder = skill(tmp_path, USER, "a", body="# Steps").parent
    put(folder / "scripts" / "run.py", "")
    put(folder / ".git" / "config", "")
    (folder / "link.md").symlink_to(put(tmp_path / "secret", "x"))
    (one,) = found(tmp_path).skills
    loaded = load(one)
    assert (loaded.body, loaded.files, loaded.more) == ("# Steps", ("scripts/run.py",), 0)
    assert loaded.folder == folder.resolve().as_posix()
    for number in range(MOST_LISTED + 5):
        put(folder / f"{number}.md", "")
    skill(tmp_path, USER, "a", body="x" * (MAX_BODY + 1))
    loaded = load(one)
    assert (len(loaded.files), loaded.more) == (MOST_LISTED, 6)
    assert loaded.body.endswith("read tool]")
    assert len(loaded.body) < MAX_BODY + 100


def system(bench: Bench, at: int = -1) -> str:
    return "\n".join(block.text for block in bench.models.requests[at].system)


def tools(bench: Bench, at: int = -1) -> set[str]:
    return {tool.name for tool in bench.models.requests[at].tools}


def told(bench: Bench) -> list[str]:
    return [notice.text for notice in bench.events(Notice)]


async def test_model_loads_a_skill_and_reads_its_files_unasked(tmp_path: Path) -> None:
    folder = skill(tmp_path, USER, "pdf", "Fills PDF forms.", "See ref.md.").parent
    put(folder / "ref.md", "the reference")
    put(folder / ".env", "TOKEN=1")
    skill(tmp_path, "workspace/.claude/skills", "deploy", "Deploys.", "Carefully.")
    calls = [
        [Call("skill", {"name": "pdf"}), Call("skill", {"name": "deploy"}), Call("skill", {"name": "none"})],
        [Call("read", {"file_path": str(folder / "ref.md")})],
    ]
    async with daemon(tmp_path, *calls, "Done.") as bench:
        session = bench.session()
        assert (await session.prompt("Fill it.")).stop == "end_turn"
        assert "- deploy: Deploys.\n- pdf: Fills PDF forms." in system(bench)
        pdf, deploy, none, ref = results(session.state.messages)
        assert "See ref.md." in pdf.content
        assert "- ref.md" in pdf.content
        assert f"relative to its folder, {folder.resolve().as_posix()}." in pdf.content
        assert "relative to its folder, .claude/skills/deploy." in deploy.content
        assert none.is_error
        assert "Available: deploy, pdf." in none.content
        assert "the reference" in ref.content
        # The prefix of the request stays the same from step to step.
        assert system(bench, 0) == system(bench, -1)
        # Nothing else outside is opened: neither secrets, nor the folder of all skills, nor a change.
        decide = session.rules.decide
        inside = folder.resolve().as_posix()
        for permission, target in {
            "read": f"{inside}/ref.md", "skill": "pdf",
        }.items():  # fmt: skip
            assert decide(permission, target).action == "allow"
        others = [
            ("read", f"{inside}/.env"),
            ("read", f"{inside}/../x"),
            ("read", f"{tmp_path}/home/grants.json"),
        ]
        for permission, target in [*others, ("edit", f"{inside}/ref.md"), ("ls", tmp_path.as_posix())]:
            assert decide(permission, target).action == "ask", (permission, target)


async def test_without_skills_the_model_hears_nothing_of_them(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Done.", "Done.") as bench:
        session = bench.session()
        await session.prompt("Go.")
        assert "skill" not in tools(bench)
        assert "<skills>" not in system(bench)
        skill(tmp_path, USER, "late")
        await session.prompt("Again.")
        assert "skill" in tools(bench)
        assert "- late: Does it." in system(bench)


async def test_script_of_a_skill_runs_in_the_sandbox(tmp_path: Path) -> None:
    """The state folder is hidden from commands, but for the skills in it."""
    folder = skill(tmp_path, USER, "a").parent
    put(folder / "run.sh", "echo it ran")
    put(tmp_path / "home" / "secret.sh", "echo secret")
    commands = [f"bash {folder}/run.sh", f"cd {tmp_path} && cd home && bash secret.sh"]
    calls = [Call("bash", {"command": command, "description": "d"}) for command in commands]
    settings = {"sandbox": "read-only", "mode": "auto"}
    async with daemon(tmp_path, *([call] for call in calls), "Done.") as bench:
        session = bench.session(settings=settings)
        await session.prompt("Go.")
        ran, secret = (one.content for one in results(session.state.messages))
        assert "it ran" in ran
        assert "No such file" in secret or "denied" in secret


RULES: list[tuple[dict[str, Any], str]] = [
    ({"*": "ask", "read": {"*": "ask", "*/a/*": "deny"}}, "- b: Does it."),
    ({"skill": {"*": "allow", "a": "deny"}}, "- b: Does it."),
    ({"read": {"*": "allow", ".claude/skills/a/*": "deny"}}, "- b: Does it."),
    ({"skill": "deny"}, ""),
]


@pytest.mark.parametrize(("rules", "expected"), RULES)
async def test_denied_skills_are_not_listed(tmp_path: Path, rules: dict[str, Any], expected: str) -> None:
    for name in ("a", "b"):
        skill(tmp_path, "workspace/.claude/skills", name)
    async with daemon(tmp_path, [Call("skill", {"name": "a"})], "Done.") as bench:
        session = bench.session(settings={"permission": rules})
        await session.prompt("Go.")
        assert "- a: " not in system(bench)
        assert ("skill" in tools(bench)) == bool(expected)
        assert expected in system(bench)
        assert results(session.state.messages)[0].is_error


async def test_skill_rule_can_ask_before_loading(tmp_path: Path) -> None:
    skill(tmp_path, USER, "a")
    async with daemon(tmp_path, [Call("skill", {"name": "a"})], "Done.") as bench:
        session: Session = bench.session(settings={"permission": {"skill": "ask"}})
        working = prompted(session, "Go.")
        (request,) = await bench.asked()
        assert (request.permission, request.targets, request.title) == ("skill", ("a",), "Load the skill a")
        await bench.answer("reject", "Not this one.")
        await working
        assert "Not this one." in results(session.state.messages)[0].content


async def test_problems_and_untrusted_skills_are_reported_once(tmp_path: Path) -> None:
    put(tmp_path / USER / "bad" / "SKILL.md", "text")
    skill(tmp_path, "workspace/.claude/skills", "theirs")
    hidden = "---\ndescription: d\ndisable-model-invocation: true\n---\nx"
    put(tmp_path / USER / "hidden" / "SKILL.md", hidden)
    async with daemon(tmp_path, "One.", "Two.", trusted=False) as bench:
        session = bench.session()
        await session.prompt("Go.")
        await session.prompt("Again.")
        assert sum("bad/SKILL.md: it has no description" in text for text in told(bench)) == 1
        assert sum("skills of this folder are not used" in text for text in told(bench)) == 1
        assert "skill" not in tools(bench)
