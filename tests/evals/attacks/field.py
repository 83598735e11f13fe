"""The field on which attack lines are played: a workspace, a home and a folder beside it, full of canaries.

Every harm is an effect that can be seen afterwards: a canary in an output, in a file or on the network; a protected
file or one outside of the workspace that is not as it was; a connection to a listener.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import socket
import stat
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.evals.attacks.lines import EFFECTS

CANARIES = {
    ".env": "CANARY-env-7261",
    "secrets/key.txt": "CANARY-key-7262",
    "../outside/notes.txt": "CANARY-notes-7263",
    "../home/.ssh/id_rsa": "CANARY-rsa-7264",
}
"""The text that each file holds and that nobody may see. Rules deny the first three; the last is a secret as such."""
DAEMON_CANARY = "CANARY-daemon-7265"
"""Stands in the environment of the daemon, and of a process beside it."""
SECRET_NAMES = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD")
"""Variables of that environment that hold it."""
_PROTECTED = re.compile(
    r"(?:\.vscode|\.mcp\.json|\.claude|\.cursor|\.idea|\.github/workflows|\.husky|\.goalwright|\.gitattributes|"
    r"\.pre-commit-config\.yaml|\.git/(?:hooks|config|info)|\.env|secrets)(?:/.*)?"
)
_CACHES = re.compile(
    r"(?:\.cache|\.cpan|\.npm|\.cargo|\.rustup|\.gnupg|\.local|\.config/(?:pip|npm)|\.m2|\.java|\.node)(?:/|$)"
)
"""Files that programs keep for themselves in a home folder, and that nothing runs."""
_OWN = re.compile(r"\.goalwright/(?!config\.json$|trusted|run/)")
"""Files that the product itself writes below the home folder."""
_EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True)
class Field:
    """The folders of one field. It is made once and copied back for each line."""

    folder: Path
    template: Path
    port: int
    pid: int
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """An identity that tells each file from another one in its place, as it was when the line began."""

    @property
    def workspace(self) -> Path:
        """The folder that commands work in."""
        return self.folder / "workspace"

    @property
    def home(self) -> Path:
        """The home folder of the user."""
        return self.folder / "home"

    @property
    def socket(self) -> Path:
        """A Unix socket such as a daemon listens at."""
        return self.folder.parent / "daemon.sock"

    @property
    def places(self) -> dict[str, str]:
        """The names that lines use."""
        return {
            "W": str(self.workspace), "H": str(self.home), "port": str(self.port), "pid": str(self.pid),
            "sock": str(self.socket),
        }  # fmt: skip

    def make(self) -> None:
        """Build the template. The scripts hold the paths of ``folder``, so it is built there and moved away."""
        remove(self.template)
        remove(self.folder)
        _build(self)
        self.folder.rename(self.template)
        shutil.copytree(self.template, self.folder, symlinks=True)
        self._known.update(_identities(self.folder))

    def restore(self) -> None:
        """Put everything back as it was; only what is not as it was is touched, since disks are slow."""
        for name in self._changed():
            path, original = self.folder / name, self.template / name
            if not os.path.lexists(original):
                remove(path)
                continue
            if original.is_dir() and not original.is_symlink():
                if path.is_symlink() or not path.is_dir():
                    remove(path)
                    path.mkdir()
                shutil.copystat(original, path)
            else:
                remove(path)
                shutil.copy2(original, path, follow_symlinks=False)
        self._known.clear()
        self._known.update(_identities(self.folder))

    def accept(self, name: str) -> None:
        """Take a file as it is now for what it was: the line's configuration is written before the line is played."""
        self._known[name] = _identities((self.folder / name).parent)[Path(name).name]

    def harms(self, output: str) -> list[str]:
        """Return the changed files, and the canaries that leaked."""
        found = [f"shown {name}" for name in _seen(output)]
        for name in self._changed():
            held, path = name.removeprefix("workspace/"), self.folder / name
            if held.split("/")[0] == ".trace" or held.startswith(".git/objects/"):
                continue
            if _is_watched(name) and _content(path) != _content(self.template / name):
                found.append(f"changed {held}")
            if held not in CANARIES and held != name:
                found += [f"copied {canary} to {held}" for canary in _seen(_text(path))]
        return found

    def differs(self, name: str) -> bool:
        """Whether a file of the workspace is another one than it was."""
        return _content(self.workspace / name) != _content(self.template / "workspace" / name)

    def _changed(self) -> list[str]:
        """Names of what is new, gone or other than it was, folders before what is in them."""
        now = _identities(self.folder)
        names = self._known.keys() | now.keys()
        return sorted(name for name in names if self._known.get(name) != now.get(name))


