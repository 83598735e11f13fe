"""An animation of a window, from pictures at moments that a test chooses: ``docs/screenshots/demo.gif``."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

from tests.e2e.vscode.window import picture_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.vscode.window import Window

MAX_BYTES = 2_000_000
WIDTH = 1200
COLORS = 128


class Animation:
    """Takes frames of a window while ``GOALWRIGHT_SCREENSHOTS`` names a folder, else nothing."""

    def __init__(self, window: Window, name: str) -> None:
        self._window = window
        folder = picture_folder()
        self._file: Path | None = folder / f"{name}.gif" if folder else None
        self._frames: list[tuple[bytes, float]] = []

    async def take(self, seconds: float = 1.5) -> None:
        """Add the window as it is now, to be shown for some seconds."""
        if self._file is not None:
            picture = await self._window.page.screenshot(animations="disabled", caret="hide")
            self._frames.append((picture, seconds))

    def save(self) -> None:
        """Write the file. Fails when it is too large for a page that people open."""
        if self._file is None:
            return
        images = [smaller(Image.open(io.BytesIO(picture))) for picture, _ in self._frames]
        durations = [round(seconds * 1000) for _, seconds in self._frames]
        images[0].save(
            self._file, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True
        )
        assert self._file.stat().st_size <= MAX_BYTES


def smaller(image: Image.Image) -> Image.Image:
    """Return a picture that a GIF holds well: narrower, and of few colours without dithering."""
    scaled = image.convert("RGB").resize(
        (WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS
    )
    return scaled.quantize(COLORS, dither=Image.Dither.NONE)
