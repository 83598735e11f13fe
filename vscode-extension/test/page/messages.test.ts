import assert from "node:assert/strict";
import { test } from "node:test";
import { MessagesPane } from "../../../daemon/api/page/messages.js";
import { settled } from "../fakes/session";

/** As much of an element as the pane asks for. */
class Element {
  readonly children: Element[] = [];
  hidden = false;
  textContent = "";
  append(): void {}
  replaceChildren(): void {}
  setAttribute(): void {}
  addEventListener(): void {}
}

test("a message for the shown work is fetched, whatever was shown just before", async (context) => {
  Object.assign(globalThis, { document: { createElement: () => new Element(), addEventListener: () => undefined } });
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: (string | null | undefined)[] = [];
  const read = ({ goalId }: { goalId?: string | null }) => {
    asked.push(goalId);
    return Promise.resolve({ messages: [], hasEarlier: false });
  };
  const pane = new MessagesPane(new Element() as unknown as HTMLElement, read, () => undefined);
  const subject = (goalId: string) => ({ traceId: "s1", goalId, branchId: null, descendants: false, beside: false, heading: "", text: "", status: "", stats: null });
  await pane.show(subject("1"));
  pane.touched({ branchId: null, goalId: "1" });
  await pane.show(subject("2"));
  pane.touched({ branchId: null, goalId: "2" });
  context.mock.timers.tick(300);
  await settled();
  assert.deepEqual(asked, ["1", "2", "2"]);
});
