"""The files for other people's machines: workflows, the container. What they name must exist here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lsp_bridge.cli.command_line import parse

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_commands_of_a_workflow_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets
    assert all(
        re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps(workflow) if "uses" in step
    )


def test_every_supported_python_is_installed_on() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    assert jobs["install"]["strategy"]["matrix"]["python"][0] == "3.11"
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_container_copies_what_the_wheel_is_made_of() -> None:
    copied = re.findall(r"^COPY ([^-\s][^\n]*) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert {"goalwright", "daemon", "lsp_bridge", "tools", "pyproject.toml", "README.md", "LICENSE"} <= set(
        names
    )
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_team_server_is_valid() -> None:
    # Docker itself is not here: the file is read as YAML, and its commands as Goalwright's.
    folder = ROOT / "deploy" / "team-server"
    composed = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))
    services = composed["services"]
    assert services.keys() == {"database", "server", "admin", "proxy"}
    arguments = parse(services["server"]["command"])
    assert (arguments.http, arguments.public_url) == (("0.0.0.0", 8765), "https://${HOST_NAME:?}")
    assert (folder / services["server"]["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert 'EXTRAS=""' in (ROOT / "Dockerfile").read_text("utf-8")
    assert services["server"]["build"]["args"] == {"EXTRAS": "postgres"}
    assert json.loads(composed["configs"]["owner"]["content"]).keys() == {"store_url"}
    assert f"server:{arguments.http[1]}" in (folder / "Caddyfile").read_text("utf-8")


def test_the_development_container_is_valid() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8")
    assert json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))["postCreateCommand"] == "make venv"
