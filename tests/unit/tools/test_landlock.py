"""Real commands under Landlock: what they must not do, what ordinary work needs, as this user and as another one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.sandbox import landlock
from tools.sandbox.landlock import Fence, enforces, landlock_abi, landlock_prefix, usable

_CANARY = "canary-5f1c"
_NOBODY = 65534
_PLAIN_PYTHON = Path("/usr/bin/python3")


def _another_user_can_run() -> bool:
    """Whether root can run all of this as another user: the code and a Python must be open to it."""
    if os.getuid() != 0 or not _PLAIN_PYTHON.exists():
        return False
    check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    code = Path(landlock.__file__)
    command = [str(_PLAIN_PYTHON), "-I", "-S", "-c", f"open({str(code)!r}).close(); {check}"]
    return subprocess.run(command, user=_NOBODY, capture_output=True, check=False).returncode == 0


_USERS = [os.getuid(), *([_NOBODY] if _another_user_can_run() else [])]


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace as people have it, and things around it."""

    base: Path
    uid: int

    @property
    def work(self) -> Path:
        return self.base / "work"

    def fence(self, *, network: bool = False) -> Fence:
        git = self.work / ".git"
        kept = [git / name for name in ("hooks", "config", "config.worktree", "info", "modules", "commondir")]
        return Fence(
            writable=(self.work, self.base / "tmp"),
            read_only=(*kept, self.work / ".vscode", self.work / ".husky"),
            hidden=(self.work / ".env", self.work / "secrets", self.base / "state"),
            network=network,
            tmp=self.base / "tmp",
        )

    def prefix(self, fence: Fence | None = None) -> list[str]:
        plan = self.base / f"private/{uuid.uuid4().hex}"
        words = list(landlock_prefix(fence or self.fence(), plan))
        if self.uid != os.getuid():
            os.chown(plan, self.uid, self.uid)
            words[0] = str(_PLAIN_PYTHON)
        return words

    def run(self, *command: str, fence: Fence | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix(fence), *command], cwd=self.work, env=self.environment, user=self.uid, group=self.uid,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def shell(self, line: str, fence: Fence | None = None) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", line, fence=fence)

    @property
    def python(self) -> str:
        return sys.executable if self.uid == os.getuid() else str(_PLAIN_PYTHON)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.base / "home"), "LC_ALL": "C.UTF-8"}

    def attempts(
        self, table: dict[str, str], names: dict[str, object] | None = None, fence: Fence | None = None
    ) -> dict[str, str]:
        """Run each snippet in one process of the sandbox: ``done``, or the error's name."""
        names = {**(names or {}), "renameat2": _NUMBERS[0], "openat": _NUMBERS[1]}
        script = _HARNESS.replace("TABLE", repr(table)).replace("NAMES", repr(names))
        done = self.run(self.python, "-I", "-c", script, fence=fence)
        assert done.returncode == 0, done.stderr
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return found


