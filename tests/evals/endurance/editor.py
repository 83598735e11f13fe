"""An editor of the endurance run, as a process: ``python editor.py ADDRESS_FILE WORKSPACE FILE…``.

It attaches, opens the files and looks at the newest sessions. Each line on its input makes it type into a file; at the
end of input it leaves as editors do. The harness also kills it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from daemon.runtime import Address
from lsp_bridge.cli.client import Client, Greeting


async def main(address_file: Path, workspace: Path, files: list[Path]) -> None:
    client = await Client.connect(Address.from_json(json.loads(address_file.read_text())), timeout=60)
    await client.initialize(workspace, Greeting(client="vscode", trusted=True), 60)
    for file in files:
        item = {"uri": file.as_uri(), "languageId": "plaintext", "version": 1, "text": file.read_text()}
        await client.notify("textDocument/didOpen", {"textDocument": item})
    for session in (await client.request("goalwright/session/list", {"limit": 2}))["sessions"]:
        await client.request(
            "goalwright/session/load", {"sessionId": session["trace"]["traceId"], "messages": 50}
        )
    print("there", flush=True)
    version = 1
    while line := await asyncio.to_thread(sys.stdin.readline):
        version += 1
        document = {"uri": files[version % len(files)].as_uri(), "version": version}
        changes = [{"text": line}]
        await client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
    await client.request("shutdown")
    await client.notify("exit")
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]]))
