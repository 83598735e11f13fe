import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyAnswers, isAnswered, isQuestion, withOption, withWords } from "../src/permission/answers";
import type { Question } from "../src/protocol.gen";
import { request } from "./fakes/protocol";

const question = (multiple: boolean): Question => ({
  text: "Which one?",
  options: ["a", "b", "c"].map((label) => ({ label, description: "" })),
  multiple,
});

test("a request with questions is no approval", () => {
  assert.equal(isQuestion(request("r")), false);
  assert.equal(isQuestion(request("r", { questions: [question(false)] })), true);
});

test("one option takes the place of another, several are kept in the order of the question", () => {
  const [empty] = emptyAnswers([question(false)]);
  assert.ok(empty);
  const first = withOption(question(false), empty, "a", true);
  assert.deepEqual(withOption(question(false), first, "b", true).chosen, ["b"]);
  const many = withOption(question(true), withOption(question(true), empty, "c", true), "a", true);
  assert.deepEqual(many.chosen, ["a", "c"]);
  assert.deepEqual(withOption(question(true), many, "c", false).chosen, ["a"]);
});

test("there is something to send as soon as one question is answered", () => {
  assert.equal(isAnswered(emptyAnswers([question(false), question(true)])), false);
  assert.equal(isAnswered([{ chosen: [], text: " " }]), false);
  assert.equal(isAnswered([{ chosen: [], text: "" }, { chosen: [], text: "x" }]), true);
  assert.equal(isAnswered([{ chosen: ["a"], text: "" }]), true);
});

test("a text from the composer answers what has no answer yet, else it goes to the last answer", () => {
  const empty = { chosen: [], text: "" };
  assert.deepEqual(withWords([empty], "MySQL"), [{ chosen: [], text: "MySQL" }]);
  const begun = [{ chosen: ["a"], text: "" }, empty];
  assert.deepEqual(withWords(begun, "soon"), [{ chosen: ["a"], text: "" }, { chosen: [], text: "soon" }]);
  assert.deepEqual(withWords([{ chosen: ["a"], text: "but" }], "not now"), [{ chosen: ["a"], text: "but not now" }]);
});
