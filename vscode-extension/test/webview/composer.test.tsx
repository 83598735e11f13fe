import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import { EMPTY, type ViewState } from "../../src/chat/webview/store";
import { fromLoad } from "../../src/session/state";
import { click, type FakeNode, FakePage, words } from "../fakes/page";
import { loaded } from "../fakes/protocol";
import { named, settled } from "../fakes/session";

const heard: ((event: unknown) => void)[] = [];
const posted: { type: string }[] = [];

/** A chat's page, and what its composer shows. */
async function page() {
  const page = new FakePage();
  const window = { addEventListener: (name: string, listener: (event: unknown) => void) => name === "message" && heard.push(listener), removeEventListener: () => undefined };
  Object.assign(globalThis, { document: page, window, acquireVsCodeApi: () => ({ postMessage: (message: { type: string }) => posted.push(message) }) });
  const host = await import("../../src/chat/webview/host");
  const { Composer } = await import("../../src/chat/webview/composer");
  const field = { current: null };
  let version = 0;
  const draw = async (session: string, outbox: ViewState["outbox"] = []): Promise<string> => {
    const view: ViewState = { ...EMPTY, session: session ? fromLoad(loaded({ session: named(session) })) : null, outbox };
    render(h(Composer, { view, request: undefined, field, version: version++, onSent: () => undefined }), page.body as unknown as Element);
    await settled();
    return value();
  };
  const button = (label: string): FakeNode | undefined => page.body.all("button").find((one) => words(one) === label);
  const value = (): string => String((page.body.all("textarea")[0] as unknown as Record<string, unknown>)["@value"]);
  const drop = (file: object): void => {
    const [form] = page.body.all("form");
    const entry = [...(form?.listeners ?? [])].find(([name]) => name.toLowerCase().startsWith("drop"));
    entry?.[1].call(form, { type: entry[0], preventDefault() {}, dataTransfer: { getData: () => "", files: [file] } });
  };
  return { host, draw, button, value, drop };
}

test("a session that is opened during the first prompt of a new one keeps its draft", async () => {
  const { host, draw } = await page();
  host.saveDraft("s9", { text: "half a thought", files: [] });
  const outbox = [{ promptId: "p1", text: "hello" }];
  await draw("", outbox);
  assert.equal(await draw("s9", outbox), "half a thought");
});

test("text typed since the first prompt goes with it to its session", async () => {
  const { host, draw } = await page();
  host.saveDraft("", { text: "and more", files: [] });
  const outbox = [{ promptId: "p1", text: "hello" }];
  await draw("", outbox);
  assert.equal(await draw("s8", outbox), "and more");
  assert.equal(host.draftOf("").text, "");
});

test("canceling the edit of an earlier message brings the draft back", async () => {
  const { host, draw, button } = await page();
  const picture = { type: "file" as const, name: "shot.png", mediaType: "image/png", data: "AAAA" };
  host.saveDraft("s1", { text: "half a thought", files: [picture] });
  host.setAside("s1");
  host.saveDraft("s1", { text: "earlier", files: [], instead: "m1" });
  assert.equal(await draw("s1"), "earlier");
  click(button("Cancel"));
  assert.equal(await draw("s1"), "half a thought");
  assert.deepEqual(host.draftOf("s1"), { text: "half a thought", files: [picture] });
  assert.deepEqual(host.takeBack("s1"), { text: "", files: [] });
});

test("an edit of an earlier message lasts while its field is empty", async () => {
  const { host, draw, button } = await page();
  host.saveDraft("s5", { text: "half a thought", files: [] });
  host.setAside("s5");
  host.saveDraft("s5", { text: "", files: [], instead: "m1" });
  await draw("s4");
  assert.equal(await draw("s5"), "");
  assert.equal(host.draftOf("s5").instead, "m1");
  click(button("Cancel"));
  assert.equal(await draw("s5"), "half a thought");
});

test("a file that was read late belongs to the draft it was dropped into", async () => {
  const { host, draw, value, drop } = await page();
  const readers: { onload?: () => void; result: string }[] = [];
  class FileReader {
    result = "data:;base64,AAAA";
    readAsDataURL = (): void => void readers.push(this);
  }
  Object.assign(globalThis, { FileReader });
  host.saveDraft("s2", { text: "two", files: [] });
  await draw("s3");
  drop({ name: "shot.png", type: "image/png", size: 3 });
  await draw("s2");
  readers[0]?.onload?.();
  await settled();
  assert.equal(value(), "two");
  assert.deepEqual([host.draftOf("s3").files.length, host.draftOf("s2").files.length], [1, 0]);
});
