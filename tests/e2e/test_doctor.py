"""``goalwright doctor`` with real files, real settings and real programs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.trust import TrustedFolders
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.doctor.command import check_workspace, doctor, lines
from lsp_bridge.cli.doctor.report import Check, LanguageReport, Report, ServerReport, Trial
from lsp_bridge.cli.invocation import Invocation
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.text import Style
from tests.evals.language_servers import install

pytestmark = pytest.mark.timeout(180)


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + script, "ascii")
    path.chmod(0o755)
    return path


class Patient:
    """A workspace, a home, and a PATH with nothing but what a test puts there."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.state = self.home / ".goalwright"
        self.bin = root / "bin"
        for folder in (self.workspace, self.state, self.bin):
            folder.mkdir(parents=True)
        self.state.chmod(0o700)
        monkeypatch.setenv("GOALWRIGHT_HOME", str(self.state))
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)

    def write(self, *names: str) -> None:
        for name in names:
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("", "utf-8")

    def settings(self, value: dict[str, Any]) -> None:
        (self.state / "config.json").write_text(json.dumps(value), "utf-8")

    def trust(self) -> None:
        TrustedFolders(self.state).add(self.workspace)

    async def report(self, path: str | None = None, *, start: bool = False) -> Report:
        environment = {"PATH": path or f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home)}
        return await check_workspace(
            self.workspace,
            Launcher(),
            start=start,
            environment=environment,
            home=self.home,
            own_bin=self.bin,
        )


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return Patient(tmp_path.resolve(), monkeypatch)


def server(report: Report, name: str) -> ServerReport:
    return next(s for language in report.languages for s in language.servers if s.name == name)


