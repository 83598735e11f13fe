"""The user's hand in a window: it performs actions by real mouse and keyboard, and counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from playwright.async_api import Locator, Page


@dataclass
class Hand:
    """Clicks, key chords and texts so far. What is done past it does not count."""

    page: Page
    chords: list[str] = field(default_factory=list[str])
    clicks: int = 0
    texts: int = 0

    @property
    def actions(self) -> int:
        """Clicks and chords; a text that is typed or pasted is none, however long."""
        return self.clicks + len(self.chords)

    @property
    def words(self) -> str:
        """E.g. ``2 clicks + text + Enter``; ``nothing``."""
        clicks = {0: "", 1: "1 click"}.get(self.clicks, f"{self.clicks} clicks")
        texts = {0: "", 1: "text"}.get(self.texts, f"{self.texts} texts")
        chords = [
            chord if count == 1 else f"{count} × {chord}" for chord, count in Counter(self.chords).items()
        ]
        return " + ".join(filter(None, (clicks, texts, *chords))) or "nothing"

    async def click(self, target: Locator) -> None:
        """One click."""
        self.clicks += 1
        await target.click()

    async def pick(self, word: Locator) -> None:
        """Select a word by a double click, which is one action."""
        self.clicks += 1
        await word.dblclick()

    async def press(self, chord: str) -> None:
        """One key, or several at once."""
        self.chords.append(chord)
        await self.page.keyboard.press(chord)

    async def type(self, text: str) -> None:
        """Type a text where the caret is."""
        self.texts += 1
        await self.page.keyboard.type(text)

    async def paste(self, text: str) -> None:
        """Paste a text where the caret is."""
        self.texts += 1
        await self.page.keyboard.insert_text(text)
