import assert from "node:assert/strict";
import { test } from "node:test";
import { newest, placeOf } from "../../../daemon/api/page/newest_messages.js";
import type { Message } from "../../../daemon/api/page/shapes";

const message = (sequence: number, branch: string | null = null): Message => ({
  messageId: `${branch ?? ""}${sequence}`,
  branchId: branch,
  role: "assistant",
  sequence,
  content: [],
});

/** An API that answers in pages of `limit`, and says what it was asked. */
function paged(messages: readonly Message[], limit: number) {
  const asked: (number | undefined)[] = [];
  const ask = (before: number | undefined): Promise<{ messages: Message[]; hasEarlier: boolean }> => {
    asked.push(before);
    const all = messages.filter((one) => before === undefined || one.sequence < before);
    return Promise.resolve({ messages: all.slice(-limit), hasEarlier: all.length > limit });
  };
  return { asked, ask };
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);

test("however many came at once, they are fetched back to the newest that is known", async () => {
  for (const came of [0, 1, 49, 50, 51, 99, 100, 250, 499]) {
    const { ask } = paged(numbers(1, 60 + came).map((n) => message(n)), 50);
    const found = await newest(ask, 60);
    assert.equal(found.joined, true, `${came}`);
    const fresh = found.messages.map((one) => one.sequence).filter((n) => n > 60);
    assert.deepEqual(fresh, numbers(61, 60 + came), `${came}`);
  }
});

test("what is too far back leaves no gap: the newest are there, and what was known must go", async () => {
  const { ask, asked } = paged(numbers(1, 5000).map((n) => message(n)), 50);
  const found = await newest(ask, 60);
  assert.equal(found.joined, false);
  assert.equal(found.hasEarlier, true);
  assert.deepEqual(found.messages.map((one) => one.sequence), numbers(4501, 5000));
  assert.equal(asked.length, 10);
});

test("when nothing is known one page is enough, and no messages are no trouble", async () => {
  const { ask, asked } = paged(numbers(1, 500).map((n) => message(n)), 50);
  assert.deepEqual((await newest(ask, null)).messages.map((one) => one.sequence), numbers(451, 500));
  assert.equal(asked.length, 1);
  assert.deepEqual(await newest(paged([], 50).ask, null), { messages: [], hasEarlier: false, joined: true });
  assert.deepEqual(await newest(paged([], 50).ask, 7), { messages: [], hasEarlier: false, joined: true });
});

test("messages of branches side by side stand by their numbers, each behind those of the same one", () => {
  const sorted: Message[] = [];
  const come = [message(1), message(5, "A"), message(6, "A"), message(5, "B"), message(2), message(6, "B"), message(4, "B")];
  for (const one of come) sorted.splice(placeOf(sorted, one), 0, one);
  assert.deepEqual(sorted.map((one) => one.messageId), ["1", "2", "B4", "A5", "B5", "A6", "B6"]);
});