def check(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


async def test_doctor_lists_found_server_or_install_hint_per_language(patient: Patient) -> None:
    patient.write("a.py", "b.py", "main.go", "node_modules/x/index.css")
    ruff = program(patient.bin, "ruff", "echo ruff 9.8.7\n")
    report = await patient.report()
    assert [(language.title, language.files) for language in report.languages] == [("Python", 2), ("Go", 1)]
    found = server(report, "ruff")
    assert (found.state, found.version, found.program) == ("found", "9.8.7", str(ruff))
    missing = server(report, "gopls")
    assert missing.state == "missing" and "go install golang.org/x/tools/gopls@latest" in missing.install
    # What is not installed is not broken.
    assert report.ok


async def test_doctor_fails_if_a_server_does_not_run(patient: Patient) -> None:
    patient.write("a.c")
    program(patient.bin, "clangd", "echo no such library >&2; exit 127\n")
    report = await patient.report()
    assert server(report, "clangd").state == "broken"
    assert "no such library" in server(report, "clangd").text
    assert not report.ok


async def test_doctor_skips_project_server_until_folder_is_trusted(
    patient: Patient,
) -> None:
    patient.write("a.py")
    trap = patient.home / "executed"
    own = program(patient.workspace / ".venv" / "bin", "ruff", f"touch {trap}; echo ruff 1.2.3\n")
    report = await patient.report()
    assert (server(report, "ruff").state, server(report, "ruff").ignored) == ("missing", (str(own),))
    assert check(report, "Folder").state == "note" and not trap.exists()
    patient.trust()
    report = await patient.report()
    assert (server(report, "ruff").state, server(report, "ruff").version) == ("found", "1.2.3")
    assert server(report, "ruff").ignored == ()


async def test_server_settings_are_followed_and_errors_reported(patient: Patient) -> None:
    patient.write("a.py", "a.zig")
    program(patient.bin, "ruff", "echo ruff 1\n")
    zls = program(patient.bin, "zls", "exit 0\n")
    patient.settings(
        {
            "language_servers": {
                "ruff": {"enabled": False},
                "zls": {"command": ["zls"], "languages": {".zig": "zig"}},
                "nonsense": {},
            }
        }
    )
    report = await patient.report()
    assert server(report, "ruff").state == "disabled"
    assert (server(report, "zls").state, server(report, "zls").program) == ("found", str(zls))
    assert any("nonsense" in each.text for each in report.checks if each.name == "Settings")


async def test_key_is_named_but_never_shown(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-value")
    report = await patient.report()
    assert "ANTHROPIC_API_KEY" in check(report, "Model").text
    assert "secret-value" not in json.dumps(report.to_json())


async def test_an_extension_of_another_version_is_noticed(patient: Patient) -> None:
    (patient.home / ".vscode" / "extensions" / "goalwright.goalwright-0.0.1").mkdir(parents=True)
    found = check(await patient.report(), "Extension")
    assert found.state == "warning" and "0.0.1" in found.text


async def test_settings_that_cannot_be_read_are_broken(patient: Patient) -> None:
    (patient.state / "config.json").write_text("{", "utf-8")
    assert not (await patient.report()).ok


async def test_doctor_start_times_servers_and_checks_for_an_error(patient: Patient) -> None:
    install.ensure()
    patient.write("a.py", "a.json", "a.zig")
    program(patient.bin, "zls", "exit 3\n")
    patient.settings({"language_servers": {"zls": {"command": ["zls"], "languages": {".zig": "zig"}}}})
    report = await patient.report(install.search_path(patient.bin), start=True)
    for name in ("ruff", "json"):
        trial = server(report, name).trial
        assert trial is not None and trial.answered and trial.saw_error and trial.cold_s and not trial.text
    assert server(report, "zls").trial == Trial(answered=False, saw_error=False, text="it did not start")
    assert not report.ok


async def test_text_and_json_reports_agree(patient: Patient) -> None:
    patient.write("a.py")
    for as_json in (False, True):
        out = io.StringIO()
        console = Console(out=out, err=io.StringIO())
        code = await doctor(Invocation(patient.workspace, console, json=as_json), start=False)
        assert code == 0
        if as_json:
            value = json.loads(out.getvalue())
            assert value["ok"] is True and value["languages"][0]["title"] == "Python"
        else:
            assert "Python (1 file)" in out.getvalue() and "\x1b" not in out.getvalue()


async def test_missing_folder_is_reported(patient: Patient) -> None:
    err = io.StringIO()
    console = Console(out=io.StringIO(), err=err)
    assert await doctor(Invocation(patient.workspace / "no", console), start=False) == 1
    assert "does not exist" in err.getvalue()


def test_printed_report_recommends_what_to_do() -> None:
    report = Report(
        Path("/w"),
        trusted=False,
        checks=(Check("git", "ok", "2.0"), Check("Model", "warning", "no key\x1b[31m")),
        languages=(
            LanguageReport(
                "Go",
                3,
                (ServerReport("gopls", "missing", install=("brew install gopls",), ignored=("/w/x",)),),
            ),
            LanguageReport(
                "C",
                1,
                (ServerReport("clangd", "found", "/usr/bin/clangd", "19.1", trial=Trial(True, True, 0.5)),),
            ),
        ),
    )
    assert lines(report, Style(False)) == [
        "/w",
        "",
        "ok git         2.0",
        "!  Model       no key␛[31m",
        "",
        "Language servers",
        "",
        "Go (3 files)",
        "!  gopls  not installed",
        "     brew install gopls",
        "     /w/x belongs to the project and is not used: the folder is not trusted",
        "",
        "C (1 file)",
        "ok clangd  19.1 (/usr/bin/clangd)",
        "     started: first response 0.50 s",
        "",
        "The agent gets no diagnostics for: Go.",
    ]
    broken = replace(report, checks=(Check("git", "broken", "it does not run"),))
    assert lines(broken, Style(False))[-1] == "Something required is broken. See the lines with ✗."


async def test_key_that_chooses_no_model_is_a_warning(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    found = check(await patient.report(), "Model")
    assert found.state == "warning"
    assert "(GEMINI_API_KEY) choose none" in found.text
