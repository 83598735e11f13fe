import assert from "node:assert/strict";
import { test } from "node:test";
import { compactionWords, goalMarks, grouped, lines, readableSummary, readsWords, type CompactionLine } from "../src/session/lines";
import { stateWords } from "../src/session/screen_reader";
import { apply, fromLoad, type SessionState, type Update } from "../src/session/state";
import type { CompactionPart, Message, Part } from "../src/protocol.gen";
import { call, event, loaded, message, meter, request, result, session, text, UNPAID } from "./fakes/protocol";

const used = (input: number): Partial<Message> => ({ usage: { input, output: 10, cacheRead: 1_000, cacheWrite: 0, unpriced: 0 } });
const part = (kind: CompactionPart["kind"], before = 142_000, after = 38_000): Part =>
  ({ type: "compaction", kind, reason: "threshold", keepFrom: 9, before, after, cutResults: false });
const summary = text('Here it is.\n<compact_summary>{"mission": "Ship it", "done": ["a", "b"], "empty": []}</compact_summary>');
const before = [message("user", 1, [text("go")]), message("assistant", 2, [text("on it")], used(141_000))];
const triple = [
  message("user", 3, [part("request"), text("Summarise.")]),
  message("assistant", 4, [part("summary"), summary], used(150_000)),
  message("user", 5, [part("carried"), text("The person said: go")]),
];
const shown = (messages: Message[]) => lines(fromLoad(loaded({ messages })).items, true);
const compactions = (messages: Message[]) =>
  shown(messages).filter((line): line is CompactionLine => line.kind === "compaction");

test("the three messages of a compaction are one line, with the tokens before and after", () => {
  const after = message("assistant", 6, [text("next")], used(37_000));
  const all = shown([...before, ...triple, after]);
  assert.deepEqual(all.map((line) => line.kind), ["message", "message", "compaction", "message"]);
  const [line] = compactions([...before, ...triple, after]);
  assert.equal(line && compactionWords(line), "Context compacted (it was nearly full) · 142k → 38k tokens");
  assert.equal(line?.carried, "The person said: go");
  assert.match(line?.summary ?? "", /Here it is\.\n\n\*\*Mission\*\*\n\nShip it\n\n\*\*Done\*\*\n\n- a\n- b$/);
});

test("each compaction has its own line", () => {
  const second = [
    message("user", 13, [part("request", 99_000, 20_000), text("Summarise.")]),
    message("assistant", 14, [part("summary", 99_000, 20_000), summary]),
    message("user", 15, [part("carried", 99_000, 20_000), text("The person said: go")]),
  ];
  const found = compactions([...before, ...triple, message("assistant", 6, [text("x")], used(99_000)), ...second]);
  assert.deepEqual(found.map((line) => [line.before, line.after]), [[142_000, 38_000], [99_000, 20_000]]);
});

test("a compaction under way says so, one that was broken off is nothing", () => {
  const [line] = compactions([...before, triple[0] as Message]);
  assert.equal(line && compactionWords(line), "Compacting the context…");
  assert.deepEqual(compactions([...before, triple[0] as Message, message("user", 6, [text("again")])]), []);
  assert.equal(lines(fromLoad(loaded({ messages: triple.slice(0, 1) })).items, false).length, 0, "nothing runs any more");
});

test("of a compaction whose request was trimmed away the rest is a line", () => {
  assert.deepEqual(shown(triple.slice(1)).map((line) => line.kind), ["compaction"]);
});

const notice = (id: number, text: string, code = "compaction", level: "info" | "warning" = "info") => event(id, "notice", { level, text, code, about: "", exitCode: null });
const said = (one: Message, id: number) => event(id, "message_added", { message: one, affectedGoals: [] });
const live = (...updates: Update[]) => lines(updates.reduce(apply, fromLoad(loaded({ messages: before }))).items, true);

test("what the daemon tells of a compaction is told by its line", () => {
  const begins = notice(1, "The context has 150,123 tokens: asking the model to summarize the work so far (as you asked).", "compaction_begins");
  assert.deepEqual(live(begins).map((line) => line.kind), ["message", "message", "compaction"]);
  const stored = triple.map((one, index) => said(one, index + 2));
  const done = "The context was compacted from 150,123 to 12,400 tokens.";
  const all = live(begins, ...stored, notice(5, done, "compaction_done"));
  assert.deepEqual(all.map((line) => line.kind), ["message", "message", "compaction"]);
  assert.equal(compactionWords(all[2] as CompactionLine), "Context compacted (it was nearly full) · 142k → 38k tokens");
  const more = live(
    begins,
    ...stored,
    notice(5, done, "compaction_done"),
    notice(6, "No summary could be had from the model.", "compaction", "warning"),
  ).at(-1);
  assert.ok(more?.kind === "notice" && more.text === "No summary could be had from the model." && more.level === "warning");
});

