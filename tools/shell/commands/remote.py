"""Commands that fetch, send, or run something elsewhere."""

from __future__ import annotations

import re

from tools.shell.commands.words import (
    HERE,
    UNKNOWN,
    Call,
    Meaning,
    PathUse,
    Reader,
    implied_paths,
    parse,
    part,
    spec,
    words,
)
from tools.shell.syntax import Word

_CURL = spec(
    None,
    value="-A -b -C -d -e -E -F -H -K -m -o -Q -r -t -T -u -U -w -x -X -y -Y -z -D -P -c --request --header --user "
    "--user-agent --max-time --retry --connect-timeout --proxy --url --range --referer --write-out --data-urlencode "
    "--data-raw --data --data-binary --data-ascii --json --form --form-string --cookie --resolve --limit-rate",
    reads="-T --upload-file -K --config --cacert --capath --cert -E --key --netrc-file --variable",
    writes="-o --output -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr --output-dir --hsts "
    "--etag-save",
)


def _curl(call: Call) -> Meaning:
    parsed = parse(call.args, _CURL)
    found = [PathUse(word, "read") for word in parsed.values(_CURL.reads) if word.text != "-"]
    found += [PathUse(word, "write") for word in parsed.values(_CURL.writes) if word.text != "-"]
    for word in parsed.values(
        ("-d", "--data", "--data-binary", "--data-ascii", "--data-urlencode", "--json")
    ):
        if "@" in word.text:
            found.append(PathUse(part(word, word.text.partition("@")[2]), "read"))
        elif not word.known:
            found.append(PathUse(word, "read"))
    for word in parsed.values(("-F", "--form")):
        _, _, value = word.text.partition("=")
        if value.startswith(("@", "<")):
            found.append(PathUse(part(word, value[1:].partition(";")[0]), "read"))
        elif not word.known:
            found.append(PathUse(word, "read"))
    found += [PathUse(w, "read") for w in parsed.values(("-b", "--cookie")) if "=" not in w.text]
    given = parsed.values(("-H", "--header", "-w", "--write-out", "--url", "--variable"))
    found += [PathUse(part(w, w.text.partition("@")[2]), "read") for w in given if re.match(r"\w*@", w.text)]
    if parsed.has(("-n", "--netrc", "--netrc-optional")):
        found.append(PathUse(Word("~/.netrc", tilde=True), "read"))
    for word in (*parsed.operands, *parsed.values(("--url",))):
        if word.text.lower().startswith("file:"):
            found.append(PathUse(part(word, "/" + word.text[5:].lstrip("/")), "read"))
        elif "file:" in word.text.lower():
            found.append(PathUse(UNKNOWN, "read"))
        elif parsed.has(("-O", "--remote-name", "--remote-name-all", "-J")):
            name = word.text.partition("?")[0].rstrip("/").rpartition("/")[2]
            found.append(PathUse(part(word, name), "write", base=parsed.values(("--output-dir",))[-1:]))
    reads_config = parsed.has(("-K", "--config"))
    return Meaning(paths=tuple(found), opaque="curl takes its options from a file" if reads_config else "")


_WGET = spec(
    None,
    value="-e -t -T -w -U -A -R -D -I -X -l -Q --header --user --password --timeout --tries --execute --level",
    reads="-i --input-file --post-file --body-file --config --ca-certificate --certificate --load-cookies",
    writes="-O --output-document -o --output-file -a --append-output -P --directory-prefix --save-cookies",
)


def _wget(call: Call) -> Meaning:
    parsed = parse(call.args, _WGET)
    found = [PathUse(word, "read") for word in parsed.values(_WGET.reads) if word.text != "-"]
    found += [PathUse(word, "write") for word in parsed.values(_WGET.writes) if word.text != "-"]
    if not parsed.has(("-O", "--output-document", "--spider")):
        for word in parsed.operands:
            name = word.text.partition("?")[0].rstrip("/").rpartition("/")[2] or "index.html"
            folder = parsed.values(("-P", "--directory-prefix"))[-1:]
            found.append(PathUse(part(word, name), "write", base=folder))
        if parsed.has(("-r", "--recursive", "-m", "--mirror", "-p", "-x")):
            found.append(PathUse((parsed.values(("-P",)) or (HERE,))[0], "write", below=True, made=True))
    runs = parsed.has(("-e", "--execute", "--use-askpass", "--config"))
    return Meaning(paths=tuple(found), opaque="wget takes settings that can run a program" if runs else "")


def _elsewhere(why: str) -> Reader:
    def read(call: Call) -> Meaning:
        return Meaning(opaque=f"{call.name} {why}", paths=implied_paths(call.args, "read", "write"))

    return read


_CONTAINER_RUNS = words("run exec build compose cp create start buildx commit import load")
_CLUSTER_RUNS = words("exec run apply create debug cp attach edit delete patch replace")


def _container(call: Call) -> Meaning:
    operands = [word.text for word in call.args if not word.text.startswith("-")]
    paths = implied_paths(call.args, "read", "write")
    if any(word in operands[:2] for word in _CONTAINER_RUNS):
        return Meaning(
            opaque=f"{call.name} runs programs in a container, with folders of this machine", paths=paths
        )
    shows = operands[:1] and operands[0] in (
        "ps",
        "images",
        "version",
        "info",
        "logs",
        "inspect",
        "top",
        "stats",
    )
    return Meaning(read_only=bool(shows))


def _cluster(call: Call) -> Meaning:
    operands = [word.text for word in call.args if not word.text.startswith("-")]
    if any(word in operands[:2] for word in _CLUSTER_RUNS):
        return Meaning(
            opaque=f"{call.name} changes or runs something elsewhere",
            paths=implied_paths(call.args, "read", "write"),
        )
    return Meaning(paths=implied_paths(call.args, "read"))


READERS: dict[str, Reader] = {
    "curl": _curl,
    "wget": _wget,
    **dict.fromkeys(words("ssh mosh sftp ftp rsh lftp"), _elsewhere("runs commands on another machine")),
    **dict.fromkeys(words("docker podman nerdctl docker-compose lxc"), _container),
    **dict.fromkeys(words("kubectl oc helm"), _cluster),
}
"""Commands by name."""