_NUMBERS = (316, 257) if os.uname().machine == "x86_64" else (276, 56)
_HARNESS = """
import ctypes, errno, json, os, shutil, signal, socket, stat, subprocess, sys, tempfile, threading, time
libc = ctypes.CDLL(None, use_errno=True)
names = dict(NAMES)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def call(number, *arguments):
    return checked(libc.syscall(number, *arguments))
def write(path, text="x", mode="w"):
    with open(path, mode) as file:
        file.write(text)
def read(path):
    with open(path) as file:
        return file.read()
results = {}
for name, code in TABLE.items():
    try:
        exec(code, {**globals(), **names})
        results[name] = "done"
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""


@pytest.fixture(params=_USERS, ids=["me", "another"][: len(_USERS)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with _made(request.param) as made:
        yield made


@pytest.fixture
def mine() -> Iterator[Place]:
    """For what depends on no user, as each command takes its time."""
    with _made(os.getuid()) as made:
        yield made


@contextlib.contextmanager
def _made(uid: int) -> Generator[Place]:
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="goalwright-landlock-test-")))
    base.chmod(0o755)
    made = Place(base, uid)
    for name in ("work", "private", "tmp", "state", "home", "outside"):
        (base / name).mkdir()
    work = made.work
    for name in (".vscode", "src", "secrets", "tests"):
        (work / name).mkdir()
    _git(work, "init", "-q", "-b", "main")
    _git(work, "config", "user.email", "a@example.org")
    _git(work, "config", "user.name", "A")
    (work / ".git/hooks/present").write_text("before")
    for name in (".env", "secrets/key"):
        (work / name).write_text(_CANARY)
    for name in (".vscode/tasks.json", "src/a.txt", "README", "../outside/file", "../home/.profile"):
        (work / name).write_text("before")
    (work / ".gitignore").write_text(".env\nsecrets\n")
    _git(work, "add", "-A")
    _git(work, "commit", "-qm", "first")
    subprocess.run(
        ["chown", "-R", f"{made.uid}:{made.uid}", base], check=True
    ) if made.uid != os.getuid() else None
    yield made
    shutil.rmtree(base)


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


def _snapshot(place: Place) -> dict[str, tuple[str, int]]:
    """Content and mode of everything that must stay as it is."""
    roots = [place.base / "outside", place.base / "home", place.work / ".vscode", place.work / "secrets"]
    roots += [place.work / ".git/hooks", place.work / ".git/info"]
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    files += [place.work / ".env", place.work / ".git/config", *roots]
    return {str(path): (path.read_text() if path.is_file() else "", path.stat().st_mode) for path in files}


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
    before = _snapshot(place)
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="goalwright-test-") as shared:
        if place.uid != os.getuid():
            os.chown(shared.name, place.uid, place.uid)
        disks = [name for name in ("vda", "sda", "nvme0n1", "mem", "kmsg") if Path("/dev", name).exists()]
        found = place.attempts(
            _REFUSED_FILES, {"shared": Path(shared.name).name, "disk": disks[0] if disks else "mem"}
        )
    wrong = {name: how for name, how in found.items() if how not in ("EACCES", "EPERM", "ENOTSUP", "EXDEV")}
    assert wrong == ({} if disks else {"disk": "ENOENT"})
    assert _snapshot(place) == before


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


class _Sibling:
    """A process outside of the sandbox, of the same user, with things to take."""

    def __init__(self, place: Place) -> None:
        self.socket = place.base / "outside/socket"
        self._process = subprocess.Popen(
            [place.python, "-I", "-c", _SIBLING, str(self.socket)], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
            env={"SECRET": _CANARY}, text=True, user=place.uid, group=place.uid, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.names: dict[str, object] = json.loads(self._process.stdout.readline())

    def __enter__(self) -> _Sibling:
        return self

    def __exit__(self, *error: object) -> None:
        """End it; it must have got neither a connection nor a packet nor a signal."""
        said, _ = self._process.communicate("end\n", timeout=30)
        assert (self._process.returncode, said) == (0, "nothing\n")


_SIBLING = """
import json, os, select, signal, socket, sys
tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
path.bind(sys.argv[1]); path.listen()
name = f"goalwright-test-{os.getpid()}"
abstract.bind("\\0" + name); abstract.listen()
got = []
for number in (signal.SIGUSR1, signal.SIGIO):
    signal.signal(number, lambda *_: got.append("signal"))
