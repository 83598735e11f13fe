from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.sandbox.landlock import Fence
from tools.sandbox.seatbelt import PROGRAM, prefix, profile, quoted

_WORK, _HOME = Path("/Users/a/work"), Path("/Users/a")
_FENCE = Fence(
    writable=(_WORK, _HOME / ".state/copies/one"),
    read_only=(_WORK / ".git/hooks", _WORK / ".vscode"),
    hidden=(_WORK / ".env", _HOME / ".ssh", _HOME / ".state"),
    network=False,
    readable=(_HOME / ".state/copies",),
)


def _decision(text: str, action: str, path: str) -> str:
    """Apply a profile as macOS does for rules of this form: the last that matches decides."""
    found = "deny"
    for line in text.splitlines():
        match = re.fullmatch(
            r'\((allow|deny) ([a-z* -]+?)(?: \((subpath|literal) "((?:[^"\\]|\\.)*)"\))?\)', line
        )
        if match is None:
            continue
        verb, actions, kind, quoted_place = match.groups()
        place = re.sub(r"\\(.)", r"\1", quoted_place or "/")
        covers = path == place or (kind != "literal" and Path(path).is_relative_to(place))
        if covers and any(
            action == one or (one.endswith("*") and action.startswith(one[:-1])) for one in actions.split()
        ):
            found = verb
    return found


@pytest.mark.parametrize(
    ("action", "path", "expected"),
    [
        ("file-read-data", "/usr/bin/git", "allow"),
        ("file-read-data", "/Users/a/work/src/a.py", "allow"),
        ("file-read-data", "/Users/a/work/.env", "deny"),
        ("file-read-metadata", "/Users/a/work/.env", "allow"),
        ("file-read-data", "/Users/a/.ssh/id", "deny"),
        ("file-read-data", "/Users/a/.state/token", "deny"),
        ("file-read-data", "/Users/a/.state/copies/two/a", "allow"),
        ("file-read-data", "/Users/a/.state/copies/one/a", "allow"),
        ("file-write-data", "/Users/a/.state/copies/one/a", "allow"),
        ("file-write-data", "/Users/a/.state/copies/two/a", "deny"),
        ("file-write-create", "/Users/a/work/new", "allow"),
        ("file-write-create", "/Users/a/.zshrc", "deny"),
        ("file-write-create", "/Users/a/work/.vscode/tasks.json", "deny"),
        ("file-write-create", "/Users/a/work/.vscode", "deny"),
        ("file-write-create", "/Users/a/work/.git/hooks/pre-commit", "deny"),
        ("file-write-data", "/Users/a/work/.git/index.lock", "allow"),
        ("file-write-unlink", "/Users/a/work/.git", "deny"),
        ("file-write-unlink", "/Users/a/work", "deny"),
        ("file-write-unlink", "/Users/a/work/src", "allow"),
        ("file-write-data", "/Users/a/work/.env", "deny"),
        ("file-write-data", "/dev/null", "allow"),
        ("network-outbound", "/var/run/docker.sock", "deny"),
        ("network-outbound", "/Users/a/work/socket", "allow"),
        ("network-outbound", "/Users/a/work/.vscode/socket", "deny"),
    ],
)
def test_the_last_rule_that_matches_decides_as_the_fence_says(action: str, path: str, expected: str) -> None:
    assert _decision(profile(_FENCE), action, path) == expected


def test_everything_that_is_not_allowed_is_denied() -> None:
    assert profile(_FENCE).startswith("(version 1)\n(deny default)\n")


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_if_the_fence_has_it(network: bool) -> None:
    fence = Fence((_WORK,), (), (), network=network)
    assert ("(remote ip)" in profile(fence)) == network


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/a b", '"/a b"'),
        ('/a"b', r'"/a\"b"'),
        ("/a\\b", r'"/a\\b"'),
        ('/x")(allow default)(literal "', r'"/x\")(allow default)(literal \""'),
        ("/ä", '"/ä"'),
    ],
)
def test_names_cannot_add_rules(path: str, text: str) -> None:
    assert quoted(Path(path)) == text


@pytest.mark.parametrize("path", ["/a\nb", "/a\0", "/a\x7f", "/a\udcff"])
def test_names_that_cannot_be_written_are_an_error(path: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        profile(Fence((Path(path),), (), (), network=False))


def test_temporary_files_go_to_the_private_folder() -> None:
    tmp = Path("/private/tmp/goalwright")
    assert prefix(Fence((tmp,), (), (), network=False, tmp=tmp))[3:] == (
        "/usr/bin/env", f"TMPDIR={tmp}", f"TMP={tmp}", f"TEMP={tmp}",
    )  # fmt: skip
    assert prefix(_FENCE) == (PROGRAM, "-p", profile(_FENCE))
