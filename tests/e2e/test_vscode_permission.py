"""Questions, grants, modes and trust in real VS Code: the user sees which rule asks, and what an answer allows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import Configure, OpenVSCode, WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import CHEAPER, RATES, environment, make_parcels, read
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

WIDE = "git log --oneline -3"
OTHER = "git log -1 --format=%s"
SUBJECT = "Rates of this year"
DONE = "That is all."


@pytest.fixture
def workspace(ground: Path) -> Path:
    """A repository with one commit and a file of secrets."""
    folder = make_parcels(ground)
    (folder / ".env").write_text("PARCELS_TOKEN=not-for-everybody\n")
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "rates.py"], [*who, "commit", "-q", "-m", SUBJECT]):
        subprocess.run(["git", *command], cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=60)
    return folder


def bash(command: str, description: str = "") -> Reply:
    return task.call("bash", command=command, description=description or command)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def permission_text(window: Window) -> Locator:
    """Return the text box with the first pattern."""
    return window.approval.get_by_role("textbox", name="Pattern 1: runs", exact=True)


def rows(window: Window) -> Locator:
    """Rows of VS Code's list at the top."""
    return window.page.locator(".quick-input-widget .monaco-list-row")


async def choose_mode(window: Window, label: str) -> None:
    """By the button below the composer."""
    await window.chat.get_by_role("button", name=re.compile("^Mode: ")).click()
    await rows(window).filter(has_text=label).first.click()


def mode(window: Window, label: str) -> Locator:
    return window.button(f"Mode: {label}")


async def test_approval_names_its_rule_and_always_allow_can_be_revoked(
    with_model: WithModel, configure: Configure, workspace: Path
) -> None:
    configure(permission={"bash": {"git *": "ask"}})
    replies = [bash(WIDE, "Look at the last commits"), bash(OTHER), Reply(text=DONE)]
    replies += [bash(OTHER), Reply(text="Stopped.")]
    async with with_model(replies, settings={"breadcrumbs.enabled": False}) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say("What was done last?")
        card = window.approval
        await expect(card).to_contain_text("bash: git * → ask")
        # The command comes first; what the model calls it stands below, and as the model's words.
        await expect(card).to_contain_text(
            re.compile(f"{WIDE}.*The model says: “Look at the last commits”", re.DOTALL)
        )
        await window.button("~/.goalwright/config.json", card).click()
        await expect(window.tab("config.json")).to_be_visible()

        await window.button("Always allow…", card).click()
        await expect(permission_text(window)).to_have_value("git log *")
        await expect(permission_text(window)).to_be_focused()
        # Escape closes it and goes back to its button; what stood there stays.
        await permission_text(window).fill("git log -3 *")
        await window.page.keyboard.press("Escape")
        await expect(permission_text(window)).to_have_count(0)
        await expect(window.button("Always allow…", card)).to_be_focused()
        await window.page.keyboard.press("Enter")
        await expect(permission_text(window)).to_have_value("git log -3 *")
        await permission_text(window).fill("git log *")
        await card.get_by_role("radio", name="This workspace", exact=True).check()
        await expect(card).to_contain_text("Nothing is written to the folder")
        await window.pictures("permission")

        # What the daemon does not take is said on the card, and what was written stays.
        long = "git log " + "x" * 600
        await permission_text(window).fill(long)
        await window.button("Always allow", card).click()
        await expect(card.get_by_role("alert")).to_contain_text("500")
        await expect(permission_text(window)).to_have_value(long)
        await expect(card.get_by_role("radio", name="This workspace", exact=True)).to_be_checked()
        await permission_text(window).fill("git log *")
        await window.page.keyboard.press("Enter")

        # The second command is another one, and passes.
        await expect(window.answers().last).to_contain_text(DONE)
        assert SUBJECT in str(model.requests[2].json["messages"][-1])
        await expect(window.chat.get_by_role("log")).to_contain_text("in this workspace: bash: git log *")

        await window.button("Permissions").click()
        row = rows(window).filter(has_text="bash: git log *")
        await expect(row).to_contain_text("This workspace")
        await expect(row).to_contain_text("by VS Code")
        await expect(rows(window).filter(has_text="bash: git *")).to_contain_text("ask · your rule")
        await row.hover()
        await row.get_by_role("button", name="Remove").click()
        await expect(row).to_have_count(0)
        await window.page.keyboard.press("Escape")

        await window.say("And once more?")
        await expect(card).to_contain_text("bash: git * → ask")
        await window.button("Reject", card).click()
        await expect(window.composer).to_be_enabled()


