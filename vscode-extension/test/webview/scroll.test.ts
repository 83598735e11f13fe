import assert from "node:assert/strict";
import { test } from "node:test";
import { scrolledUp } from "../../src/chat/webview/scroll";

const before = { top: 500, client: 400, height: 900 };

test("the reader scrolled up, also while text streams in", () => {
  assert.equal(scrolledUp(before, { ...before, top: 450 }), true);
  assert.equal(scrolledUp(before, { top: 450, client: 400, height: 950 }), true);
});

test("a box that grew or content that shrank is not the reader", () => {
  assert.equal(scrolledUp(before, { top: 300, client: 600, height: 980 }), false);
  assert.equal(scrolledUp(before, { top: 480, client: 400, height: 880 }), false);
});

test("staying or going down is not scrolling up", () => {
  assert.equal(scrolledUp(before, { ...before, height: 1200 }), false);
  assert.equal(scrolledUp(before, { top: 700, client: 400, height: 1200 }), false);
});
