"""The user's own tools in sessions of the real core: real programs, real packages, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from daemon.loop.services import JoinedTools
from daemon.model.events import Notice
from daemon.own_tools.python_tools import in_thread
from daemon.own_tools.service import OwnTools
from daemon.permission.rules import RuleSet
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted, results
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.language_workspace import process_lives

ECHO = '#!{python} -I\nimport json, os, sys\ngiven = json.load(sys.stdin)\nprint("got", given["text"])\n'
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAY = Call("tool__say", {"text": "hello"})
PACKAGE = """
import asyncio, os, threading
class Upper:
    name = "upper"
    description = "Upper case."
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    timeout_s = 20
    async def run(self, arguments, context):
        context.report("at work in " + context.workspace.name)
        return arguments.get("text", "").upper() + " " + threading.current_thread().name
class Bad:
    name = "bad"
    description = "Fails."
    async def run(self, arguments, context):
        raise SystemExit("out")
class Number:
    name = "number"
    description = "No text."
    async def run(self, arguments, context):
        return 7
class Hang:
    name = "hang"
    description = "Never ends."
    timeout_s = 0.2
    async def run(self, arguments, context):
        await asyncio.Event().wait()
class Canceled:
    name = "canceled"
    description = "Cancels itself."
    async def run(self, arguments, context):
        raise asyncio.CancelledError
class Sync:
    name = "sync"
    description = "Not async."
    def run(self, arguments, context): ...
class Bash:
    name = "bash"
    description = "A built-in name."
    async def run(self, arguments, context): ...
