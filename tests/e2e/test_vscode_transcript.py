"""The transcript and the attention of the user in real VS Code: how commands ended, what was rejected, who waits."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.parcels import RATES, make_parcels
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

FAILS = "printf '\\033[32mok\\033[0m one\\n\\033[1;31mFAIL\\033[0m two\\n'; exit 3"
ANSWER = r"""The local rate is a **typo**, see rates.py:3.

- [x] find it
- [ ] fix it

For a rate $r$ and a weight $w$ the price is $$p = \frac{r \cdot w}{100}$$

```python
print("inserted")
```

```
no language
```

```sh
$ touch ran.txt
```
"""
TICKS = "for i in 1 2 3; do echo tick $i; done; sleep 300"


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


def run(command: str) -> Reply:
    return Reply(tool_calls=(Call("bash", {"command": command, "description": "Run the tests"}),))


async def test_transcript_keeps_exit_codes_and_rejections_after_reload(
    with_model: WithModel, workspace: Path
) -> None:
    edit = Call(
        "edit",
        {"file_path": str(workspace / "rates.py"), "old_string": "LOCAL = 400", "new_string": "LOCAL = 1"},
    )
    read = Call("read", {"file_path": str(workspace / "rates.py")})
    replies = [
        run(FAILS),
        Reply(text="Two fails."),
        run(TICKS),
        Reply(tool_calls=(read,)),
        Reply(tool_calls=(edit,)),
        Reply(text="I leave it, then."),
        Reply(status=401, error_type="authentication_error", error_message="bad key"),
        Reply(text="Hello again."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Run the tests")
        await window.accept.click()
        failed = window.tool("bash", "failed, exit 3")
        await expect(failed).to_contain_text("FAIL two")
        await expect(failed.locator(".ansi-fg-1")).to_have_text("FAIL")
        await expect(window.answers().last).to_contain_text("Two fails.")
        assert "ok one\\nFAIL two" in str(model.requests[1].json)
        assert "\x1b" not in str(model.requests[1].json)

        await window.say("Run the slow ones")
        await window.accept.click()
        await expect(window.tool("bash", "running")).to_contain_text("tick 3")
        await window.button("Stop").click()
        stopped = window.tool("bash", "stopped")
        await expect(stopped).to_contain_text("tick 3")

        await window.say("Make it cheaper")
        await expect(window.approval).to_be_visible()
        await expect(window.composer).to_have_attribute("placeholder", re.compile("^Say what to do instead"))
        await window.composer.fill("No, leave the rates alone")
        await window.composer.press("Enter")
        rejected = window.tool("edit", "rejected")
        await expect(rejected).to_contain_text("You rejected this: “No, leave the rates alone”")
        await expect(window.answers().last).to_contain_text("I leave it, then.")
        assert (workspace / "rates.py").read_text() == RATES
        assert "tick 3" in str(model.requests[3].json)
        await rejected.get_by_role("button", expanded=False).first.click()
        await expect(rejected).to_contain_text("LOCAL = 1")
        await window.pictures("transcript")
        await assert_accessible(window)

        await window.say("And now?")
        error = window.chat.get_by_text(re.compile("bad key"))
        await expect(error).to_be_visible()
        await window.say("Again")
        await expect(window.answers().last).to_contain_text("Hello again.")
        await window.reload()
        await window.show_chat()
        await expect(window.answers().last).to_contain_text("Hello again.")
        await expect(error).to_be_visible()
        await expect(window.chat.get_by_text("Stopped.", exact=True)).to_be_attached()
        await expect(rejected).to_contain_text("You rejected this: “No, leave the rates alone”")
        await expect(failed).to_be_attached()


async def test_background_session_asks_for_attention_and_queue_is_held(
    with_model: WithModel, workspace: Path
) -> None:
    write = Call("write", {"file_path": str(workspace / "note.txt"), "content": "hello\n"})
    replies = [
        Reply(tool_calls=(write,)),
        Reply(text="Written."),
        Reply(text="The second answer."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Write a note")
        await expect(window.approval).to_be_visible()
        await window.command("Goalwright: New Session")
        await expect(window.status_item()).to_contain_text("approval needed")
        recent = window.chat.get_by_role("region", name="Recent sessions")
        await expect(recent).to_contain_text("needs approval")
        await window.pictures("attention")
        await assert_accessible(window)

        # A key answers nothing that is out of sight.
        await window.page.keyboard.press("Shift+Alt+Y")
        assert not (workspace / "note.txt").exists()
        await recent.get_by_role("button", name=re.compile("Write a note")).click()
        await expect(window.approval).to_be_visible()

        await window.composer.fill("Then translate it")
        await window.composer.press("Alt+Enter")
        waiting = window.chat.get_by_role("list", name="Waiting prompts")
        await expect(waiting).to_contain_text("Then translate it")
        await window.button("Stop").click()
        await expect(window.tool("write", "stopped")).to_contain_text("nothing was done")
        queue = window.chat.get_by_role("region", name="Queue")
        await expect(queue).to_contain_text("1 queued")
        await window.pictures("queue-held")
        assert len(model.requests) == 1
        assert not (workspace / "note.txt").exists()

        # Send takes along what is being edited.
        await window.button("Edit", queue).click()
        await queue.get_by_role("textbox", name="Edit waiting prompt").fill("Then translate it to French")
        await expect(window.button("Cancel", queue)).to_be_visible()
        await window.pictures("queue-edit")
        await window.button("Send what is queued").click()
        await expect(window.answers().last).to_contain_text("Written.")
        assert "Then translate it to French" in str(model.requests[1].json)
        await expect(queue).to_be_hidden()


async def test_transcript_groups_plan_calls_and_reads_and_lists_jobs(
    with_model: WithModel, workspace: Path
) -> None:
    rates = str(workspace / "rates.py")
    looks = [
        Call("grep", {"pattern": "LOCAL"}),
        Call("read", {"file_path": rates}),
        Call("read", {"file_path": "missing.py"}),
        Call("read", {"file_path": rates, "offset": 6, "limit": 4}),
    ]
    plan = {"add": ["Find the cause", "Fix it", "Tell the customers"], "focus": "1"}
    job = Call("bash", {"command": "echo listening; sleep 300", "background": True})
    replies = [
        Reply(tool_calls=(Call("goal", plan),)),
        Reply(tool_calls=tuple(looks[:2])),
        Reply(tool_calls=tuple(looks[2:])),
        Reply(tool_calls=(Call("goal", {"done": "The local rate is a typo", "focus": "2"}),)),
        Reply(tool_calls=(job,)),
        Reply(text=ANSWER),
        run(TICKS),
        Reply(text="I go on without them."),
    ]
    async with with_model(replies) as (model, window):
        page, chat = window.page, window.chat
        await window.open_file("rates.py")
        await window.show_chat()
        await window.say("Find the cause")
        await window.accept.click()
        answer = window.answers().last
        await expect(answer).to_contain_text("is a typo")

        changes = chat.get_by_role("list", name="Changes of the plan")
        await expect(changes.first.get_by_role("button")).to_have_count(4)
        await expect(window.button("Added goal 2 Fix it")).to_be_visible()
        await expect(
            window.button("Completed goal 1 Find the cause, The local rate is a typo")
        ).to_be_visible()
        await expect(window.button("Now working on goal 2 Fix it")).to_be_visible()

        reads = chat.get_by_role("group", name="Read 2 files, searched once, 1 failed")
        await expect(reads.get_by_role("article")).to_have_count(1)  # what failed
        await reads.get_by_role("button").first.press("Enter")
        await expect(reads.get_by_role("article")).to_have_count(len(looks))
        card = window.tool("grep", "done")
        await card.get_by_role("button", expanded=False).first.click()
        await card.get_by_role("button", name="rates.py:3 LOCAL = 400").click()
        await expect(page.locator('.statusbar-item[id="status.editor.selection"]')).to_contain_text("Ln 3,")
        card = window.tool("read", "done").last
        await card.get_by_role("button", expanded=False).first.click()
        await expect(card.get_by_role("region")).not_to_contain_text("→")

        await expect(answer.get_by_role("img", name="done")).to_be_visible()
        await expect(answer.locator("math")).to_have_count(3)
        await expect(answer.locator("mfrac")).to_be_visible()
        running = window.tool("bash", "running")
        await expect(running).to_contain_text("listening")
        await window.pictures("transcript-work", ("hc-dark", "light", "dark"))

        code = answer.locator(".code")
        await code.first.hover()
        await window.button("Insert at cursor", code.first).click()
        await expect(page.locator(".editor-instance .view-lines")).to_contain_text("inserted")
        await code.last.hover()
        await window.button("Open in Terminal", code.last).click()
        await expect(page.locator(".terminal-wrapper .xterm")).to_be_visible()
        typing = page.locator(".terminal-wrapper .xterm-helper-textarea")
        await expect(typing).to_be_focused()
        await window.pictures("transcript-terminal")
        ran = workspace / "ran.txt"
        assert not ran.exists()  # it is typed only: Enter runs it
        for _ in range(10):
            await typing.press("Enter")
            with contextlib.suppress(AssertionError):
                await until(ran.exists, within_s=3)
                break
        assert ran.exists()

        await window.say("And run the tests")
        await window.accept.click()
        ticking = running.filter(has_text="tick 3")
        await expect(ticking).to_be_visible()
        await window.reload()
        await window.show_chat()
        await expect(ticking).to_be_visible()
        await expect(running.filter(has_text="listening")).to_be_visible()
        await window.button("Stop job job_1").click()
        await expect(window.tool("bash", "stopped")).to_be_visible()
        await window.pictures("transcript-jobs", ("hc-dark", "light", "dark"))
        # One command is stopped, and the turn goes on with what it had said.
        await window.button("Stop this command").click()
        await expect(window.tool("bash", "stopped")).to_have_count(2)
        await expect(window.answers().last).to_contain_text("I go on without them.")
        assert "Stopped by the user after" in str(model.requests[-1].json)
        assert "tick 3" in str(model.requests[-1].json)
