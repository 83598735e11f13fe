"""Where the end-to-end tests get their browser from, on people's machines and on CI's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.vscode import browser


def program(folder: Path, name: str, script: str = "exit 0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    monkeypatch.setattr(browser, "PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "")
    return tmp_path


def test_the_browser_named_in_the_environment_comes_first(tmp_path: Path) -> None:
    mine, other = program(tmp_path / "mine", "my-chrome"), program(tmp_path / "bin", "chromium")
    assert browser.find({"PATH": str(other.parent), browser.VARIABLE: str(mine)}) == mine
    assert browser.find({"PATH": str(other.parent)}) == other


def test_missing_browser_from_environment_has_no_fallback(tmp_path: Path) -> None:
    other = program(tmp_path, "chromium")
    assert browser.find({"PATH": str(other.parent), browser.VARIABLE: "/nowhere/chrome"}) is None


def test_missing_browser_prints_the_environment_variable(
    bare_machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert browser.main(["--install"]) == 1
    assert browser.VARIABLE in capsys.readouterr().err


def test_browser_install_on_ci_as_root_updates_and_adds_a_font(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bare_machine / "log"
    program(
        bare_machine,
        "apt-get",
        f'echo "$@" >> {log}; case "$*" in *install*) : > {bare_machine}/chromium; '
        f"/bin/chmod +x {bare_machine}/chromium;; esac",
    )
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert browser.main(["--install"]) == 0
    update, install = log.read_text().splitlines()
    assert "update" in update and "chromium" in install and "font" in install


@pytest.mark.parametrize(("ci", "user"), [("", 0), ("true", 1000)])
def test_browser_install_is_refused_off_ci_or_without_root(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, ci: str, user: int
) -> None:
    program(bare_machine, "apt-get", f"echo called >> {bare_machine}/log")
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert browser.main(["--install"]) == 1
    assert not (bare_machine / "log").exists()
