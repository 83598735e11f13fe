"""``python -I -m goalwright``."""

import sys

THROUGH_CURRENT_FOLDER = not sys.flags.safe_path
if THROUGH_CURRENT_FOLDER:
    # `python -m` put the current folder there, and it may be an untrusted workspace: see daemon/safe_path.py.
    del sys.path[0]

from goalwright import main  # noqa: E402

sys.exit(main(through_current_folder=THROUGH_CURRENT_FOLDER))
