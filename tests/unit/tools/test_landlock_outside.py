"""Objects outside of a command under Landlock: other processes, sockets, shared files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scenarios.landlock_place import CANARY, USERS, Place, made_place
from tools.sandbox import landlock
from tools.sandbox.landlock import landlock_abi


@pytest.fixture(params=USERS, ids=["me", "another"][: len(USERS)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with made_place(request.param) as made:
        yield made


@pytest.fixture
def mine() -> Iterator[Place]:
    """For what depends on no user, as each command takes its time."""
    with made_place(os.getuid()) as made:
        yield made


class _Sibling:
    """A process outside of the sandbox, of the same user, with things to take."""

    def __init__(self, place: Place) -> None:
        self.socket = place.base / "outside/socket"
        self._process = subprocess.Popen(
            [place.python, "-I", "-c", _SIBLING, str(self.socket)], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
            env={"SECRET": CANARY}, text=True, user=place.uid, group=place.uid, start_new_session=True,
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
def test_resources_outside_the_sandbox_are_unreachable(
    place: Place, abi: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_path_changed_during_a_system_call_gains_no_access(mine: Place) -> None:
    done = mine.run(mine.python, "-I", "-c", _RACE)
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
    assert not (mine.work / ".husky").exists()


def test_shared_temporary_folders_protect_files_of_others(mine: Place) -> None:
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


def test_address_released_by_the_command_is_no_longer_reachable(mine: Place) -> None:
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
def test_files_made_by_others_are_not_attributed_to_the_command(mine: Place, leave: str) -> None:
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
            path.write_text(CANARY)
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


def test_reused_name_and_inode_in_a_shared_folder_grant_nothing(mine: Place) -> None:
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


def test_deleted_files_hold_no_descriptors(mine: Place) -> None:
    code = "for n in range(600): open('new', 'w').close(); os.replace('new', 'old')\nopen('old', 'a').close()"
    few = 'ulimit -n 200; exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", few, "sh", *mine.prefix(), mine.python, "-I", "-c", f"import os\n{code}"], cwd=mine.work,
        env=mine.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
