"""Which buffers count as unsaved."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from lsp_bridge.documents import OpenDocument, OpenDocuments


class Deaf:
    """The writer of an editor that takes no edits."""

    can_write = False
    can_move = False

    async def write(self, document: OpenDocument, before: str, after: str) -> None:
        raise AssertionError("nobody writes here")

    async def move(self, document: OpenDocument, source: Path, target: Path) -> None:
        raise AssertionError("nobody moves here")


class Editor:
    """What an editor tells about one file."""

    def __init__(self, path: Path, uri: str = "") -> None:
        self.path = path
        self.uri = uri or path.as_uri()
        self.documents = OpenDocuments(Deaf())
        self.version = 1

    def open(self, text: str) -> None:
        self.documents.opened(self.uri, self.version, text)

    def change(self, text: str, version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.documents.changed(self.uri, self.version, [change])

    def type(self, line: int, column: int, text: str, version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version
        place = types.Position(line, column)
        change = types.TextDocumentContentChangePartial(types.Range(place, place), text)
        self.documents.changed(self.uri, self.version, [change])

    def save(self, text: str) -> None:
        self.path.write_text(text)
        self.documents.saved(self.uri)

    def close(self) -> None:
        self.documents.closed(self.uri)

    @property
    def unsaved(self) -> str | None:
        return self.documents.unsaved(self.path.resolve())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text("disk\n")
    return path


def test_a_file_that_is_not_open_has_no_unsaved_text(path: Path) -> None:
    assert Editor(path).unsaved is None


def test_a_buffer_is_unsaved_from_the_first_change_to_the_save(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    assert editor.unsaved is None
    editor.change("typed\n")
    assert editor.unsaved == "typed\n"
    editor.change("typed more\n")
    assert editor.unsaved == "typed more\n"
    editor.save("typed more\n")
    assert editor.unsaved is None


def test_a_change_taken_back_is_none(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("typed\n")
    editor.change("disk\n")
    assert editor.unsaved is None


def test_a_buffer_that_opens_with_changes_of_an_earlier_run_is_unsaved(path: Path) -> None:
    editor = Editor(path)
    editor.open("kept by hot exit\n")
    assert editor.unsaved == "kept by hot exit\n"


def test_closing_discards(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("typed\n")
    editor.close()
    assert editor.unsaved is None
    editor.open("disk\n")
    assert editor.unsaved is None


def test_a_clean_buffer_stays_clean_when_the_agent_writes_the_file(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    path.write_text("written by the agent\n")
    assert editor.unsaved is None
    editor.change("written by the agent\n")  # the editor reloads
    assert editor.unsaved is None


def test_a_dirty_buffer_stays_dirty_when_the_agent_writes_the_file(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("typed\n")
    path.write_text("written by somebody else\n")
    assert editor.unsaved == "typed\n"


def test_a_new_file_is_unsaved_once_it_has_text(tmp_path: Path) -> None:
    editor = Editor(tmp_path / "new.py")
    editor.open("")
    assert editor.unsaved is None
    editor.change("x = 1\n")
    assert editor.unsaved == "x = 1\n"
    editor.save("x = 1\n")
    assert editor.unsaved is None


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\r\nb\r\n", "a\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffa\n"),
        ("a\u00fc\n".encode("utf-16"), "aü\n"),
        ("aü\n".encode("latin-1"), "aü\n"),
        ("aü\n".encode("cp1252"), "aü\n"),
        (b"", ""),
    ],
)
def test_the_editors_way_of_showing_a_file_is_no_change(tmp_path: Path, data: bytes, shown: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    editor = Editor(path)
    editor.open(shown)
    assert editor.unsaved is None
    editor.change(shown + "typed")
    assert editor.unsaved == shown + "typed"


def test_documents_that_are_no_files_are_nobodys_business(tmp_path: Path) -> None:
    for uri in ("untitled:Untitled-1", "git:/a.py", "file:", "file:///%00", "vscode-remote://ssh/a"):
        editor = Editor(tmp_path / "a", uri)
        editor.open("x")
        editor.change("y")
        editor.documents.saved(uri)
        editor.close()


def test_encoded_and_linked_names_are_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "mit Leer ü.py"
    path.write_text("disk\n")
    link = tmp_path / "link.py"
    link.symlink_to(path)
    for uri in (path.as_uri(), f"file://{path.as_posix()}", link.as_uri()):
        editor = Editor(path, uri)
        editor.open("typed\n")
        assert editor.unsaved == "typed\n"


def test_a_file_that_is_gone_counts_as_empty(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    path.unlink()
    editor.change("disk\n!")
    assert editor.unsaved == "disk\n!"
