"""The language of what users read: English, or a catalogue of translations.

The English text is the key of a catalogue (``translations/zh-CN.json``), so English needs none and reads no file. The
whole process has one language, set once when it starts. ``docs/language.md`` lists the translated texts.
"""

from __future__ import annotations

from typing import Literal, get_args

Language = Literal["en", "zh-CN"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
DEFAULT: Language = "en"


class _Translated(str):
    """A text in the current language that knows its English original, which models receive."""

    english: str

    def __new__(cls, text: str, english: str) -> _Translated:
        made = super().__new__(cls, text)
        made.english = english
        return made

    def __reduce__(self) -> tuple[type[_Translated], tuple[str, str]]:
        """Say how to make a copy, also in the node of a cluster that the text is sent to."""
        return _Translated, (str(self), self.english)


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
    """Return ``text`` in the current language, with ``values`` in place of its ``{placeholders}``.

    Without values the text is used unchanged, including braces. A text without a translation stays English. ``english``
    returns the English original of the result.
    """
    if _Current.language == DEFAULT:
        return text.format(**values) if values else text
    if _Current.catalogue is None:
        _Current.catalogue = catalogue(_Current.language)
    found = _Current.catalogue.get(text, text)
    if not values:
        return _Translated(found, text)
    return _Translated(
        found.format(**values), text.format(**{name: _original(value) for name, value in values.items()})
    )


def english(said: object) -> str:
    """Return the English of a text that ``t`` or ``joined`` made, or of an error with such a text; else the text."""
    return str(_original(said))


def written_for_models(text: str, instead: str) -> str:
    """Return ``text``, which is written for a model in English, where the user reads English too, else ``instead``."""
    return text if _Current.language == DEFAULT else instead


def joined(*texts: str, sep: str = "") -> str:
    """Put texts together; ``english`` still knows the original of each."""
    together = sep.join(texts)
    return together if _Current.language == DEFAULT else _Translated(together, sep.join(map(english, texts)))


def _original(value: object) -> object:
    if isinstance(value, BaseException):
        return english(value.args[0]) if value.args else str(value)
    return getattr(value, "english", value) if isinstance(value, str) else value


def n(one: str, many: str, count: float, /, **values: object) -> str:
    """Return ``one`` for a count of 1, else ``many``, translated; ``{count}`` in it is the count."""
    return t(one if count == 1 else many, count=count, **values)


def noted(text: str, /) -> str:
    """Mark the text of a constant for translation. Returns it unchanged: pass it to ``t`` where it is shown."""
    return text


def catalogue(name: Language) -> dict[str, str]:
    """Read the translations of a language, by their English texts; none for English."""
    if name == DEFAULT:
        return {}
    import json
    from pathlib import Path

    file = Path(__file__).parent / "translations" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))
