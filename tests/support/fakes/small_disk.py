"""A small file system of its own, for tests of a full disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, size: str) -> Generator[Path]:
    """Mounts one at ``folder`` (new). Takes root, or sudo without a password. ``size`` as mount has it."""
    folder.mkdir()
    options = f"size={size},mode=0700,uid={os.getuid()},gid={os.getgid()}"
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    mount = [*as_root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run([*as_root, "umount", "-l", str(folder)], check=True, capture_output=True)
