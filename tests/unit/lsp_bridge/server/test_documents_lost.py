"""Documents whose text nobody knows any more, and those that are open no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.loop.tool_context import SessionFiles
from lsp_bridge.server.documents.attached_editors import AttachedEditors
from tests.support.fakes.buffers import Editor, deaf_writer
from tests.support.fakes.tool_context import fake_context
from tools.grep import GrepInput, GrepTool
from tools.read import ReadInput, ReadTool


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text("disk\n")
    return path


def test_full_text_with_older_version_is_unknown_until_the_next(path: Path) -> None:
    editor = Editor(path)
    editor.version = 5
    editor.open("disk\n")
    editor.change("disk\nprecious\n", version=1)
    (document,) = editor.documents.at(path)
    assert not document.known
    assert not document.is_saved()
    editor.change("disk\nprecious\n!", version=2)  # it has begun to count anew
    assert editor.unsaved == "disk\nprecious\n!"


def test_change_of_a_closed_document_is_ignored(path: Path) -> None:
    editor = Editor(path)
    editor.type(0, 0, "x")
    assert editor.documents.at(path) == []
    editor.open("disk\n")
    editor.close()
    editor.type(0, 0, "x")
    assert editor.documents.at(path) == []


def test_document_of_unknown_state_is_known_after_a_full_change(path: Path) -> None:
    editor = Editor(path)
    editor.documents.opened_somehow(editor.uri)
    (document,) = editor.documents.at(path)
    assert not document.known
    editor.change("whole\n")
    assert editor.unsaved == "whole\n"


@pytest.mark.parametrize("what", ["folder", "file"])
def test_unsaved_text_of_a_renamed_path_is_unknown(what: str, tmp_path: Path) -> None:
    old, new = tmp_path / "d" / "a.txt", tmp_path / "e" / "a.txt"
    old.parent.mkdir()
    old.write_text("disk\n")
    editor = Editor(old)
    editor.open("disk\n")
    editor.type(0, 4, "!")
    old.parent.rename(new.parent)
    renamed = (old.parent, new.parent) if what == "folder" else (old, new)
    editor.documents.renamed(*renamed)
    assert editor.documents.at(old) == []
    (document,) = editor.documents.at(new)
    assert not document.known
    assert "renamed" in document.why_lost
    editor.close()
    assert editor.documents.at(new) == []


def test_clean_buffer_of_a_renamed_file_is_unknown_once_changed(tmp_path: Path) -> None:
    old, new = tmp_path / "a.txt", tmp_path / "b.txt"
    old.write_text("disk\n")
    editor = Editor(old)
    editor.open("disk\n")
    old.rename(new)
    editor.documents.renamed(old, new)
    assert editor.documents.at(old) == editor.documents.at(new) == []
    editor.type(0, 0, "typed")
    (document,) = editor.documents.at(new)
    assert not document.known


async def test_tools_read_the_disk_and_say_so_if_a_buffer_is_unknown(tmp_path: Path) -> None:
    editors = AttachedEditors()
    ctx = replace(fake_context(tmp_path), files=SessionFiles({}, editors))
    path = tmp_path.resolve() / "a.py"
    path.write_bytes(b"disk\n")
    editor = Editor(path)
    editor.open("disk\n")
    editors.add(editor.documents, deaf_writer())
    plain = await ReadTool().run(ReadInput(file_path="a.py"), ctx)
    editor.documents.lost(editor.uri)
    unknown = await ReadTool().run(ReadInput(file_path="a.py"), ctx)
    found = await GrepTool().run(GrepInput(pattern="disk"), ctx)
    assert "content is unknown" not in plain.content
    assert "content is unknown" in unknown.content
    assert plain.content in unknown.content
    assert "a.py (as on disk: its content in an open editor is unknown)" in found.content
