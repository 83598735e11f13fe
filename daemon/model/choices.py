"""Names of the options that a user chooses between. Separate, because the command line must start without pydantic."""

from __future__ import annotations

from typing import Literal

Mode = Literal["ask", "accept-edits", "plan", "auto"]
"""``ask``: by the rules. ``accept-edits``: edits of the workspace run without approval. ``plan``: nothing is changed.
``auto``: in a trusted folder, calls that only general rules ask about run without approval."""
Planner = Literal["in_loop", "layered", "signposts", "on_demand"]
"""How work is planned, see the setting ``planner``."""
TakingOver = Literal["init", "execute"]
"""Agents that a session is handed over to."""
DumpFormat = Literal["txt", "md", "json"]
"""Forms in which the steps of a trace are written."""
Scope = Literal["own", "all"]
"""Sessions that a token shows: the user's, or those of everybody."""
StatsBy = Literal["day", "model", "agent", "folder", "user"]
"""Ways to group numbers."""
