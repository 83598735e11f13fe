from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenarios.command_rules import build, verdicts
from tools.shell.question import CommandPlace, question

READS = [
    "cat secrets/key.txt && (ls) > out.txt",
    "cat secrets/key.txt | { wc -l; } > out.txt",
    "cd secrets && ls 2>&1 | wc -l && cat key.txt",
    "cd secrets && ls 2>/dev/null | cat - key.txt",
    "cd secrets || cat <<E && cat key.txt\nE",
    "ls x || { return; cd secrets; }; cat key.txt",
    "[[ a =~ ^<(cat<secrets/key.txt>out.txt) ]]",
    "pushd secrets && pushd ../src && pushd +1 && cat key.txt",
    "grep -d recurse TOP secrets",
    "patch -d secrets src/a.py key.txt",
    "patch -d src -i ../secrets/key.txt a.py",
    "grep -drecurse TOP secrets",
    "grep --directories=recurse TOP secrets",
    "grep --direc recurse TOP .",
    "diff -N secrets empty",
    "diff empty secrets",
    "cp --recurs secrets x",
    "cp --archi secrets x",
    "tar cf - --add-file=secrets/key.txt",
    "tar cf - --add-file secrets/key.txt src",
    "history -r secrets/key.txt; history",
    "history -n secrets/key.txt",
    "gcc -includesecrets/key.txt -E -x c /dev/null",
    "gcc -include ./secrets/key.txt -E -x c /dev/null",
    "gcc -imacros secrets/key.txt -E -x c /dev/null",
    "clang -I secrets -include key.txt -E -xc /dev/null",
    "gcc-12 -Isecrets -include key.txt -E -xc /dev/null",
    "gcc -isystem secrets -includekey.txt -E -xc /dev/null",
    "gcc -E -xc - <<< '#include \"secrets/key.txt\"'",
    "printf '#include \"secrets/key.txt\"' | cpp -",
    "gcc @secrets/key.txt",
    "gcc -wrapper ./evil.sh src/b.c",
    "gcc -specs=x src/b.c",
    "sqlite3 :memory: \"select data from fsdir('secrets')\"",
    "sqlite3 :memory: \"select data from fsdir where path='secrets'\"",
    "sqlite3 :memory: \"select unheard_of('secrets')\"",
    "sqlite3 x.db -Ac secrets/key.txt; cat x.db",
    "sqlite3 x.db 'create table t(x)' '.import secrets/key.txt t'",
    "sqlite3 x.db <<< '.read secrets/key.txt'",
    "jq -n --rawfile a secrets/key.txt '$a'",
    "jq -n --slurpfile a .env '$a'",
    'jq -n \'import "secrets/a" as $s {search: "./"}; $s\'',
    "jq -n -f x.jq",
    "jq -n '$ENV.HOME'",
    "jq -n '\"\\(env)\"'",
    "strings @secrets/key.txt",
    "echo .env | xargs -ir cat r",
    "echo .env | xargs -ei cat x",
    "grep = --binary secrets/key.txt",
    "rg --ignore TOP secrets/key.txt",
    "rg -g .env TOP",
    "rg --iglob '*.ENV' TOP",
    "rg -g '**/.e*' TOP",
    "rg -g '{.env,x}' TOP",
    "POSIXLY_CORRECT=1 grep x -e .env",
    "env POSIXLY_CORRECT=1 grep x -m secrets/key.txt",
    "MAGIC=secrets/key.txt file src/a.py",
    "cat //proc/self/cwd/secrets/key.txt",
    "cd / && cat proc/self/cwd/secrets/key.txt",
    "cat /proc/self/cw[d]/secrets/key.txt",
    "cat /pro[c]/self/cwd/secrets/key.txt",
]
WRITES = [
    "sed -i'.git/hooks/*' s/hello/x/ pre-commit",
    "sed --in-place='.git/hooks/*' s/hello/x/ pre-commit",
    "sed -ni.lock p poetry",
    "patch -b -B .git/hooks/ pre-commit",
    "patch -b --prefix=.git/hooks/ pre-commit",
    "patch -b --pref=.git/hooks/ pre-commit",
    "patch -b -z .lock poetry p.diff",
    "{ cd src || exit 1; ls; } > poetry.lock",
    "patch -d .git/hooks pre-commit p.diff",
    "patch --directory=.git/hooks pre-commit",
    "patch -d src -o ../poetry.lock a.py",
    "install -d .git/hooks/x",
    "npm pack --pack-destination .git/hooks",
    "npm pack --pack-destination=.git/hooks",
    "shuf -opoetry.lock src/a.py",
    "shuf -e a --outpu=poetry.lock",
    "gcc -opoetry.lock src/b.c",
    "gcc -M -MF poetry.lock src/b.c",
    "gcc -MFpoetry.lock -M src/b.c",
    "gcc -Wl,-Map=poetry.lock src/b.c",
    "gcc -Wl,-o,poetry.lock src/b.c",
    "cpp src/b.c poetry.lock",
    "cc -E src/b.c -opoetry.lock",
    "unheardof -opoetry.lock src/a.py",
    "tar -tf /dev/null --index-file=poetry.lock",
    "tar -tf /dev/null --index poetry.lock",
    "tar cf x.tar -g poetry.lock src",
    "tar xf x.tar --transform 's,^,.git/hooks/,'",
    "script -qO poetry.lock -c true",
    "node --cpu-prof --cpu-prof-name=poetry.lock src/x.js",
    "node --redirect-warnings=poetry.lock x.js",
    "pytest --junitxml=poetry.lock src",
    "pytest --junit-xml poetry.lock src",
    "python3 -m pytest --junitxml=poetry.lock src",
    "uv run pytest --log-file=poetry.lock src",
    "pytest --debug=poetry.lock src",
    "pytest -o cache_dir=.git/hooks src",
    "history -w poetry.lock",
    "history -a poetry.lock",
    "uniq --group src/a.py poetry.lock",
    "uniq --all-repeated src/a.py poetry.lock",
    "xxd -ps src/a.py poetry.lock",
    "xxd -p src/a.py -x.lock",
    "cd x && cp --parents .vscode/settings.json ..",
    "cp --paren poetry.lock .",
    "rsync -R poetry.lock /w",
    "split src/a.py poetry",
    "tar --one-top-level -cf poetry.lock src",
    "tar --checkpoint -cf poetry.lock src",
    "find -D tree .git -delete",
    "find -- .git -delete",
    "find -files0-from list -delete",
    "strace -o '|tee poetry.lock' ls",
    "ZIPOPT='-T -TT ./x' zip a.zip src/a.py",
    "RSYNC_RSH=./x rsync a h:b",
    "_POSIX2_VERSION=199209 uniq +1 src/a.py poetry.lock",
]
EVERYDAY = [
    "grep -rn limit src",
    "grep -d skip limit src/a.py",
    "diff -u src/a.py docs/x.md",
    "diff -r src docs",
    "tar czf out.tgz src",
    "history",
    "ps aux",
    "ps -ef",
    "ps -eo pid,etime,comm",
    "gcc -O2 -Wall -Isrc -std=c11 -c src/b.c -o out.o",
    "gcc -o out src/b.c -lm -Wl,--as-needed",
    "g++ -E -dM -x c++ /dev/null",
    "sed -i s/a/b/ src/a.py",
    "sed -i.bak s/a/b/ src/a.py",
    "patch -p1 src/a.py p.diff",
    "install -m 644 src/a.py out",
    "npm pack",
    "pytest -q --tb=short src",
    "pytest --junitxml=out.xml src",
    "shuf -n 3 src/a.py",
    "jq -r '.env, .import' docs/x.md",
    "jq --arg env 1 '{env: $env}' docs/x.md",
    "xxd -l 64 src/a.py",
    "rg -n limit src -g '*.py'",
    "rg limit src -g '!.env'",
    "uniq -c src/a.py",
    "uniq --group docs/x.md",
    "find . -name '*.py' -print0 | xargs -0 -n1 wc -l",
    "tar --list -f x.tar",
    "cp -r src out",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return build(tmp_path)


@pytest.mark.parametrize("line", [*READS, *WRITES])
def test_no_option_hides_a_file(line: str, workspace: Path) -> None:
    assert "allow" not in verdicts(line, workspace).values()


@pytest.mark.parametrize("line", EVERYDAY)
def test_everyday_commands_are_not_asked_about(line: str, workspace: Path) -> None:
    assert verdicts(line, workspace, contained=True)["looking"] == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "ps eww",
        "ps axe",
        "ps e -o cmd",
        "ps $X",
        "ps -N e",
        "ps -eo pid,environ",
        "ps -o $X",
        "ps -E",
        "ps -auxe",
        "ps -e -x",
        "ps -ax -f -e",
        "ps -axe -k -axe",
        "ps --format pid,environ",
        "X='pid axe'; ps --sort $X",
        "ps --sort *",
        "ps --sort=$X",
        "ps -k $X",
    ],
)
def test_ps_shows_environments(line: str) -> None:
    ask = question(line, CommandPlace(Path("/w"), Path("/home/me")))
    assert not ask.read_only
    assert "/proc/*/environ" in [access.target for access in ask.accesses]


