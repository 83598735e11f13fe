import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, type Pulled } from "../src/diagnostics/watcher";
import { FakeEditor, FILE, type Said } from "./fakes/problems";

const OTHER = "file:///w/b.bad";

async function proven(): Promise<FakeEditor> {
  const editor = new FakeEditor();
  await editor.proven();
  return editor;
}

test("what an extension says after the text is there, and after which nothing more comes, is the answer", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(200);
  editor.say(FILE, "one");
  await editor.clock.pass(200);
  editor.say(FILE, "one", "two");
  await editor.clock.pass(200);
  assert.equal(asked.done, false, "something more came meanwhile");
  await editor.clock.pass(150);
  assert.equal(await asked.words(), "fresh one two");
});

test("clean is an answer like any other", async () => {
  const editor = await proven();
  editor.change(FILE, "old and broken");
  await editor.clock.pass(100);
  editor.say(FILE, "old one");
  await editor.clock.pass(1_000);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE);
  await editor.clock.pass(300);
  const { files } = await asked.answer;
  assert.deepEqual(
    files.map(({ freshness, diagnostics, before }) => [freshness, diagnostics.length, before?.map(({ said }) => said)]),
    [["fresh", 0, ["old one"]]],
  );
});

test("what is said before the text comes does not count", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE, "about the old text");
  await editor.clock.pass(1_000);
  assert.equal(asked.done, false);
  editor.change(FILE, "something else");
  await editor.clock.pass(100);
  editor.say(FILE, "about something else");
  await editor.clock.pass(500);
  assert.equal(asked.done, false);
  await editor.clock.pass(2_500);
  assert.equal((await asked.answer).files[0]?.freshness, "pending");
});

test("an event that VS Code had collected before the change is not taken for an answer to it", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  editor.set(FILE, "about the old text");
  await editor.clock.pass(20);
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(30);
  editor.watcher.reported([FILE]);
  await editor.clock.pass(1_000);
  assert.equal(asked.done, false);
  editor.say(FILE, "about the new text");
  await editor.clock.pass(300);
  assert.equal(await asked.words(), "fresh about the new text");
});

test("when the text before was still unanswered, an answer has to settle longer", async () => {
  const editor = await proven();
  editor.change(FILE, "typed");
  await editor.clock.pass(50);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE, "about what was typed");
  await editor.clock.pass(1_400);
  assert.equal(asked.done, false);
  editor.say(FILE, "about the new text");
  await editor.clock.pass(1_500);
  // 1.5 s after the second one would be beyond the deadline.
  assert.equal(await asked.words(), "pending about the new text");
});

test("nothing at all is pending, and no two changes in a row are waited for so long", async () => {
  const editor = await proven();
  for (const [text, patience, then] of [
    ["first", 2_500, "pending"],
    ["second", 1_000, "pending"],
    ["third", 600, "uncovered"],
    ["fourth", 600, "uncovered"],
  ] as const) {
    const since = await editor.baseline();
    editor.change(FILE, text);
    const asked = editor.ask(text, since);
    await editor.clock.pass(patience - 1);
    assert.equal(asked.done, false, text);
    await editor.clock.pass(1);
    assert.equal(await asked.words(), then, text);
  }
  assert.equal(await editor.ask("fourth", null).words(), "uncovered");
});

test("that nobody answers about a text that became another one meanwhile is not the extension's silence", async () => {
  const editor = await proven();
  for (let n = 0; n < 3; n++) {
    const since = await editor.baseline();
    editor.change(FILE, `gone ${n}`);
    const gone = editor.ask(`gone ${n}`, since);
    await editor.clock.pass(50);
    editor.change(FILE, `new ${n}`);
    const asked = editor.ask(`new ${n}`, since);
    await editor.clock.pass(150);
    editor.say(FILE, "broken");
    await editor.clock.pass(1_500);
    assert.equal(await asked.words(), "fresh broken");
    await editor.clock.pass(1_000);
    assert.equal(await gone.words(), "pending broken");
  }
  assert.equal((await editor.ask("new 2", null).words()).split(" ")[0], "fresh");
  // It is given its whole time as before.
  const since = await editor.baseline();
  editor.change(FILE, "last");
  const last = editor.ask("last", since);
  await editor.clock.pass(1_500);
  assert.equal(last.done, false);
  editor.say(FILE);
  await editor.clock.pass(300);
  assert.equal(await last.words(), "fresh");
});