test("a compaction that failed, or was stopped, leaves what was said about that", () => {
  const begins = notice(1, "The context has 150,123 tokens: asking the model to summarize the work so far (as you asked).", "compaction_begins");
  const failed = live(begins, notice(2, "The context was not compacted: no credit.", "compaction", "warning"));
  assert.deepEqual(failed.slice(2).map((line) => line.kind === "notice" && line.text), ["The context was not compacted: no credit."]);
  const stopped = live(begins, event(2, "turn_ended", { promptId: "p", stopReason: "canceled", detail: "", errorKind: "" }));
  assert.deepEqual(stopped.slice(2).map((line) => line.kind === "notice" && line.text), ["Stopped."]);
});

test("a compaction that the user started is under way until its end is told, also after a reload", () => {
  const begins = notice(1, "The context has 150,123 tokens: asking the model to summarize the work so far (as you asked).", "compaction_begins");
  const idle = fromLoad(loaded({ messages: before }));
  const kinds = ({ items, compacting }: SessionState): string[] => lines(items, compacting).map((line) => line.kind);
  const begun = apply(idle, begins);
  assert.deepEqual(kinds(begun), ["message", "message", "compaction"]);
  assert.equal(stateWords(begun), "Compacting the context…");
  for (const code of ["compaction_done", "compaction"]) assert.equal(apply(begun, notice(2, "Over.", code)).compacting, false);
  const told = "event" in begins ? [{ after: 2, event: begins.event }] : [];
  const [again, killed] = [true, false].map((compacting) => fromLoad(loaded({ messages: before, notices: told, compacting })));
  assert.deepEqual([again, killed].map((one) => one && kinds(one).length), [3, 2]);
  const turning = apply(apply(idle, event(1, "turn_started", { promptId: "p" }, { status: "running" })), notice(2, "The context is nearly full.", "compaction_begins"));
  assert.equal(turning.compacting, false, "that is the turn's own");
});

test("reasons are told in words, and unknown ones as they are", () => {
  const words = (reason: string): string =>
    compactionWords({ kind: "compaction", key: "k", reason, before: 0, after: 0, summary: "s", carried: "" });
  assert.deepEqual(["manual", "overflow", "moon", ""].map(words), [
    "Context compacted (as you asked)",
    "Context compacted (it was too long for the model)",
    "Context compacted (moon)",
    "Context compacted",
  ]);
});

test("a summary is made readable, whatever the model wrote", () => {
  assert.equal(readableSummary('<compact_summary>\n```json\n{"next_step": "test"}\n```\n</compact_summary>'), "**Next step**\n\ntest");
  assert.equal(readableSummary('<compact_summary>{"broken": </compact_summary>'), '{"broken":');
  assert.equal(readableSummary("no tags at all"), "no tags at all");
  assert.equal(readableSummary('<compact_summary>{"files": {"a.py": "read"}, "n": 3}'), "**Files**\n\n- a.py: read\n\n**N**\n\n3");
  assert.equal(
    readableSummary('{"steps": [{"what": "one", "how": "two"}, "three"]}'),
    "**Steps**\n\n- What: one\n  - How: two\n- three",
  );
});

test("a compaction after the end of a turn does not make it told again", () => {
  const info = session();
  const stopped = { ...info, trace: { ...info.trace, lastStopReason: "error" as const } };
  const finish: Part = { type: "finish", reason: "error", time: "", detail: "It broke." };
  const messages = [message("user", 1, [text("go")]), message("assistant", 2, [finish]), ...triple];
  const ended = event(9, "turn_ended", { promptId: "p", stopReason: "error", detail: "It broke.", errorKind: "" }).event;
  const state = fromLoad(loaded({ session: stopped, messages, notices: [{ after: 9, event: ended }] }));
  assert.equal(state.items.some((item) => item.kind === "notice"), false);
});

test("the meter of a load is kept up to date by notifications", () => {
  const state = fromLoad(loaded({ meter: meter() }));
  assert.equal(apply(state, { meter: meter({ contextTokens: 50_000 }) }).meter?.contextTokens, 50_000);
  assert.equal(apply(fromLoad(loaded()), { meter: meter() }).meter?.contextTokens, 42_000);
});