"""
ENTRIES = ("Upper", "Bad", "Number", "Hang", "Canceled", "Sync", "Bash", "Missing")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on the path, without the entry points: see ``install``."""
    site = tmp_path / "site"
    info = site / "sample_own_tools-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-own-tools\nVersion: 1.2\n")
    (site / "sample_own_tools.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "sample_own_tools", raising=False)
    return site


def install(site: Path, *names: str) -> None:
    lines = [f"{name.lower()} = sample_own_tools:{name}" for name in names or ENTRIES]
    text = "\n".join(["[goalwright.tools]", *lines])
    (site / "sample_own_tools-1.2.dist-info" / "entry_points.txt").write_text(text + "\n")
    site.touch()  # as an installation does, which replaces the folder of the metadata


def define(folder: Path, name: str = "say", program: str = ECHO, **keys: Any) -> Path:
    """Define a tool beside its program; return the program."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{name}.py"
    # The sandbox hides /tmp, where the environment of a checkout may be.
    script.write_text(program.replace("{python}", os.path.realpath(sys.executable)))
    script.chmod(0o755)
    values = {"description": "Says it.", "parameters": SCHEMA, "command": [f"./{name}.py"], **keys}
    (folder / f"{name}.json").write_text(json.dumps(values))
    return script


def own(tmp_path: Path) -> Path:
    return tmp_path / "home" / "tools"


def local(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / ".goalwright" / "tools"


def offered(bench: Bench) -> list[str]:
    return [tool.name for tool in bench.models.requests[-1].tools if tool.name.startswith("tool__")]


def notices(bench: Bench) -> str:
    return "\n".join(notice.text for notice in bench.events(Notice))


async def run(bench: Bench, *steps: Step, settings: Any = ALLOW_ALL, **options: Any) -> str:
    """Run a turn; return the first result, with ``error: `` before it if it is one."""
    session = bench.session(settings=settings, **options)
    bench.models.then(*steps)
    await finish(prompted(session, "go"), 60)
    first = next(iter(results(session.state.messages)), None)
    return "" if first is None else ("error: " if first.is_error else "") + first.content


async def test_a_call_asks_and_answers(tmp_path: Path) -> None:
    script = define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(SAY, "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == request.tool == "tool__say"
        assert request.title == 'Own tool: say {"text": "hello"}'
        assert request.detail == f'Own tool: say\n{script}\n{{\n  "text": "hello"\n}}'
        assert request.notes == (f"{own(tmp_path) / 'say.json'}. It runs in the sandbox.",)
        await bench.answer()
        await finish(turn)
        (result,) = results(session.state.messages)
        assert (result.content, result.is_error) == ("got hello\n", False)
        assert offered(bench) == ["tool__say"]


async def test_joined_tools_are_the_same_object_until_they_change(tmp_path: Path) -> None:
    users = [tmp_path / name for name in ("a", "b", "c")]
    for user in users[:2]:
        define(user / "tools", f"of_{user.name}")
    joined = JoinedTools(*(OwnTools(tmp_path / "workspace", user, user / "private") for user in users))
    await joined.begin("trusted", session_id="s")
    tools = joined.tools("trusted", "s")
    assert list(tools) == ["tool__of_b", "tool__of_a"]
    assert joined.tools("trusted", "s") is tools
    define(users[2] / "tools", "of_c")
    await joined.begin("trusted", session_id="s")
    tools = joined.tools("trusted", "s")
    assert list(tools) == ["tool__of_c", "tool__of_b", "tool__of_a"]
    assert joined.tools("trusted", "s") is tools


@pytest.mark.parametrize("changed", ["program", "script of the workspace", "description", "command"])
async def test_what_changed_asks_again(tmp_path: Path, changed: str) -> None:
    script = define(own(tmp_path))
    if changed == "script of the workspace":
        (tmp_path / "workspace/scripts").mkdir(parents=True)
        script = script.rename(tmp_path / "workspace/scripts/say.py")
        define(own(tmp_path), command=["python3", "scripts/say.py"])
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(SAY, SAY, "done")
        turn = prompted(session, "go")
        await bench.answer("always")
        await finish(turn)
        assert [one.is_error for one in results(session.state.messages)] == [False] * 2
        if changed in ("program", "script of the workspace"):
            times = script.stat()
            script.write_text(script.read_text() + "\nprint(1)\n")
            os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
        elif changed == "description":
            define(own(tmp_path), description="Deletes it.")
        else:
            define(own(tmp_path), command=["./say.py", "--all"])
        bench.models.then(SAY, "done")
        turn = prompted(session, "again")
        (request,) = await bench.asked()
        assert "has changed since you approved it" in request.notes[-1]
        await bench.answer("reject", "no")
        await finish(turn)


async def test_a_program_that_changes_during_the_question_is_not_run(tmp_path: Path) -> None:
    script = define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(SAY, "done")
        turn = prompted(session, "go")
        await bench.asked()
        script.write_text(script.read_text() + "\nprint(1)\n")
        await bench.answer()
        await finish(turn)
        (result,) = results(session.state.messages)
        assert "changed while approval was pending. Nothing was run" in result.content


@pytest.mark.parametrize("mode", ["plan", "auto"])
async def test_modes_do_not_let_them_run(tmp_path: Path, mode: str) -> None:
    define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={"mode": mode})
        bench.models.then(SAY, "done")
        turn = prompted(session, "go")
        if mode == "auto":
            await bench.answer("reject", "no")
        await finish(turn)
        assert results(session.state.messages)[0].is_error
        assert bool(offered(bench)) == (mode == "auto")


async def test_plan_mode_runs_what_a_rule_allows_read_only(tmp_path: Path) -> None:
    define(own(tmp_path), program='#!/bin/sh\necho x > made.txt && echo "wrote it"\n', sandbox="off")
    async with daemon(tmp_path) as bench:
        said = await run(bench, SAY, "done", settings={"mode": "plan", "permission": {"tool__say": "allow"}})
        assert offered(bench) == ["tool__say"]
        assert said.startswith("error: The tool failed. Exit code:")
        assert not (bench.workspace / "made.txt").exists()


async def test_read_only_agents_and_branches_have_none(tmp_path: Path) -> None:
    define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        await run(bench, "done", settings=None, agent="plan")
        assert offered(bench) == []
    assert not RuleSet(stands_for="/w", root="/copy").offered("tool__say")


async def test_rules_with_wildcards_allow_and_deny(tmp_path: Path) -> None:
    define(own(tmp_path))
    define(own(tmp_path), "drop")
    async with daemon(tmp_path) as bench:
        rules = {"permission": {"tool__*": "allow", "tool__drop": "deny"}}
        assert await run(bench, SAY, "done", settings=rules) == "got hello\n"
        assert offered(bench) == ["tool__say"]


async def test_the_sandbox_hides_secrets_and_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret")
    program = '#!/bin/sh\ncat > /dev/null\necho "key=$MY_API_KEY"\ncat ../home/grants.json 2>&1\necho a > made.txt\n'
    define(own(tmp_path), program=program)
    (tmp_path / "home" / "grants.json").write_text("[]")
    async with daemon(tmp_path) as bench:
        said = await run(bench, SAY, "done")
        assert "key=\n" in said and "[]" not in said
        assert "Files changed by the command: made.txt (new)" in said
        assert (bench.workspace / "made.txt").read_text() == "a\n"


async def test_arguments_are_checked_by_the_schema(tmp_path: Path) -> None:
    define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        said = await run(bench, Call("tool__say", {"text": 7}), "done")
        assert said == "error: The arguments are not valid: text: 7 is not of type 'string'"


async def test_failures_name_exit_code_and_stderr(tmp_path: Path) -> None:
    define(own(tmp_path), program="#!/bin/sh\necho half\necho broken >&2\nexit 3\n")
    define(own(tmp_path), "slow", program="#!/bin/sh\nsleep 60\n", timeout_s=0.3)
    async with daemon(tmp_path) as bench:
        said = await run(bench, SAY, "done")
        assert said == "error: The tool failed. Exit code: 3\nbroken\nhalf\n"
        said = await run(bench, Call("tool__slow", {"text": ""}), "done")
        assert said.startswith("error: Timed out after 0.3 s and was stopped")


async def test_a_flood_is_cut_and_kept_in_a_file(tmp_path: Path) -> None:
    define(own(tmp_path), program='#!/bin/sh\nseq 1 40000\nprintf "\\033[31mred\\033[0m"\n')
    async with daemon(tmp_path) as bench:
        said = await run(bench, SAY, "done")
        assert len(said) < 32_000 and "characters left out; the whole output is in" in said
        assert said.rstrip().endswith("red")


async def test_stop_kills_the_process_group(tmp_path: Path) -> None:
    program = "#!/bin/sh\ncat > /dev/null\nsleep 600 &\necho $! > pid.txt\nmv pid.txt child.txt\nwait\n"
    define(own(tmp_path), program=program, sandbox="off")
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then(SAY)
        turn = prompted(session, "go")
        child = bench.workspace / "child.txt"
        await until(child.exists, "the child", 30)
        pid = int(child.read_text())
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert not process_lives(pid)
        (result,) = results(session.state.messages)
        assert result.content.startswith("Stopped by the user; part of it may be done.")
        assert "child.txt (new)" in result.content


async def test_a_folder_counts_once_it_is_trusted(tmp_path: Path) -> None:
    define(local(tmp_path))
    define(local(tmp_path), "loud", sandbox="network")
    async with daemon(tmp_path) as bench:
        assert await run(bench, SAY, "done") == "got hello\n"
        assert offered(bench) == ["tool__say"]
        assert "loud.json: only a tool of your own may leave the sandbox" in notices(bench)
        bench.core.configuration.trusted.remove(bench.workspace)
        bench.core.configuration.forget()
        session = bench.session()
        session.policy.use(trust="unknown")
        bench.models.then("done")
        await finish(prompted(session, "go"))
        assert offered(bench) == []
        assert "2 tools of this folder are not used, because the folder is not trusted" in notices(bench)


async def test_bad_definitions_are_skipped_with_words(tmp_path: Path) -> None:
    folder = own(tmp_path)
    define(folder)
    define(local(tmp_path))
    for name, text in {
        "bash": json.dumps({"description": "x", "command": ["true"]}),
        "a b": "{}",
        "broken": "{",
        "list": "[]",
        "typo": json.dumps({"description": "x", "commands": ["true"], "command": ["true"]}),
        "nowhere": json.dumps({"description": "x", "command": ["no-such-program"]}),
        "array": json.dumps({"description": "x", "command": ["true"], "parameters": {"type": "array"}}),
        "nul": json.dumps({"description": "x", "command": ["true", "\0"]}),
    }.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "secret.json").symlink_to("/etc/shadow")
    async with daemon(tmp_path) as bench:
        await run(bench, "done")
        said = notices(bench)
        assert offered(bench) == ["tool__say"]
        for words in (
            "bash.json: bash is a tool of Goalwright: choose another name",
            "a b.json: the name may have up to 40 letters",
            "broken.json: it is not valid JSON",
            "list.json: it must be an object",
            "typo.json: commands is not a known key: check its spelling",
            "the program no-such-program is not found",
            "its arguments are not an object",
            "nul.json: command has a character",
            "secret.json: it ",
            f"{local(tmp_path) / 'say.json'}: {folder / 'say.json'} has a tool of this name",
        ):
            assert words in said, f"{words}\n\n{said}"


async def test_functions_of_packages_are_tools(tmp_path: Path, package: Path) -> None:
    install(package)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(Call("tool__upper", {"text": "abc"}), "done")
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert "Python code of the package sample-own-tools 1.2" in request.notes[0]
        await bench.answer("always")
        await finish(turn)
        (result,) = results(session.state.messages)
        assert result.content == "ABC own tool"
        assert "at work in workspace" in bench.text("tool_output")
        assert offered(bench) == [f"tool__{name}" for name in ("bad", "canceled", "hang", "number", "upper")]
        said = notices(bench)
        assert "Tool skipped: sync of sample-own-tools 1.2: it has no function `async run" in said
        assert "Tool skipped: bash of sample-own-tools 1.2: bash is a tool of Goalwright" in said
        assert "Tool skipped: missing of sample-own-tools 1.2: AttributeError" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bad", "The tool failed: SystemExit: out"),
        ("number", "returned int instead of text"),
        ("hang", "did not answer within 0.2 s"),
        ("canceled", "The tool failed: CancelledError"),
    ],
)
async def test_functions_that_fail(tmp_path: Path, package: Path, name: str, words: str) -> None:
    install(package)
    async with daemon(tmp_path) as bench:
        said = await run(bench, Call(f"tool__{name}"), "done")
        assert said.startswith("error: ") and words in said


async def test_a_stop_beside_the_result_is_not_lost() -> None:
    threads: list[threading.Thread] = []
    go = threading.Event()

    async def work() -> str:
        threads.append(threading.current_thread())
        go.wait()
        return "result"

    call = asyncio.create_task(in_thread(work, 20))
    await until(lambda: threads, "the call")
    go.set()
    threads[0].join()
    await asyncio.sleep(0)  # the result has come, and nobody has heard of it yet
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_package_that_hangs_holds_up_nobody(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    waiting = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    (package / "sample_own_tools.py").write_text(waiting + PACKAGE)
    install(package, "Upper")
    async with daemon(tmp_path) as bench:
        assert await bench.core.own_tools.begin("trusted", 0.01) == (
            "The tools of installed packages are still being loaded: they come with a later request.",
        )
        go.touch()
        assert await bench.core.own_tools.begin("trusted", 30.0) == ()
        assert list(bench.core.own_tools.tools("trusted")) == ["tool__upper"]


async def test_broken_metadata_is_said_and_the_session_works(tmp_path: Path, package: Path) -> None:
    install(package, "Upper")
    (package / "sample_own_tools-1.2.dist-info" / "entry_points.txt").write_bytes(b"[x]\n\xff = y:z\n")
    define(own(tmp_path))
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then("done")
        await finish(prompted(session, "go"))
        assert offered(bench) == ["tool__say"]
        assert "Python tools were not loaded: " in notices(bench)


async def test_without_tools_nothing_is_offered_or_loaded(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        await run(bench, "done")
        assert offered(bench) == []
        assert bench.core.own_tools.status("trusted") == ((), ())