test("a language that failed has to answer again, and more often each time", async () => {
  const editor = await proven();
  const change = async (text: string, answered: boolean): Promise<string> => {
    const since = await editor.baseline();
    editor.change(FILE, text);
    const asked = editor.ask(text, since);
    await editor.clock.pass(100);
    if (answered) editor.say(FILE, text);
    await editor.clock.pass(5_000);
    await asked.answer;
    return (await editor.ask(text, null).words()).split(" ")[0] ?? "";
  };
  const states: string[] = [];
  for (const [n, answered] of [0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1].entries()) states.push(await change(`text ${n}`, answered === 1));
  // The first answer after silence may be about an older text; it has to settle longer than such a file is worth.
  assert.deepEqual(states.slice(0, 2), ["pending", "uncovered"]);
  const regained = states.indexOf("fresh");
  assert.ok(regained > 2, String(states));
  const lost = states.indexOf("uncovered", regained);
  const again = states.indexOf("fresh", lost);
  assert.ok(again === -1 || again - lost > regained - 1, String(states));
});

test("a language of which nobody said a word is not waited for, unless an extension is for it", async () => {
  const editor = new FakeEditor();
  editor.owned.clear();
  editor.appear(FILE, "old");
  const since = await editor.baseline();
  editor.change(FILE, "new");
  assert.equal(await editor.ask("new", since, { patient: true }).words(), "uncovered");

  const owned = new FakeEditor();
  owned.appear(FILE, "old");
  const asked = owned.ask("old", await owned.baseline());
  await owned.clock.pass(999);
  assert.equal(asked.done, false);
  await owned.clock.pass(1);
  assert.equal(await asked.words(), "uncovered");
});

test("what a spell checker says counts, but it covers no language", async () => {
  const editor = await proven();
  editor.owned.clear();
  assert.equal(await editor.ask("old", null).words(), "uncovered");
  const since = await editor.baseline();
  editor.change(FILE, "nwe");
  const asked = editor.ask("nwe", since);
  await editor.clock.pass(100);
  editor.say(FILE, "misspelled");
  await editor.clock.pass(300);
  assert.equal(await asked.words(), "fresh misspelled");
});

test("a patient question proves a language by a file that nobody has open", async () => {
  const editor = new FakeEditor();
  editor.disk.set(FILE, "text");
  const asked = editor.ask("text", 0, { patient: true, timeoutMs: 5_000 });
  await editor.clock.pass(4_000);
  assert.equal(asked.done, false);
  editor.say(FILE);
  await editor.clock.pass(300);
  assert.equal(await asked.words(), "fresh");
  assert.equal(await editor.ask("text", null).words(), "fresh");
  // Other files of the language are covered too, open or not.
  const [closed] = (await editor.watcher.ask({ files: [{ uri: OTHER, textHash: null }], since: null, settleMs: 1, timeoutMs: 1, patient: false })).files;
  assert.equal(closed?.freshness, "pending");
});

test("a file that cannot be opened holds nobody up", async () => {
  const editor = new FakeEditor();
  const asked = editor.ask("text", await editor.baseline());
  await editor.clock.pass(1);
  assert.equal(await asked.words(), "uncovered");
});

test("an extension that clears its problems before it answers is waited for once its pause is known", async () => {
  const editor = await proven();
  editor.change(FILE, "typed by the person");
  await editor.clock.pass(100);
  editor.say(FILE);
  await editor.clock.pass(800);
  editor.say(FILE, "broken");
  await editor.clock.pass(3_000);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE);
  await editor.clock.pass(800);
  assert.equal(asked.done, false);
  editor.say(FILE, "broken anew");
  await editor.clock.pass(1_000);
  assert.equal(await asked.words(), "fresh broken anew");
});

test("where an extension can be asked, silence is no matter, and what it shows itself is not told twice", async () => {
  const editor = new FakeEditor();
  const replaces = ({ said }: Said): boolean => said.startsWith("shown");
  const answers: (() => void)[] = [];
  editor.pulls.set("bad", (text) => new Promise((resolve) => answers.push(() => resolve({ items: [{ said: `asked of ${text}` }], replaces }))));
  editor.appear(FILE, "old");
  editor.set(FILE, "shown long ago", "of a linter");
  const since = await editor.baseline();
  await editor.clock.pass(1);
  // The question about the old text was put in time, though it is answered later.
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(500);
  assert.equal(asked.done, false);
  for (const answer of answers) answer();
  await editor.clock.pass(300);
  assert.equal(await asked.words(), "fresh asked of new of a linter");
  assert.deepEqual((await asked.answer).files[0]?.before?.map(({ said }) => said), ["asked of old", "of a linter"]);
  assert.equal((await editor.ask("new", null).words()).split(" ")[0], "fresh");
});

test("an extension that refuses because it still loads is asked again, and no more when the text is another one", async () => {
  const editor = new FakeEditor();
  let asked = 0;
  let loads = true;
  editor.pulls.set("bad", (text) => {
    asked += 1;
    return loads ? Promise.reject(new Error("No project.")) : Promise.resolve({ items: [{ said: `asked of ${text}` }], replaces: () => true });
  });
  editor.appear(FILE, "old");
  editor.say(FILE, "shown");
  await editor.clock.pass(3_000);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const answer = editor.ask("new", since);
  await editor.clock.pass(700);
  assert.equal(answer.done, false);
  loads = false;
  await editor.clock.pass(700);
  assert.equal(await answer.words(), "fresh asked of new");
  loads = true;
  editor.change(FILE, "newer");
  const given = editor.ask("newer", await editor.baseline());
  await editor.clock.pass(400);
  editor.change(FILE, "newest");
  const before = asked;
  await editor.clock.pass(20_000);
  assert.ok(given.done);
  assert.equal(asked, before);
});

