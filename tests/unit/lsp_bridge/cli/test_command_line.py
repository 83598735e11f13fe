from __future__ import annotations

import inspect
import io
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import safe_path
from daemon.logfile import MAX_BYTES
from daemon.safe_path import protect
from lsp_bridge.cli.command_description import CliCommand, Group
from lsp_bridge.cli.command_line import SHARED, function_of, parse
from lsp_bridge.cli.command_table import COMMANDS
from lsp_bridge.cli.run.conversation import RunOptions, named_files

ROOT = str(Path(safe_path.__file__).parents[1])


def usage_error(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        parse(argv)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "command"),
        (["fly"], "invalid choice"),
        (["run", "x", "--model", "gpt"], "not of the form provider/model"),
        (["run", "x", "--model", "/gpt"], "not of the form provider/model"),
        (["run", "x", "--session", "a", "--continue"], "not allowed with"),
        (["run", " \n"], "the task is empty"),
        (["run", "x", "--frobnicate"], "unrecognized"),
        (["serve", "--idle-timeout", "soon"], "'soon' is not a number of seconds"),
        (["serve", "--idle-timeout", "-1"], "not a number of seconds"),
        (["serve", "--idle-timeout", "nan"], "not a number of seconds"),
        (["connect"], "--stdio"),
        (["goal"], "action"),
        (["goal", "abandon", "1"], "--reason"),
        (["goal", "done", "1"], "--summary"),
        (["goal", "rename", "1"], "DESCRIPTION"),
        (["run", "x", "--mode", "yolo"], "invalid choice"),
        (["permissions", "explain", "bash"], "TARGET"),
        (["permissions", "forget"], "NUMBER"),
        (["mode", "fast"], "invalid choice"),
        (["budget", "--usd", "much"], "'much' is not an amount of US dollars"),
        (["budget", "--usd", "nan"], "not an amount"),
        (["budget", "--usd=-1"], "not an amount"),
        (["budget", "--tokens", "1.5"], "not a number of tokens"),
        (["budget", "--goal-tokens", "inf"], "not a number of tokens"),
        (["stats", "--days", "1000000"], "not a number of days"),
        (["team", "add", "ann", "--days", "4000000"], "not a number of days"),
        (["undo", ""], "the id is empty"),
        (["explore", "--session", " ", "pick", "A"], "the id is empty"),
        (["trace", "export", ""], "the id is empty"),
        (["trace", "show", ":A"], "the id is empty"),
    ],
)
def test_wrong_command_line_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert words in usage_error(capsys, *argv)


each_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


@each_command
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: CliCommand) -> None:
    with pytest.raises(SystemExit) as caught:
        parse([*command.name.split(), "--help"])
    assert caught.value.code == 0
    assert f"goalwright {command.name}" in capsys.readouterr().out


@each_command
def test_the_function_of_every_command_takes_its_arguments(command: CliCommand) -> None:
    if not command.function:
        return
    groups = [one.arguments if isinstance(one, Group) else (one,) for one in command.arguments]
    given = {
        one.options.get("dest") or max(one.names, key=len).strip("-").replace("-", "_")
        for one in sum(groups, ())
    }
    given -= {*SHARED}
    taken = inspect.signature(function_of(command.function)).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in taken):
        given -= {"max_steps", "max_usd", "max_minutes", "files"}
        assert given <= set(RunOptions._fields)
        return
    named = {one.name: one.default for one in taken if one.kind is one.KEYWORD_ONLY}
    assert given <= named.keys()
    assert given >= {name for name, default in named.items() if default is inspect.Parameter.empty}


@pytest.mark.parametrize(
    "argv",
    [
        ["permissions", "--session", "s", "--json", "explain", "bash", "git push"],
        ["permissions", "explain", "bash", "git push", "--json", "--session", "s"],
    ],
)
def test_options_may_precede_or_follow_the_action(argv: list[str]) -> None:
    args = parse(argv)
    assert (args.action, args.session, args.json, args.target) == ("explain", "s", True, "git push")


class Piped(io.TextIOWrapper):
    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), "ascii")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("argv", [["run"], ["run", "-"]])
def test_task_is_read_from_a_pipe_as_utf_8(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Piped("füge\nhinzu".encode()))
    assert parse(argv).task == "füge\nhinzu"


def test_ctrl_c_while_the_task_is_read_is_exit_code_130() -> None:
    code = """if True:
        import signal, sys
        from daemon.__main__ import main
        class Stdin:
            buffer = property(lambda self: signal.raise_signal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
        sys.argv[1:], sys.stdin = ["run", "-"], Stdin()
        sys.exit(main())
    """
    result = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "")


def test_ctrl_c_before_any_import_is_exit_code_130() -> None:
    code = """if True:
        import signal, sys
        class Interrupting:
            def find_spec(self, name, path, target=None):
                signal.raise_signal(signal.SIGINT)
        from goalwright import main
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
        sys.meta_path.insert(0, Interrupting())
        sys.exit(main())
    """
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (130, "")


@pytest.mark.parametrize("command", ["acp", "mcp serve", "run -"])
def test_a_closed_stdin_is_an_empty_one(tmp_path: Path, command: str) -> None:
    line = f"{shlex.quote(sys.executable)} -I -m goalwright {command} <&-"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if command == "mcp serve" else 2)


def test_task_on_the_command_line_leaves_stdin_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert parse(["run", "do it"]).task == "do it"


