from __future__ import annotations

from hypothesis import settings

# Time is never what a test is about, and the machine is shared.
settings.register_profile("goalwright", deadline=None)
settings.load_profile("goalwright")