test("other files whose problems changed are told of, not those that changed themselves or were just opened", async () => {
  const editor = await proven();
  const [moved, opened, same] = ["file:///w/c.bad", "file:///w/d.bad", "file:///w/e.bad"];
  editor.appear(moved, "x");
  editor.set(OTHER, "old");
  editor.set(same, "as ever");
  await editor.clock.pass(1_000);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE);
  editor.say(OTHER, "old", "newly broken");
  editor.change(moved, "y");
  editor.say(moved, "of its own");
  editor.appear(opened, "z");
  editor.say(opened, "known for long");
  editor.watcher.reported([same]);
  await editor.clock.pass(2_000);
  const { others } = await asked.answer;
  assert.deepEqual(
    others.map(({ uri, diagnostics, before }) => [uri, diagnostics.length, before?.length]),
    [[OTHER, 2, 1]],
  );
});

test("no more than twenty other files are told of", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(100);
  editor.say(FILE);
  for (let n = 0; n < 100; n++) editor.say(`file:///w/other${n}.bad`, "broken");
  await editor.clock.pass(2_000);
  assert.equal((await asked.answer).others.length, 20);
});

test("a deletion is waited for until it is quiet", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  const asked = editor.ask(null, since, { files: [] });
  await editor.clock.pass(100);
  editor.say(OTHER, "cannot find a.bad");
  await editor.clock.pass(400);
  assert.deepEqual((await asked.answer).others.map(({ uri }) => uri), [OTHER]);
});

test("a window that closes leaves nobody waiting and no timer", async () => {
  const editor = await proven();
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(10);
  editor.watcher.dispose();
  assert.equal(await asked.words(), "pending");
  assert.equal(editor.clock.waiting, 0);
  assert.equal(await editor.ask("newer", since).words(), "pending");
});

test("a baseline is told at once", async () => {
  const editor = await proven();
  assert.equal(await editor.ask("old", null).words(), "fresh");
  assert.equal(await editor.ask("another text", null).words(), "pending");
  editor.change(FILE, "new");
  assert.equal(await editor.ask("new", null).words(), "pending");
});

test("of a text that nobody had looked at it is said so, which is not the same as that it had no problems", async () => {
  const editor = await proven();
  editor.appear(OTHER, "old");
  const [file] = await Promise.all([editor.baseline()]);
  editor.change(OTHER, "new");
  const asked = editor.watcher.ask({ files: [{ uri: OTHER, textHash: null }], since: file, settleMs: 300, timeoutMs: 2_500, patient: false });
  await editor.clock.pass(100);
  editor.say(OTHER, "perhaps old");
  await editor.clock.pass(2_500);
  assert.equal((await asked).files[0]?.before, null);
});

test("what is said of a file written before it was opened is new", async () => {
  const editor = await proven();
  let open: () => void = () => undefined;
  const answers = async (text: string): Promise<Pulled<Said>> => ({ items: [{ said: `about ${text}` }], replaces: () => true });
  editor.pulls.set("bad", answers);
  editor.open = async (uri) => {
    await new Promise<void>((resolve) => (open = resolve));
    editor.appear(uri, "new");
  };
  const baseline = editor.watcher.ask({ files: [{ uri: OTHER, textHash: hashOf("old") }], since: null, settleMs: 300, timeoutMs: 2_500, patient: false });
  const since = (await baseline).generation;
  // The daemon writes the file while VS Code opens it.
  open();
  await editor.clock.pass(100);
  const asked = editor.watcher.ask({ files: [{ uri: OTHER, textHash: hashOf("new") }], since, settleMs: 300, timeoutMs: 2_500, patient: false });
  await editor.clock.pass(2_500);
  const { files } = await asked;
  assert.deepEqual(files.map(({ diagnostics, before }) => [diagnostics.map(({ said }) => said), before]), [[["about new"], null]]);
});

test("the first change of a file that was open before is answered in time, though nobody had been seen to look", async () => {
  const editor = new FakeEditor();
  editor.texts.set(FILE, "old");
  editor.watcher.opened(FILE, "bad", true);
  const since = await editor.baseline();
  editor.change(FILE, "new");
  const asked = editor.ask("new", since);
  await editor.clock.pass(900);
  editor.say(FILE, "broken");
  await editor.clock.pass(300);
  assert.equal(await asked.words(), "fresh broken");
});