def test_run_without_a_task_at_a_terminal_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(b"", terminal=True))
    assert "what should the agent do?" in usage_error(capsys, "run")
    monkeypatch.setattr(sys, "stdin", Piped(b""))
    assert "the task is empty" in usage_error(capsys, "run")
    monkeypatch.setattr(sys, "stdin", None)
    assert "the task is empty" in usage_error(capsys, "run", "-")


def test_names_in_a_task_that_cannot_be_files_are_plain_text(tmp_path: Path) -> None:
    for name in ("a" * 300, f"{'a' * 300}/b.py", "a\0b/c.py"):
        files, _ = named_files(f"look at @{name}", tmp_path)
        assert files == ()


@pytest.mark.parametrize("command", ["demo", "doctor --start"])
def test_a_full_disk_is_no_traceback(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    code = f"""if True:
        import resource, signal, sys
        from goalwright import main
        sys.dont_write_bytecode = True
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        sys.argv[1:] = {command.split()!r}
        sys.exit(main())
    """
    environment = {**os.environ, "GOALWRIGHT_HOME": str(tmp_path / "home"), "PYTHONPATH": ROOT}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "No usable temporary directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_user_before_a_slash_is_a_name(tmp_path: Path) -> None:
    environment = {**os.environ, "GOALWRIGHT_HOME": str(tmp_path / "home")}
    line = [sys.executable, "-I", "-m", "goalwright", "trace", "import", "~nobody-here/x.tar.gz"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/~nobody-here/x.tar.gz" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["serve", "trace list", "stats"])
@pytest.mark.parametrize("name", ["circle", "a" * 300])
def test_a_workspace_that_cannot_be_is_no_traceback(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "circle").symlink_to("circle")
    line = [sys.executable, "-I", "-m", "goalwright", *command.split(), "--workspace", str(tmp_path / name)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in done.stderr
    assert done.stderr


# -- the import path -------------------------------------------------------------------------------------------


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    entries = [entry for entry in sys.path if entry]
    monkeypatch.setattr(sys, "path", entries)
    return entries


def test_workspace_folders_are_removed_from_the_import_path(path: list[str], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    before = list(dict.fromkeys(path))
    path[:0] = ["", ".", str(tmp_path / "real"), str(tmp_path / "link" / "sub"), str(tmp_path / "realistic")]
    assert protect(str(tmp_path / "real"), through_current_folder=False) is None
    assert sys.path == [str(tmp_path / "realistic"), *before]


def test_own_checkout_is_a_fine_workspace_when_installed(path: list[str]) -> None:
    before = list(path)
    assert protect(ROOT, through_current_folder=False) is None
    kept = {os.path.realpath(entry) for entry in sys.path}
    assert ROOT in kept
    assert {os.path.realpath(e) for e in before if e.startswith(sys.prefix)} <= kept


def test_source_checkout_found_via_current_folder_is_refused(path: list[str]) -> None:
    problem = protect(ROOT, through_current_folder=True)
    assert problem is not None
    assert "Start it as `goalwright`" in problem


def test_code_from_another_folder_than_the_workspace_is_fine(path: list[str], tmp_path: Path) -> None:
    path[:] = [entry for entry in path if os.path.realpath(entry) != ROOT]
    assert protect(str(tmp_path), through_current_folder=True) is None
    assert sys.path[-1] == ROOT  # its siblings must still be found


def test_the_whole_disk_as_workspace_keeps_the_interpreter(path: list[str]) -> None:
    path.insert(0, "/somewhere/evil")
    assert protect("/", through_current_folder=False) is None
    assert "/somewhere/evil" not in sys.path
    assert any(os.path.realpath(entry) == str(Path(os.__file__).resolve().parent) for entry in sys.path)


def test_safe_path_guard_imports_nothing_that_can_be_shadowed() -> None:
    code = (
        "import sys; before = set(sys.modules); import daemon.safe_path; "
        "print(sorted(n for n in set(sys.modules) - before if not n.startswith('daemon')))"
    )
    result = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() in ("[]", "['__future__']")


def test_terminal_client_imports_nothing_heavy() -> None:
    parts = (
        "run.command",
        "run.turn",
        "launch",
        "command_line",
        "commands.daemon",
        "commands.plan",
        "commands.mcp",
    )
    modules = ", ".join(f"lsp_bridge.cli.{part}" for part in parts)
    code = (
        f"import {modules}, pathlib, sys; "
        "lsp_bridge.cli.run.conversation.named_files('fix a.py and @nothing', pathlib.Path()); print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "pydantic",
        "pygls",
        "lsprotocol",
        "anthropic",
        "litellm",
        "filelock",
        "httpx",
        "platformdirs",
        "msgspec",
    }
    assert heavy.isdisjoint(name.partition(".")[0] for name in result.stdout.split())


# -- the log ---------------------------------------------------------------------------------------------------


def test_log_is_private_and_bounded_and_includes_stderr(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    code = f"""if True:
        import logging, os
        from pathlib import Path
        from daemon import logfile
        logfile.MAX_BYTES = 2000
        logfile.configure_logging(Path({str(log)!r}))
        for number in range(100):
            logging.getLogger("x").info("entry %d \\udcff", number)
        logging.getLogger("httpx").info("a request")
        os.write(2, b"last words")
    """
    result = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    text = log.read_text("utf-8")
    assert text.endswith("last words")
    assert "a request" not in text
    assert "entry 99" in text
    assert len(text) < 3000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1"]
    assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o600}
    assert MAX_BYTES > 2000
    assert logging.getLogger("x").level == logging.NOTSET
