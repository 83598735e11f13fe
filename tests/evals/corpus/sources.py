"""Real files to edit: two released versions of real packages, or what is installed here (no network needed)."""

from __future__ import annotations

import difflib
import io
import random
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("click", "8.1.3", "8.1.7"),
    ("requests", "2.28.0", "2.31.0"),
    ("jinja2", "3.0.0", "3.1.4"),
    ("docutils", "0.18", "0.20"),
    ("django-debug-toolbar", "3.2", "4.2.0"),
    ("psutil", "5.9.0", "5.9.8"),
    ("regex", "2022.1.18", "2023.12.25"),
    ("tornado", "6.1", "6.4"),
)
"""Python, C, JavaScript, CSS, HTML, reStructuredText; tabs and spaces; wide and narrow."""
_SUFFIXES = frozenset(
    [".py", ".pyi", ".pyx", ".js", ".ts", ".css", ".html", ".c", ".h", ".rst", ".md", ".txt", ".toml", ".cfg", ".ini",
     ".json", ".yaml", ".yml", ".sh", ".po"]
)  # fmt: skip
_MAX_BYTES = 200_000
_MAX_HUNK = 30


@dataclass(frozen=True, slots=True)
class Change:
    """One real change of one file: lines ``first:last`` of ``lines`` became ``made``. No line ends anywhere."""

    name: str
    lines: tuple[str, ...]
    first: int
    last: int
    made: tuple[str, ...]
    final_end: bool = True
    """Whether the file ends with a line end."""

    @property
    def after(self) -> tuple[str, ...]:
        """All lines after the change."""
        return self.lines[: self.first] + self.made + self.lines[self.last :]


def released(cache: Path, rng: random.Random) -> list[Change]:
    """Changes between the versions in ``PACKAGES``; sdists are fetched into ``cache`` once, by pip."""
    found: list[Change] = []
    for package, old, new in PACKAGES:
        before, after = (_files(_sdist(cache, package, version)) for version in (old, new))
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                found += _changes(name, before[name], after[name])
    rng.shuffle(found)
    return found


def _sdist(cache: Path, package: str, version: str) -> Path:
    pattern = re.compile(rf"{re.sub('[-_.]', '[-_.]', package)}-{re.escape(version)}\.(tar\.gz|zip)", re.I)
    cache.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        for path in cache.iterdir():
            if pattern.fullmatch(path.name):
                return path
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
        subprocess.run([*pip, "--dest", str(cache), f"{package}=={version}"], check=True, timeout=300)
    raise FileNotFoundError(f"pip brought no sdist of {package} {version} into {cache}")


def _files(archive: Path) -> dict[str, str]:
    """Text files of an sdist by their name below its top folder."""
    raw: dict[str, bytes] = {}
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            raw = {info.filename: zipped.read(info) for info in zipped.infolist() if not info.is_dir()}
    else:
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    raw[member.name] = content.read()
    return {name.partition("/")[2]: text for name, data in raw.items() if (text := _text(name, data))}


def _text(name: str, data: bytes) -> str:
    if Path(name).suffix not in _SUFFIXES or len(data) > _MAX_BYTES:
        return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text or text.startswith("\ufeff") else text.replace("\r\n", "\n").replace("\r", "\n")


def _split(text: str) -> tuple[tuple[str, ...], bool]:
    lines = text.split("\n")
    final = lines[-1] == ""
    return tuple(lines[:-1] if final else lines), final


def _changes(name: str, before: str, after: str) -> Iterator[Change]:
    (old, final), (new, _) = _split(before), _split(after)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal" and i2 - i1 <= _MAX_HUNK and j2 - j1 <= _MAX_HUNK and old:
            yield Change(name, old, i1, i2, new[j1:j2], final)


def installed(rng: random.Random, count: int, *, packages: bool = True) -> list[Change]:
    """``count`` made-up changes of files of this Python and, where wanted, of the packages that are installed.

    Without packages the files, and so the changes, depend on nothing but the version of Python.
    """
    roots = [Path(sysconfig.get_path("stdlib"))]
    if packages:
        roots.append(Path(sysconfig.get_path("purelib")))
    paths = sorted({path for root in roots for path in _sample(root, rng)})
    rng.shuffle(paths)
    found: list[Change] = []
    for path in paths:
        text = _text(path.name, path.read_bytes())
        lines, final = _split(text)
        if len(lines) < 12:
            continue
        for _ in range(4):
            found.append(_made_up(rng, path.name, lines, final))
        if len(found) >= count:
            break
    rng.shuffle(found)
    return found


def _sample(root: Path, rng: random.Random) -> Sequence[Path]:
    kinds: dict[str, list[Path]] = {}
    for path in sorted(root.glob("*/*")) + sorted(root.glob("*")) + sorted(root.glob("*/*/*/*.[jch]*")):
        bare = path.relative_to(root)
        if path.suffix in _SUFFIXES and path.is_file() and "site-packages" not in bare.parts:
            kinds.setdefault(path.suffix, []).append(path)
    return [path for group in kinds.values() for path in rng.sample(group, min(len(group), 60))]


def _made_up(rng: random.Random, name: str, lines: tuple[str, ...], final: bool) -> Change:
    first = rng.randrange(len(lines))
    last = min(len(lines), first + rng.choice([0, 1, 1, 1, 2, 3, 6]))
    old = list(lines[first:last])
    words = sorted({word for line in lines for word in re.findall(r"[A-Za-z_]{3,}", line)}) or ["word"]
    made: list[str] = []
    for line in old:
        match rng.choice(["word", "drop", "number", "keep", "after"]):
            case "word":
                made.append(re.sub(r"[A-Za-z_]{3,}", rng.choice(words), line, count=1))
            case "drop":
                pass
            case "number":
                made.append(re.sub(r"\d+", lambda m: str(int(m.group()[:9]) + 1), line))
            case "after":
                start = rng.randrange(len(lines))
                made += [line, *lines[start : start + rng.randint(1, 4)]]
            case _:
                made.append(line)
    if made == old:
        indent = re.match(r"[ \t]*", lines[min(first, len(lines) - 1)])
        made.append((indent.group() if indent else "") + f"{rng.choice(words)}({rng.choice(words)!r})")
    head = tail = 0
    while head < min(len(old), len(made)) and old[head] == made[head]:
        head += 1
    while tail < min(len(old), len(made)) - head and old[-1 - tail] == made[-1 - tail]:
        tail += 1
    return Change(name, lines, first + head, last - tail, tuple(made[head : len(made) - tail]), final)
