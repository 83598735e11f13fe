"""``python -m tests.evals.language_servers``: a table of real servers, measured once with the product's own waits.

cold: from the start of the server until it has answered about its first file. warm: what a write waits for its verdict
(median of three). The verdicts are those that the agent receives.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from tests.evals.language_servers import install
from tests.evals.language_servers.cases import CASES, Case
from tests.support.drivers.process_tree import family, send
from tests.support.scenarios.language_workspace import LanguageWorkspace

COLD_S = 60.0


async def row(case: Case) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        workspace = LanguageWorkspace(Path(folder), [case.spec], Timing(), environment=case.environment)
        try:
            return await _measured(case, workspace)
        finally:
            await workspace.diagnostics.close()


async def _measured(case: Case, workspace: LanguageWorkspace) -> str:
    sample, loop = case.sample, asyncio.get_running_loop()
    path = workspace.path(sample.file)
    for name, text in {**sample.others, sample.file: sample.right}.items():
        workspace.path(name).parent.mkdir(parents=True, exist_ok=True)
        workspace.path(name).write_text(text, "utf-8")

    async def change(text: str) -> tuple[str, float]:
        run = await workspace.diagnostics.begin([path])
        path.write_text(text, "utf-8")
        begun = loop.time()
        report = await run.report()
        return report.verdict, loop.time() - begun

    begun = loop.time()
    lookup = workspace.servers.for_path(path)
    if not lookup.servers:
        return f"| {case.id} | not found | | | | |"
    server = lookup.servers[0]
    await server.ready(begun + COLD_S)
    version = server.sync(path, sample.right)
    await server.answered({path: version}, begun + COLD_S)
    cold = loop.time() - begun
    warm: list[float] = []
    seen = clean = True
    for _ in range(3):
        verdict, took = await change(sample.wrong)
        seen, warm = seen and verdict == "problems", [*warm, took]
        verdict, took = await change(sample.right)
        clean, warm = clean and verdict == "clean", [*warm, took]
    frozen = [pid for _, number in workspace.servers.running() for pid in family(number)]
    send(frozen, signal.SIGSTOP)
    server.timing = replace(server.timing, answer_s=0.5)
    try:
        verdict, _ = await change(sample.wrong)
    finally:
        send(frozen, signal.SIGCONT)
    silent = verdict == "no_fresh_answer"
    marks = ["yes" if mark else "**no**" for mark in (seen, clean, silent)]
    return f"| {case.id} | {cold:.2f} | {statistics.median(warm):.2f} | {' | '.join(marks)} |"


async def table(wanted: list[str]) -> None:
    """Print it; ``wanted``: ids, all without any."""
    install.ensure()
    print("| server | cold s | warm s | new error seen | clean seen | no answer seen |")
    print("|---|--:|--:|---|---|---|")
    for case in CASES:
        if not wanted or case.id in wanted:
            print(await row(case), flush=True)


if __name__ == "__main__":
    asyncio.run(table(sys.argv[1:]))
