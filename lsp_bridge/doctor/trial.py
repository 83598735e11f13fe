"""Really starting a server, on a scratch copy of a small project with a deliberate error."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lsp_bridge.doctor.report import Trial
from lsp_bridge.doctor.samples import SAMPLES, Sample
from lsp_bridge.language.server import LanguageServer
from lsp_bridge.language.specs import Found, ServerSpec
from tools.localization import t

COLD_S = 30.0
"""Seconds for its start and first answer, and again for its end."""
WARM_S = 10.0


async def try_out(spec: ServerSpec, found: Found, environment: Mapping[str, str]) -> Trial:
    """Start the server, tell it a text without and then with an error, and stop it; never raises, and nothing of it is
    left. A server without a sample (one of the person's own) is only started."""
    with tempfile.TemporaryDirectory(prefix="goalwright-doctor-", ignore_cleanup_errors=True) as folder:
        return await _try(spec, found, environment, Path(folder).resolve())


async def _try(spec: ServerSpec, found: Found, environment: Mapping[str, str], folder: Path) -> Trial:
    loop = asyncio.get_running_loop()
    sample = SAMPLES.get(spec.name)
    path = folder
    if sample is not None:
        for name, text in {**sample.others, sample.file: sample.right}.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    begun = loop.time()
    server = LanguageServer(spec, found, folder, environment)
    server.start()
    try:
        if not await server.ready(begun + COLD_S):
            return Trial(answered=False, saw_error=False, text=t("it did not start"))
        if sample is None:
            return Trial(answered=True, saw_error=True, cold_s=loop.time() - begun, text="started")
        return await _judge(server, path, sample, begun)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.stop(), COLD_S)


async def _judge(server: LanguageServer, path: Path, sample: Sample, begun: float) -> Trial:
    loop = asyncio.get_running_loop()
    version = server.sync(path, sample.right)
    if not await server.answered({path: version}, begun + COLD_S):
        return Trial(answered=False, saw_error=False, text=t("it gave no answer about a file"))
    cold = loop.time() - begun
    clean = not (server.answers.known(path, version) or ())
    changed = loop.time()
    path.write_text(sample.wrong, "utf-8")
    version = server.sync(path, sample.wrong)
    server.saved(path)
    if not await server.answered({path: version}, changed + WARM_S):
        return Trial(answered=False, saw_error=False, cold_s=cold, text=t("it gave no answer about a change"))
    warm = loop.time() - changed
    saw = bool(server.answers.known(path, version))
    text = "" if saw else t("it did not see the error")
    if not clean:
        text = t("it finds errors where there are none")
    return Trial(True, saw and clean, cold, warm, text)
