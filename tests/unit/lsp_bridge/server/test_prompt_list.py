"""The list of slash commands and skills that clients show, and the terminal's form of it."""

from __future__ import annotations

from pathlib import Path

from tests.support.drivers.bridge import served


async def test_commands_and_skills_are_listed_with_their_problems(tmp_path: Path) -> None:
    home, theirs = tmp_path / "home", tmp_path / "workspace" / ".claude"
    for path, text in {
        home / "commands/fix.md": "---\nargument-hint: [issue]\n---\nFix $1.",
        home / "commands/bad.md": "---\n",
        theirs / "commands/fix.md": "Theirs.",
        home / "skills/pdf/SKILL.md": "---\ndescription: PDF\n---\nx",
        home / "skills/fix/SKILL.md": "---\ndescription: Hidden by the command\n---\nx",
        theirs / "skills/deny/SKILL.md": "---\ndescription: Denied\n---\nx",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    settings = {"permission": {"skill": {"*": "allow", "deny": "deny"}}}
    async with served(settings=settings, at=tmp_path) as door:
        client = await door.client()
        found = await client.request("goalwright/prompt/list", {})
    told = [(one["name"], one["kind"], one["source"], one["hint"]) for one in found["commands"]]
    assert told == [("fix", "command", "workspace", ""), ("pdf", "skill", "user", "")]
    listed = {one["name"]: one["listed"] for one in found["skills"]}
    assert listed == {"deny": False, "fix": True, "pdf": True}
    (problem,) = found["problems"]
    assert "bad.md" in problem
