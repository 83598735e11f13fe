"""Which buffers count as unsaved."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from lsp_bridge.documents import OpenDocuments


class Deaf:
    async def write(self, document: TextDocument, before: str, after: str) -> None:
        raise AssertionError("nobody writes here")


class Editor:
    """What an editor tells about one file."""

    def __init__(self, path: Path, uri: str = "") -> None:
        self.path = path
        self.uri = uri or path.as_uri()
        self.workspace = Workspace(None, types.TextDocumentSyncKind.Incremental)
        self.documents = OpenDocuments(self.workspace, Deaf())
        self._version = 0

    def open(self, text: str) -> None:
        self.workspace.put_text_document(types.TextDocumentItem(self.uri, "python", 0, text))
        self.documents.opened(self.uri)

    def change(self, text: str) -> None:
        self._version += 1
        self.workspace.update_text_document(
            types.VersionedTextDocumentIdentifier(self._version, self.uri),
            types.TextDocumentContentChangeWholeDocument(text),
        )
        self.documents.changed(self.uri)

    def save(self, text: str) -> None:
        self.path.write_text(text)
        self.documents.saved(self.uri)

    def close(self) -> None:
        self.workspace.remove_text_document(self.uri)
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
