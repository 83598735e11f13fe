"""Promises of the repository about itself: pinned dependencies, no index named, fresh files, live links."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    every = [*project["dependencies"], *(each for extra in extras for each in extra)]
    return [each for each in every if not each.startswith("goalwright[")]


def test_each_python_dependency_has_a_lower_bound_and_a_pin() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {canonical(line.partition("==")[0]) for line in lines}
    for requirement in requirements():
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None and ">=" in requirement, requirement
        assert canonical(name[0]) in pinned, f"{name[0]} has no line in constraints.txt"


def test_constraints_hold_only_pinned_versions() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line), line


def test_pinned_packages_install_on_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2, and a package that asks for 3.11.5 ends every installation with these pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pinned = {canonical(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()}
    asked = {
        package.name: package.metadata["Requires-Python"]
        for package in distributions()
        if canonical(package.name) in pinned and "Requires-Python" in package.metadata
    }
    assert len(asked) > 100
    assert [name for name, versions in asked.items() if oldest not in SpecifierSet(versions)] == []


@pytest.mark.parametrize("file", tracked("*package-lock.json"), ids=lambda file: str(file.relative_to(ROOT)))
def test_lock_files_name_no_registry_and_have_checksums(file: Path) -> None:
    for name, package in json.loads(file.read_text())["packages"].items():
        assert "resolved" not in package, f"{name}: set omit-lockfile-registry-resolved=true in .npmrc"
        if name and not package.get("link"):
            assert package.get("integrity", "").startswith("sha512-"), name


@pytest.mark.parametrize(
    "file", tracked("*.npmrc", "*pip.conf"), ids=lambda file: str(file.relative_to(ROOT))
)
def test_package_manager_settings_hold_no_registry_and_no_secret(file: Path) -> None:
    text = file.read_text()
    assert "://" not in text and "_auth" not in text and "index-url" not in text


def test_npmrc_beside_each_lock_file_omits_registry_urls() -> None:
    for lock in tracked("*package-lock.json"):
        assert "omit-lockfile-registry-resolved=true" in (lock.parent / ".npmrc").read_text()


def test_generated_files_of_extension_and_documents_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "vscode-extension/scripts/generate.py", "--check"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr + "\nrun: make generate"


@pytest.mark.parametrize("file", tracked("*.md"), ids=lambda file: str(file.relative_to(ROOT)))
def test_files_that_a_document_links_to_exist(file: Path) -> None:
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", file.read_text())
    targets = re.findall(r"\]\(([^)\s]+)\)|<(?:img|source)[^>]*\bsrc(?:set)?=\"([^\"]+)\"", text)
    for target in (unquote(first or second) for first, second in targets):
        if not re.match(r"[a-z]+:|#", target):
            assert (file.parent / target.partition("#")[0]).exists(), f"{file.name} links to {target}"


def test_no_build_or_run_output_is_committed() -> None:
    made = re.compile(r"(^|/)(node_modules|dist|\.build|\.venv|\.trace|__pycache__)/|\.(vsix|pyc|whl)$")
    assert [str(file) for file in tracked() if made.search(str(file.relative_to(ROOT)))] == []


def test_everything_is_started_by_the_same_command_in_ci() -> None:
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec make test"


def test_vs_code_settings_offer_the_values_of_the_configuration() -> None:
    contributed = json.loads((ROOT / "vscode-extension/package.json").read_text("utf-8"))["contributes"]
    offered: dict[str, Any] = {}
    for section in contributed["configuration"]:
        offered |= section["properties"]
    schema = json.loads((ROOT / "vscode-extension/schemas/config.schema.json").read_text("utf-8"))
    for name, key in {
        "mode": "mode",
        "sandbox": "sandbox",
        "planner": "planner",
        "planFront": "plan_front",
        "planPlacement": "plan_placement",
    }.items():
        values = {"default", *schema["properties"][key]["enum"]}
        assert set(offered[f"goalwright.{name}"]["enum"]) == values, name
    for name in ("debugTrace", "allowReplan"):
        assert offered[f"goalwright.{name}"]["enum"] == ["default", "on", "off"]
