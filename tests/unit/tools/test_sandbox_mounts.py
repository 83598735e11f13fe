"""What the sandbox mounts: files with several names."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import BashInput, BashTool
from tools.sandbox import mounts
from tools.sandbox import prepare as preparing
from tools.sandbox.mounts import survey
from tools.sandbox.policy import SandboxPolicy

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeToolContext]:
    monkeypatch.setattr(preparing, "BACK_ENDS", ("bwrap",))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        by_the_user(
            workspace, "git init -q --template= nested; mkdir -p pkg/deep plain; echo a > pkg/deep/.envrc"
        )
        yield replace(fake_context(workspace), sandbox=SandboxPolicy("workspace-write"))


def by_the_user(workspace: Path, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=workspace, check=True, capture_output=True)


async def bash(ctx: FakeToolContext, command: str) -> str:
    return (await BashTool().run(BashInput(command=command), ctx)).content


# -- files with several names


@pytest.mark.parametrize("back_end", ["bwrap", "Landlock"])
@pytest.mark.parametrize("link", ["plain/.envrc", "pkg/deep/.npmrc", "nested/.git/hooks/pre-commit"])
async def test_older_name_of_a_new_protected_link_is_kept(
    ctx: FakeToolContext, link: str, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BACK_ENDS", (back_end,))
    monkeypatch.setattr(mounts, "_RACY_NS", 0)
    by_the_user(ctx.workspace, "mkdir -p src nested/.git/hooks; echo a > src/script; chmod +x src/script")
    assert (await bash(ctx, "echo b >> src/script")).startswith("Exit code: 0")
    by_the_user(ctx.workspace, f"ln src/script {link}")
    await bash(ctx, "echo evil >> src/script")
    assert (ctx.workspace / link).read_text() == "a\nb\n"


def test_other_names_are_searched_for_once(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_RACY_NS", 0)
    asked: list[str] = []

    def decide(permission: str, name: str) -> str:
        asked.append(name)
        return "ask" if permission == "read" and name.endswith(".env") else "allow"

    by_the_user(ctx.workspace, "mkdir a b; echo SECRET > a/x; ln pkg/deep/.envrc ../outside")
    for script, looks in (("", True), ("", False), ("ln a/x b/.env", True), ("", False)):
        by_the_user(ctx.workspace, script)
        asked.clear()
        found = survey(ctx.workspace, decide, writable=True, key="the same rules")
        assert ("a/x" in asked) is looks
    assert sorted(found.hidden) == [ctx.workspace / "a/x", ctx.workspace / "b/.env"]
