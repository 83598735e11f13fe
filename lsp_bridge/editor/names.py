"""Kinds of code actions, and names of the commands of ``workspace/executeCommand`` (what they take: ``arguments``)."""

from __future__ import annotations

from lsprotocol import types

from tools.localization import noted

KINDS = (types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor)
"""Of code actions."""

FIX = "goalwright.fix"
EXPLAIN = "goalwright.explain"
ASK = "goalwright.ask"
ACCEPT_HUNK = "goalwright.acceptHunk"
REJECT_HUNK = "goalwright.rejectHunk"
ACCEPT_CHANGES = "goalwright.acceptChanges"
REJECT_CHANGES = "goalwright.rejectChanges"
SHOW_CHANGES = "goalwright.showChanges"
SHOW_ANSWER = "goalwright.showAnswer"
ANSWER = "goalwright.answer"
SHOW_ANSWER_TITLE = noted("Show Goalwright's last answer")

PROMPTS = (FIX, EXPLAIN, ASK)
DECISIONS = (ACCEPT_HUNK, REJECT_HUNK, ACCEPT_CHANGES, REJECT_CHANGES, SHOW_CHANGES)
COMMANDS = (*PROMPTS, *DECISIONS, ANSWER, SHOW_ANSWER)
"""All of them. None has a name of the VS Code extension's own: its client registers these there too."""
