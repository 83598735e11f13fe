import assert from "node:assert/strict";
import { test } from "node:test";
import { address, AFTER, BEFORE, proposedBy, title } from "../src/diff/uris";

test("an address leads back to its request and path, whatever they look like", () => {
  for (const path of ["src/a.py", "/abs/a b.py", "C:\\x\\ä#1?.py", "\\\\server\\share\\a.py", "a%20b", "a\"'b"]) {
    const proposed = { requestId: "r&1=?#", path };
    assert.deepEqual(proposedBy(address(AFTER, proposed)), proposed);
  }
});

test("the path ends with the file's name, for the language", () => {
  assert.equal(address(BEFORE, { requestId: "r", path: "C:\\x\\a.py" }).path, "/C:/x/a.py");
  assert.equal(address(BEFORE, { requestId: "r", path: "src/a.py" }).path, "/src/a.py");
  // VS Code rejects a path that begins with two slashes.
  for (const path of ["\\\\server\\share\\a.py", "//server/share/a.py"]) assert.equal(address(BEFORE, { requestId: "r", path }).path, "/server/share/a.py");
});

test("other addresses are about nothing", () => {
  assert.equal(proposedBy({ scheme: "file", path: "/a", query: '{"requestId":"r","path":"a"}' }), undefined);
  assert.equal(proposedBy({ scheme: AFTER, path: "/a", query: "nonsense" }), undefined);
  assert.equal(proposedBy({ scheme: AFTER, path: "/a", query: '{"requestId":1}' }), undefined);
});

test("titles say what is proposed", () => {
  const of = (path: string, kind: "create" | "update" | "delete", movedFrom: string | null = null): string => title({ path, kind, movedFrom });
  assert.equal(of("src/cart.py", "update"), "cart.py — proposed by Goalwright");
  assert.equal(of("cart.py", "create"), "cart.py — new file proposed by Goalwright");
  assert.equal(of("a\\b.py", "delete"), "b.py — deletion proposed by Goalwright");
  assert.equal(of("src/b.py", "create", "src/a.py"), "a.py → b.py — move proposed by Goalwright");
  assert.equal(of("lib/a.py", "create", "src/a.py"), "src/a.py → lib/a.py — move proposed by Goalwright");
});