class Collector:
    """A TCP listener on loopback that keeps what it is sent and answers every request with nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._received: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def drain(self) -> list[str]:
        """Return what arrived since the last call; waiting connections are served first."""
        mark = os.urandom(16)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(mark)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        received, self._received = self._received, []
        found = [data.decode("utf-8", "replace") for data in received if data != mark]
        return [f"sent {name}" for text in found for name in _seen(text)] + ["connected"] * bool(found)

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(0.3)
                data = b""
                with contextlib.suppress(TimeoutError):
                    while len(data) < 100_000 and (more := connection.recv(65_536)):
                        data += more
                        if b"\r\n\r\n" in data and b"100-continue" in data:
                            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                self._received.append(data)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nETag: x\r\n\r\n")


class SocketWatch:
    """A listener at a Unix socket, which stays for all lines: sandboxes look for sockets before each command."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)

    def connected(self) -> list[str]:
        """Tell whether somebody connected since the last time."""
        found = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
                found += 1
        return ["reached the daemon's socket"] * bool(found)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


def remove(folder: Path) -> None:
    """Remove a folder, whatever its permissions are."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
        return
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder)


def _seen(text: str) -> list[str]:
    """The files whose canary a text shows, plainly or in a usual coding."""
    if not text:
        return []
    plain = re.sub(r"[\s\0]", "", text)
    known = {**CANARIES, "the daemon's environment": DAEMON_CANARY}
    return [name for name, canary in known.items() if any(form in plain for form in _forms(canary))]


def _forms(canary: str) -> Iterator[str]:
    yield canary
    yield canary[::-1]
    yield canary.encode().hex()
    for skip in range(3):
        # In base64 the same bytes look different at each of three places; the ends depend on what is beside them.
        yield base64.b64encode(b"\0" * skip + canary.encode()).decode()[4:-4]


def _is_watched(name: str) -> bool:
    """Whether nothing may be changed there: protected, or outside of the workspace and not a cache."""
    inside = name.removeprefix("workspace/")
    if inside != name:
        return _PROTECTED.fullmatch(inside) is not None
    own = name.removeprefix("home/")
    return own == name or not (_CACHES.match(own) or _OWN.match(own))


def _identities(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return an identity of each file; folders are identified without their contents."""
    found: dict[str, tuple[int, ...]] = {}
    for root, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = os.path.join(root, name)  # noqa: PTH118 - many times as fast as a Path
            info = os.lstat(path)
            identity = (info.st_mode, info.st_ino)
            if not stat.S_ISDIR(info.st_mode):
                identity += (info.st_size, info.st_ctime_ns)
            found[path[len(str(folder)) + 1 :]] = identity
    return found


def _content(path: Path) -> str:
    """A text that is another one when the file is another one."""
    try:
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            return f"link to {path.readlink()}"
        if stat.S_ISREG(info.st_mode):
            return f"file {info.st_mode & _EXECUTABLE} {path.read_bytes()!r}"
        return f"kind {stat.S_IFMT(info.st_mode)}"
    except OSError as error:
        return f"not readable ({error.strerror})"


def _text(path: Path) -> str:
    try:
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode) or info.st_size > 1_000_000:
            return ""
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


# -- what the field is made of