test("limits that were set are in the meter at once", () => {
  const budget = { session_usd: 2, session_tokens: null, goal_usd: null, goal_tokens: 1_000 };
  const set = event(1, "session_updated", { ...UNPAID, updates: { budget } });
  const state = apply(fromLoad(loaded({ meter: meter() })), set);
  assert.deepEqual(state.meter?.budget, { sessionUsd: 2, sessionTokens: null, goalUsd: null, goalTokens: 1_000 });
  assert.equal(apply(fromLoad(loaded()), set).meter, null);
});

test("a call that waits for its answer stands below the heading of the goal that has the focus", () => {
  const messages = [message("assistant", 1, [call("next", "goal", { focus: "2" }), call("change", "edit", {})]), { ...message("tool", 2, [result("next")]), goalId: null }];
  const goalTree = { ...loaded().goalTree, currentId: "2" };
  const state = fromLoad(loaded({ messages, goalTree, pending: [request("r", { toolCallId: "change" })] }));
  assert.deepEqual([...goalMarks(lines(state.items, false), state)], [["change", "2"]]);
});

test("a goal that a message begins has its heading before the calls that belong to it", () => {
  const told = (id: string, goalId: string | null, sequence: number): Message => ({ ...message("tool", sequence, [result(id)]), goalId });
  const messages = [
    message("assistant", 1, [call("focus", "goal", { focus: "1" }), call("look", "read", { file_path: "a.py" })]),
    told("focus", null, 2),
    told("look", "1", 3),
    { ...message("assistant", 4, [text("Seen.")]), goalId: "1" },
    { ...message("assistant", 5, [text("Next.")]), goalId: "2" },
  ];
  const state = fromLoad(loaded({ messages }));
  assert.deepEqual([...goalMarks(lines(state.items, false), state)], [["look", "1"], ["m5", "2"]]);
});

const read = (id: string, file = `${id}.py`) => call(id, "read", { file_path: file });
const search = (id: string) => call(id, "grep", { pattern: "x" });
/** What is drawn of each message: text, a call by its id, or reads by theirs. */
const drawnOf = (messages: Message[], apart: string[] = [], waiting: string[] = []): string[][] => {
  const pending = waiting.map((toolCallId) => request(toolCallId, { toolCallId }));
  return grouped(shown(messages), pending, (key) => apart.includes(key)).flatMap((line) =>
    line.kind === "message" ? [line.parts.map((one) => (one.type === "reads" ? one.calls.map(({ id }) => id).join("+") : one.type === "tool_call" ? one.id : one.type))] : [],
  );
};

test("reads and searches in a row are one line, over several messages", () => {
  const messages = [message("assistant", 1, [text("I look."), read("a"), read("b")]), message("tool", 2, [result("a")]), message("assistant", 3, [text(" "), search("c")]), message("assistant", 4, [read("d"), text("So.")])];
  assert.deepEqual(drawnOf(messages), [["text", "a+b+c+d"], ["text"]]);
  assert.equal(readsWords([read("a"), read("b"), read("b"), search("c"), search("d"), call("e", "ls", {})]), "Read 2 files, listed 1 folder, searched 2 times");
  assert.equal(readsWords([read("a"), search("c")]), "Read 1 file, searched once");
});

test("what stands between reads parts them, and two are as quickly read one by one", () => {
  const reads = [read("a"), read("b"), read("c"), read("d")];
  assert.deepEqual(drawnOf([message("assistant", 1, [...reads.slice(0, 2), call("e", "edit", {}), ...reads.slice(2)])]), [["a", "b", "e", "c", "d"]]);
  assert.deepEqual(drawnOf([message("assistant", 1, reads.slice(0, 2)), message("user", 2, [text("stop")]), message("assistant", 3, reads.slice(2))]), [["a", "b"], ["text"], ["c", "d"]]);
  assert.deepEqual(drawnOf([message("assistant", 1, reads)], ["d"]), [["a+b+c", "d"]], "the mark of a goal");
  assert.deepEqual(drawnOf([message("assistant", 1, reads), message("assistant", 2, [search("e")])], ["m2"]), [["a+b+c+d"], ["e"]]);
  assert.deepEqual(drawnOf([message("assistant", 1, [...reads, search("e"), search("f")])], [], ["b"]), [["a", "b", "c+d+e+f"]], "a question is not folded away");
});
