from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from daemon.model.permissions import Rule
from daemon.permission import hidden_paths as module
from daemon.permission.hidden_paths import concealed
from daemon.permission.rules import SHIPPED, RuleSet


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home/proj/a", "home/other/b.key", "home/other/c", "data/one", "data/sub/two.key"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def found(place: Path, *rules: tuple[str, str, str]) -> set[str]:
    made = [
        Rule.model_validate({"permission": p, "pattern": t, "action": a, "source": "user"})
        for p, t, a in rules
    ]
    workspace = place / "home/proj"
    hidden = concealed(RuleSet((*SHIPPED, *made), root=workspace.as_posix()), workspace)
    return {path.relative_to(place).as_posix() for path in hidden}


def test_rules_without_outside_paths_conceal_nothing(place: Path) -> None:
    assert (
        found(place, ("read", "*.key", "deny"), ("bash", "*", "deny"), ("edit", f"{place}/data/*", "deny"))
        == set()
    )


def test_files_and_folders_that_a_rule_names_are_found(place: Path) -> None:
    assert found(place, ("read", f"{place}/data/one", "deny")) == {"data/one"}
    assert found(place, ("read", f"{place}/data/*", "ask")) == {"data"}
    assert found(place, ("external_directory", f"{place}/data/*", "deny")) == {"data"}
    assert found(place, ("read", f"{place}/data/*.key", "deny")) == {"data/sub/two.key"}
    assert found(place, ("read", "~/other/c", "deny")) == {"home/other/c"}
    assert found(place, ("read", "../other/c", "deny")) == {"home/other/c"}
    assert found(place, ("read", f"{place}/gone/*", "deny"), ("read", f"{place}/gone", "deny")) == set()


def test_deny_rule_for_a_parent_folder_spares_the_workspace(place: Path) -> None:
    assert found(place, ("read", "~/*", "deny")) == {"home/other"}
    assert found(place, ("read", f"{place}/*", "deny")) == {"home/other", "data"}


def test_later_allow_rule_for_the_same_path_reveals_it(place: Path) -> None:
    rules = ("read", f"{place}/data/*", "deny"), ("read", f"{place}/data/*", "allow")
    assert found(place, *rules) == set()


@pytest.mark.parametrize("layer", ["workspace", "granted", "session", "bounds"])
def test_only_what_lifts_a_deny_of_the_user_reveals_a_path(place: Path, layer: str) -> None:
    deny = Rule(permission="read", pattern=f"{place}/data/*", action="deny", source="user")
    workspace = place / "home/proj"
    allow = (deny.model_copy(update={"action": "allow"}),)
    rules = RuleSet((*SHIPPED, deny), root=workspace.as_posix())
    assert concealed(replace(rules, **{layer: (allow,) if layer == "bounds" else allow}), workspace)
    assert not concealed(replace(rules, base=(*SHIPPED, deny, *allow)), workspace)


def test_a_folder_that_cannot_be_searched_is_hidden_as_a_whole(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    deny = ("read", f"{place}/data/*.key", "deny")
    assert found(place, deny) == {"data"}
    assert found(place, ("external_directory", "*", "allow"), deny) == {"data"}
