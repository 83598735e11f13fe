from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.tool_context import fake_context
from tools.paths import resolve
from tools.tool import ToolError


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("x" * 5000, "File name too long"),
        ("a/" * 3000 + "x", "File name too long"),
        ("~+/.env", "only ~ and ~/"),
        ("~-/x", "only ~ and ~/"),
    ],
)
def test_invalid_path_is_refused_with_a_reason(raw: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        resolve(raw, fake_context(tmp_path))
    assert len(str(caught.value)) < 400


def test_missing_path_or_path_below_a_file_is_still_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ctx = fake_context(tmp_path)
    assert [resolve(raw, ctx).rule for raw in ("new/deep.py", "file/x")] == ["new/deep.py", "file/x"]
