import assert from "node:assert/strict";
import { test } from "node:test";

interface Posted {
  written: { drafts: Record<string, unknown> };
  files?: Record<string, unknown[]>;
}

test("a draft's files are sent to the host only when they change", async () => {
  let heard: (message: Posted) => void = () => undefined;
  Object.assign(globalThis, { acquireVsCodeApi: () => ({ postMessage: (message: Posted) => heard(message) }) });
  const { draftOf, saveDraft } = await import("../../src/chat/webview/host");
  const saved = (text: string, files: ReturnType<typeof draftOf>["files"]): Promise<Posted> => {
    saveDraft("s1", { text, files });
    return new Promise((resolve) => (heard = resolve));
  };
  const picture = { type: "file" as const, name: "shot.png", mediaType: "image/png", data: "AAAA" };
  assert.deepEqual((await saved("look", [picture])).files, { s1: [picture] });
  const typed = await saved("look at", [...draftOf("s1").files]);
  assert.deepEqual([typed.written.drafts, typed.files], [{ s1: { text: "look at" } }, undefined]);
  assert.deepEqual(draftOf("s1"), { text: "look at", files: [picture] });
  assert.deepEqual(await saved("", []), { type: "written", written: { drafts: {}, answers: {}, edits: {}, unfolded: [] }, files: {} });
});
