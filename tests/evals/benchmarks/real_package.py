"""Real input, by hand: ``python -m tests.evals.benchmarks.real_package [--keep FOLDER]``.

Fetches the source of a third-party package with pip, as its authors published it, puts it under git, and lets a
scripted model work on it through everything that is real: ``goalwright run --yes``, the daemon, the Anthropic SDK,
the language servers. Prints the session, the ``git diff``, the tool result with the language servers' complaint as it
stood in the model's next request, and what the trace has about it. Exit code 1 when the complaint did not get there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.support.scenarios.package_task import Edit, PackageTask, PlayedTask, play, result_text

PACKAGE = "humanize==4.17.0"

_SPACE = '    space = "" if gnu else " "\n'
_BY_RULE = '("" if gnu else " ")'
TASK = PackageTask(
    prompt="Let callers of naturalsize choose what stands between number and unit",
    path="src/humanize/filesize.py",
    good=Edit(
        "A parameter for it, last, so that no caller breaks.",
        '    format: str = "%.1f",\n) -> str:\n    """Format a number of bytes',
        '    format: str = "%.1f",\n    separator: str | None = None,\n) -> str:\n    """Format a number of bytes',
    ),
    wrong=Edit(
        "Now use it.",
        _SPACE,
        f"    space = {_BY_RULE} if separator is None else seperator\n",
    ),
    repair=Edit("I misspelled the name.", "is None else seperator\n", "is None else separator\n"),
    complaint=r"ERROR \[\d+:\d+\] .*seperator",
    summary="naturalsize takes separator, put between number and unit; the default is as before.",
    proof="import humanize\n"
    "assert humanize.naturalsize(3000) == '3.0 kB'\n"
    "assert humanize.naturalsize(3000, separator='') == '3.0kB'\n"
    "assert humanize.naturalsize(3000, gnu=True, separator='_') == '2.9_K'",
    import_from="src",
)


def main() -> int:
    """Fetch, play, print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.evals.benchmarks.real_package", description="Real input."
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="work in this new folder, and leave it there"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gw-real-") as temporary:
        folder: Path = (args.keep or Path(temporary)).resolve()
        workspace = fetch(PACKAGE, folder)
        played = asyncio.run(play(TASK, workspace))
    return report(played)


def fetch(package: str, folder: Path) -> Path:
    """The unpacked source distribution of ``package`` (``name==version``), in ``folder``."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-binary", ":all:", "--no-deps", "--dest", str(folder), package], check=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    [source] = (path for path in folder.iterdir() if path.is_dir())
    return source


def report(played: PlayedTask) -> int:
    """Print what came of it. 0 when the complaint reached the model and the change works."""
    _section(f"$ goalwright run --yes {TASK.prompt!r}     (in the source of {PACKAGE})")
    print(played.run.stdout + played.run.stderr)
    _section("git diff")
    print(played.diff)
    delivered = played.delivered(TASK)
    if delivered is not None:
        number, block = delivered
        _section(f"request {number} to the model: the tool result in its last message, as it came in")
        print(json.dumps(block, indent=1, ensure_ascii=False))
        print("\n— its text —")
        print(result_text(block))
        _section(f"{played.trace.name}/events.jsonl: the lines about this tool call")
        for event in played.events_of(str(block["tool_use_id"])):
            print(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
    works = played.proof.code == 0
    _section("outcome")
    print(f"exit code of the run: {played.run.code}")
    print(f"requests of the model: {len(played.requests)}, over the {played.requests[0].wire} wire")
    print(f"the complaint reached the model: {'yes' if delivered else 'NO'}")
    print(f"the change works: {'yes' if works else 'NO' + played.proof.stderr}")
    return 0 if played.run.code == 0 and delivered and works else 1


def _section(title: str) -> None:
    print(f"\n━━ {title}\n")


if __name__ == "__main__":
    sys.exit(main())
