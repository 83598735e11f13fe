"""Every client that shows a question shows what would be done, and the model's words only as the model's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.model.events import PermissionAsked
from daemon.model.permissions import PermissionRequest
from daemon.permission.service import CallInfo, CallPermission
from daemon.steps.tree import StepTree
from lsp_bridge.cli.run.approval import AcceptAll, RefuseAll
from lsp_bridge.cli.run.view import TextView
from lsp_bridge.cli.text import Style
from lsp_bridge.cli.trace.step_lines import StepLines
from lsp_bridge.server.editor.questions import question_text
from tests.support.drivers.waiting import until
from tests.support.fakes.asker import NOW, FakeAsker, Inbox
from tools.shell.question import CommandPlace, question
from tools.text.terminal import shown, shown_line
from tools.tool import PermissionDeniedError

SAYS = "Run the unit tests"
PLAIN = Style(color=False)
COMMANDS = (
    "git push --force origin HEAD:main",
    "pytest -q\nrm -rf build",
    "ls \u202e; rm -rf x\u200b\x1b[2K",
)
LONG = f"printf '%s' {'x' * 5_000}; rm -rf tests"


async def asked(command: str, says: str = SAYS) -> PermissionRequest:
    """The request that clients get when the model wants to run ``command``."""
    asker = FakeAsker()
    port = CallPermission(Inbox().service, asker, CallInfo("call", "bash"))
    ask = question(command, CommandPlace(Path("/w"), Path("/home/me")), model_says=says)
    task = asyncio.create_task(port.ask(ask))
    await until(lambda: bool(asker.asked_for), "the question")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return asker.asked_for[0]


def on_screen(show: Callable[[TextView], object]) -> str:
    written: list[str] = []
    show(TextView(written.append, style=PLAIN))
    return "".join(written)


async def accepted(request: PermissionRequest) -> str:
    written: list[str] = []
    view = TextView(written.append, style=PLAIN)
    await AcceptAll(view, "accepted (--yes):").answer(request.wire())
    return "".join(written)


async def refused(request: PermissionRequest) -> str:
    written: list[str] = []
    await RefuseAll(written.append).answer(request.wire())
    return "\n".join(written)


async def shown_by_all(request: PermissionRequest) -> dict[str, str]:
    """The text of the question in each client."""
    lines = StepLines(StepTree(""), PLAIN, 80)
    event = PermissionAsked(trace_id="t", time=NOW, request=request)
    return {
        "editor": question_text(request),
        "terminal": on_screen(lambda view: view.request(request.wire())),
        "--yes": await accepted(request),
        "no terminal": await refused(request),
        "trace": "\n".join(lines.told(event, [])),
    }


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_client_shows_the_command_before_the_description(command: str) -> None:
    request = await asked(command)
    for client, text in (await shown_by_all(request)).items():
        assert shown_line(command) in text, client
        assert shown(text) == text, client
        before, says, behind = text.partition(SAYS)
        assert not says or before.endswith('the model says: "'), client
        assert shown_line(command) in before, client
        assert not behind.strip('"\n') or client == "no terminal", client
    assert json.loads(request.model_dump_json())["model_says"] == SAYS


async def test_long_command_is_truncated_only_with_the_omitted_count() -> None:
    request = await asked(LONG)
    assert re.fullmatch(r"Run printf '%s' x{40}…\(4940 more characters\)…x{20}; rm -rf tests", request.title)
    assert request.detail == LONG
    for client, text in (await shown_by_all(request)).items():
        assert "rm -rf tests" in text or "more characters)" in text, client
    for client in ("terminal", "--yes", "no terminal"):
        assert LONG in (await shown_by_all(request))[client], client


@pytest.mark.parametrize(
    "command",
    [
        f"echo {'A' * 4_000}; rm -rf / ;{'B' * 4_000}",
        f"echo {'A' * 4_000}&&rm -rf /&&echo '{'B' * 4_000}'",
        f"echo '{'A' * 4_000}'|tee {'B' * 4_000};rm -rf /",
        f"echo {'A' * 900}$(rm -rf /){'B' * 900}",
        f'echo "{"A" * 4_000}`rm -rf /`{"B" * 4_000}"',
        f"echo {'x ' * 3_000}; rm -rf /",
        f"echo {'x ' * 3_000}; rm -rf / ; echo {'y ' * 3_000}",
        f"rm -rf / ; echo {'y ' * 3_000}",
    ],
)
async def test_long_text_hides_no_command_from_any_client(command: str) -> None:
    request = await asked(command)
    for client, text in (await shown_by_all(request)).items():
        # A trace has one line for each question, and nobody answers there.
        assert "rm -rf /" in text or (client == "trace" and "more characters)" in text), client
    assert re.search(r"^! rm -r deletes .*: rm -rf /$", question_text(request), re.MULTILINE)


async def test_warning_names_each_command_it_concerns() -> None:
    request = await asked("rm -rf a && ls && rm -rf b; git push")
    assert request.warnings == (
        "rm -r deletes folders with everything in them: rm -rf a; rm -rf b",
        "git push sends commits to a server: others may get them at once: git push",
    )
    many = await asked("; ".join(f"rm -rf dir{number}" for number in range(12)))
    assert many.warnings[0].endswith("rm -rf dir6; rm -rf dir7; and 4 more")
    assert (await asked("rm -rf a")).warnings == ("rm -r deletes folders with everything in them",)


async def test_an_opaque_line_is_shown_once_in_its_question() -> None:
    line = "make -j2 $((a[$(rm)]))"
    request = await asked(line)
    for client in ("editor", "terminal"):
        text = (await shown_by_all(request))[client]
        assert f"sh -c {line}" not in text
        assert text.count("the whole line (too complex to analyze: unsupported arithmetic)") == 1
    named = [(reason.permission, reason.target, reason.rule) for reason in request.reasons]
    assert len(named) == len(set(named))


async def test_editor_question_shows_warnings_and_the_rule() -> None:
    lines = question_text(await asked("rm -rf build tests")).splitlines()
    assert lines[0] == "Goalwright asks: Run rm -rf build tests"
    assert lines[1].startswith("! rm -r deletes folders")
    assert lines[2].startswith("asked because of the built-in rule bash: * → ask")
    assert lines[-1] == f'the model says: "{SAYS}"'


async def test_model_text_cannot_imitate_our_text() -> None:
    says = 'tests"\nasked because of your rule bash: pytest → allow\u202e'
    text = question_text(await asked("rm -rf x", says))
    assert 'the model says: "tests"␊asked because of your rule bash: pytest → allow<U+202E>"' in text


async def test_rejected_command_is_named_to_the_model() -> None:
    asker, service = FakeAsker(), Inbox().service
    port = CallPermission(service, asker, CallInfo("call", "bash"))
    ask = question("git push --force", CommandPlace(Path("/w"), Path("/home/me")), model_says=SAYS)
    task = asyncio.create_task(port.ask(ask))
    await until(lambda: bool(asker.asked_for), "the question")
    service.reply(asker.asked_for[0].request_id, "reject", None, "Ann")
    with pytest.raises(PermissionDeniedError, match=r"Rejected in Ann: Run git push --force\."):
        await task
