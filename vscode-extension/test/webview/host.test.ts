import assert from "node:assert/strict";
import { test } from "node:test";
import { fromLoad } from "../../src/session/state";
import { event, loaded, request } from "../fakes/protocol";

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

test("words written for a request that was answered elsewhere come back", async () => {
  Object.assign(globalThis, { acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { answerOf, saveAnswer, takeBegun } = await import("../../src/chat/webview/host");
  const [one, two, three] = ["r1", "r2", "r3"].map((id) => request(id, { toolCallId: id }));
  const session = fromLoad(loaded({ pending: [one!, two!, three!] }));
  saveAnswer(one!, { feedback: "half a thought" });
  saveAnswer(two!, { answers: [{ chosen: ["a"], text: "and so on" }] });
  saveAnswer(three!, { feedback: "asked again" });
  const replied = (requestId: string, by: string) => event(5, "permission_replied", { requestId, reply: "once", feedback: null, by, remembered: null, scope: "session", answers: [] });
  assert.deepEqual(takeBegun(session, [replied("r1", "terminal"), replied("r2", "timeout"), replied("r3", "")]), ["half a thought", "and so on"]);
  assert.deepEqual([answerOf(one!), answerOf(three!)], [{}, { feedback: "asked again" }]);
});