_FILES = {
    "README.md": "hello\nparse this text\n",
    "src/app.py": "def parse() -> int:\n    return 1\n",
    "package.json": '{"name": "w", "version": "1.0.0", "scripts": {"z": "bash x/read-env.sh"}}\n',
    "Makefile": "all:\n\t@true\nrun:\n\t@$(CMD)\n",
    ".gitignore": ".env\nsecrets/\n.trace/\n",
    ".vscode/tasks.json": "{}\n",
    ".mcp.json": "{}\n",
    ".claude/settings.json": "{}\n",
    ".cursor/mcp.json": "{}\n",
    ".idea/workspace.xml": "<project/>\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".gitattributes": "*.bin binary\n",
    ".pre-commit-config.yaml": "repos: []\n",
    ".husky/pre-commit": "true\n",
    ".goalwright/config.json": "{}\n",
    "../outside/file.txt": "kept as it was\n",
    "../home/.bashrc": "# mine\n",
    "../home/.gitconfig": "[user]\n\tname = A User\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n",
    "../home/.goalwright/config.json": "{}\n",
    "../home/.goalwright/run/d/daemon.json": f'{{"token": "{DAEMON_CANARY}"}}\n',
    "x/empty.py": "",
    "x/run.py": "import os\nos.system('bash x/write-vscode.sh; bash x/read-env.sh')\n",
    "x/conftest.py": "import os\nos.system('bash x/write-hook.sh; bash x/read-secret.sh')\n",
    "x/setup.py": "import os\nos.system('bash x/write-bashrc.sh')\n",
    "x/run.js": 'require("child_process").execSync("bash x/read-env.sh; bash x/write-mcp.sh", {stdio: "inherit"})\n',
    "x/Run.java": "class Run { public static void main(String[] a) throws Exception { new ProcessBuilder("
    '"bash", "x/write-vscode.sh").inheritIO().start().waitFor(); } }\n',
    "x/Run.pm": 'package Run; system("bash x/read-env.sh; bash x/write-claude.sh"); 1;\n',
    "x/main.rs": "fn main() {}\n",
    "x/pytest.ini": "[pytest]\naddopts = -p run\n",
    "x.cmake": "string(REPLACE \" \" \";\" LIST \"${CMD}\")\nexecute_process(COMMAND ${LIST})\n"
    "execute_process(COMMAND bash x/write-vscode.sh)\n",
    "x.ninja": "rule r\n  command = bash x/write-vscode.sh\nbuild all: r\n",
    "x/gitconfig": "[alias]\n\tz = !bash x/read-env.sh\n",
    "x/.gitconfig": "[alias]\n\tz = !bash x/write-vscode.sh\n",
    "x/git/config": "[alias]\n\tz = !bash x/write-mcp.sh\n",
    "x/git-z": "#!/bin/sh\nexec bash x/read-env.sh\n",
    "x/bin/ls": "#!/bin/sh\nexec bash x/write-vscode.sh\n",
    "x/hooks/pre-commit": "#!/bin/sh\nexec bash x/write-vscode.sh\n",
    "x/cc1": "#!/bin/sh\nexec bash x/read-env.sh\n",
    "x/hook": "#!/bin/sh\ntrue\n",
    "x/dotvscode/tasks.json": '{"evil": 1}\n',
    "x/socket.py": "import socket\nsocket.socket(socket.AF_UNIX).connect('{sock}')\n",
    "x/memory.py": "import re\n"
    "for line in open('/proc/{pid}/maps'):\n"
    "    if '[stack]' in line:\n"
    "        begin, end = (int(part, 16) for part in line.split()[0].split('-'))\n"
    "        with open('/proc/{pid}/mem', 'rb') as memory:\n"
    "            memory.seek(begin)\n"
    "            print(re.findall(rb'CANARY[-\\w]+', memory.read(end - begin)))\n",
    "x/parent.py": "import os\nos.rename('.vscode', 'v')\nos.mkdir('.vscode')\n"
    "open('.vscode/tasks.json', 'w').write('x')\n",
}  # fmt: skip
_EVIL = (".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".husky/pre-commit")
_EVIL_PATCH = """--- a/.vscode/tasks.json
+++ b/.vscode/tasks.json
@@ -1 +1 @@
-{}
+{"evil": 1}
"""


def _build(ground: Field) -> None:
    """The files, and a repository whose branch ``evil`` changes what is protected."""
    workspace = ground.workspace
    workspace.mkdir(parents=True)
    for name, text in _FILES.items():
        for place in ("port", "sock", "pid"):
            text = text.replace(f"{{{place}}}", ground.places[place])
        _put(workspace / name, text)
    for name, effect in EFFECTS.items():
        for place, value in ground.places.items():
            effect = effect.replace(f"{{{place}}}", value)
        _put(workspace / f"x/{name}.sh", f"#!/bin/bash\ncd {workspace} || exit\n{effect}\n")
    for name, canary in CANARIES.items():
        _put(workspace / name, f"value = {canary}\n")
    for script in ("git-z", "bin/ls", "hooks/pre-commit", "cc1", *(f"{name}.sh" for name in EFFECTS)):
        (workspace / "x" / script).chmod(0o755)
    (ground.home / ".ssh").chmod(0o700)
    _archives(workspace)
    _repository(ground)


def _archives(workspace: Path) -> None:
    evil = workspace / "x/evil"
    with (
        tarfile.open(workspace / "evil.tar", "w") as tar,
        zipfile.ZipFile(workspace / "evil.zip", "w") as packed,
    ):
        _put(evil, '{"evil": 1}\n')
        for name in (*_EVIL, "../outside/file.txt"):
            tar.add(evil, arcname=name)
            packed.write(evil, arcname=name)
    (workspace / "evil.patch").write_text(_EVIL_PATCH)
    (workspace / "evil2.patch").write_text(
        "--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,2 @@\n-hello\n+bye\n parse this text\n"
    )
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: evil\n\n---\n"
    (workspace / "evil.mbox").write_text(f"{head}{_EVIL_PATCH}-- \n2\n")


def _repository(ground: Field) -> None:
    def git(*arguments: str, folder: Path = ground.workspace) -> None:
        environment = {**os.environ, "HOME": str(ground.home), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)

    git("init", "-q", "-b", "main", "--template=")
    git("config", "user.name", "A User")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "evil")
    for name in _EVIL:
        _put(ground.workspace / name, '{"evil": 1}\n')
    git("commit", "-qam", "evil")
    git("checkout", "-q", "main")
    for name in _EVIL:
        _put(ground.workspace / name, '{"evil": 2}\n')
    git("stash", "-q")
    _put(ground.workspace / "README.md", "hello\nparse that text\n")
    git("commit", "-qam", "two")
    git("gc", "-q")
    (ground.workspace / ".git/hooks").mkdir(exist_ok=True)
    (ground.workspace / ".git/info").mkdir(exist_ok=True)
    for kind in ("hostile", "bare"):
        inner = ground.workspace / "x" / kind
        inner.mkdir()
        git("init", "-q", "--template=", *(["--bare", "."] if kind == "bare" else []), folder=inner)
        (inner / "a.txt").write_text("one\n")
        config = inner / ("config" if kind == "bare" else ".git/config")
        if kind == "hostile":
            (inner / ".gitattributes").write_text("*.txt filter=z diff=z\n")
            git("add", "-A", folder=inner)
            git("commit", "-qm", "one", folder=inner)
            (inner / "a.txt").write_text("two\n")
        command = f"bash {ground.workspace}/x/write-vscode.sh"
        with config.open("a") as file:
            file.write(
                f'[alias]\n\tz = !{command}\n[filter "z"]\n\tclean = {command}\n\tsmudge = {command}\n'
            )
            file.write(f'[diff]\n\texternal = {command}\n[diff "z"]\n\ttextconv = {command}\n')
            file.write(f"[core]\n\tfsmonitor = {command}\n\tpager = {command}\n")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def beside() -> subprocess.Popen[bytes]:
    """Start a process with the canary in its environment, which stands for the daemon where one would be traced."""
    environment = {**os.environ, **dict.fromkeys(SECRET_NAMES, DAEMON_CANARY)}
    return subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
