"""The text on disk beside a buffer: read in threads, and only where it can be the same."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lsp_bridge.server.documents.disk_text import shows
from tests.support.fakes.buffers import Editor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def record_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that read a file."""
    readers: list[int] = []
    real = os.read

    def read(file: int, most: int) -> bytes:
        readers.append(threading.get_ident())
        return real(file, most)

    monkeypatch.setattr(os, "read", read)
    return readers


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    editor = Editor(path)
    editor.open("")
    assert editor.unsaved is None
    editor.change("typed")
    assert editor.unsaved == "typed"


def test_file_that_cannot_equal_the_buffer_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("wb") as file:
        file.truncate(400_000_000)
    reads = record_reads(monkeypatch)
    editor = Editor(path)
    editor.open("é")
    assert editor.unsaved == "é"
    assert reads == []


async def test_long_buffer_is_compared_with_the_file_in_a_thread_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "lines of ä\r\n" * 50_000
    path.write_bytes(text.encode())
    readers = record_reads(monkeypatch)
    editor = Editor(path)
    editor.documents.soon = lambda document: None
    editor.open(text)
    assert editor.documents.unsaved_paths() == [path]  # for all that is known
    await editor.documents.settle()
    assert editor.documents.unsaved_paths() == []
    editor.type(0, 0, "x")
    path.write_bytes(f"x{text}".encode())
    assert editor.documents.unsaved_paths() == [path]
    await editor.documents.settle(path)
    assert editor.unsaved is None
    editor.documents.saved(editor.uri)
    assert readers
    assert threading.get_ident() not in readers


TEXT = "one \u00e9\r\ntwo\r\nthree \u00e9\r\n"


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_file_comparison_ignores_encodings_and_line_ends(codec: str, end: str, path: Path) -> None:
    path.write_bytes(TEXT.encode(codec))
    shown = TEXT.replace("\r\n", end)
    assert shows(path, [shown, f"{shown}x"]) == [True, False]


def test_missing_file_has_empty_text(path: Path) -> None:
    assert shows(path, ["", "x"]) == [True, False]
