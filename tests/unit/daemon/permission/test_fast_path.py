from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.model.permissions import Rule
from daemon.permission.access_decision import strictest
from daemon.permission.rules import SHIPPED, FastPath, RuleSet
from tools.access import Access

ROOT = "/home/ann/ws"
PATTERNS = [
    "*", "**", "*.py", "src/*", "SRC/*", "*secret*", "a?c", "~/ws/lib/*", f"{ROOT}/docs/*", "./x", "../ws/y", "a *",
    "*/b", "/etc/*", "?*", " *", "", "*.env",
]  # fmt: skip
PARTS = ["a", "b", "abc", "SRC", "src", "x", "y", "lib", "docs", "Secret.txt", "m.py", "M.PY", ".env", ".git", "a.",
         "é", "..", ".", "", "a b", "state", ".goalwright", ".trace", "id_rsa", "mise.toml", "c:", "dev",
         "~"]  # fmt: skip


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    rule = st.builds(
        Rule,
        permission=st.sampled_from(["read", "edit", "*", "write"]),
        pattern=st.sampled_from(PATTERNS),
        action=st.sampled_from(["allow", "ask", "deny"]),
    )
    return draw(st.lists(rule, max_size=5))


@given(
    rules(),
    rules(),
    st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4), min_size=1, max_size=12),
)
def test_deciding_many_targets_equals_deciding_each(
    base: list[Rule], session: list[Rule], names: list[list[str]]
) -> None:
    made = RuleSet([*SHIPPED, *base], session=session, root=ROOT)
    for permission in ("read", "edit"):
        for name in map("/".join, names):
            each = strictest(made._judge.decide(Access(permission, name), made._now)).rule  # pyright: ignore[reportPrivateUsage]
            assert made.decide(permission, name) == each


@pytest.mark.parametrize("home", ["state", f"{ROOT}/state", "/Home/ann/WS/state", "/home/ann/ws./state"])
def test_a_state_folder_in_the_workspace_stays_protected(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", f"{ROOT}/state" if home == "state" else home)
    made = RuleSet([*SHIPPED, Rule(permission="edit", pattern="*", action="allow")], root=ROOT)
    assert made.decide("edit", "plain").action == "allow"
    assert made.decide("edit", "state/token").action == "ask"


@pytest.mark.parametrize(
    ("pattern", "name"), [("secrets * ", "secrets"), ("docs *.", "docs"), ("foo \uff0a", "foo")]
)
def test_patterns_that_end_in_another_way_when_folded(pattern: str, name: str) -> None:
    made = RuleSet([*SHIPPED, Rule(permission="read", pattern=pattern, action="deny")], root=ROOT)
    assert made.decide("read", "a.py").action == "allow"
    assert made.decide("read", name).action == "deny"
    assert made.decide("read", "b.py").action == "allow"


def test_streams_of_windows_hide_no_protected_name() -> None:
    made = RuleSet([*SHIPPED, Rule(permission="edit", pattern="*", action="allow")], root=ROOT)
    for name in (".bashrc", ".bash_logout", "a/.bash_aliases"):
        assert made.decide("edit", f"{name}::$DATA").action == "ask"


def test_most_names_are_plain() -> None:
    plain = FastPath(SHIPPED, "read", ROOT)
    assert plain.kinds("src/app/main.py") == ()
    assert plain.kinds("node_modules/@types/node/index.d.ts") == ()
    assert plain.kinds(".trace/20261127-211046-4099761469/messages/0001.json") == ()
    assert plain.kinds("keys/id_rsa")
    assert plain.kinds("a./b") is None
    assert plain.kinds(".../b") is None


def test_files_of_one_protected_folder_are_decided_once() -> None:
    plain = FastPath(SHIPPED, "edit", ROOT)
    assert plain.kinds(".trace/a/messages/1.json") == plain.kinds(".trace/b/meta.json") != ()
    assert plain.kinds(".trace/b/mise.toml") != plain.kinds(".trace/b/meta.json")
