"""Who hands work over, see ``daemon.subagents.handing_over``; apart from it, so that a session's rules can say it."""

from __future__ import annotations

from daemon.model.permissions import Rule

HANDS_OVER = ("plan", "init", "execute")
"""Agents that hand their work over to another one."""
NO_HAND_OVER = Rule(permission="hand_over", pattern="*", action="deny", source="agent")
"""Of all others: what is allowed to them in general is not this."""