secret = bytearray(b"canary-in-memory")
import ctypes
where = ctypes.addressof(ctypes.c_char.from_buffer(secret))
ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
print(json.dumps({**ports, "abstract": name, "where": where}), flush=True)
sys.stdin.readline()
ready, _, _ = select.select([tcp, udp, path, abstract], [], [], 0)
print("something" if ready or got or secret != b"canary-in-memory" else "nothing")
"""

_REFUSED_KERNEL = {
    "environment of another": "read(f'/proc/{sibling}/environ')",
    "memory of another": "read(f'/proc/{sibling}/mem')",
    "maps of another": "read(f'/proc/{sibling}/maps')",
    "folder of another": "os.listdir(f'/proc/{sibling}/cwd/')",
    "root of another": "os.readlink(f'/proc/{sibling}/root')",
    "descriptors of another": "os.readlink(f'/proc/{sibling}/fd/0')",
    "descriptor of another": "os.open(f'/proc/{sibling}/fd/0', os.O_RDONLY)",
    "environment of the parent": "read(f'/proc/{os.getppid()}/environ')",
    "memory of the broker": "os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR)",
    "environment of init": "read('/proc/1/environ')",
    "trace another": "checked(libc.ptrace(16, sibling, 0, 0))",
    "trace the broker": "checked(libc.ptrace(16, os.getppid(), 0, 0))",
    "read memory": "buffer = ctypes.create_string_buffer(8); "
    "vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8); "
    "there = (ctypes.c_size_t * 2)(where, 8)\n"
    "checked(libc.process_vm_readv(sibling, vector, 1, there, 1, 0))",
    "take a descriptor": "call(438, os.pidfd_open(sibling), 0, 0)",
    "signal another": "os.kill(sibling, signal.SIGUSR1)",
    "signal by descriptor": "signal.pidfd_send_signal(os.pidfd_open(sibling), signal.SIGUSR1)",
    "signal the broker": "os.kill(os.getppid(), signal.SIGKILL)",
    "connect": "socket.create_connection(('127.0.0.1', tcp))",
    "connect by the other protocol": "socket.create_connection(('::ffff:127.0.0.1', tcp))",
    "connect far away": "socket.create_connection(('192.0.2.1', 80))",
    "fast open": "s = socket.socket(); s.sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.1', tcp))",
    "serve others": "socket.create_server(('192.0.2.1', 0))",
    "packet": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp))",
    "packet by pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', path)",
    "local packet": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "raw": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "machine": "socket.socket(40, socket.SOCK_STREAM)",
    "unix socket": "socket.socket(socket.AF_UNIX).connect(path)",
    "unix socket by link": "os.symlink(path, 'to-it'); socket.socket(socket.AF_UNIX).connect('to-it')",
    "abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0' + abstract)",
    "ring": "call(425, 8, ctypes.create_string_buffer(120))",
    "namespace": "checked(libc.unshare(0x10000000))",
    "mount": "checked(libc.mount(b'x', b'/tmp', b'tmpfs', 0, 0))",
    "root": "os.chroot('.')",
    "queues and memory of others": "checked(libc.shmget(1, 4096, 0o1600))",
    "limits of another": "import resource; resource.prlimit(sibling, resource.RLIMIT_CPU, (1, 1))",
    "attributes of a file": "import fcntl; fcntl.ioctl(os.open('../outside/file', os.O_RDONLY), 0x40086602, bytes(8))",
    "terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "owner of signals": "import fcntl; a, b = os.pipe(); fcntl.fcntl(a, 8, sibling); "
    "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC); os.write(b, b'x')",
}
_OTHER_ERRORS = {
    "connect": "ECONNREFUSED",
    "connect by the other protocol": "ECONNREFUSED",
    "connect far away": "ENETUNREACH",
    "abstract socket": "ECONNREFUSED",
    "queues and memory of others": "ENOSYS",
    # The kernel lets it be set, and sends nothing over the border.
    "owner of signals": "done",
}


@pytest.mark.parametrize("abi", [1, 4, landlock_abi()])
def test_what_is_outside_cannot_be_reached(place: Place, abi: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: abi)
    with _Sibling(place) as sibling:
        names: dict[str, object] = {"sibling": sibling.pid, "path": str(sibling.socket), **sibling.names}
        found = place.attempts(_REFUSED_KERNEL, names)
    allowed = ("EACCES", "EPERM")
    wrong = {
        name: how for name, how in found.items() if how not in allowed and how != _OTHER_ERRORS.get(name)
    }
    assert wrong == {}


_RACE = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
names = [b"plain\\0".ljust(16, b"\\0"), b".husky\\0".ljust(16, b"\\0")]
path = ctypes.create_string_buffer(b"plain", 16)
over = False
def swap():
    while not over:
        for name in names:
            ctypes.memmove(path, name, 16)
thread = threading.Thread(target=swap)
thread.start()
made = 0
for _ in range(400):
    fd = libc.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    if fd >= 0:
        made += 1
        os.close(fd)
    libc.mkdir(path, 0o700)
    libc.rename(b"README", path)
    libc.rename(b"plain", b"README")
    for gone in (libc.unlink, libc.rmdir):
        gone(b"plain")
    if os.path.lexists(".husky"):
        print("protected")
over = True
thread.join()
print("made" if made else "none")
"""


def test_arguments_that_change_meanwhile_gain_nothing(mine: Place) -> None:
    done = mine.run(mine.python, "-I", "-c", _RACE)
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
    assert not (mine.work / ".husky").exists()


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
    assert _git(mine.work, "-c", "safe.directory=*", "fsck").strip() == ""


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


