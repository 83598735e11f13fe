"""`make run` itself: the printed address opens the workspace with the product in it, and stopping leaves nothing."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import keep_evidence
from tests.e2e.vscode.desktop import processes_naming
from tests.e2e.vscode.install import ROOT, VSCODE
from tests.e2e.vscode.server import VSCodeServer
from tests.e2e.vscode.window import Window, chromium
from tests.support.drivers.command_line import wait_until

pytestmark = pytest.mark.timeout(300)


class MakeRun:
    """The process behind `make run`; ``printed`` holds what its lines said, by their first word."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.text = ""

    async def printed(self, name: str) -> str:
        """Return the text after ``name:``, once it is printed."""
        assert self.process.stdout is not None
        while not (found := re.search(rf"^{name}: +(.*)\n", self.text, re.MULTILINE)):
            line = await asyncio.wait_for(self.process.stdout.readline(), 120)
            assert line, f"make run ended:\n{self.text}"
            self.text += line.decode()
        return found[1]

    async def stop(self) -> int:
        """Send TERM, as `kill` and supervisors do, and wait for the end."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        self.text += (await asyncio.wait_for(self.process.stdout.read(), 60)).decode()
        return await self.process.wait()


@asynccontextmanager
async def make_run(env: Mapping[str, str], *arguments: str) -> AsyncGenerator[MakeRun]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(
            "-m",
            "tests.e2e.vscode.run",
            "--browser",
            "--vsix",
            "vscode-extension/goalwright.vsix",
            *arguments,
        ),
        cwd=ROOT,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield MakeRun(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.asyncio(loop_scope="session")
async def test_make_run_address_opens_the_sample_with_the_demo_model(
    vscode: Path, vsix: Path, clean_env: dict[str, str], request: pytest.FixtureRequest
) -> None:
    async with make_run(clean_env) as run:
        workspace = Path(await run.printed("Workspace"))
        assert (workspace / "shop" / "cart.py").is_file()
        assert "DEMO" in await run.printed("Model")
        address = await run.printed("VS Code")
        assert parse_qs(urlsplit(address).query)["folder"] == [str(workspace)]

        async with chromium() as browser, await browser.new_page() as page:
            (folder,) = Path(clean_env["TMPDIR"]).glob("goalwright-vscode-*")
            window = Window(page, VSCodeServer(folder, workspace, sys.executable))
            expect.set_options(timeout=60_000)
            try:
                await page.goto(address)
                await expect(window.status_item()).to_be_visible()
                await window.show_chat()
                await expect(window.chat.get_by_text("DEMO", exact=True)).to_be_visible()
            except BaseException:
                await keep_evidence(window, request.node.name)
                raise
            # Without the token the address opens nothing, to anybody.
            async with await browser.new_page() as other:
                refused = await other.goto(f"http://127.0.0.1:{urlsplit(address).port}/?folder={workspace}")
                assert refused is not None and refused.status == 403

        assert await run.stop() == 0
        assert str(workspace) in run.text.splitlines()[-1]
        # The daemon lets go of its lock a moment before it is gone.
        wait_until(lambda: not processes_naming(str(workspace)), "the end of all processes of the workspace")
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", urlsplit(address).port or 0)) != 0


async def test_make_run_with_a_key_and_a_workspace_uses_both(
    vscode: Path, vsix: Path, clean_env: dict[str, str], workspace: Path
) -> None:
    async with make_run({**clean_env, "ANTHROPIC_API_KEY": "a-key"}, "--workspace", str(workspace)) as run:
        assert Path(await run.printed("Workspace")) == workspace
        assert "claude" in await run.printed("Model")
        assert await run.stop() == 0


def test_vs_code_includes_what_its_built_in_extensions_need(vscode: Path) -> None:
    # Without it a folder with a .ts file opens with an error over the composer.
    assert (VSCODE / "extensions" / "node_modules" / "typescript" / "lib" / "tsserver.js").is_file()


async def test_taken_port_is_reported(clean_env: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with make_run(clean_env, "--port", str(taken.getsockname()[1])) as run:
            assert run.process.stdout is not None
            said = (await run.process.stdout.read()).decode()
            assert await run.process.wait() == 2
            assert "is in use" in said
