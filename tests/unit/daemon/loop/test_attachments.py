"""Attachments of a prompt: what is read, allowed, refused and stored. The real core, store and rules."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from daemon.loop.attachments import MAX_TEXT_BYTES, MOST_FILES, attached, refusal
from daemon.loop.policy import ClientSettings
from daemon.loop.session import Session
from daemon.model.events import Notice
from daemon.model.messages import OPEN_FILE, FilePart
from daemon.model.permissions import Reply
from daemon.store.replay import read_state, replayed
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Hold
from tools.read import MAX_IMAGE_BYTES
from tools.tool import ToolError

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
PDF = b"%PDF-1.7\n..."


def path(name: object) -> FilePart:
    return FilePart(name=str(name), media_type="")


def pasted(data: bytes, name: str = "pasted.png", media_type: str = "image/png") -> FilePart:
    return FilePart(name=name, media_type=media_type, data=base64.b64encode(data).decode())


def text(part: FilePart) -> str:
    return base64.b64decode(part.data or "").decode()


async def refused(session: Session, *files: FilePart) -> str:
    with pytest.raises(ToolError) as caught:
        await attached(session, files, "p")
    return str(caught.value)


async def test_files_are_read_and_their_kind_is_seen_by_their_bytes(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        (bench.workspace / "src").mkdir()
        (bench.workspace / "src/a.py").write_bytes("name = 'grüße'\r\n".encode("utf-16"))
        (bench.workspace / "shot.txt").write_bytes(PNG)
        found = await attached(session, (path("src/a.py"), path(bench.workspace / "shot.txt")), "p")
        assert [(part.name, part.media_type) for part in found] == [
            ("src/a.py", "text/plain"),
            ("shot.txt", "image/png"),
        ]
        assert text(found[0]) == "name = 'grüße'\r\n"
        assert await attached(session, (), "p") == ()


async def test_unknown_command_is_announced_in_a_session_at_rest(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        assert await attached(bench.session(), (), "p", "/nope 12") == ()
        assert "there is no such command" in bench.events(Notice)[0].text


async def test_unsaved_editor_text_is_attached(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        file = bench.workspace / "a.py"
        file.write_text("old\n")
        bench.unsaved[file] = "new\n"
        (part,) = await attached(bench.session(), (path("a.py"),), "p")
        assert text(part) == "new\n"


async def test_pasted_contents_keep_their_name_and_get_their_true_type(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        note = pasted(b"hello", "note\u202e.png")
        image, words = await attached(session, (pasted(PNG, "", "text/html"), note), "p")
        assert (image.name, image.media_type) == ("pasted", "image/png")
        assert words.media_type == "text/plain"
        assert "\u202e" not in words.name


async def test_unattachable_files_are_refused_with_advice(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session, folder = bench.session(), bench.workspace
        (folder / "lib.so").write_bytes(b"\x7fELF\0\0\0\1" * 20)
        (folder / "empty.txt").touch()
        (folder / "large.txt").write_text("x" * (MAX_TEXT_BYTES + 1))
        (folder / "large.png").write_bytes(PNG + b"\0" * MAX_IMAGE_BYTES)
        (folder / "sub").mkdir()
        for name, words in [
            ("lib.so", "binary file"),
            ("empty.txt", "empty"),
            ("large.txt", "this text file has 257 KB, and the limit is 256 KB. Name it"),
            ("large.png", "the limit is 3.7 MB"),
            ("sub", "is a folder"),
            ("emty.txt", "Did you mean empty.txt?"),
            (" ", "path is empty"),
        ]:
            assert words in await refused(session, path(name)), name
        assert "the limit is 20" in await refused(session, *[path("a")] * (MOST_FILES + 1))
        assert "not valid base64" in await refused(
            session, FilePart(name="a", media_type="image/png", data="ä!")
        )
        many = [pasted(PNG + b"\0" * (MAX_IMAGE_BYTES - 100))] * 5
        assert "in total" in await refused(session, *many)


async def test_file_under_an_ask_rule_is_attached_only_after_approval(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        (bench.workspace / ".env").write_text("PORT=80\n")
        answers: list[tuple[Reply, str]] = [("reject", "refused"), ("once", "PORT=80\n")]
        for reply, outcome in answers:
            attaching = asyncio.create_task(attached(session, (path(".env"),), "p1"))
            (request,) = await bench.asked()
            assert (request.title, request.tool_call_id) == ("Attach .env", "attach_p1")
            bench.core.permissions.reply(request.request_id, reply, None, "test")
            if reply == "reject":
                with pytest.raises(ToolError, match=r"\.env is not attached\. Rejected in test"):
                    await attaching
            else:
                assert text((await attaching)[0]) == outcome


async def test_denied_file_is_not_attached_and_the_rule_is_named(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={"permission": {"read": {"*.pem": "deny"}}})
        (bench.workspace / "key.pem").write_text("x\n")
        assert "forbids read on key.pem" in await refused(session, path("key.pem"))
        outside = tmp_path / "other.txt"
        outside.write_text("elsewhere\n")
        attaching = asyncio.create_task(attached(session, (path(outside),), "p"))
        await bench.answer()
        assert (await attaching)[0].name == outside.resolve().as_posix()


async def test_lines_of_a_file_are_attached_by_the_rules(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={"permission": {"read": {"*.pem": "deny"}}})
        for name, content in [("a.py", "old\n"), ("key.pem", "x\n"), ("b:2", "all\n"), ("b", "1\n2\n")]:
            (bench.workspace / name).write_text(content)
        bench.unsaved[bench.workspace / "a.py"] = "one\n\x0ctwo\nthree\nfour\n"
        names = ("a.py:2-3", str(bench.workspace / "a.py:4"), "b:2", "b:1")
        parts = await attached(session, [path(name) for name in names], "p")
        assert [(part.name, text(part)) for part in parts] == [
            ("a.py:2-3", "\x0ctwo\nthree\n"), ("a.py:4", "four\n"), ("b:2", "all\n"), ("b:1", "1\n"),
        ]  # fmt: skip
        assert "forbids read on key.pem" in await refused(session, path("key.pem:1-9"))
        assert "a.py:9-12 is empty" in await refused(session, path("a.py:9-12"))
        assert "c.py cannot be attached: there is no such file." in await refused(session, path("c.py:1"))


async def test_keys_are_redacted_from_attached_text(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9
    async with daemon(tmp_path, "ok") as bench:
        session = bench.session()
        (bench.workspace / "log.txt").write_text(f"sent {key} to the server\n")
        parts = await attached(session, (path("log.txt"),), "p")
        await session.prompt("look", parts)
        assert key not in text(parts[0])
        assert text(parts[0]).startswith("sent ")


@pytest.mark.parametrize(
    ("model", "media_type", "can"),
    [
        ("anthropic/claude-sonnet-5-5", "image/png", True),
        ("anthropic/claude-sonnet-5-5", "application/pdf", True),
        ("anthropic/claude-2.1", "image/png", False),
        ("openai/gpt-6.1-sol", "image/png", True),
        ("openai/gpt-6.1-sol", "application/pdf", False),
        ("openai/gpt-4o", "image/png", True),
        ("openai/gpt-4-0613", "image/png", False),
        ("openai/gpt-3.5-turbo", "image/png", False),
        ("ollama/qwen3-coder:30b", "image/png", False),
        ("ollama/qwen2.5vl:7b", "image/png", True),
        ("ollama/llama3.2-vision", "image/png", True),
        ("ollama/my-own-model", "image/png", True),
        ("demo/demo", "image/png", False),
        ("demo/demo", "text/plain", True),
        ("ollama/qwen3-coder:30b", "text/plain", True),
    ],
)
def test_attachment_is_refused_only_if_the_model_cannot_take_it(
    model: str, media_type: str, can: bool
) -> None:
    assert (refusal(model, media_type) == "") is can


async def test_model_without_vision_gets_no_image(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.core.new_session(model="ollama/qwen3-coder")
        words = await refused(session, pasted(PNG, "shot.png"))
        assert words == (
            "shot.png cannot be attached. The model ollama/qwen3-coder cannot read images. Remove the "
            "image, or choose a model that can."
        )
        assert "does not accept PDF files." in await refused(session, pasted(PDF, "a.pdf"))


async def test_question_about_a_file_is_still_known_after_a_kill(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one") as bench:
        session = bench.session()
        await session.prompt("go")
        (bench.workspace / ".env").write_text("PORT=80\n")
        attaching = asyncio.create_task(attached(session, (path(".env"),), "p1"))
        (request,) = await bench.asked()
        await session.record.save()  # as a moment later
        session.record.snapshot()  # as at the end of a turn
        assert read_state(bench.core.store, session.session_id).pending == {request.request_id: request}
        attaching.cancel()
        await asyncio.wait({attaching})
        await session.record.save()
        assert bench.core.store.trace(session.session_id).last_event_id == session.state.trace.last_event_id


async def test_turn_that_ends_beside_a_question_has_ended_on_disk(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"]) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        (bench.workspace / ".env").write_text("PORT=80\n")
        attaching = asyncio.create_task(attached(session, (path(".env"),), "p1"))
        (request,) = await bench.asked()
        await session.record.save()  # as a moment later
        hold.go.set()
        await turn
        stored = bench.core.store.trace(session.session_id)
        assert (stored.running, stored.last_stop_reason) == (False, "end_turn")
        assert read_state(bench.core.store, session.session_id).pending == {request.request_id: request}
        attaching.cancel()
        await asyncio.wait({attaching})


async def test_attachments_of_a_waiting_prompt_survive_a_kill(tmp_path: Path) -> None:
    async def start(bench: Bench) -> tuple[Session, str]:
        session = bench.session()
        first = prompted(session, "first")
        await until(lambda: session.state.turn is not None, "the first turn")
        second = asyncio.create_task(session.prompt("second", (pasted(PNG),), prompt_id="p2"))
        await until(lambda: bool(session.queued()), "the second prompt in the queue")
        stored = replayed(bench.core.store, session.session_id)
        assert stored.queue[0].attachments == (pasted(PNG),)
        session.edit_queued("p2", None)
        session.cancel()
        await first
        await second
        return session, session.session_id

    async with daemon(tmp_path, Hold()) as bench:
        await start(bench)


async def test_open_file_is_attached_by_name_only(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / ".env").write_text("KEY=1")
        shown = FilePart(name=" .env:1-1\n", media_type=OPEN_FILE)
        assert await attached(bench.session(), (shown,), "p") == (
            FilePart(name=".env:1-1", media_type=OPEN_FILE),
        )


async def test_attachments_go_by_the_rules_of_their_own_client(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold]) as bench:
        (bench.workspace / "private.md").write_text("secret")
        session = bench.session(settings=ALLOW_ALL)
        turn = prompted(session, "go")
        await hold.reached.wait()
        rules = {"permission": {"read": {"private.md": "deny"}}}
        config = bench.core.config().overlaid(rules, "user", "its settings")
        with pytest.raises(ToolError):
            await attached(session, (path("private.md"),), "p", client=ClientSettings(config, "trusted"))
        assert await attached(session, (path("private.md"),), "p", client=session.policy.client)
        hold.go.set()
        await turn
