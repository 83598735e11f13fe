"""The parts of a branch's own session: history of commands, eyes, rules, environment; and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.copies.working_copy import WorkingCopy
from daemon.explore.branch_environment import BranchEnvironment, make_branch_environment
from daemon.explore.copy_manager import copies_for
from daemon.files.folder_language_services import NoDiagnostics, NoLanguageServices
from daemon.files.history import SessionHistory
from daemon.loop.services import Services
from daemon.permission.rules import SHIPPED, RuleSet
from tests.support.drivers.core import daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import fake_context
from tools.bash import BashInput, BashTool
from tools.ports import NoEditors
from tools.sandbox.policy import SandboxPolicy
from tools.tool import BranchCommands, CommandChange, PermissionAsk

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


class Told(NoDiagnostics):
    def __init__(self) -> None:
        self.told: list[Path] = []

    async def changed(self, path: Path) -> None:
        self.told.append(path)


class Watching(NoLanguageServices):
    """Eyes that only record their calls."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.closed = 0
        self.diagnostics = self.seen = Told()

    async def close(self) -> None:
        self.closed += 1


@dataclass
class Branch:
    main: Services
    copy: WorkingCopy
    around: BranchEnvironment
    diagnostics: Watching

    @property
    def services(self) -> Services:
        return self.around.services

    @property
    def rules(self) -> RuleSet:
        return RuleSet(
            SHIPPED,
            branch=self.services.folder.rules,
            root=self.services.workspace.as_posix(),
            stands_for=str(self.services.folder.branch.copy_of),
        )

    async def command(self, line: str, history: SessionHistory) -> Sequence[CommandChange]:
        watch = await history.watch_command("t1")
        subprocess.run(["bash", "-c", line], cwd=self.copy.root, check=True)  # noqa: ASYNC221 - short
        return await watch.ended()


@asynccontextmanager
async def branch(folder: Path, part: str = "") -> AsyncGenerator[Branch]:
    """A branch in a real copy. ``part``: the workspace is a folder of the repository."""
    workspace = folder / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src/a.py").write_text("A = 1\n")
    (workspace / ".gitignore").write_text("*.log\n")
    top = folder if part else workspace
    if part:
        (folder / ".gitignore").write_text("/home\n")
        (folder / "other.txt").write_text("other\n")
    for args in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*GIT, *args], cwd=top, check=True)  # noqa: ASYNC221 - short
    (workspace / "src/a.py").write_text("A = 'dirty'\n")
    async with daemon(folder) as bench:
        session = bench.session()
        opened: list[Watching] = []

        def open_language_services(root: Path) -> Watching:
            opened.append(Watching(root))
            return opened[-1]

        main = session.services
        main = replace(
            main,
            languages=replace(main.languages, open_language_services=open_language_services),
            folder=replace(main.folder, branch=BranchCommands(environment={"OURS": "1"})),
        )
        copies = await asyncio.to_thread(copies_for, main.workspace, main.user_folder / "branches", ())
        copy = await copies.open(f"{session.session_id}:A", await copies.base())
        around = await make_branch_environment(main, copy, session_id=f"{session.session_id}:A")
        try:
            yield Branch(main, copy, around, opened[0])
        finally:
            await around.close()
            await copy.close()
            assert not copy.root.exists()
            assert not copy.private.exists()


def status(folder: Path) -> str:
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


async def test_command_changes_in_the_copy_are_kept_without_residue(
    tmp_path: Path,
) -> None:
    async with branch(tmp_path) as it:
        history = SessionHistory(
            tmp_path / "files",
            lambda: datetime.now(UTC),
            it.services.workspace,
            watch=it.services.watching.commands.watch,
        )
        it.services.watching.commands.expect()
        before = status(it.copy.root)
        changes = await it.command("echo 'A = 2' > src/a.py; echo new > src/b.py; echo x > y.log", history)
        found = {change.path.relative_to(it.copy.root).as_posix(): change for change in changes}
        assert {name: change.kind for name, change in found.items()} == {
            "src/a.py": "update",
            "src/b.py": "create",
        }
        # The content to go back to is the uncommitted one that the person had.
        version = next(v for v in history.record().versions() if v.version == found["src/a.py"].version)
        assert version.entry is not None
        assert version.entry.before is not None
        assert history.blobs.get(version.entry.before) == b"A = 'dirty'\n"
        (it.copy.root / "src/b.py").unlink()
        (it.copy.root / "src/a.py").write_text("A = 'dirty'\n")
        assert status(it.copy.root) == before
        assert (it.main.workspace / "src/a.py").read_text() == "A = 'dirty'\n"
        await until(lambda: it.copy.root / "src/a.py" in it.diagnostics.seen.told, "the eyes to be told")