async def test_approval_of_a_command_lists_its_effects_and_warnings(
    with_model: WithModel, configure: Configure, workspace: Path
) -> None:
    configure(permission={"bash": {"*": "allow", "git reset *": "ask"}, "edit": "allow"})
    command = "cat .env\necho exit > .git/hooks/pre-commit\ngit reset --hard HEAD~1"
    replies = [bash(command, "Begin anew"), Reply(text="Then not.")]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say("Begin anew.")
        why = window.approval.get_by_role("list", name="Why you are asked")
        await expect(why).to_contain_text(re.compile(r"reads\s+\.env"))
        await expect(why).to_contain_text("the built-in rule read: *.env → ask · argument of cat")
        await expect(why).to_contain_text(re.compile(r"changes\s+\.git/hooks/pre-commit.*protected: "))
        await expect(why).to_contain_text(
            re.compile(r"runs\s+git reset --hard HEAD~1.*your rule bash: git reset \*")
        )
        await expect(window.approval.get_by_role("list", name="Warnings")).to_contain_text("reset --hard")
        await window.pictures("warnings")
        await window.button("Suggest changes…", window.approval).click()
        await window.chat.get_by_role("textbox", name="Feedback").fill("Leave it as it is.")
        await window.button("Send feedback").click()
        await expect(window.answers().last).to_contain_text("Then not.")
    assert (workspace / "rates.py").read_text() == RATES
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()


async def test_chosen_mode_is_shown_applied_and_kept(with_model: WithModel, workspace: Path) -> None:
    file = workspace / "rates.py"
    edit = task.call("edit", file_path=str(file), old_string=CHEAPER[0], new_string=CHEAPER[1])
    replies = [read(file), edit, Reply(text="It cannot be changed."), edit, Reply(text=DONE)]
    async with with_model(replies, settings={"goalwright.mode": "plan"}) as (_model, window):
        await window.show_chat()
        await expect(mode(window, "Read only")).to_be_visible()
        await window.say("Make local parcels cheaper.")
        await expect(window.answers().last).to_contain_text("It cannot be changed.")
        assert file.read_text() == RATES
        await expect(window.status_item()).to_contain_text("Read only")
        await window.pictures("mode-plan")

        await choose_mode(window, "Accept edits")
        await expect(mode(window, "Accept edits")).to_be_visible()
        await window.say("Now do it.")
        await expect(window.answers().last).to_contain_text(DONE)
        await expect(window.approval).to_have_count(0)
        await window.reload()
        await window.show_chat()
        await expect(mode(window, "Accept edits")).to_be_visible()
    assert file.read_text() == RATES.replace(*CHEAPER)