def test_the_network_can_be_given_without_local_sockets(mine: Place) -> None:
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
def test_it_ends_as_the_command_does(mine: Place, line: str, code: int) -> None:
    assert mine.shell(line).returncode == code


def test_a_program_that_is_missing_is_said(mine: Place) -> None:
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


def test_a_pool_on_another_disk_lies_in_the_workspace_and_is_removed(mine: Place) -> None:
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


def test_it_is_usable_here_or_says_why() -> None:
    assert usable() is None


def test_a_fence_that_cannot_be_kept_is_named(mine: Place) -> None:
    assert enforces(mine.fence()) == ()
    (mine.base / "link").symlink_to(mine.work)
    fence = Fence((mine.base / "link", Path("/")), (), (Path("/proc/1"),), network=False)
    assert enforces(fence) == (
        f"{mine.base}/link is not a resolved path",
        "the whole disk would be writable",
        "/proc/1 cannot be hidden or protected",
    )


def test_what_is_readable_in_a_hidden_folder_can_be_read_and_nothing_else(mine: Place) -> None:
    inner = mine.base / "state/copies/one"
    inner.mkdir(parents=True)
    for path in (inner / "file", mine.base / "state/token"):
        path.write_text(_CANARY)
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


def test_nothing_can_be_written_without_writable_folders(mine: Place) -> None:
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


def test_temporary_folders_are_shared_but_what_others_made_is_not_touched(mine: Place) -> None:
    key = uuid.uuid4().hex
    ours, theirs = Path("/var/tmp", f"goalwright-test-{key}"), Path("/var/tmp", f"goalwright-theirs-{key}")
    theirs.write_text("theirs")
    try:
        line = (
            f"mkdir {ours} && echo first >{ours}/file && echo first >{ours}.txt && cat {ours}.txt {ours}/file"
        )
        assert mine.shell(line).stdout == "first\nfirst\n"
        again = f"echo again >{ours}/file && echo again >{ours}.txt && cat {ours}.txt {ours}/file"
        assert mine.shell(again).stdout == "again\nagain\n"
        for bad in (
            f"echo x >{theirs}",
            f"rm -f {theirs}",
            f"mv {theirs} src/it",
            f"mv -f {ours}.txt {theirs}",
        ):
            assert mine.shell(bad).returncode != 0, bad
        assert theirs.read_text() == "theirs"
        assert mine.shell(f"rm -r {ours} {ours}.txt").returncode == 0
        assert not ours.exists()
    finally:
        theirs.unlink()
        shutil.rmtree(ours, ignore_errors=True)
        ours.with_name(f"{ours.name}.txt").unlink(missing_ok=True)


_GIVEN_UP = """
import os, socket, sys
names = [("127.0.0.1", 0), "\\0" + sys.argv[1]]
socks = [socket.socket(family) for family in (socket.AF_INET, socket.AF_UNIX)]
for number, (sock, name) in enumerate(zip(socks, names)):
    sock.bind(name)
    sock.listen()
    names[number] = sock.getsockname()
    sock.close()
print(names[0][1], flush=True)
sys.stdin.readline()
for sock, name in zip(socks, names):
    try:
        socket.socket(sock.family).connect(name)
        print("REACHED", name)
    except ConnectionRefusedError:
        print("refused")
"""


