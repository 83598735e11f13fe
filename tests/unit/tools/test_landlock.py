"""Real commands under Landlock: what they must not do, what ordinary work needs, as this user and as another one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scenarios.landlock_place import CANARY, USERS, Place, git, made_place, snapshot
from tools.sandbox.landlock import Fence, enforces, landlock_prefix, usable


@pytest.fixture(params=USERS, ids=["me", "another"][: len(USERS)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with made_place(request.param) as made:
        yield made


@pytest.fixture
def mine() -> Iterator[Place]:
    """For what depends on no user, as each command takes its time."""
    with made_place(os.getuid()) as made:
        yield made


_REFUSED_FILES = {
    # What is hidden.
    "read": "read('.env')",
    "read in folder": "read('secrets/key')",
    "list hidden folder": "os.listdir('secrets')",
    "read by proc": "read('/proc/self/cwd/.env')",
    "read by link": "os.symlink('.env', 'seen'); read('seen')",
    "read by link below": "os.symlink('../.env', 'src/seen'); read('src/seen')",
    "read by path descriptor": "fd = os.open('.env', os.O_PATH); read(f'/proc/self/fd/{fd}')",
    "read and write": "os.open('.env', os.O_RDWR | os.O_CREAT)",
    "execute": "subprocess.run(['./.env'])",
    "hard link": "os.link('.env', 'alias')",
    "hard link below": "os.link('.env', 'src/alias')",
    "rename hidden": "os.rename('.env', 'plain')",
    "rename hidden below": "os.rename('.env', 'src/plain')",
    "rename hidden folder": "os.rename('secrets', 'plain')",
    "exchange hidden": "call(renameat2, -100, b'.env', -100, b'README', 2)",
    "overwrite hidden": "write('.env')",
    "replace hidden": "write('new'); os.rename('new', '.env')",
    "remove hidden": "os.unlink('.env')",
    "chmod hidden": "os.chmod('.env', 0o777)",
    "private state": "os.listdir('../state')",
    "private folder": "os.listdir('../private')",
    # What is protected.
    "write config": "write('.git/config')",
    "append to config": "write('.git/config', mode='a')",
    "cut config off": "os.truncate('.git/config', 0)",
    "cut config off when reading": "os.open('.git/config', os.O_RDONLY | os.O_TRUNC)",
    "replace config": "write('.git/new'); os.rename('.git/new', '.git/config')",
    "replace config from below": "write('src/new'); os.replace('src/new', '.git/config')",
    "link config": "write('src/c'); os.link('src/c', '.git/config.worktree')",
    "symlink config": "os.symlink('/dev/null', '.git/config.worktree')",
    "make config": "write('.git/config.worktree')",
    "other case": "write('.git/Config.Worktree')",
    "alias of config": "os.link('.git/config', '.git/alias')",
    "remove config": "os.unlink('.git/config')",
    "new hook": "write('.git/hooks/pre-commit')",
    "new hook by rename": "write('src/hook'); os.rename('src/hook', '.git/hooks/pre-commit')",
    "new hook by link": "write('src/hook'); os.link('src/hook', '.git/hooks/pre-commit')",
    "change hook": "write('.git/hooks/present')",
    "mode of hook": "os.chmod('.git/hooks/present', 0o755)",
    "mode of hook by descriptor": "os.fchmod(os.open('.git/hooks/present', os.O_RDONLY), 0o755)",
    "remove hook": "os.unlink('.git/hooks/present')",
    "move hooks": "os.rename('.git/hooks', 'h')",
    "remove hooks": "shutil.rmtree('.git/hooks')",
    "move repository": "os.rename('.git', 'g')",
    "task": "write('.vscode/tasks.json')",
    "new task": "write('.vscode/launch.json')",
    "new folder of editor": "os.mkdir('.husky')",
    "new file of editor": "write('.husky')",
    "new link of editor": "os.symlink('src', '.husky')",
    "folder renamed to editor's": "os.rename('src', '.husky')",
    "folder in other case": "os.mkdir('.HUSKY')",
    # What lies outside.
    "write outside": "write('../outside/file')",
    "make outside": "write('../outside/new')",
    "folder outside": "os.mkdir('../outside/folder')",
    "remove outside": "os.unlink('../outside/file')",
    "rename outside": "os.rename('../outside/file', '../outside/other')",
    "take outside": "os.rename('../outside/file', 'taken')",
    "take outside below": "os.rename('../outside/file', 'src/taken')",
    "put outside": "os.rename('README', '../outside/README')",
    "link outside in": "os.link('../outside/file', 'src/linked')",
    "link outside in at the top": "os.link('../outside/file', 'linked')",
    "link to outside": "os.symlink('../outside/file', 'out'); write('out')",
    "link to new outside": "os.symlink('../outside/made', 'made'); write('made')",
    "start-up file": "write(os.path.expanduser('~/.profile'))",
    "mode outside": "os.chmod('../outside/file', 0o777)",
    "mode by link": "os.symlink('../outside/file', 'm'); os.chmod('m', 0o777)",
    "mode by descriptor": "os.fchmod(os.open('../outside/file', os.O_RDONLY), 0o777)",
    "mode of workspace": "os.chmod('.', 0o777)",
    "owner outside": "os.chown('../outside/file', os.getuid(), os.getgid())",
    "attribute": "os.setxattr('../outside/file', 'user.x', b'1')",
    "file without name": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "system": "write('/etc/goalwright-test')",
    "shared memory of others": "read('/dev/shm/' + shared)",
    "shared memory changed": "write('/dev/shm/' + shared)",
    "shared memory removed": "os.unlink('/dev/shm/' + shared)",
    "disk": "os.open('/dev/' + disk, os.O_RDONLY)",
    "terminals": "os.open('/dev/ptmx', os.O_RDWR)",
}


def test_files_are_refused(place: Place) -> None:
    before = snapshot(place)
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="goalwright-test-") as shared:
        if place.uid != os.getuid():
            os.chown(shared.name, place.uid, place.uid)
        disks = [name for name in ("vda", "sda", "nvme0n1", "mem", "kmsg") if Path("/dev", name).exists()]
        found = place.attempts(
            _REFUSED_FILES, {"shared": Path(shared.name).name, "disk": disks[0] if disks else "mem"}
        )
    wrong = {name: how for name, how in found.items() if how not in ("EACCES", "EPERM", "ENOTSUP", "EXDEV")}
    assert wrong == ({} if disks else {"disk": "ENOENT"})
    assert snapshot(place) == before


_ORDINARY = {
    "make, read, change": "write('new'); assert read('new') == 'x'; write('new', 'y', 'a'); assert read('new') == 'xy'",
    "write again": "fd = os.open('new', os.O_WRONLY); os.write(fd, b'z'); os.close(fd); assert read('new') == 'zy'",
    "exclusive": "os.close(os.open('lock', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444)); os.unlink('lock')",
    "cut off": "os.truncate('new', 1); assert read('new') == 'z'",
    "mode": "os.chmod('new', 0o700); assert os.stat('new').st_mode & 0o777 == 0o700",
    "umask": "os.umask(0o027); write('masked'); os.umask(0o022); assert os.stat('masked').st_mode & 0o777 == 0o640",
    "owner": "os.chown('new', os.getuid(), os.getgid())",
    "rename": "os.rename('new', 'newer'); assert read('newer') == 'z'",
    "replace": "write('README.tmp', 'after'); os.replace('README.tmp', 'README'); assert read('README') == 'after'",
    "remove": "os.unlink('newer'); assert not os.path.exists('newer')",
    "link": "write('one'); os.link('one', 'two'); assert read('two') == 'x'",
    "symlink": "os.symlink('one', 'three'); assert read('three') == 'x'",
    "program": "write('prog', '#!/bin/sh\\nexit 7\\n'); os.chmod('prog', 0o755); "
    "assert subprocess.run(['./prog']).returncode == 7",
    "folders": "os.makedirs('build/a/b'); write('build/a/b/c'); assert read('build/a/b/c') == 'x'",
    "rename folder": "os.rename('build', 'dist'); write('dist/d'); os.rename('dist/a/b/c', 'dist/c')",
    "folder's mode": "os.mkdir('open', 0o750); assert os.stat('open').st_mode & 0o777 == 0o750; os.rmdir('open')",
    "remove folder": "shutil.rmtree('dist'); assert not os.path.exists('dist')",
    "move up": "os.makedirs('src/deep/er'); write('src/deep/er/f'); shutil.move('src/deep', 'deep'); "
    "assert read('deep/er/f') == 'x'",
    "move file up": "write('src/up'); shutil.move('src/up', 'up'); write('up', 'y', 'a'); assert read('up') == 'xy'",
    "move down": "write('down'); os.rename('down', 'src/down'); assert read('src/down') == 'x'",
    "existing file": "write('src/a.txt', 'after'); os.rename('src/a.txt', 'src/b.txt'); os.chmod('src/b.txt', 0o600)",
    "list": "assert {'.env', '.git', 'src'} <= set(os.listdir('.'))",
    "there already": "try:\n os.mkdir('src')\nexcept FileExistsError: pass",
    "not there": "try:\n os.unlink('nothing')\nexcept FileNotFoundError: pass",
    "many": "for number in range(200): write(f'many-{number}')",
    "many again": "for number in range(200): write(f'many-{number}', 'y', 'a')",
    "many gone": "for number in range(200): os.unlink(f'many-{number}')",
    "temporary": "assert tempfile.gettempdir().endswith('/tmp'); write(tempfile.mkdtemp() + '/f')",
    "semaphore": "import multiprocessing; multiprocessing.Lock()",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as Shared; "
    "Shared(create=True, size=9).unlink()",
    "own child": "p = subprocess.Popen(['sleep', '60']); p.send_signal(9); assert p.wait() == -9",
    "null": "write('/dev/null')",
    "odd arguments": "libc.syscall(openat, -1, 1, 0xFFFFFFFF, -1); libc.open(b'', 0x41, 0); "
    "libc.connect(1, None, -1); libc.mkdir(b'a' * 5000, 0); libc.kill(os.getpid(), 1 << 40); write('odd')",
    "hidden is there": "os.stat('.env')",
    "protected is read": "assert 'core' in read('.git/config')",
    "outside is read": "assert read('../outside/file') == 'before'",
    "pair": "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
    "unix socket": "s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen(); "
    "c = socket.socket(socket.AF_UNIX); c.connect('sock'); s.accept()[0].send(b'x'); assert c.recv(1) == b'x'",
    "unix socket below": "s = socket.socket(socket.AF_UNIX); s.bind('src/sock'); s.listen(); "
    "socket.socket(socket.AF_UNIX).connect('src/sock')",
    "abstract socket": "s = socket.socket(socket.AF_UNIX); s.bind(b'\\0mine-%d' % os.getpid()); s.listen(); "
    "socket.socket(socket.AF_UNIX).connect(s.getsockname())",
    "server": "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); "
    "s.accept()[0].send(b'x'); assert c.recv(1) == b'x'",
    "server on any address": "s = socket.create_server(('', 0), family=socket.AF_INET6, dualstack_ipv6=True); "
    "c = socket.create_connection(('127.0.0.1', s.getsockname()[1])); s.accept()",
    "server without address": "s = socket.socket(); s.listen(); assert s.getsockname()[0] == '127.0.0.1'; "
    "c = socket.create_connection(s.getsockname()); s.accept()",
    "server without address by the other protocol": "s = socket.socket(socket.AF_INET6); s.listen(); "
    "assert s.getsockname()[0] == '::ffff:127.0.0.1'; socket.create_connection(('127.0.0.1', s.getsockname()[1]))",
    "client that becomes a server": "s = socket.create_server(('127.0.0.1', 0)); c = socket.socket(); "
    "c.connect(s.getsockname()); checked(libc.connect(c.fileno(), bytes(16), 16)); c.listen(); "
    "assert c.getsockname()[0] == '127.0.0.1'",
    "server again": "s = socket.create_server(('127.0.0.1', 0)); name = s.getsockname(); s.close(); "
    "t = socket.create_server(name); socket.create_connection(name); t.accept()",
    "server in the abstract": "s = socket.socket(1); s.bind('\\0of this ' + str(os.getpid())); s.listen(); "
    "c = socket.socket(1); c.connect(s.getsockname()); s.accept()[0].send(b'x'); assert c.recv(1) == b'x'",
    "server on the disk": "s = socket.socket(1); s.bind('src/s'); s.listen(); "
    "c = socket.socket(1); c.connect('src/s'); s.accept()\n"
    "t = socket.socket(1); t.bind('s'); t.listen(); socket.socket(1).connect('s')",
}


def test_ordinary_work_is_done(place: Place) -> None:
    found = place.attempts(_ORDINARY)
    assert {name: how for name, how in found.items() if how != "done"} == {}
    assert not list(place.work.glob(".goalwright-new-*"))


def test_git_make_and_python_work(mine: Place) -> None:
    (mine.work / "Makefile").write_text(
        "all: build/out result\nbuild/out:\n\tmkdir -p build\n\techo made >build/out\nresult: build/out\n\tcp $< $@\n"
    )
    (mine.work / "tests/test_one.py").write_text(
        "import unittest\nclass A(unittest.TestCase):\n  def test(self): ...\n"
    )
    lines = (
        "make -s && cat result build/out",
        "git add -A && git commit -qm second && git status --short && git log --format=%s",
        "git checkout -qb other && git stash list && git merge -q main && git gc -q && git branch",
        f"{mine.python} -m unittest discover -s tests && {mine.python} -m compileall -q . && ls __pycache__ || true",
        "cat <<END >here && sed -i s/a/b/ here && cat here\na\nEND",
        "mkdir copy && cp -r src copy/ && mv copy/src moved && rm -r copy && ls moved",
    )
    said: list[str] = []
    for line in lines:
        done = mine.shell(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said.append(done.stdout)
    assert said[:2] == ["made\nmade\n", "second\nfirst\n"]
    assert said[2] == "  main\n* other\n"
    assert said[4:] == ["b\n", "a.txt\n"]
    assert git(mine.work, "-c", "safe.directory=*", "fsck").strip() == ""


@pytest.mark.skipif(shutil.which("node") is None and "CI" not in os.environ, reason="needs node (CI has it)")
def test_node_builds_into_new_folders(mine: Place) -> None:
    script = (
        "const fs = require('fs'), http = require('http'); fs.mkdirSync('dist/a', {recursive: true});"
        "fs.writeFileSync('dist/a/out.js', '1'); fs.rmSync('dist/a', {recursive: true});"
        "fs.writeFileSync('top.js', '2');"
        "fs.copyFileSync('top.js', 'copy.js'); fs.watch('.').close();"
        "require('child_process').execFileSync(process.execPath, ['top.js']);"
        "const s = http.createServer((q, a) => a.end('answer')).listen(0, () => http.get({port: s.address().port},"
        " a => a.on('data', d => { console.log(String(d), fs.readFileSync('copy.js', 'utf8')); process.exit() })))"
    )
    done = mine.run(shutil.which("node") or "node", "-e", script)
    assert (done.returncode, done.stdout) == (0, "answer 2\n"), done.stderr


def test_network_access_excludes_local_sockets(mine: Place) -> None:
    table = {
        "tcp": "socket.create_connection(('127.0.0.1', tcp)).close()",
        "unix": "socket.socket(socket.AF_UNIX).connect(path)",
        "raw": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    }
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        path = mine.base / "outside/socket"
        local.bind(str(path))
        local.listen()
        path.chmod(0o777)
        fence = mine.fence(network=True)
        found = mine.attempts(table, {"tcp": server.getsockname()[1], "path": str(path)}, fence)
    assert found == {"tcp": "done", "unix": "EPERM", "raw": "EACCES"}


@pytest.mark.parametrize(
    ("line", "code"), [("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("kill -KILL $$", -signal.SIGKILL)]
)
def test_exit_code_is_that_of_the_command(mine: Place, line: str, code: int) -> None:
    assert mine.shell(line).returncode == code


def test_missing_program_is_reported(mine: Place) -> None:
    done = mine.run("goalwright-no-such-program")
    assert (done.returncode, done.stderr) == (127, "goalwright: goalwright-no-such-program was not found\n")


def test_output_ends_with_the_last_program_that_has_it(mine: Place) -> None:
    """The broker holds none of it."""
    done = mine.shell("exec >/dev/null 2>&1; sleep 0.1")
    assert (done.returncode, done.stdout) == (0, "")


def test_commands_at_the_same_time_share_the_pool(mine: Place) -> None:
    line = "for n in 1 2 3 4 5 6 7 8; do mkdir $0-$n && echo x >$0-$n/f && echo y >$0-$n.txt && cat $0-$n.txt; done"
    running = [
        subprocess.Popen(
            [*mine.prefix(), "/bin/sh", "-c", line, f"n{number}"], cwd=mine.work, env=mine.environment,
            user=mine.uid, group=mine.uid, stdout=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    assert [process.communicate(timeout=120)[0] for process in running] == ["y\n" * 8] * 4
    assert len(list(mine.work.glob("n*/f"))) == 32


def test_pool_on_another_disk_is_in_the_workspace_and_removed(mine: Place) -> None:
    (mine.work / ".goalwright-new-4194305").mkdir()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        plan = Path(folder, "plan.bin")
        words = [*landlock_prefix(mine.fence(), plan)]
        for path in (plan, plan.parent):
            os.chown(path, mine.uid, mine.uid)
        words[0] = mine.python
        line = "mkdir -p made/it && echo x >made/it/f && echo y >top && cat top && ls -d .goalwright-new-*"
        done = subprocess.run(
            [*words, "/bin/sh", "-c", line], cwd=mine.work, env=mine.environment, user=mine.uid, group=mine.uid,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("y\n.goalwright-new-")
    assert not list(mine.work.glob(".goalwright-new-*"))


def test_landlock_is_usable_or_gives_a_reason() -> None:
    assert usable() is None


def test_unenforceable_fence_is_explained(mine: Place) -> None:
    assert enforces(mine.fence()) == ()
    (mine.base / "link").symlink_to(mine.work)
    fence = Fence((mine.base / "link", Path("/")), (), (Path("/proc/1"),), network=False)
    assert enforces(fence) == (
        f"{mine.base}/link is not a resolved path",
        "the whole disk would be writable",
        "/proc/1 cannot be hidden or protected",
    )


def test_readable_path_in_a_hidden_folder_exposes_nothing_else(mine: Place) -> None:
    inner = mine.base / "state/copies/one"
    inner.mkdir(parents=True)
    for path in (inner / "file", mine.base / "state/token"):
        path.write_text(CANARY)
    fence = Fence((inner,), (), (mine.base / "state",), network=False, readable=(inner,))
    subprocess.run(["chown", "-R", f"{mine.uid}:{mine.uid}", mine.base / "state"], check=True)
    inside, state = str(inner / "file"), str(mine.base / "state/token")
    table = {
        "inside": "read(inside); write(inside)",
        "token": "read(state)",
        "list": "os.listdir(os.path.dirname(state))",
    }
    found = mine.attempts(table, {"inside": inside, "state": state}, fence)
    assert found == {"inside": "done", "token": "EACCES", "list": "EACCES"}


def test_nothing_is_writable_without_writable_folders(mine: Place) -> None:
    fence = Fence((), (), (mine.work / ".env",), network=False)
    table = {
        "write": "write('src/a.txt')",
        "make": "write('new')",
        "folder": "os.mkdir('new')",
        "list": "os.listdir('.')",
    }
    assert mine.attempts(table, fence=fence) == {
        "write": "EACCES",
        "make": "EACCES",
        "folder": "EACCES",
        "list": "done",
    }


def test_a_command_ends_with_its_broker(mine: Place) -> None:
    line = "echo $$; exec sleep 600"
    with subprocess.Popen(
        [*mine.prefix(), "/bin/sh", "-c", line],
        cwd=mine.work,
        env=mine.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        # Its output ends only when the command has ended, too.
        assert int(broker.stdout.readline()) != broker.pid
        broker.kill()
        assert broker.stdout.read() == ""


def test_prepared_plan_runs_only_one_command(mine: Place) -> None:
    words = mine.prefix()
    with pytest.raises(FileExistsError):
        landlock_prefix(mine.fence(network=True), Path(words[-1]))
    first, second = (
        subprocess.run([*words, "true"], cwd=mine.work, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 126)
    assert second.stderr.startswith("goalwright: the sandbox could not be prepared (")
