"""Keep an untrusted workspace off Python's import path, whatever its files are called.

Places where Python would find the workspace, and the countermeasures:

- ``python -m goalwright`` puts the current folder first on the path. ``goalwright/__main__.py`` removes it before
  anything else is imported. Modules that a workspace could shadow earlier (``runpy``, or ``goalwright`` itself) cannot
  be protected by code that is not loaded yet; so the launcher, the editor and the documentation use the console script
  or ``python -I -m goalwright``, which never look there.
- ``PYTHONPATH`` with the workspace in it: those entries are removed. (The daemon ignores the variable.)
- The virtual environment may live in the workspace, and the workspace may be Goalwright's own checkout in an editable
  install (developing Goalwright with Goalwright). The folders of the running interpreter and of this code stay: the
  user chose them by starting this program. But code that was found through the current folder was not chosen, and
  refuses to run on that folder.

Uses only modules that the interpreter itself has loaded: another import could already be the workspace's.
"""

from __future__ import annotations

import os
import sys


def protect(workspace: str, *, through_current_folder: bool) -> str | None:
    """Remove folders in ``workspace`` from ``sys.path``. Returns why this process must not continue, or None.

    ``through_current_folder``: started as ``python -m goalwright`` without ``-I`` or ``-P``.
    """
    real = os.path.realpath
    own = own_folders()
    root = own[0]
    workspace = real(workspace)
    interpreter = {real(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}

    def chosen(folder: str) -> bool:
        if any(_inside(prefix, workspace) and _inside(folder, prefix) for prefix in interpreter):
            return True
        return folder in own and not through_current_folder

    # An empty entry means the current folder, which must never be on the path.
    entries = {entry: real(entry) for entry in sys.path if entry not in ("", os.curdir)}
    kept = [e for e, folder in entries.items() if chosen(folder) or not _inside(folder, workspace)]
    # When found through the current folder, which was just removed, the package's siblings are still needed.
    kept += [folder for folder in own if folder not in {entries[entry] for entry in kept}]
    sys.path[:] = kept
    if _inside(root, workspace) and not chosen(root):
        return (
            f"Goalwright's code was loaded from inside the workspace ({root}), through the current folder. "
            "Start it as `goalwright`, or as `python -I -m goalwright`."
        )
    return None


def own_folders() -> list[str]:
    """Return the folders by which Python finds this code: that of ``daemon`` and, when installed, that of
    ``goalwright``."""
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir))  # noqa: PTH118, PTH120
    installed = os.path.exists(os.path.join(root, "__init__.py"))  # noqa: PTH110, PTH118
    return [root, os.path.dirname(root)] if installed else [root]  # noqa: PTH120


def _inside(path: str, folder: str) -> bool:
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