def test_an_address_that_the_command_has_given_up_is_not_its_own_any_more(mine: Place) -> None:
    name = f"goalwright-test-{uuid.uuid4().hex}"
    with subprocess.Popen(
        [*mine.prefix(), mine.python, "-I", "-c", _GIVEN_UP, name], cwd=mine.work, env=mine.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_server(("127.0.0.1", port)), socket.socket(socket.AF_UNIX) as local:
            local.bind(f"\0{name}")
            local.listen()
            said, _ = process.communicate("go\n", timeout=120)
    assert said == "refused\nrefused\n"


def test_a_server_is_reached_on_this_machine_only(mine: Place) -> None:
    # As the kernel sees it: every address that something of the command listens at.
    code = (
        "import os, socket\ns = [socket.socket(family) for family in (socket.AF_INET, socket.AF_INET6)]\n"
        "for one in s: one.listen()\n"
        "own = {str(os.fstat(one.fileno()).st_ino) for one in s}\n"
        "rows = [row.split() for name in ('tcp', 'tcp6') for row in open(f'/proc/net/{name}')]\n"
        "print(*sorted(row[1].split(':')[0] for row in rows if row[9:] and row[9] in own))"
    )
    done = mine.run(mine.python, "-I", "-c", code)
    assert done.stdout == "0000000000000000FFFF00000100007F 0100007F\n", done.stderr


_REUSE = """
import os, sys
os.mkdir("d")
names = [f"z{number}" for number in range(200)]
for name in names:
    with open(name, "w") as file:
        file.write("x")
print(*(os.stat(name).st_ino for name in names), flush=True)
for name in names:
    LEAVE
sys.stdout.write("left\\n"); sys.stdout.flush()
sys.stdin.readline()
for path, flags in ((".env", os.O_RDWR), (".env", os.O_RDONLY), (".git/config", os.O_WRONLY | os.O_APPEND)):
    try:
        os.open(path, flags)
        print("OPENED", path)
    except OSError:
        pass
for path in ("/var/tmp/" + sys.argv[1], ".env", ".git/config"):
    for change in (lambda: os.chmod(path, 0o600), lambda: os.rename(path, "d/taken")):
        try:
            change()
            print("CHANGED", path)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "leave",
    [
        "os.rename(name, 'd/' + name); os.unlink('d/' + name)",
        "os.link(name, 'd/' + name); os.unlink(name); os.unlink('d/' + name)",
        "open('other', 'w').close(); os.rename('other', name); os.unlink(name)",
    ],
)
def test_what_others_make_is_not_taken_for_what_the_command_made(mine: Place, leave: str) -> None:
    """Numbers of files are used again: those of files that are gone must mean nothing."""
    theirs = Path("/var/tmp", f"goalwright-theirs-{uuid.uuid4().hex}")
    command = [*mine.prefix(), mine.python, "-I", "-c", _REUSE.replace("LEAVE", leave), theirs.name]
    with subprocess.Popen(
        command, cwd=mine.work, env=mine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        freed = set(map(int, process.stdout.readline().split()))
        assert process.stdout.readline() == "left\n"
        # An editor saves, and git writes its settings: a new file in the place of the old one.
        new = [mine.base / "home" / f"new-{number}" for number in range(300)]
        for path in new:
            path.write_text(_CANARY)
        new.sort(key=lambda path: path.stat().st_ino not in freed)
        try:
            for path, target in zip(
                new, (mine.work / ".env", mine.work / ".git/config", theirs), strict=False
            ):
                path.rename(target)
            said, _ = process.communicate("go\n", timeout=120)
        finally:
            theirs.unlink(missing_ok=True)
    assert said == ""


def test_the_name_and_number_of_an_earlier_file_in_a_shared_folder_mean_nothing(mine: Place) -> None:
    ours = Path("/var/tmp", f"goalwright-test-{uuid.uuid4().hex}")
    try:
        assert mine.shell(f"echo first >{ours}").returncode == 0
        assert mine.shell(f"echo again >{ours}").returncode == 0
        number = ours.stat().st_ino
        ours.unlink()
        ours.write_text("theirs")
        record = mine.base / "private/made"
        # As where the number is used again at once.
        record.write_text(record.read_text().replace(f" {number} ", f" {ours.stat().st_ino} "))
        assert mine.shell(f"echo x >{ours}").returncode != 0
        assert ours.read_text() == "theirs"
    finally:
        ours.unlink(missing_ok=True)


def test_files_that_are_gone_cost_no_descriptors(mine: Place) -> None:
    code = "for n in range(600): open('new', 'w').close(); os.replace('new', 'old')\nopen('old', 'a').close()"
    few = 'ulimit -n 200; exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", few, "sh", *mine.prefix(), mine.python, "-I", "-c", f"import os\n{code}"], cwd=mine.work,
        env=mine.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


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


def test_a_plan_is_for_one_command(mine: Place) -> None:
    words = mine.prefix()
    with pytest.raises(FileExistsError):
        landlock_prefix(mine.fence(network=True), Path(words[-1]))
    first, second = (
        subprocess.run([*words, "true"], cwd=mine.work, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 126)
    assert second.stderr.startswith("goalwright: the sandbox could not be prepared (")
