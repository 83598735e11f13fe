"""The language of what users read: English, or a catalogue of translations.

The English text is the key of a catalogue (``languages/zh-CN.json``), so English needs none and reads no file. The
language is one for the whole process, set once when it starts. ``docs/language.md`` says which texts are translated.
"""

from __future__ import annotations

from typing import Literal, get_args

Language = Literal["en", "zh-CN"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
DEFAULT: Language = "en"


class _Current:
    """The language in force, and its catalogue once a text was needed."""

    language: Language = DEFAULT
    catalogue: dict[str, str] | None = None


def language() -> Language:
    """Return the language in force."""
    return _Current.language


def set_language(name: str) -> None:
    """Use the language ``name`` from now on. Raises ValueError with the list of languages for any other name."""
    found: Language | None = next((known for known in LANGUAGES if known == name), None)
    if found is None:
        raise ValueError(unknown_language(name))
    if found != _Current.language:
        _Current.language = found
        _Current.catalogue = None


def unknown_language(name: object) -> str:
    """Return the error text for a language that Goalwright does not have."""
    return t(
        "{name!r} is not a language of Goalwright. Choose one of: {languages}.",
        name=name,
        languages=", ".join(LANGUAGES),
    )


def t(text: str, /, **values: object) -> str:
    """Return ``text`` in the language in force, with ``values`` in place of its ``{placeholders}``.

    Without values the text is taken as it is, braces included. A text without a translation stays English.
    """
    if _Current.language != DEFAULT:
        text = _catalogue().get(text, text)
    return text.format(**values) if values else text


def n(one: str, many: str, count: float, /, **values: object) -> str:
    """Return ``one`` for a count of 1, else ``many``, translated; ``{count}`` in it is the count."""
    return t(one if count == 1 else many, count=count, **values)


def noted(text: str, /) -> str:
    """Mark the text of a constant for translation. Returns it as it is: pass it to ``t`` where it is shown."""
    return text


def catalogue(name: Language) -> dict[str, str]:
    """Read the translations of a language, by their English texts; none for English."""
    if name == DEFAULT:
        return {}
    import json
    from pathlib import Path

    file = Path(__file__).parent / "languages" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))


def _catalogue() -> dict[str, str]:
    if _Current.catalogue is None:
        _Current.catalogue = catalogue(_Current.language)
    return _Current.catalogue
