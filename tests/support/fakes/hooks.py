"""Hooks for tests: real programs outside of the workspace, and functions as an installed package brings them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daemon.hooks import python


def program(folder: Path, name: str, script: str) -> Path:
    """A shell script that can be run. ``$HERE`` is its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nHERE='{folder}'\n{script}\n")
    path.chmod(0o755)
    return path


def answering(folder: Path, name: str, answer: Mapping[str, Any]) -> Path:
    """A program that always says the same."""
    (folder / f"{name}.json").parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(answer))
    return program(folder, name, f'cat > "$HERE/{name}.in"; cat "$HERE/{name}.json"')


def listening(folder: Path, name: str = "listen") -> tuple[Path, Path]:
    """Return a program that stores its input, one line a call, and the file that it writes."""
    kept = folder / f"{name}.log"
    return program(folder, name, f'cat >> "{kept}"; echo >> "{kept}"'), kept


def told(kept: Path) -> list[dict[str, Any]]:
    """Return the input of such a program so far."""
    if not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text().splitlines() if line]


def package(folder: Path, code: str, entries: Mapping[str, str], name: str = "my_hooks") -> Path:
    """An installed distribution with one module, as pip would leave it in a site folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{hook} = {name}:{function}" for hook, function in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[goalwright.hooks]", *lines, ""]))
    return folder


def host_command(site: Path, workspace: Path) -> tuple[str, ...]:
    """The process for functions, which finds modules in ``site`` as well."""
    code = f"import sys; sys.path.append({str(site)!r}); "
    *program, start, place = python.host_command(workspace)
    return (*program, code + start, place)


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie (Linux)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :].split()[0] not in (b"Z", b"X")


def pids(*files: Path) -> list[int]:
    """The process ids that programs left in files."""
    return [int(file.read_text()) for file in files]
