"""Buffers that count as unsaved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lsprotocol import types

from lsp_bridge.server.documents.open_documents import OpenDocuments, path_of
from tests.support.fakes.buffers import Editor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text("disk\n")
    return path


def test_a_file_that_is_not_open_has_no_unsaved_text(path: Path) -> None:
    assert Editor(path).unsaved is None


def test_a_name_that_is_not_utf_8_is_that_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.py")
    path.write_text("disk\n")
    editor = Editor(path)
    editor.open("typed\n")
    assert editor.unsaved == "typed\n"


def test_files_of_another_machine_are_none_here() -> None:
    assert path_of("file://other/w/a.py") is None
    assert path_of("file://localhost/w/a.py") == Path("/w/a.py")


def test_a_file_below_links_in_a_circle_has_a_path(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert path_of((tmp_path / "circle" / "a.py").as_uri()) == tmp_path / "circle" / "a.py"


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


def test_reverted_change_leaves_the_buffer_clean(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("typed\n")
    editor.change("disk\n")
    assert editor.unsaved is None


def test_buffer_opened_with_restored_changes_is_unsaved(path: Path) -> None:
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


def test_clean_buffer_stays_clean_when_the_agent_writes_the_file(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    path.write_text("written by the agent\n")
    assert editor.unsaved is None
    editor.change("written by the agent\n")  # the editor reloads
    assert editor.unsaved is None


def test_dirty_buffer_stays_dirty_when_the_agent_writes_the_file(path: Path) -> None:
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
def test_line_end_normalization_by_the_editor_is_no_change(tmp_path: Path, data: bytes, shown: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    editor = Editor(path)
    editor.open(shown)
    assert editor.unsaved is None
    editor.change(shown + "typed")
    assert editor.unsaved == shown + "typed"


def test_documents_that_are_not_files_are_ignored(tmp_path: Path) -> None:
    for uri in ("untitled:Untitled-1", "git:/a.py", "file:", "file:///%00", "vscode-remote://ssh/a"):
        editor = Editor(tmp_path / "a", uri)
        editor.open("x")
        editor.change("y")
        editor.documents.saved(uri)
        assert list(editor.documents.all()) == []
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


def test_deleted_file_counts_as_empty(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    path.unlink()
    editor.change("disk\n!")
    assert editor.unsaved == "disk\n!"


def test_a_change_of_a_part_reaches_the_text(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.type(0, 4, "ette")
    assert editor.unsaved == "diskette\n"


def test_versions_may_skip_but_not_decrease(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.type(0, 4, "!", version=9)
    assert editor.unsaved == "disk!\n"
    editor.type(0, 0, "older", version=8)
    assert editor.unsaved is None
    (document,) = editor.documents.at(path)
    assert not document.known
    editor.change("all of it\n", version=10)
    assert editor.unsaved == "all of it\n"


def test_document_opened_twice_uses_the_second_text(path: Path) -> None:
    editor = Editor(path)
    editor.open("first\n")
    editor.open("second\n")
    assert editor.unsaved == "second\n"
    editor.close()
    assert editor.documents.at(path) == []
    editor.close()


def test_position_outside_the_text_is_its_end(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.type(7, 7, "end")
    assert editor.unsaved == "disk\nend"


def test_a_file_open_under_two_names_is_one_file(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(path)
    editor = Editor(path)
    editor.open("disk\n")
    editor.documents.opened(link.as_uri(), 1, "disk\n")
    place = types.Position(0, 0)
    change = types.TextDocumentContentChangePartial(types.Range(place, place), "typed ")
    editor.documents.changed(link.as_uri(), 2, [change])
    assert editor.unsaved == "typed disk\n"
    assert editor.documents.unsaved_paths() == [path.resolve()]
    editor.documents.closed(link.as_uri())
    assert editor.unsaved is None


def test_name_in_other_case_is_the_same_file_if_case_is_ignored(tmp_path: Path) -> None:
    path, other = tmp_path / "Name.py", tmp_path / "NAME.py"
    path.write_text("disk\n")
    editor = Editor(path)
    editor.open("typed\n")
    assert editor.documents.unsaved(other) is None
    other.hardlink_to(path)  # as good as a file system that ignores case
    assert editor.documents.unsaved(other) == "typed\n"


def test_file_may_be_closed_while_names_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [tmp_path / name for name in ("Name.py", "NAme.py", "NAME.py")]
    names[0].write_text("disk\n")
    for name in names[1:]:
        name.hardlink_to(names[0])
    documents, samefile = OpenDocuments(), Path.samefile
    for name in names[:2]:
        documents.opened(name.as_uri(), 1, "typed\n")

    def compare(one: Path, other: Path) -> bool:
        # The name is looked up in a thread, and the event loop closes the files meanwhile.
        for name in names[:2]:
            documents.closed(name.as_uri())
        return samefile(one, other) and answer

    monkeypatch.setattr(Path, "samefile", compare)
    answer = False
    assert documents.at(names[2]) == []
    for name in names[:2]:
        documents.opened(name.as_uri(), 1, "typed\n")
    answer = True
    assert documents.at(names[2]) == []


def test_typing_before_a_late_save_notification_is_unsaved(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("saved\n")
    editor.change("saved, typed\n")
    editor.save("saved\n")
    assert editor.unsaved == "saved, typed\n"


def test_typing_reads_nothing_from_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    reads: list[Path] = []

    def read(path: Path, texts: object) -> list[bool]:
        reads.append(path)
        return [False]

    monkeypatch.setattr("lsp_bridge.server.documents.open_documents.shows", read)
    for column in range(50):
        editor.type(0, column, "x")
    assert reads == []
    assert editor.unsaved == "x" * 50 + "disk\n"
    assert reads == []  # the file on disk is still what the buffer was read from


def test_many_open_documents_are_tracked(tmp_path: Path) -> None:
    documents = OpenDocuments()
    for number in range(2_000):
        path = tmp_path / f"{number}.py"
        path.write_text("disk\n")
        documents.opened(path.as_uri(), 1, "disk\n" if number % 500 else "typed\n")
    assert sorted(path.name for path in documents.unsaved_paths()) == ["0.py", "1000.py", "1500.py", "500.py"]


def test_notebook_cells_are_no_files_and_the_notebook_is_tracked(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text("{}")
    documents = OpenDocuments()
    documents.notebook_opened(path.as_uri())
    assert documents.opened(f"vscode-notebook-cell:{path}#c1", 1, "x = 1") is None
    assert (documents.is_notebook(path), documents.unsaved_paths()) == (True, [])
    documents.notebook_closed(path.as_uri())
    assert not documents.is_notebook(path)


def test_save_notification_is_trusted_even_if_the_disk_differs(path: Path) -> None:
    editor = Editor(path)
    editor.open("disk\n")
    editor.change("typed\n")
    editor.save("what the editor made of it\n")
    assert editor.unsaved is None
    editor.change("typed again\n")
    assert editor.unsaved == "typed again\n"
