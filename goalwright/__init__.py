"""The installed package: ``daemon``, ``lsp_bridge`` and ``tools`` are inside, and only our own processes import them.

Names as common as these must not be installed at the top level: python-daemon is imported as ``daemon``. The wheel
therefore keeps the three folders in this one; in the repository they are beside it.
"""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to import, and here too early
HOME = _PACKAGE if os.path.isdir(os.path.join(_PACKAGE, "daemon")) else os.path.dirname(_PACKAGE)  # noqa: PTH112, PTH118, PTH120
"""The folder that holds ``daemon``, ``lsp_bridge`` and ``tools``."""


def main(*, through_current_folder: bool = False) -> int:
    """Run the command line and end the process. Returns the exit code if something must still be done before."""
    try:
        sys.path.insert(0, HOME)
        from daemon.__main__ import leave
        from daemon.__main__ import main as run

        return leave(run(through_current_folder=through_current_folder))
    except KeyboardInterrupt:
        return 130