@pytest.mark.parametrize(
    "line",
    ["ps", "ps aux", "ps -ef", "ps -eo pid,etime", "ps -C make", "ps -ax --sort -pmem", "ps -x -k -etime"],
)
def test_ps_without_them_only_reads(line: str) -> None:
    assert question(line, CommandPlace(Path("/w"), Path("/home/me"))).read_only


def test_find_delete_edits_the_files_its_name_matches(workspace: Path) -> None:
    place = CommandPlace(Path("/w"), Path("/home/me"))
    edits = [
        a.target for a in question("find . -name '*.pyc' -delete", place).accesses if a.permission == "edit"
    ]
    assert edits == [".", "*.pyc"]
    for line in ("find . -name '*.pyc' -delete", "find . -type f -name '*.py[co]' -delete"):
        assert set(verdicts(line, workspace, contained=True).values()) == {"allow"}, line


@pytest.mark.parametrize(
    "line",
    [
        "find . -name '*.lock' -delete",
        "find . -name 'poetry.*' -delete",
        "find . -delete -name '*.pyc'",
        "find . -name '*.pyc' -o -delete",
        "find . ! -name '*.pyc' -delete",
        "find . -not -name '*.pyc' -delete",
        "find . \\( -name '*.pyc' -o -type f \\) -delete",
        'find . -name "$X" -delete',
        "find . -name '*.pyc' , -delete",
        "find . -printf -name -delete",
    ],
)
def test_other_find_deletions_ask(line: str, workspace: Path) -> None:
    assert "allow" not in verdicts(line, workspace).values()


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ('touch "$f.py"', "*.py"),
        ('touch "${f}.py"', "*.py"),
        ('touch "a/b$f.txt"', "*.txt"),
        ("touch f$f", "*"),
        ('touch "src/$f"', "*"),
        ("touch $f.py", "*"),
        ('touch "$@.py"', "*"),
        ('touch "$(x).py"', "*"),
        ('touch "${f[@]}.py"', "*"),
        ('touch "$f.."', "*"),
        ('touch "$f/.."', "*"),
    ],
)
def test_of_a_runtime_file_name_only_a_quoted_suffix_is_known(line: str, target: str) -> None:
    ask = question(line, CommandPlace(Path("/w"), Path("/home/me")))
    assert [access.target for access in ask.accesses if access.permission == "edit"] == [target]
