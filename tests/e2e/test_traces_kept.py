"""goalwright trace rebuild, export, import and prune: real processes, with a daemon and without one."""

from __future__ import annotations

import json
import shutil
import tarfile
from typing import Any

import pytest

from tests.support.drivers.command_line import CommandLine, wait_until
from tests.support.scenarios.stored_traces import all_files

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def work(goalwright: CommandLine, name: str, *, model: str | None = None) -> str:
    """A session with a plan, a file and a command. Returns its id."""
    model = model or goalwright.script(
        [
            {"tool_calls": [call("goal", add="one, two", focus="1")]},
            {"tool_calls": [call("write", file_path=f"{name}.py", content=f"TOKEN = '{TOKEN}'\n")]},
            {"tool_calls": [call("bash", command="echo hi")]},
            {"text": "done"},
        ]
    )
    done = goalwright.run("run", f"make {name}", "--model", model, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    return newest(goalwright)


def newest(goalwright: CommandLine) -> str:
    return traces(goalwright)[-1]


def traces(goalwright: CommandLine) -> list[str]:
    return sorted(path.name for path in (goalwright.workspace / ".trace").iterdir() if path.is_dir())


def asked(goalwright: CommandLine, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = goalwright.run("trace", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def stopped(goalwright: CommandLine) -> None:
    assert goalwright.run("stop").returncode == 0
    wait_until(lambda: not goalwright.paths.is_locked(), "the daemon's end")


@pytest.mark.parametrize("running", [True, False])
def test_invalid_prune_limit_is_reported_and_deletes_nothing(goalwright: CommandLine, running: bool) -> None:
    script = goalwright.script([{"text": "done"}])
    for name in ("a", "b"):
        work(goalwright, name, model=script)
    stopped(goalwright)
    goalwright.configure(trace_keep="1x", trace_keep_days=1e-9)
    if running:
        assert goalwright.run("start").returncode == 0
    done = goalwright.run("trace", "prune")
    assert (done.returncode, len(traces(goalwright))) == (1, 2)
    assert "trace_keep is not used: " in done.stderr
    assert "no limit is set" not in done.stdout
    assert goalwright.run("trace", "prune", "--keep", "1").returncode == 0
    assert len(traces(goalwright)) == 1


@pytest.mark.parametrize("running", [True, False])
def test_damaged_trace_is_rebuilt_with_and_without_a_daemon(goalwright: CommandLine, running: bool) -> None:
    trace_id = work(goalwright, "a")
    folder = goalwright.workspace / ".trace" / trace_id
    stopped(goalwright)
    whole = all_files(folder)
    (folder / "meta.json").write_text("{")
    (folder / "goal.json").unlink()
    for path in sorted((folder / "messages").iterdir())[:3]:
        path.unlink()
    with (folder / "events.jsonl").open("ab") as log:
        log.write(b'{"event": "turn_st')
    if running:
        assert goalwright.run("start").returncode == 0
    done = asked(goalwright, "rebuild", trace_id[:20])
    assert goalwright.paths.is_locked() is running
    assert done["traceId"] == trace_id
    assert done["sessions"][0]["repaired"] == [
        "the metadata was missing or damaged",
        "the plan was missing or damaged",
        "missing or not matching the log: 3 messages",
        "removed from the log: 18 bytes of an incomplete event",
    ]
    after = all_files(folder)
    for name in (
        "meta.json",
        "goal.json",
        "events.jsonl",
        *(n for n in whole if n.startswith("messages/msg")),
    ):
        # Numbers that only the living session knew (how well tokens are estimated) may be others.
        assert after[name] == whole[name] or name == "meta.json"
    again = goalwright.run("trace", "rebuild", "--all")
    assert again.returncode == 0
    assert "everything matches the event log" in again.stdout


def test_running_session_is_not_rebuilt_and_the_advice_works(goalwright: CommandLine) -> None:
    waiting = call("bash", command="touch begun; until [ -e go ]; do sleep 0.1; done")
    model = goalwright.script([{"tool_calls": [waiting]}, {"text": "done"}])
    run = goalwright.popen("run", "wait", "--model", model, "--yes")
    try:
        wait_until((goalwright.workspace / "begun").exists, "the command")
        busy = newest(goalwright)
        error = asked(goalwright, "rebuild", code=1)["error"]
        assert "somebody is working in it or viewing it." in error["message"]
        assert "goalwright stop" in error["message"]
        later = work(goalwright, "a")
        assert asked(goalwright, "prune", "--keep", "1")["deleted"] == []
        assert busy in traces(goalwright)
    finally:
        (goalwright.workspace / "go").touch()
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    work(goalwright, "b")
    deleted = asked(goalwright, "prune", "--keep", "1")["deleted"]
    assert [one["traceId"] for one in deleted] == [later, busy], "the one that was used last goes last"


def test_export_redacts_secrets_and_import_is_marked_imported(goalwright: CommandLine) -> None:
    trace_id = work(goalwright, "a")
    target = goalwright.folder / "out.tar.gz"
    done = asked(goalwright, "export", "--output", str(target))  # beside the daemon
    assert done["traceId"] == trace_id
    assert done["redacted"] == 1
    with tarfile.open(target) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            assert TOKEN.encode() not in file.read(), member.name
    stopped(goalwright)
    first = target.read_bytes()
    assert "--force" in asked(goalwright, "export", "-o", str(target), code=1)["error"]["message"]
    asked(goalwright, "export", "-o", str(target), "--force")
    assert target.read_bytes() == first, "it is the same archive, with a daemon or without"

    assert "already" in asked(goalwright, "import", str(target), code=1)["error"]["message"]
    shutil.rmtree(goalwright.workspace / ".trace" / trace_id)
    assert asked(goalwright, "import", str(target))["traceId"] == trace_id
    listed = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]  # starts a daemon
    assert [(one["trace"]["traceId"], one["foreign"]) for one in listed] == [(trace_id, True)]
    assert listed[0]["trace"]["title"] == "make a"

    shutil.rmtree(goalwright.workspace / ".trace" / trace_id)
    assert asked(goalwright, "import", str(target))["traceId"] == trace_id  # by the daemon
    target.write_bytes(first[:-100])
    shutil.rmtree(goalwright.workspace / ".trace" / trace_id)
    assert "damaged" in asked(goalwright, "import", str(target), code=1)["error"]["message"]
    assert traces(goalwright) == []


def test_old_traces_go_by_command_and_by_setting(goalwright: CommandLine) -> None:
    ids = [work(goalwright, name) for name in ("a", "b", "c", "d")]
    told = goalwright.run("trace", "prune")
    assert told.returncode == 0
    assert "no limit is set" in told.stdout
    dry = asked(goalwright, "prune", "--keep", "3", "--dry-run")
    assert [one["traceId"] for one in dry["deleted"]] == ids[:1]
    assert traces(goalwright) == ids
    assert [one["traceId"] for one in asked(goalwright, "prune", "--keep", "3")["deleted"]] == ids[:1]
    assert traces(goalwright) == ids[1:]
    stopped(goalwright)
    assert [one["traceId"] for one in asked(goalwright, "prune", "--keep", "2")["deleted"]] == [ids[1]]

    goalwright.configure(trace_max_mb=0.001)
    assert goalwright.run("start").returncode == 0
    wait_until(lambda: traces(goalwright) == [ids[3]], "the daemon deletes all but the newest at its start")
    listed = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]
    assert [one["trace"]["traceId"] for one in listed] == [ids[3]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trace", "rebuild", "2099"), "no trace"),
        (("trace", "export", "2099"), "no trace"),
        (("trace", "import", "nothing.tar.gz"), "cannot be read"),
        (("trace", "prune", "--keep", "0"), "whole number from 1"),
        (("trace", "prune", "--keep-days", "-1"), "not a number of days"),
        (("trace", "rebuild", "x", "--all"), "not allowed with"),
        (("trace",), "required: action"),
    ],
)
def test_impossible_trace_commands_print_a_reason(
    goalwright: CommandLine, arguments: tuple[str, ...], words: str
) -> None:
    (goalwright.workspace / ".trace").mkdir()
    done = goalwright.run(*arguments)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
