"""Secrets are in no file of a session and not in the log, while the session works with the originals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from daemon.store.replay import replayed
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.fakes.models import Call, Think
from tools.redaction.redactor import SECRETS

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY = "provider-key-of-nobody-" + "x9y8z7" * 4
PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2 + "\n-----END PRIVATE KEY-----"


def stored_text(root: Path) -> str:
    """All that is stored of the sessions, but for the versions of files, which undoing needs whole."""
    files = [path for path in root.rglob("*") if path.is_file() and "files" not in path.parts]
    assert any(path.name == "events.jsonl" for path in files)
    assert any(path.parent.name == "messages" for path in files)
    return "\n".join(path.read_text("utf-8") for path in files)


async def test_no_file_of_a_session_holds_a_secret(tmp_path: Path) -> None:
    SECRETS.register([KEY])
    content = f"TOKEN={TOKEN}\n{PEM}\n"
    steps = [
        [Think(f"The key is {KEY}."), Call("goal", {"add": f"use {TOKEN}", "reason": KEY})],
        [
            Call("write", {"file_path": "conf.txt", "content": content}),
            Call("read", {"file_path": "conf.txt"}),
        ],
        [Call("bash", {"command": f"echo {TOKEN}; echo {KEY}; cat conf.txt"})],
        f"Written: {TOKEN}",
    ]
    async with daemon(tmp_path, *steps, check=False) as bench:
        session = bench.session(settings=ALLOW_ALL)
        assert (await session.prompt(f"My token is {TOKEN} and the key {KEY}")).stop == "end_turn"
        assert (bench.workspace / "conf.txt").read_text() == content
        # The model reads what is there, and clients see it.
        sent = "".join(str(message) for message in bench.models.requests[-1].messages)
        assert TOKEN in sent
        assert KEY in sent
        bench.core.update_session(session, {"title": f"about {TOKEN}"})
        session_id = session.session_id
    text = stored_text(bench.workspace / ".trace")
    for secret in (TOKEN, KEY, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", TOKEN[4:30]):
        assert secret not in text
    assert f"[redacted: …{TOKEN[-4:]}]" in text
    for line in (bench.workspace / ".trace" / session_id / "events.jsonl").read_text().splitlines():
        json.loads(line)
    async with daemon(tmp_path, "I know.") as again:
        opened = await again.opened(session_id)
        assert opened.state.messages == replayed(again.core.store, session_id).messages
        assert (await opened.prompt("And now?")).stop == "end_turn"


def test_the_log_file_holds_no_secret_also_in_tracebacks(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    code = f"""
import logging, sys, threading
sys.path.insert(0, {str(Path(__file__).resolve().parents[4])!r})
from pathlib import Path
from daemon.logfile import configure_logging
from tools.redaction.redactor import SECRETS
configure_logging(Path({str(log)!r}))
SECRETS.register([{KEY!r}])
logging.getLogger("x").warning("asked with %s", {KEY!r})
try:
    raise ValueError("refused: {TOKEN}")
except ValueError:
    logging.getLogger("x").exception("failed")
def fail(): raise RuntimeError("in a thread: {TOKEN}")
thread = threading.Thread(target=fail); thread.start(); thread.join()
raise RuntimeError("at the end: {TOKEN}")
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 1
    text = log.read_text("utf-8")
    assert KEY not in text
    assert TOKEN not in text
    for kept in (
        "asked with [redacted",
        "refused: [redacted",
        "in a thread: [redacted",
        "at the end: [redacted",
    ):
        assert kept in text
