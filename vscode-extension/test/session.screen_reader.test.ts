import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENCE, spoken, stateWords, type Spoken } from "../src/session/screen_reader";
import { apply, fromLoad, type SessionState, type Update } from "../src/session/state";
import { event, loaded, message, request, text } from "./fakes/protocol";

const delta = (more: string, index = 0, messageId = "m2"): Update => ({ delta: { traceId: "s1", kind: "text", messageId, index, toolCallId: null, name: null, text: more } });
const texts = (heard: Spoken): string[] => heard.lines.map((line) => line.text);

/** Plays updates one by one, as they are drawn; all that was ever said. */
function listen(updates: readonly Update[], from: SessionState = fromLoad(loaded())): { said: string[]; times: number } {
  let [state, heard] = [from, spoken(SILENCE, from)];
  const said = new Map<string, string>();
  let times = 0;
  for (const update of updates) {
    state = apply(state, update);
    const next = spoken(heard, state);
    if (next.lines !== heard.lines) times += 1;
    for (const line of next.lines) said.set(line.key, line.text);
    heard = next;
  }
  return { said: [...said.values()], times };
}

test("an answer is said paragraph by paragraph, each once, and never word by word", () => {
  const answer = "I **read** the file.\n\n```py\na = 1\n\nb = 2\n```\n\n- One\n- Two";
  const words = answer.split(/(?<=\s)/).map((word) => delta(word));
  const stored = event(9, "message_added", { message: message("assistant", 2, [text(answer)]), affectedGoals: [] });
  const { said, times } = listen([...words, stored]);
  assert.deepEqual(said, ["I read the file.", "Code, 3 lines.", "One; Two"]);
  assert.ok(times <= 3, `${times} announcements`);
});

test("an answer that comes at once is said, too, and the rest of the one before it", () => {
  const first = event(1, "message_added", { message: message("assistant", 2, [text("First, and last.")]), affectedGoals: [] });
  const second = event(2, "message_added", { message: message("assistant", 4, [text("Second.")]), affectedGoals: [] });
  let state = apply(fromLoad(loaded()), delta("First, "));
  let heard = spoken(SILENCE, fromLoad(loaded()));
  heard = spoken(heard, state);
  assert.deepEqual(texts(heard), []);
  state = [first, second].reduce<SessionState>((before, update) => apply(before, update), state);
  heard = spoken(heard, state);
  assert.deepEqual(texts(heard), ["First, and last.", "Second."]);
});

test("opening a session says nothing of its past, and a plan is not said as JSON", () => {
  const past = fromLoad(loaded({ messages: [message("assistant", 1, [text("Long ago.")])] }));
  assert.deepEqual(texts(spoken(SILENCE, past)), []);
  assert.deepEqual(listen([delta('{"steps": [\n\n'), delta('{"goal": "a"}]}')], past).said, []);
});

test("an answer that has begun when its session is first shown is said", () => {
  const begun = apply(fromLoad(loaded()), delta("The rates stand in one file.\n\nI look at wh"));
  assert.deepEqual(texts(spoken(SILENCE, begun)), ["The rates stand in one file."]);
});

test("an answer that begins with a link is said once it is whole", () => {
  const answer = "[rates.py](rates.py) is ready.\n\nIt has a test.";
  const stored = event(9, "message_added", { message: message("assistant", 2, [text(answer)]), affectedGoals: [] });
  const { said } = listen([delta("[rates.py](rates.py) is ready.\n\n"), delta("It has a test."), stored]);
  assert.deepEqual(said, ["rates.py is ready.", "It has a test."]);
});

test("the signs of Markdown are not said, and names keep their underscores", () => {
  const answer = "Set ANTHROPIC_API_KEY, __now__.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n\n$$a^2$$\n\n";
  const { said } = listen([delta(answer), event(9, "message_added", { message: message("assistant", 2, [text(answer)]), affectedGoals: [] })]);
  assert.deepEqual(said, ["Set ANTHROPIC_API_KEY, now .", "a b 1 2", "Done: done; To do: open", "a^2"]);
});

test("old lines are forgotten", () => {
  const many = Array.from({ length: 40 }, (_, number) => delta(`Paragraph ${number}.\n\n`));
  let [state, heard] = [fromLoad(loaded()), spoken(SILENCE, fromLoad(loaded()))];
  for (const update of many) heard = spoken(heard, (state = apply(state, update)));
  assert.equal(heard.lines.length, 8);
  assert.equal(new Set(heard.lines.map(({ key }) => key)).size, 8);
});

test("a long answer that comes at once is said from its beginning", () => {
  const paragraphs = Array.from({ length: 20 }, (_, number) => `Paragraph ${number}.`);
  const { said } = listen([event(9, "message_added", { message: message("assistant", 2, [text(paragraphs.join("\n\n"))]), affectedGoals: [] })]);
  assert.deepEqual(said, paragraphs);
});

test("while something is asked, nothing but the request is told", () => {
  const asked = fromLoad(loaded({ pending: [request("r1", {})] }));
  assert.equal(stateWords(asked), "");
  assert.equal(stateWords(fromLoad(loaded({ messages: [message("user", 1, [text("hi")])] }))), "Goalwright is ready");
});
