"""Agents that are links: no secret and nothing from elsewhere goes to the model as one, and nobody's dotfiles break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.agents.loader import Agents, UnknownAgentError
from tests.support.drivers.core import daemon

SECRET = "SECRET_TOKEN=hunter2hunter2"
FINE = "---\ndescription: fine\n---\nBe fine.\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("GOALWRIGHT_HOME", raising=False)
    return folder


@pytest.fixture
def workspace(home: Path) -> Path:
    folder = home / "work"
    (folder / ".goalwright" / "agents").mkdir(parents=True)
    (folder / ".env").write_text(SECRET)
    (folder / "notes.md").write_text(SECRET)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    (home / "elsewhere.md").write_text(SECRET)
    return folder


def agents_of(home: Path, workspace: Path) -> Agents:
    return Agents(workspace, home / ".goalwright")


def refused(found: Agents, name: str, because: str) -> None:
    with pytest.raises(UnknownAgentError, match=because) as error:
        found.find(name, "trusted")
    everything = found.all("trusted")
    assert name not in [agent.name for agent in everything.agents]
    (problem,) = everything.problems
    assert because in problem
    assert "hunter2" not in f"{error.value}{problem}"


@pytest.mark.parametrize(
    "target", ["../../.env", "../../../.ssh/id_rsa", "../../notes.md", "../../../elsewhere.md"]
)
def test_a_link_of_a_workspace_out_of_its_agents_is_refused(home: Path, workspace: Path, target: str) -> None:
    (workspace / ".goalwright" / "agents" / "leak.md").symlink_to(target)
    refused(agents_of(home, workspace), "leak", "it is a symbolic link that leads out of the agents folder:")


@pytest.mark.parametrize("where", ["agents", ".goalwright"])
def test_agents_folder_linked_out_of_the_workspace_is_not_read(
    home: Path, workspace: Path, where: str
) -> None:
    (home / "else" / "agents").mkdir(parents=True)
    (home / "else" / "agents" / "leak.md").write_text(SECRET)
    (workspace / ".goalwright" / "agents").rmdir()
    if where == "agents":
        (workspace / ".goalwright" / "agents").symlink_to(home / "else" / "agents")
    else:
        (workspace / ".goalwright").rmdir()
        (workspace / ".goalwright").symlink_to(home / "else")
    refused(agents_of(home, workspace), "leak", "leads out of the workspace")
    assert agents_of(home, workspace).all("unknown").unread == ""


def test_links_within_workspace_agents_are_followed(home: Path, workspace: Path) -> None:
    folder = workspace / ".goalwright" / "agents"
    folder.rmdir()
    (workspace / "prompts").mkdir()
    folder.symlink_to("../prompts")
    (workspace / "prompts" / "fine.md").write_text(FINE)
    (workspace / "prompts" / "again.md").symlink_to("fine.md")
    found = agents_of(home, workspace)
    assert found.find("again", "trusted").prompt == found.find("fine", "trusted").prompt == "Be fine."
    assert found.all("trusted").problems == ()


@pytest.mark.parametrize("whose", ["own", "folder"])
@pytest.mark.parametrize(
    ("kind", "because"),
    [
        ("/dev/zero", "it is not a regular file"),
        ("nowhere.md", "broken symbolic link"),
        ("odd.md", "it cannot be read"),
        ("a folder", "it is not a regular file"),
        ("a pipe", "it is not a regular file"),
    ],
)
def test_non_file_agent_is_reported_and_drops_no_limits(
    home: Path, workspace: Path, whose: str, kind: str, because: str
) -> None:
    folder = (home if whose == "own" else workspace) / ".goalwright" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    odd = folder / "odd.md"
    if kind == "a folder":
        odd.mkdir()
    elif kind == "a pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(kind)
    if (whose, kind) == ("folder", "/dev/zero"):
        because = "leads out of the agents folder"
    refused(agents_of(home, workspace), "odd", because)


@pytest.mark.parametrize("target", [".ssh/id_rsa", "work/.env", ".goalwright/run/token", ".aws/agent.md"])
def test_user_agent_linking_to_a_secret_is_refused(home: Path, workspace: Path, target: str) -> None:
    (home / target).parent.mkdir(parents=True, exist_ok=True)
    (home / target).write_text(SECRET)
    folder = home / ".goalwright" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "leak.md").symlink_to(home / target)
    refused(agents_of(home, workspace), "leak", "it is a link to a protected file")


@pytest.mark.parametrize(
    "place", ["dotfiles/goalwright/.goalwright/agents", "dotfiles/agents", "../store/agents"]
)
@pytest.mark.parametrize("linked", ["file", "folder", "state"])
def test_linked_dotfiles_of_the_user_work(home: Path, workspace: Path, place: str, linked: str) -> None:
    kept = home / place
    kept.mkdir(parents=True)
    (kept / "fine.md").write_text(FINE)
    state = home / ".goalwright"
    if linked == "state":
        state.symlink_to(kept.parent)
    elif linked == "folder":
        state.mkdir()
        (state / "agents").symlink_to(kept)
    else:
        (state / "agents").mkdir(parents=True)
        (state / "agents" / "fine.md").symlink_to(kept / "fine.md")
    found = agents_of(home, workspace)
    assert found.find("fine", "unknown").prompt == "Be fine."
    assert found.all("unknown").problems == ()


@pytest.mark.usefixtures("chinese")
def test_protection_of_links_is_independent_of_the_language(home: Path, workspace: Path) -> None:
    kept = home / "dotfiles" / ".goalwright" / "agents"
    kept.mkdir(parents=True)
    (kept / "fine.md").write_text(FINE)
    folder = home / ".goalwright" / "agents"
    folder.mkdir(parents=True)
    (folder / "fine.md").symlink_to(kept / "fine.md")
    (folder / "leak.md").symlink_to(home / ".ssh" / "id_rsa")
    found = agents_of(home, workspace)
    assert found.find("fine", "unknown").prompt == "Be fine."
    with pytest.raises(UnknownAgentError, match="SSH 密钥"):
        found.find("leak", "unknown")


def test_file_replaced_by_a_link_is_noticed_at_once(home: Path, workspace: Path) -> None:
    path = workspace / ".goalwright" / "agents" / "fine.md"
    path.write_text(FINE)
    found = agents_of(home, workspace)
    assert found.find("fine", "trusted").prompt == "Be fine."
    (home / "elsewhere.md").write_text(FINE)
    time = path.stat().st_mtime_ns
    path.unlink()
    path.symlink_to(home / "elsewhere.md")
    os.utime(path, ns=(time, time))
    refused(found, "fine", "it is a symbolic link that leads out of the agents folder:")


async def test_linked_secret_never_reaches_the_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Done.") as bench:
        folder = bench.workspace / ".goalwright" / "agents"
        folder.mkdir(parents=True)
        (bench.workspace / ".env").write_text(SECRET)
        (folder / "leak.md").symlink_to("../../.env")
        session = bench.session()
        await session.prompt("go")
        (request,) = bench.models.requests
        assert "hunter2" not in repr(request)
