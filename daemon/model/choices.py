"""What a user chooses between, as names. Apart from the models because the command line must start without pydantic."""

from __future__ import annotations

from typing import Literal

Mode = Literal["ask", "accept-edits", "plan", "auto"]
"""``ask``: as the rules say. ``accept-edits``: edits of the workspace pass. ``plan``: nothing is changed. ``auto``:
what only general rules ask about passes, in a trusted folder."""
Planner = Literal["in_loop", "layered", "signposts", "on_demand"]
"""How work is planned, see the setting ``planner``."""
TakingOver = Literal["init", "execute"]
"""Agents that a session is handed over to."""
DumpFormat = Literal["txt", "md", "json"]
"""Forms in which the steps of a trace are written."""
