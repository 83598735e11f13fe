"""Settings from files and clients: what holds, and what is reported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from daemon.config import WORKSPACE_FILE, Config, load_config
from daemon.permission.rules import SHIPPED, RuleSet
from daemon.runtime import state_dir, user_home
from daemon.settings import SETTINGS, Settings, TraceSettings, settings_schema


def decide(config: Config, permission: str, target: str = "x") -> str:
    return RuleSet(config.base_rules, config.workspace_rules).decide(permission, target).action


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    return tmp_path / "user.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / WORKSPACE_FILE).parent.mkdir(parents=True)
    return folder


def write(path: Path, value: object) -> None:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_without_files_the_defaults_apply(user_file: Path, workspace: Path) -> None:
    assert load_config(workspace, user_file) == Config()
    assert Config().base_rules == SHIPPED


def test_user_settings_and_rules_are_applied(user_file: Path, workspace: Path) -> None:
    write(
        user_file,
        {
            "$schema": "x",
            "model": "ollama/qwen3",
            "max_tokens": 1000,
            "permission": {"edit": "allow", "bash": {"rm *": "deny"}},
        },
    )
    config = load_config(workspace, user_file)
    assert config.problems == ()
    assert config.settings == Settings().changed({"model": "ollama/qwen3", "max_tokens": 1000})
    assert decide(config, "edit") == "allow"
    assert decide(config, "bash", "rm -rf x") == "deny"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "null", '"x"', "\x00", "[" * 100_000, '{"model": "a"} rest'],
    ids=["empty", "cut", "list", "null", "text", "zero", "deep", "rest"],
)
@pytest.mark.parametrize("which", ["user", "workspace"])
def test_unreadable_file_is_reported_and_others_apply(
    user_file: Path, workspace: Path, which: str, text: str
) -> None:
    write(user_file, {"max_tokens": 1000})
    write(user_file if which == "user" else workspace / WORKSPACE_FILE, text)
    config = load_config(workspace, user_file)
    assert len(config.blocking) == 1
    assert ("user.json" if which == "user" else "config.json") in config.blocking[0]
    assert config.settings.model.max_tokens == (16_000 if which == "user" else 1000)


def test_a_file_that_is_not_utf_8_is_named(user_file: Path, workspace: Path) -> None:
    user_file.write_bytes('{"model": "ü"}'.encode("latin-1"))
    assert "user.json" in load_config(workspace, user_file).blocking[0]


def test_byte_order_mark_is_accepted(user_file: Path, workspace: Path) -> None:
    user_file.write_bytes(b"\xef\xbb\xbf" + b'{"max_tokens": 1000}')
    assert load_config(workspace, user_file).settings.model.max_tokens == 1000


def test_folder_or_device_in_place_of_the_file_is_reported(user_file: Path, workspace: Path) -> None:
    user_file.mkdir()
    # A workspace is untrusted: reading this one would never end.
    (workspace / WORKSPACE_FILE).symlink_to("/dev/zero")
    problems = load_config(workspace, user_file).blocking
    assert len(problems) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_in_place_of_the_file_does_not_block_the_daemon(user_file: Path, workspace: Path) -> None:
    os.mkfifo(workspace / WORKSPACE_FILE)
    assert len(load_config(workspace, user_file).blocking) == 1


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("max_tokens", 1, "max_tokens"),
        ("max_tokens", "many", "max_tokens"),
        ("thinking_tokens", -1, "thinking_tokens"),
        ("plan_placement", "nowhere", "plan_placement"),
        ("plan_front", "todo", "plan_front"),
        ("model", 5, "model"),
        ("colour", "red", "not a setting"),
        ("permission", "allow", "permission"),
        ("permission", {"bash": 1}, "bash"),
    ],
)
def test_invalid_value_is_reported_and_ignored(
    user_file: Path, workspace: Path, key: str, value: object, word: str
) -> None:
    write(user_file, {key: value, "idle_timeout_s": 5})
    config = load_config(workspace, user_file)
    found = (*config.problems, *config.blocking)
    assert len(found) == 1
    assert "user.json" in found[0]
    assert word in found[0]
    assert bool(config.blocking) == (key == "permission")
    assert config.settings == Settings().changed({"idle_timeout_s": 5})
    assert config.base_rules == SHIPPED


def test_setting_named_like_the_rules_is_a_setting(user_file: Path, workspace: Path) -> None:
    user_file.write_text('{"permission_timeout_s": 30}')
    config = load_config(workspace, user_file)
    assert config.blocking == ()
    assert config.settings.approval.permission_timeout_s == 30


def test_invalid_rule_costs_only_itself(user_file: Path, workspace: Path) -> None:
    write(user_file, {"permission": {"bash": "deny", "edit": "perhaps"}})
    config = load_config(workspace, user_file)
    assert decide(config, "bash") == "deny"
    assert len(config.blocking) == 1


def test_untrusted_workspace_file_may_only_tighten_permissions(user_file: Path, workspace: Path) -> None:
    write(
        workspace / WORKSPACE_FILE,
        {
            "permission": {"edit": "allow", "read": {"secret/*": "deny"}},
            "model": "evil/model",
            "max_tokens": 999_999,
        },
    )
    config = load_config(workspace, user_file)
    assert config.settings == Settings()
    assert decide(config, "edit") == "ask"
    assert decide(config, "read", "secret/x") == "deny"
    assert decide(config, "read") == "allow"
    assert len(config.problems) == 1
    assert "max_tokens, model" in config.problems[0]


def test_invalid_workspace_rules_are_reported(user_file: Path, workspace: Path) -> None:
    write(workspace / WORKSPACE_FILE, {"permission": {"bash": ["deny"], "edit": "deny"}})
    config = load_config(workspace, user_file)
    assert decide(config, "edit") == "deny"
    assert len(config.blocking) == 1
    assert "bash" in config.blocking[0]


def test_client_settings_override_files() -> None:
    base = Config()
    config = base.overlaid({"permission": {"edit": "allow"}, "max_tokens": 500}, "editor", "VS Code")
    assert decide(config, "edit") == "allow"
    assert config.settings.model.max_tokens == 500
    assert base.settings.model.max_tokens == 16_000


def test_invalid_client_settings_name_the_client() -> None:
    config = Config().overlaid({"max_tokens": "x", "model": None}, "editor", "VS Code")
    assert len(config.problems) == 1
    assert config.problems[0].startswith("VS Code: max_tokens")


def test_settings_of_the_user_alone_say_so(user_file: Path, workspace: Path) -> None:
    described = settings_schema()["properties"]
    own = {
        key for key, value in described.items() if "effect in your own file" in value.get("description", "")
    }
    write(workspace / WORKSPACE_FILE, dict.fromkeys(described))
    problems = load_config(workspace, user_file, trusted=True).problems
    refused = {key for key in described if any(f": {key}: only has an effect" in text for text in problems)}
    assert own == refused


def test_later_layers_override_only_what_they_set() -> None:
    config = Config().overlaid({"max_tokens": 500, "model": "a/b"}, "user", "file")
    config = config.overlaid({"model": "c/d"}, "editor", "VS Code")
    assert config.settings.model.model == "c/d"
    assert config.settings.model.max_tokens == 500


def test_schema_lists_every_setting() -> None:
    assert set(settings_schema()["properties"]) == SETTINGS


# -- the workspace's file, trusted and not --

LOOSE = {
    "permission": {"edit": "allow", "bash": {"rm *": "deny"}},
    "mode": "accept-edits",
    "model": "ollama/qwen3",
    "sandbox": "workspace-write",
    "hooks": {"session.start": [{"command": ["./hook"]}]},
}


def in_force(config: Config, permission: str, target: str) -> str:
    rules = RuleSet(config.base_rules, config.workspace_rules, trusted=config.trusted)
    return rules.decide(permission, target).action


def test_the_file_of_a_folder_that_is_not_trusted_only_tightens(user_file: Path, workspace: Path) -> None:
    write(workspace / WORKSPACE_FILE, LOOSE)
    config = load_config(workspace, user_file, trusted=False)
    assert config.settings == Settings()
    assert not config.trusted
    assert in_force(config, "edit", "a.py") == "ask"
    assert in_force(config, "bash", "rm x") == "deny"
    (problem,) = config.problems
    for name in ("hooks", "mode", "model", "sandbox", "allow rules", "goalwright trust"):
        assert name in problem
    assert config.blocking == ()


def test_file_of_a_trusted_folder_applies_in_full(user_file: Path, workspace: Path) -> None:
    write(user_file, {"max_tokens": 1000, "model": "a/b", "mode": "plan", "permission": {"bash": "ask"}})
    write(workspace / WORKSPACE_FILE, LOOSE)
    config = load_config(workspace, user_file, trusted=True)
    assert config.trusted
    assert config.problems == ()
    settings = config.settings
    assert (settings.approval.mode, settings.model.model, settings.model.max_tokens) == (
        "accept-edits",
        "ollama/qwen3",
        1000,
    )
    assert settings.commands.sandbox == "workspace-write"
    assert [hook.command for hook in settings.commands.hooks["session.start"]] == [("./hook",)]
    assert in_force(config, "edit", "a.py") == "allow"
    assert in_force(config, "bash", "rm x") == "deny"


def test_hooks_of_all_trusted_layers_are_collected(user_file: Path, workspace: Path) -> None:
    def hooks(*names: str) -> dict[str, object]:
        return {"hooks": {"tool.execute.before": [{"command": [name]} for name in names]}}

    write(user_file, hooks("guard"))
    write(workspace / WORKSPACE_FILE, hooks("theirs"))
    trusted = load_config(workspace, user_file, trusted=True).overlaid(hooks("editors"), "editor", "VS Code")
    found = [hook.command[0] for hook in trusted.settings.commands.hooks["tool.execute.before"]]
    assert found == ["guard", "theirs", "editors"]
    untrusted = load_config(workspace, user_file)
    assert [hook.command[0] for hook in untrusted.settings.commands.hooks["tool.execute.before"]] == ["guard"]


@pytest.mark.parametrize(
    ("users", "theirs", "mode", "told"),
    [
        ("ask", "plan", "plan", False),
        ("auto", "plan", "plan", False),
        ("auto", "ask", "ask", False),
        ("auto", "accept-edits", "accept-edits", False),
        ("ask", "ask", "ask", False),
        ("ask", "auto", "ask", True),
        ("ask", "accept-edits", "ask", True),
        ("plan", "ask", "plan", True),
        ("ask", "nonsense", "ask", True),
        ("ask", 5, "ask", True),
    ],
)
def test_mode_of_an_untrusted_folder_applies_only_if_stricter(
    user_file: Path, workspace: Path, users: str, theirs: object, mode: str, told: bool
) -> None:
    write(user_file, {"mode": users})
    write(workspace / WORKSPACE_FILE, {"mode": theirs})
    config = load_config(workspace, user_file)
    assert config.settings.approval.mode == mode
    assert bool(config.problems) == told


def test_rules_know_their_file(user_file: Path, workspace: Path) -> None:
    write(user_file, {"permission": {"bash": "ask"}})
    write(workspace / WORKSPACE_FILE, {"permission": {"edit": "ask"}})
    config = load_config(workspace, user_file).overlaid({"permission": {"read": "ask"}}, "editor", "VS Code")
    own = [(rule.source, rule.file) for rule in config.base_rules if rule.source != "shipped"]
    assert own == [("user", str(user_file)), ("editor", "")]
    assert [rule.file for rule in config.workspace_rules] == [WORKSPACE_FILE.as_posix()]


@pytest.mark.parametrize("trusted", [False, True])
def test_unreadable_rules_block_trusted_and_untrusted_folders(
    user_file: Path, workspace: Path, trusted: bool
) -> None:
    write(workspace / WORKSPACE_FILE, {"permissions": {"edit": "deny"}, "permission": {"bash": "never"}})
    assert len(load_config(workspace, user_file, trusted=trusted).blocking) == 2


def test_invalid_setting_of_a_trusted_folder_is_reported(user_file: Path, workspace: Path) -> None:
    write(workspace / WORKSPACE_FILE, {"hooks": {"session.start": "rm -rf /"}, "max_tokens": 1000})
    config = load_config(workspace, user_file, trusted=True)
    assert config.settings == Settings().changed({"max_tokens": 1000})
    assert config.problems[0].startswith(".goalwright/config.json: hooks")


def test_language_server_settings_are_merged_by_name(user_file: Path, workspace: Path) -> None:
    write(user_file, {"language_servers": {"ruff": {"enabled": False}, "ty": {"settings": {"a": 1}}}})
    write(workspace / WORKSPACE_FILE, {"language_servers": {"ty": {"command": ["my-ty"]}}})
    servers = load_config(workspace, user_file, trusted=True).settings.languages.language_servers
    assert (servers["ruff"].enabled, servers["ty"].command, servers["ty"].settings) == (
        False,
        ("my-ty",),
        {},
    )


def test_untrusted_folder_sets_no_language_server(user_file: Path, workspace: Path) -> None:
    write(workspace / WORKSPACE_FILE, {"language_servers": {"evil": {"command": ["./evil"]}}})
    config = load_config(workspace, user_file)
    assert config.settings.languages.language_servers == {}
    assert any("language_servers ignored" in problem for problem in config.problems)


def test_invalid_language_server_is_reported_and_others_are_kept(user_file: Path, workspace: Path) -> None:
    write(user_file, {"language_servers": {"ruff": {"enable": False}, "ty": {"enabled": False}, "zls": 3}})
    config = load_config(workspace, user_file)
    assert [*config.settings.languages.language_servers] == ["ty"]
    assert [problem.partition(": ")[2] for problem in config.problems] == [
        "language_servers: ruff is not used: enable is not a known key: check its spelling.",
        "language_servers: zls is not used: it must be an object, in curly brackets.",
    ]


def test_language_comes_from_the_user_file_and_must_be_known(user_file: Path, workspace: Path) -> None:
    write(user_file, {"language": "zh-CN"})
    assert load_config(workspace, user_file).settings.daemon.language == "zh-CN"
    write(workspace / WORKSPACE_FILE, {"language": "en"})
    config = load_config(workspace, user_file, trusted=True)
    assert config.settings.daemon.language == "zh-CN"
    (problem,) = config.problems
    assert problem.endswith("language: only has an effect in your own file, ~/.goalwright/config.json")
    (workspace / WORKSPACE_FILE).unlink()
    write(user_file, {"language": "fr"})
    config = load_config(workspace, user_file)
    assert config.settings.daemon.language == "en"
    assert config.problems == (
        f"{user_file}: language: 'fr' is not a language of Goalwright. Choose one of: en, zh-CN.",
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", None),
        ("files:", None),
        ("sqlite:///traces.db", "sqlite:///STATE/traces.db"),
        ("sqlite:////srv/traces.db", "sqlite:////srv/traces.db"),
        ("sqlite:///~/traces.db", "sqlite:///~/traces.db"),
        ("sqlite:///C:\\traces.db", "sqlite:///C:\\traces.db"),
        ("postgresql://host/traces", "postgresql://host/traces"),
    ],
)
def test_place_of_the_database_is_the_same_in_all_folders(given: str, meant: str | None) -> None:
    url = TraceSettings(store_url=given).store_url
    assert (url and url.replace(str(state_dir()), "STATE")) == meant


def test_misspelled_permissions_are_reported(tmp_path: Path) -> None:
    rules = {
        "bsah": "deny",
        "edit": "ask",
        "write": "ask",
        "mcp__x__y": "deny",
        "web*": "ask",
        "edti": {"a": "deny"},
    }
    config = Config().overlaid({"permission": rules}, "user", "config.json")
    assert config.problems == tuple(
        f"config.json: permission: there is no permission {word}, so its rules do nothing."
        for word in ("bsah", "edti")
    )
    assert not config.blocking


def test_files_of_other_programs_are_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOALWRIGHT_HOME", raising=False)
    assert user_home(tmp_path / ".goalwright") == tmp_path
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert user_home(tmp_path / "elsewhere") == tmp_path / "me"


def test_misspelled_hook_events_are_reported(user_file: Path, workspace: Path) -> None:
    hooks = {"PreToolUse": [{"command": ["false"]}], "session.end": [{"command": ["true"]}]}
    user_file.write_text(json.dumps({"hooks": hooks}))
    config = load_config(workspace, user_file)
    (problem,) = config.problems
    assert "hooks: PreToolUse is not used: it must be one of: session.start, " in problem
    assert list(config.settings.commands.hooks) == ["session.end"]


def test_the_users_file_counts_once_in_the_home_folder(tmp_path: Path) -> None:
    user_file = tmp_path / WORKSPACE_FILE
    user_file.parent.mkdir()
    user_file.write_text(
        json.dumps({"planner": "layered", "hooks": {"session.end": [{"command": ["true"]}]}})
    )
    for trusted in (False, True):
        config = load_config(tmp_path, user_file, trusted=trusted)
        assert not config.problems
        assert len(config.settings.commands.hooks["session.end"]) == 1


def test_files_of_hooks_are_found_in_command_lines(workspace: Path) -> None:
    (workspace / "tool").touch()
    (workspace / "src").mkdir()
    commands = (
        ["bash", "-c", "scripts/check.sh --all && ./tool"],
        ["python3", "scripts/new.py", "src/", "--level=3", "https://example.org/x", "tool"],
    )
    hooks = {"session.start": [{"command": command} for command in commands]}
    config = Config().overlaid({"hooks": hooks}, "user", "config.json")
    found = config.settings.commands.hook_files(workspace)
    assert {path.relative_to(workspace).as_posix() for path in found} == {
        "scripts/check.sh", "scripts/new.py", "tool"
    }  # fmt: skip


def test_settings_of_a_folder_in_a_loop_of_links_are_reported(user_file: Path, workspace: Path) -> None:
    (workspace / WORKSPACE_FILE).parent.mkdir(exist_ok=True)
    (workspace / WORKSPACE_FILE).symlink_to((workspace / WORKSPACE_FILE).name)
    config = load_config(workspace, user_file)
    assert config.problems or config.blocking
