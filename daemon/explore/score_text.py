"""The scoreboard as the model reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.model.branches import BranchMeta


def score_table(branches: Sequence[BranchMeta]) -> str:
    """One row a branch, as Markdown; what is not known is said to be unknown. Nobody is called the winner."""
    return "\n".join(f"{branch.id}: {branch.status}" for branch in branches)
