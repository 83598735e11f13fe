"""The texts that a page shows, in English and in Chinese."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from playwright.async_api import Locator

from tests.e2e.vscode.install import ROOT

_EXTENSION = ROOT / "vscode-extension"
_BUNDLE: dict[str, str] = {
    **json.loads((ROOT / "daemon/api/page/zh-cn.json").read_text("utf-8")),
    **json.loads((_EXTENSION / "l10n/bundle.l10n.zh-cn.json").read_text("utf-8")),
}
MANIFEST: dict[str, str] = json.loads((_EXTENSION / "package.nls.zh-cn.json").read_text("utf-8"))
"""The Chinese texts of the extension's manifest by their keys."""
_ENGLISH = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
_NAMES = """(root, contents) => {
  const own = (one) => [...one.childNodes].map((node) => (node.nodeType === 3 ? node.data : "")).join(" ");
  return [...root.querySelectorAll(contents.names)]
  .filter((one) => !contents.except || !one.matches(contents.except))
  .flatMap((one) => [one.ariaLabel, one.title, one.placeholder, one.matches(contents.texts) && own(one)])
  .filter(Boolean);
}"""


async def english_names(root: Locator, *, except_for: str = "") -> Sequence[str]:
    """Names, titles and texts of the elements within ``root`` that have two English words in a row.

    ``except_for``: a CSS selector of elements whose texts are not the page's own.
    """
    texts = "button, label, option, h1, h2, p, dt, dd, li, td, th, span, strong"
    contents = {
        "names": f"{texts}, input, textarea, [aria-label], [title]",
        "texts": texts,
        "except": except_for,
    }
    names: list[str] = await root.evaluate(_NAMES, contents)
    return [name for name in names if _ENGLISH.search(name)]


def zh(text: str, *values: str) -> str:
    """A text of the extension in Chinese."""
    translated = _BUNDLE[text]
    for at, value in enumerate(values):
        translated = translated.replace(f"{{{at}}}", value)
    return translated
