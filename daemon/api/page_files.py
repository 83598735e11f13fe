"""The web page's files: ``/`` is ``page/index.html``, ``/page/NAME`` the other files of that folder.

In ``index.html`` these are filled in: ``{{nonce}}`` (for inline scripts: the import map), ``{{importmap}}`` (its
JSON, which leads each ``/page/NAME.js`` to the same with the token, so that modules can import each other by
``./NAME.js``), ``{{token}}`` (for ``src`` and ``href``: ``/page/start.js?token={{token}}``) and ``{{signin}}`` (an
attribute that tells the page to ask for a token: a shared server gives the page's files to everybody, and no data).

The page keeps the token in ``sessionStorage`` under ``goalwright.token`` and takes it out of the address bar. When it
is reloaded the token is missing, and the response is ``LOCKED`` with 401: it contains only a script that returns with
the token, if the tab has one. A tab that was opened from a link has none: it asks the other tabs, over a
``BroadcastChannel``, which only pages of this address receive. No cookie (all ports of a machine share them), and no
``localStorage`` (it stays when all is closed).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from pathlib import Path

from starlette.responses import Response

from daemon.api.security import ApiAccess, LockedPage

FOLDER = Path(__file__).parent / "page"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,60}\.(?:js|json|css|svg)")
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

_UNLOCK = """
const token = sessionStorage.getItem("goalwright.token");
const asked = new URL(location.href);
const refused = asked.searchParams.has("token");
sessionStorage.removeItem("goalwright.token");
function enter(token) {
  asked.searchParams.set("token", token);
  location.replace(asked);
}
if (refused) {
  asked.searchParams.delete("token");
  history.replaceState(null, "", asked);
} else if (token) enter(token);
else {
  const channel = new BroadcastChannel("goalwright");
  channel.onmessage = ({ data }) => {
    if (typeof data?.token !== "string") return;
    channel.close();
    enter(data.token);
  };
  channel.postMessage({ wanted: true });
}
"""
_UNLOCK_HASH = base64.b64encode(hashlib.sha256(_UNLOCK.encode()).digest()).decode()
LOCKED = LockedPage(
    body=f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Goalwright</title></head><body>
<p>This page needs its token. Run <code>goalwright trace page</code> and open the address that it prints.</p>
<script>{_UNLOCK}</script></body></html>
""".encode(),
    policy=(
        f"default-src 'none'; script-src 'sha256-{_UNLOCK_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ).encode(),
)
"""Nobody needs a token to see it. One that was wrong is forgotten and leaves the address bar: it leads nowhere twice.
Other tabs are not asked then: theirs may be wrong as well, and two wrong ones would go round in a circle."""


def index(access: ApiAccess, folder: Path = FOLDER) -> Response:
    """Return the page. Reads files: call it in a thread."""
    nonce = secrets.token_urlsafe(16)
    names = sorted(path.name for path in folder.glob("*.js") if _NAME.fullmatch(path.name))
    token = f"?token={access.token}" if access.token else ""
    imports = {f"/page/{name}": f"/page/{name}{token}" for name in names}
    text = (folder / "index.html").read_text("utf-8").replace("?token={{token}}", token)
    for name, value in (
        ("nonce", nonce),
        ("importmap", json.dumps({"imports": imports})),
        ("signin", "" if access.token else "data-sign-in"),
    ):
        text = text.replace("{{" + name + "}}", value)
    policy = (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
        f"connect-src 'self' {' '.join(access.sources)}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Response(text, media_type="text/html; charset=utf-8", headers={"content-security-policy": policy})


def file(name: str, folder: Path = FOLDER) -> Response | None:
    """Return a file of the page; None when there is none of that name. Reads it: call it in a thread."""
    if not _NAME.fullmatch(name):
        return None
    try:
        data = (folder / name).read_bytes()
    except OSError:
        return None
    return Response(data, media_type=_TYPES[Path(name).suffix])
