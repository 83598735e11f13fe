"""Goalwright as it is installed here, and a copy of that whose byte code was never compiled."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[4]
_PACKAGES = ("goalwright", "daemon", "lsp_bridge", "tools")
_CACHE = "__pycache__"


def installed_program() -> Path:
    """The command, beside this Python. Raises AssertionError when it is not installed."""
    found = shutil.which("goalwright", path=str(Path(sys.executable).parent))
    assert found is not None, "goalwright is not installed beside this Python: run `make venv`"
    return Path(found)


def without_byte_code(folder: Path) -> Path:
    """Make an environment in ``folder`` with all that Goalwright needs, as pip leaves it with ``--no-compile``.

    Returns its command. Files are symbolic links, so that Python writes byte code there and not here.
    """
    environment = folder / "env"
    venv.create(environment, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    for distribution in _needed("goalwright"):
        files = distribution.files or ()
        for file in files:
            if _CACHE not in file.parts and ".." not in file.parts:
                _link(Path(str(distribution.locate_file(file))), site / file)
    source = folder / "source"
    for package in _PACKAGES:
        for path in (_ROOT / package).rglob("*"):
            if path.is_file() and _CACHE not in path.parts:
                _link(path, source / path.relative_to(_ROOT))
    [pointer] = (path for path in site.glob("*.pth") if "goalwright" in path.name)
    pointer.unlink()
    pointer.write_text(f"{source}\n")
    program = environment / "bin" / "goalwright"
    _, _, code = installed_program().read_text().partition("\n")
    program.write_text(f"#!{environment / 'bin' / 'python'}\n{code}")
    program.chmod(0o755)
    return program


def _needed(name: str) -> Iterator[importlib.metadata.Distribution]:
    """A distribution and all that it requires here."""
    left: list[tuple[str, str]] = [(name, "")]
    known: set[tuple[str, str]] = set()
    while left:
        name, extra = left.pop()
        distribution = importlib.metadata.distribution(name)
        key = (distribution.name, extra)
        if key in known:
            continue
        known.add(key)
        if not extra:
            yield distribution
        for needed in map(Requirement, distribution.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                left += [(needed.name, wanted) for wanted in ("", *needed.extras)]


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)
