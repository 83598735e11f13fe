from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.settings import LanguageServerSetting, Settings
from lsp_bridge.language_client.pool.server_choice import SettingsChooser, choice_of
from lsp_bridge.language_client.specs.server_spec import Project, ServerSpec, Setup, SetupContext
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS, configured, merged


def wanted(**servers: dict[str, Any]) -> dict[str, LanguageServerSetting]:
    return {
        name.replace("_", "-"): LanguageServerSetting.model_validate(value) for name, value in servers.items()
    }


def spec_of(specs: tuple[ServerSpec, ...], name: str) -> ServerSpec:
    return next(spec for spec in specs if spec.name == name)


def setup_of(spec: ServerSpec) -> Setup:
    setup = spec.set_up(SetupContext(Project(Path("/w")), Path("/usr/bin/x"), ""))
    assert isinstance(setup, Setup)
    return setup


def test_without_settings_the_default_servers_are_used() -> None:
    assert configured(DEFAULT_SPECS, {}) == (DEFAULT_SPECS, ())


def test_disabled_server_is_removed_and_no_server_yields_to_it() -> None:
    specs, problems = configured(DEFAULT_SPECS, wanted(pyright={"enabled": False}))
    assert problems == ()
    assert "pyright" not in {spec.name for spec in specs}
    assert spec_of(specs, "ty").yields_to == ()


def test_program_of_a_server_can_be_disabled_or_replaced() -> None:
    specs, _ = configured(DEFAULT_SPECS, wanted(basedpyright={"enabled": False}))
    assert [command.name for command in spec_of(specs, "pyright").commands] == ["pyright"]
    specs, _ = configured(DEFAULT_SPECS, wanted(basedpyright={"command": ["bp", "--stdio", "-v"]}))
    assert spec_of(specs, "pyright").commands[0].argv == ("bp", "--stdio", "-v")


def test_ty_runs_beside_pyright_if_configured() -> None:
    assert spec_of(configured(DEFAULT_SPECS, {})[0], "ty").yields_to == ("pyright",)
    assert spec_of(configured(DEFAULT_SPECS, wanted(ty={}))[0], "ty").yields_to == ()


def test_server_settings_are_merged_over_the_defaults() -> None:
    change = {
        "settings": {"python": {"analysis": {"typeCheckingMode": "basic"}}},
        "initialization_options": {"a": 1},
    }
    specs, _ = configured(DEFAULT_SPECS, wanted(pyright=change))
    setup = setup_of(spec_of(specs, "pyright"))
    assert setup.settings["python"]["analysis"]["typeCheckingMode"] == "basic"
    assert setup.settings["python"]["analysis"]["diagnosticMode"] == "openFilesOnly"
    assert setup.initialization_options == {"a": 1}


def test_objects_are_merged_and_other_values_replaced() -> None:
    base = {"a": {"b": [1], "c": 2}, "d": {"e": 1}}
    assert merged(base, {"a": {"b": [3]}, "d": 4}) == {"a": {"b": [3], "c": 2}, "d": 4}
    assert base == {"a": {"b": [1], "c": 2}, "d": {"e": 1}}


def test_a_new_server_needs_no_code() -> None:
    setting = {
        "command": ["zls"],
        "languages": {".zig": "zig", "build.zig.zon": "zon"},
        "roots": ["build.zig"],
    }
    specs, problems = configured(DEFAULT_SPECS, wanted(zls=setting))
    zls = spec_of(specs, "zls")
    assert problems == ()
    assert (zls.commands[0].argv, zls.roots) == (("zls",), ("build.zig",))
    assert zls.language_of(Path("/w/a.ZIG")) == "zig"
    assert zls.language_of(Path("/w/build.zig.zon")) == "zon"
    assert zls.language_of(Path("/w/other.zon")) is None


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({"zls": {"languages": {".zig": "zig"}}}, "knows no such server"),
        ({"zls": {"command": ["zls"]}}, "knows no such server"),
        ({"ruf": {"enabled": False}}, "It knows bash-language-server, clangd"),
        ({"zls": {"command": ["./zls"], "languages": {".zig": "zig"}}}, "neither the name of a program"),
        ({"zls": {"command": ["~nobody-of-that-name/zls"], "languages": {".zig": "zig"}}}, "absolute path"),
        ({"zls": {"command": ["zls"], "languages": {"*.zig": "zig"}}}, "neither a suffix"),
        ({"ruff": {"roots": ["a/b"]}}, "not paths"),
    ],
)
def test_invalid_server_settings_are_reported_and_ignored(
    servers: dict[str, dict[str, Any]], said: str
) -> None:
    specs, problems = configured(DEFAULT_SPECS, wanted(**servers))
    assert len(problems) == 1 and said in problems[0]
    assert [spec.name for spec in specs] == [spec.name for spec in DEFAULT_SPECS]


def test_settings_chooser_returns_the_same_value_until_a_change() -> None:
    now: dict[str, Any] = {"settings": Settings(), "trusted": False}
    told: list[str] = []
    choose = SettingsChooser(lambda trusted: now["settings"], lambda: now["trusted"], told=told.extend)
    first = choose()
    now["settings"] = Settings().changed({"max_tokens": 1000})
    assert choose() is first
    now["trusted"] = True
    trusted = choose()
    assert trusted.trusted and trusted.specs == first.specs
    now["settings"] = Settings().changed({"diagnostics_timeout_s": 0.5, "diagnostics_severity": "warning"})
    changed = choose()
    assert changed.timing.answer_s == 0.5
    now["settings"] = Settings().changed({"language_servers": wanted(nonsense={})})
    assert choose().problems == tuple(told) != ()
    choose()
    assert len(told) == 1


def test_settings_chooser_asks_for_trust_once() -> None:
    answers = [True, False]
    asked: list[bool] = []

    def settings(trusted: bool) -> Settings:
        asked.append(trusted)
        return Settings()

    choose = SettingsChooser(settings, lambda: answers.pop(0))
    assert choose().trusted is asked[0] is True
    assert choose().trusted is asked[1] is False  # withdrawn: it counts for the next file


def test_disabled_diagnostics_means_no_servers() -> None:
    assert choice_of(Settings().changed({"diagnostics": False}), trusted=True).specs == ()
