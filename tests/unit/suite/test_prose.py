"""The checks of ``python -m tests.prose``."""

from __future__ import annotations

import ast

import pytest

from tests.prose.__main__ import (
    Offence,
    absent,
    anchors,
    beginning,
    doc_comments,
    docstrings,
    phrases,
    prose,
    sentences,
)


def test_code_blocks_and_comments_are_no_prose() -> None:
    text = "One.\n\n```sh\nTwo.\n```\n\n<!-- Three. -->\n\n    Four.\n\n- Five\n  and six.\n"
    assert list(prose(text)) == [(1, "One."), (11, "- Five and six.")]


def test_cells_of_a_table_are_separate_texts() -> None:
    assert list(prose("| A | B c |\n|---|---|\n| d | |\n")) == [(1, "A"), (1, "B c"), (3, "d")]


def test_period_in_an_abbreviation_or_code_ends_no_sentence() -> None:
    assert sentences("Use one, e.g. `a. B`. Then [stop](x.md).") == ["Use one, eg code.", "Then stop."]


def test_headings_have_the_anchors_that_links_use() -> None:
    assert anchors("# The `a b`: it's\n## Twice\n## Twice\n") == {"the-a-b-its", "twice", "twice-1"}


def test_strings_after_attributes_are_docstrings() -> None:
    source = '"""Module."""\nX = 1\n"""Attribute."""\ndef f():\n    """Function."""\n    g("no")\n'
    found = [text for _, text in docstrings(ast.parse(source).body)]
    assert found == ["Module.", "Attribute.", "Function."]


def test_doc_comments_are_found_beside_code_that_resembles_them() -> None:
    source = (
        'const ALL = "src/**";\n/** One. */\n  /**\n   * Two\n   * `x`.\n   */\n/* no */ f(); // no\n/**/\n'
    )
    assert list(doc_comments(source)) == [(2, "One."), (3, "Two\n`x`.")]


@pytest.mark.parametrize("text", ["What it is.", "Whose file", "Of one.", "The same for all.\nMore."])
def test_doc_text_must_not_begin_with_a_question_word(text: str) -> None:
    assert [each.check for each in beginning("a.ts", 1, text)] == ["docstring"]


def test_doc_text_may_begin_with_a_verb_or_a_noun() -> None:
    assert [*beginning("a.ts", 1, "Open a file."), *beginning("a.ts", 1, "Office hours.\nOf it.")] == []


@pytest.mark.parametrize("text", ["as seed 004 says", "see docs/nowhere.md", "(issue 7)"])
def test_reference_to_a_missing_document_is_an_offence(text: str) -> None:
    assert [each.check for each in absent("a.py", 1, text)] == ["reference"]


def test_reference_to_an_existing_document_is_accepted() -> None:
    assert list(absent("a.py", 1, "see docs/hooks.md")) == []


def test_every_banned_phrase_has_a_replacement() -> None:
    assert all(better for _, better in phrases())


def test_an_offence_is_the_same_wherever_its_file_moves() -> None:
    assert Offence("long", "a.md", 1, "x", "").key == Offence("long", "b.md", 9, "x", "").key
