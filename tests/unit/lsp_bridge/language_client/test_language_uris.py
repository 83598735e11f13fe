from __future__ import annotations

from pathlib import Path

import pytest

from lsp_bridge.language_client.text.positions import file_of, path_of


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///w/a.py", "/w/a.py"),
        ("file:/w/a.py", "/w/a.py"),
        ("file:////w/a.py", "/w/a.py"),
        ("FILE://LOCALHOST/w/a.py", "/w/a.py"),
        ("file:///w/x/../a.py", "/w/a.py"),
        ("file:///w/x/%2e%2e/a.py", "/w/a.py"),
        ("file:///w//./a.py", "/w/a.py"),
        ("file:///../../w/a.py", "/w/a.py"),
        ("file:///w/%61%20%C3%A9.py", "/w/a é.py"),
        ("file:///c%3A/w/a.py", "C:/w/a.py"),
        ("file:///C:/w/a.py", "C:/w/a.py"),
        ("file:///c:", "C:/"),
        ("file://other/w/a.py", None),
        ("file:w/a.py", None),
        ("untitled:a", None),
        ("file:///w/%00", None),
        ("file:///w/%ff", None),
        ("file://[/w", None),
        (5, None),
    ],
)
def test_a_uri_names_one_path_however_it_is_written(uri: object, path: str | None) -> None:
    assert file_of(uri) == path


def test_a_file_is_known_by_the_name_it_was_opened_under(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    real, link = root / "real", root / "link"
    real.mkdir()
    link.symlink_to(real)
    opened = link / "a.py"
    known = {str(real / "a.py"): opened}
    assert path_of((real / "a.py").as_uri(), known) == opened
    assert path_of((link / "a.py").as_uri(), known) == opened
    assert path_of((link / "b.py").as_uri(), known) == real / "b.py"


def test_what_a_link_leads_out_of_the_workspace_is_outside(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "w").mkdir()
    (root / "w" / "out").symlink_to(root)
    assert path_of((root / "w" / "out" / "secret").as_uri(), {}) == root / "secret"