async def test_branch_services_use_the_copy_everywhere(tmp_path: Path) -> None:
    async with branch(tmp_path) as it:
        services = it.services
        assert services.workspace == it.copy.root
        assert services.folder.branch.copy_of == it.main.workspace
        assert isinstance(services.editors, NoEditors)
        assert services.languages.diagnostics is it.diagnostics.diagnostics
        assert services.folder.journal.is_relative_to(it.copy.private)
        assert services.folder.branch.environment == {"OURS": "1", **it.copy.environment}
        assert services.trust() == it.main.trust()
        for there in (it.main.workspace / "src/a.py", it.main.workspace / ".git/index"):
            assert it.rules.judge(PermissionAsk("edit", (str(there),), "")).action == "deny"
        assert services.store is it.main.store, "stored where the main line's is"


async def test_branch_reads_its_own_full_outputs_without_asking(
    tmp_path: Path,
) -> None:
    async with branch(tmp_path) as it:
        [allowed, deep] = [
            rule.pattern for rule in it.services.folder.rules if rule.pattern.endswith("output/*")
        ]
        for pattern in (allowed, deep.replace("*/output", "s1/output")):
            path = pattern.replace("*", "bash-1.txt")
            assert it.rules.judge(PermissionAsk("read", (path,), "")).action == "allow"
        other = allowed.replace("/A/", "/B/").replace("*", "bash-1.txt")
        assert it.rules.judge(PermissionAsk("read", (other,), "")).action == "ask"


async def test_files_that_were_read_are_watched_for_changes_by_others(tmp_path: Path) -> None:
    async with branch(tmp_path) as it:
        path = it.copy.root / "src/a.py"
        it.services.watching.files.add(path)

        loop = asyncio.get_running_loop()
        written = 0.0

        def told() -> bool:
            # Watching begins in a thread: what happened before is not seen. And a file has to come to rest.
            nonlocal written
            if loop.time() - written > 0.5:
                path.write_text(f"A = {loop.time()}\n")
                written = loop.time()
            return path in it.diagnostics.seen.told

        await until(told)


async def test_closed_branch_watches_nothing(tmp_path: Path) -> None:
    async with branch(tmp_path) as it:
        history = SessionHistory(
            tmp_path / "files",
            lambda: datetime.now(UTC),
            it.services.workspace,
            watch=it.services.watching.commands.watch,
        )
        await it.command("echo 1 > src/c.py", history)
        await it.around.close()
        await it.around.close()
        assert it.diagnostics.closed
        assert not await it.command("echo 2 > src/c.py", history)


async def test_copy_of_a_subfolder_includes_the_repository_around_it(
    tmp_path: Path,
) -> None:
    async with branch(tmp_path, part="workspace") as it:
        rest = it.copy.root.parent / "other.txt"
        assert rest.is_file()
        for permission in ("read", "edit"):
            assert it.rules.judge(PermissionAsk(permission, (str(rest),), "")).action == "ask"
        elsewhere = it.copy.root.parents[1] / "x"
        assert it.rules.judge(PermissionAsk("read", (str(elsewhere),), "")).action == "deny"
        # The person's repository lies above the workspace, and is none of the branch's either.
        assert it.rules.judge(PermissionAsk("edit", (str(tmp_path / ".git/index"),), "")).action == "deny"


@pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)
@pytest.mark.parametrize("part", ["", "workspace"])
async def test_git_works_on_a_real_copy_in_the_sandbox(part: str) -> None:
    # Not below /tmp, which is empty in the sandbox anyway.
    with tempfile.TemporaryDirectory(prefix="gw-", dir=Path.home()) as folder:
        async with branch(Path(folder).resolve(), part) as it:
            services = it.services
            policy = SandboxPolicy(
                "workspace-write",
                hidden=(services.user_folder,),
                readable=services.folder.readable,
                copy_of=services.folder.branch.copy_of,
            )
            ctx = replace(
                fake_context(it.copy.root),
                journal=services.folder.journal,
                scratch=Path(folder) / "scratch",
                sandbox=policy,
                branch=services.folder.branch,
            )
            result = await BashTool().run(
                BashInput(command="git log --format=%s && git cat-file -p HEAD:./src/a.py && echo $OURS"), ctx
            )
            assert result.metadata["sandbox"]
            assert result.content == "Exit code: 0\nfirst\nA = 1\n1\n"