async def test_restricted_mode_changes_nothing_until_trusted(
    open_vscode: OpenVSCode, workspace: Path
) -> None:
    file = workspace / "rates.py"
    edit = task.call("edit", file_path=str(file), old_string=CHEAPER[0], new_string=CHEAPER[1])
    replies = [read(file), edit, Reply(text="It cannot be changed."), edit, Reply(text=DONE)]
    async with ModelServer(replies) as model, open_vscode(environment(model), restricted=True) as window:
        await window.show_chat()
        note = window.chat.get_by_role("status").filter(has_text="Restricted mode")
        await expect(note).to_be_visible()
        await window.say("Make local parcels cheaper.")
        await expect(window.answers().last).to_contain_text("It cannot be changed.")
        await expect(window.approval).to_have_count(0)
        assert file.read_text() == RATES
        tools = {tool["name"] for tool in model.requests[0].json["tools"]}
        assert "read" in tools
        assert not tools & {"edit", "write", "patch", "bash"}
        await window.pictures("restricted")

        await choose_mode(window, "Autonomous")
        toast = window.notification(re.compile("trust", re.IGNORECASE))
        await expect(toast).to_be_visible()
        await toast.get_by_role("button", name="Manage Workspace Trust").click()
        await window.page.get_by_role("button", name="Trust", exact=True).first.click()
        await expect(note).to_have_count(0)
        await window.page.locator('.modal-editor-part [aria-label^="Close"]').first.click()
        await expect(window.page.locator(".modal-editor-part")).to_have_count(0)

        await window.say("Now do it.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(DONE)
    assert file.read_text() == RATES.replace(*CHEAPER)


async def test_a_command_in_the_background_is_listed_read_and_stopped(
    with_model: WithModel, workspace: Path
) -> None:
    command = "echo $$ > pid.txt; echo listening on 8080; exec sleep 600"
    replies = [task.call("bash", command=command, description="Start the server", background=True)]
    replies += [Reply(text="It runs."), Reply(text="Seen.")]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.say("Start the server.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text("It runs.")
        await expect(window.tool("bash", "running")).to_contain_text("job_1")
        written = workspace / "pid.txt"
        await until(lambda: written.is_file() and written.read_text().strip(), "the job's process")
        pid = int(written.read_text())

        await window.command("Goalwright: Background Jobs…")
        row = rows(window).filter(has_text="exec sleep 600")
        await expect(row).to_contain_text("running")
        await row.hover()
        await row.get_by_role("button", name="Open its output").click()
        await expect(window.page.locator(".monaco-editor .view-lines").first).to_contain_text(
            re.compile(r"listening\son\s8080")
        )

        await window.command("Goalwright: Background Jobs…")
        await row.hover()
        await row.get_by_role("button", name="Stop", exact=True).click()
        await expect(row).to_contain_text("stopped by signal")
        await until(lambda: not alive(pid), "the job's end")
        await window.page.keyboard.press("Escape")
        await expect(window.tool("bash", "stopped")).to_be_visible()


async def test_model_questions_take_options_and_text_across_a_reload(
    with_model: WithModel, workspace: Path
) -> None:
    questions = [
        {
            "question": "Where are the rates to be kept?",
            "options": [
                {"label": "In a file", "description": "rates.json beside the code; no new dependency"},
                {"label": "In a database", "description": "SQLite, with a migration"},
            ],
        },
        {"question": "Which countries come first?", "options": ["DE", "FR", "PL"], "multiple": True},
    ]
    later = [{"question": "Which database?", "options": ["SQLite", "Postgres"]}]
    replies = [
        task.call("question", questions=questions),
        Reply(text=DONE),
        task.call("question", questions=later),
        Reply(text="MySQL it is."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say("Let the rates be changed without a release.")
        card = window.chat.get_by_role("region", name="Question", exact=True)
        await expect(card).to_contain_text("Goalwright has 2 questions")
        await expect(window.button("Send answer", card)).to_be_disabled()
        await window.reload()
        await window.show_chat()
        # By keys alone: from the composer back over the buttons is the usual way of a page.
        await card.get_by_role("radio", name=re.compile("^In a file")).focus()
        await window.page.keyboard.press("ArrowDown")
        await expect(card.get_by_role("radio", name=re.compile("^In a database"))).to_be_checked()
        await card.get_by_role("checkbox", name="DE", exact=True).check()
        await card.get_by_role("checkbox", name="PL", exact=True).check()
        await window.pictures("question")
        own = card.get_by_role("textbox", name="Your own answer: Which countries come first?")
        await own.fill("and Austria soon")
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text(DONE)
        await expect(card).to_have_count(0)
        await expect(window.tool("question", "done")).to_contain_text(
            "In a database; DE, PL. and Austria soon"
        )
        sent = model.requests[1].json
        assert "In a database" in str(sent)
        assert "DE, PL. and Austria soon" in str(sent)

        # What is typed below, as in any chat, is the answer.
        await window.say("Then choose a database.")
        await expect(card).to_contain_text("Which database?")
        await window.say("Use MySQL, neither of these.")
        await expect(window.answers().last).to_contain_text("MySQL it is.")
        await expect(window.tool("question", "done").last).to_contain_text("Use MySQL, neither of these.")
        assert "Answer: Use MySQL, neither of these." in str(model.requests[3].json)
