"""Really starting a server, on a scratch copy of a small project with a deliberate error."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lsp_bridge.cli.doctor.report import Trial
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.specs.server_spec import Project
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lsp_bridge.language_client.specs.server_spec import FoundServer, ServerSpec

COLD_S = 30.0
"""Seconds for its start and first answer, and again for its end."""
WARM_S = 10.0


async def try_out(
    spec: ServerSpec, found: FoundServer, environment: Mapping[str, str], workspace: Path
) -> Trial:
    """Start the server, send it a text without and then with an error, and stop it; never raises, and leaves nothing. A
    server without a sample (one of the user's own) is only started. A program of the workspace runs in the sandbox."""
    own = Project(workspace).brings(Path(found.argv[0]))
    with tempfile.TemporaryDirectory(prefix="goalwright-doctor-", ignore_cleanup_errors=True) as folder:
        top = Path(folder).resolve()
        box = Project(top, trusted=True, origin=workspace) if own else None
        return await _try(LanguageServer(spec, found, top, environment, box=box), top)


async def _try(server: LanguageServer, folder: Path) -> Trial:
    loop = asyncio.get_running_loop()
    sample = SAMPLES.get(server.spec.name)
    path = folder
    if sample is not None:
        for name, text in {**sample.others, sample.file: sample.right}.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    begun = loop.time()
    server.start()
    try:
        if not await server.ready(begun + COLD_S):
            return Trial(answered=False, saw_error=False, text=t("it did not start"))
        if sample is None:
            return Trial(answered=True, saw_error=True, cold_s=loop.time() - begun, text="started")
        return await _judge(server, path, sample, begun)
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COLD_S):
                await server.stop()


async def _judge(server: LanguageServer, path: Path, sample: Sample, begun: float) -> Trial:
    loop = asyncio.get_running_loop()
    version = server.sync(path, sample.right)
    if not await server.answered({path: version}, begun + COLD_S):
        return Trial(answered=False, saw_error=False, text=t("it did not answer for a file"))
    cold = loop.time() - begun
    clean = not (server.answers.known(path, version) or ())
    changed = loop.time()
    path.write_text(sample.wrong, "utf-8")
    version = server.sync(path, sample.wrong)
    server.documents.saved(path)
    if not await server.answered({path: version}, changed + WARM_S):
        return Trial(answered=False, saw_error=False, cold_s=cold, text=t("it did not answer for a change"))
    warm = loop.time() - changed
    saw = bool(server.answers.known(path, version))
    text = "" if saw else t("it did not report the error")
    if not clean:
        text = t("it reports errors where there are none")
    return Trial(True, saw and clean, cold, warm, text)


class Sample(Struct, frozen=True):
    """``file`` holds ``right``, then ``wrong``, whose error is in line ``line`` (from 1)."""

    file: str
    right: str
    wrong: str
    line: int
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """More files, by name."""


_TYPED = "export const answer: number = {};\n"
_PYTHON = "def total(prices: list[int]) -> int:\n    return {}\n"

SAMPLES: Mapping[str, Sample] = {
    "pyright": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("str(prices)"), 2),
    "ruff": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("sum(undefined)"), 2),
    "ty": Sample("a.py", _PYTHON.format("sum(prices)"), _PYTHON.format("str(prices)"), 2),
    "typescript-7": Sample("a.ts", _TYPED.format("42"), _TYPED.format("'42'"), 1),
    "typescript-language-server": Sample("a.ts", _TYPED.format("42"), _TYPED.format("'42'"), 1),
    "clangd": Sample(
        "a.c",
        "int answer(void) {\n    return 42;\n}\n",
        "int answer(void) {\n    return undefined;\n}\n",
        2,
    ),
    "gopls": Sample(
        "a.go",
        "package a\n\nfunc Answer() int {\n\treturn 42\n}\n",
        'package a\n\nfunc Answer() int {\n\treturn "42"\n}\n',
        4,
        {"go.mod": "module example/a\n\ngo 1.18\n"},
    ),
    "rust-analyzer": Sample(
        "src/lib.rs",
        "pub fn answer() -> u8 {\n    42\n}\n",
        "pub fn answer() -> u8 {\n    undefined()\n",
        2,
        {"Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n'},
    ),
    "bash-language-server": Sample(
        "a.sh",
        "#!/bin/bash\nif true; then\n  echo 42\nfi\n",
        "#!/bin/bash\nif true; then\n  echo 42\n",
        2,
    ),
    "json": Sample("a.json", '{\n  "answer": 42\n}\n', '{\n  "answer": \n}\n', 3),
    "css": Sample("a.css", "a {\n  color: red;\n}\n", "a {\n  color red;\n}\n", 2),
    "html": Sample(
        "a.html",
        "<style>\na { color: red; }\n</style>\n",
        "<style>\na { color red; }\n</style>\n",
        2,
    ),
    "yaml": Sample("a.yaml", "answer: 42\nother: 1\n", "answer: 42\nother: ]\n", 2),
}
