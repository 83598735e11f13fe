"""Notes for the model about the user's changes to files and the plan. Pure.

A note is a sentence (or several) whose subject is the user. It is stored as text because it outlives the state that it
describes: its names are those of the moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model import notice_codes
from daemon.model.events import (
    FilesRestored,
    GoalAdded,
    GoalEvent,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    Notice,
    RestoredFile,
)
from daemon.model.tags import plain
from tools.localization import t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from daemon.plan.tree import PlanTree
    from tools.ports import Job

MAX_NOTES = 20
"""Most notes; older ones are dropped: the files and the plan show the current state."""
_MAX_FILES = 20
_MAX_NAME = 200
_MAX_WORDS = 600
"""Characters of a description, and of a reason or summary, in a note."""

_MERGED = "the user merged "
_FILES = ("the user undid your ", "the user redid your ", "the user reverted ", _MERGED)
_JOB = "the background job "
_LATE = "language servers answered "
_FOCUS = "the user put the focus on "
_RENAMED = "the user renamed the goal "

READ_AGAIN = "Read these files again before you rely on them."
PLAN_COUNTS = "The plan you see already includes this; follow it."
OLDER = "(More was done before; only the newest is listed.)"

PersonEvent = FilesRestored | GoalEvent
"""Events that a user may have caused: then ``by`` is set."""


def with_note(notes: tuple[str, ...], event: PersonEvent, plan: PlanTree) -> tuple[str, ...]:
    """Return ``notes`` with the note on ``event``. ``plan`` is the plan before the event.

    Nothing is added for the model's own events (``by`` is empty). Repeated changes of the same goal by the user give
    one note: only the final state matters.
    """
    if not event.by:
        return notes
    note = restored_note(event) if isinstance(event, FilesRestored) else plan_note(event, plan)
    last = notes[-1] if notes else ""
    if not note:
        return notes
    if note.startswith(_FOCUS) and last.startswith(_FOCUS):
        notes = notes[:-1]
    elif isinstance(event, GoalUpdated) and note.startswith(_RENAMED) and last.startswith(_RENAMED):
        here, there = _name(plan, event.goal_id), _quoted(str(event.updates.get("description", "")))
        began = last.removesuffix(f" to {here}.")
        if began != last:
            notes = notes[:-1]
            note = f"{began} to {there}."
            if note == f"{_RENAMED}{there} to {there}.":
                return notes  # it has its old name again
    elif isinstance(event, GoalMoved) and last.startswith(_moved_words(_name(plan, event.goal_id))):
        notes = notes[:-1]
    return (*notes, note)[-MAX_NOTES:]


def job_lost(job_id: str, command: str) -> str:
    """Return the message to the user and the model about a job that was running when the daemon stopped."""
    return t(
        "The background job {job_id} ended when Goalwright stopped: {command}",
        job_id=job_id,
        command=one_line(command, _MAX_NAME),
    )


def job_notice(job: Job, stopped_by: str = "") -> str:
    """Return the message to the user and the model about a background command that has ended or was stopped."""
    if stopped_by:
        return t(
            "The background job {job_id} was stopped by {stopped_by}: {command}",
            job_id=job.job_id,
            stopped_by=stopped_by,
            command=one_line(job.command, _MAX_NAME),
        )
    code = job.exit_code or 0
    how = (
        t("ended with exit code {code}", code=code)
        if code >= 0
        else t("was killed by signal {value}", value=-code)
    )
    return t(
        "The background job {job_id} {how}: {command}",
        job_id=job.job_id,
        how=how,
        command=one_line(job.command, _MAX_NAME),
    )


def with_notice(notes: tuple[str, ...], notice: Notice) -> tuple[str, ...]:
    """Return ``notes`` with a notice that the model must know; most notices are for the user only."""
    begins, after = {
        notice_codes.JOB_ENDED: (_JOB, " See its output with the job tool."),
        notice_codes.LATE_DIAGNOSTICS: (_LATE, ""),
        notice_codes.BRANCH_SELECTED: (_MERGED, ""),
    }.get(notice.code, ("", ""))
    if not begins:
        return notes
    words = f"{notice.text[:1].lower()}{notice.text[1:]}"
    if not words.startswith(begins):
        # The notice is in the user's language, but the note's English beginning shows what it is about.
        words = f"{begins}({notice.text})."
    return (*notes, f"{words}{after}")[-MAX_NOTES:]


def restored_note(event: FilesRestored) -> str:
    """Describe one undo, redo or restore for the model; empty when no file was changed."""
    if not event.files:
        return ""
    did, now = {
        "undo": (f"undid your {event.target}", "as before"),
        "redo": (f"redid your {event.target}", "as after your change again"),
        "restore": (f"reverted {event.target}", "as before"),
    }[event.action]
    names = [_named(file) for file in event.files[:_MAX_FILES]]
    more = len(event.files) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"the user {did}. Written on disk: {listed}. What you had changed there is now {now}."


def plan_note(event: GoalEvent, plan: PlanTree) -> str:
    """Describe a change of the plan for the model; ``plan`` is the plan before it. Empty when there is nothing to
    report.

    Goals are named by their descriptions: display numbers change with the plan.
    """
    if isinstance(event, GoalAdded):
        where = f"under {_name(plan, event.parent_id)}" if event.parent_id else "at the top level"
        why = f" Why: {_short(event.goal.reason)}" if event.goal.reason.strip() else ""
        return f"the user added the goal {_quoted(event.goal.description)} {where}.{_ended(why)}"
    if isinstance(event, GoalMoved):
        return _moved(event, plan)
    name = _name(plan, event.goal_id)
    focus = _focus_after(event, plan)
    if isinstance(event, GoalRemoved):
        why = f": {_short(event.reason)}" if event.reason.strip() else ""
        return f"the user removed the goal {name}, which was not started{_ended(why or '.')}{focus}"
    status = event.updates.get("status")
    words = _short(str(event.updates.get("summary") or ""))
    if status == "completed":
        also = [_name(plan, other.goal_id) for other in event.affected_goals if other.status == "completed"]
        with_it = (
            f" With it, {' and '.join(also)} {'is' if len(also) == 1 else 'are'} completed." if also else ""
        )
        return f"the user marked the goal {name} as done: {_ended(words)}{with_it}{focus}"
    if status == "abandoned":
        below = any(other.status == "abandoned" for other in event.affected_goals)
        with_it = " and its open sub-goals" if below else ""
        return f"the user abandoned the goal {name}{with_it}: {_ended(words)}{focus}"
    if (description := event.updates.get("description")) is not None:
        return f"{_RENAMED}{name} to {_quoted(str(description))}."
    if event.current_id == event.goal_id and plan.current_id != event.goal_id:
        return f"{_FOCUS}{name}: work on it now."
    return ""


def notes_text(notes: tuple[str, ...]) -> str:
    """Return all notes as text for the next message to the model; empty for none."""
    if not notes:
        return ""
    about_files = [note.startswith(_FILES) for note in notes]
    about_plan = [not note.startswith((*_FILES, _JOB, _LATE)) for note in notes]
    last_file = max((number for number, files in enumerate(about_files) if files), default=None)
    lines = [OLDER] if len(notes) == MAX_NOTES else []
    for number, note in enumerate(notes):
        lines.append(f"{'Then ' if number else 'Note: since your last message '}{note}")
        if number == last_file:
            lines.append(READ_AGAIN)
    if any(about_plan):
        lines.append(PLAN_COUNTS)
    return plain("\n".join(lines))


def _moved(event: GoalMoved, plan: PlanTree) -> str:
    goal = plan.goals.get(event.goal_id)
    words = _moved_words(_name(plan, event.goal_id))
    place = f" before {_name(plan, event.before_id)}" if event.before_id else ""
    if goal is not None and goal.parent_id == event.parent_id:
        return f"{words}{place or ' behind its siblings'}."
    where = f" under {_name(plan, event.parent_id)}" if event.parent_id else " to the top level"
    return f"{words}{where}{',' if place else ''}{place}."


def _moved_words(name: str) -> str:
    return f"the user moved the goal {name}"


def _focus_after(event: GoalUpdated | GoalRemoved, plan: PlanTree) -> str:
    """Return where the focus went, when the event took it from somewhere."""
    if event.current_id == plan.current_id:
        return ""
    if event.current_id is None:
        return " No goal has the focus now."
    return f" The focus is on {_name(plan, event.current_id)} now."


def _name(plan: PlanTree, goal_id: str | None) -> str:
    goal = plan.goals.get(goal_id or "")
    return "a goal" if goal is None else _quoted(goal.description)


def _quoted(text: str) -> str:
    return f'"{one_line(text, _MAX_NAME)}"'


def _short(text: str) -> str:
    return one_line(text, _MAX_WORDS)


def _ended(words: str) -> str:
    return words if not words or words.endswith((".", "!", "?", "…")) else f"{words}."


def _named(file: RestoredFile) -> str:
    if file.kind == "delete":
        return f"{file.path} (deleted)"
    return f"{file.path} ({'new, ' if file.kind == 'create' else ''}+{file.added} -{file.removed})"
