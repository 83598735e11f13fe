import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inScript, translations } from "../src/chat/html";
import { plural, setCatalogue, t } from "../src/l10n";
import { catalogue, language } from "../src/language";
import { sources, textsOf, type Found, type Text } from "./fakes/texts";

type Catalogue = Record<string, string>;

const PAGE = "../daemon/api/page";
const read = (file: string): Catalogue => JSON.parse(readFileSync(file, "utf8")) as Catalogue;
const manifest = readFileSync("package.json", "utf8");
const english = read("package.nls.json");
const chinese = read("package.nls.zh-cn.json");
const ofExtension = read("l10n/bundle.l10n.zh-cn.json");
const ofPage = read(`${PAGE}/zh-cn.json`);

const found = (folder: string): Found => {
  const all = sources(folder).map(textsOf);
  return { messages: all.flatMap((one) => one.messages), others: all.flatMap((one) => one.others), unread: all.flatMap((one) => one.unread) };
};
const extension = found("src");
const page = found(PAGE);

const placeholders = (text: string): string[] => [...new Set(text.match(/\{\d+\}/g))].sort();

/** Texts of `index.html`, but for what is said without JavaScript. */
function markup(): string[] {
  const html = readFileSync(`${PAGE}/index.html`, "utf8").replace(/<(noscript|script)\b.*?<\/\1>/gs, "");
  const attributes = [...html.matchAll(/(?:title|placeholder|aria-label)="([^"]+)"/g)].map(([, text]) => text ?? "");
  const texts = [...html.matchAll(/>([^<>]+)</g)].map(([, text]) => text?.trim() ?? "");
  return [...attributes, ...texts].filter((text) => /[A-Za-z]/.test(text) && text !== "Goalwright");
}

/** `others`: what another catalogue translates. */
function complete(catalogue: Catalogue, texts: Iterable<string>, others: Catalogue = {}): void {
  const used = new Set(texts);
  assert.deepEqual([...used].filter((text) => !Object.hasOwn(catalogue, text) && !Object.hasOwn(others, text)), [], "without a translation");
  assert.deepEqual(Object.keys(catalogue).filter((text) => !used.has(text)), [], "not used");
  for (const [text, translated] of Object.entries(catalogue)) {
    // The singular may leave out its number.
    assert.deepEqual(placeholders(translated), placeholders(text).length === 0 && translated.includes("{0}") ? ["{0}"] : placeholders(text), text);
    assert.notEqual(translated, "", text);
  }
}

test("all texts of the extension have a Chinese translation with the same placeholders, and none is left over", () => {
  complete(ofExtension, extension.messages.map(({ text }) => text), ofPage);
});

test("all texts of the web page have a Chinese translation with the same placeholders, and none is left over", () => {
  complete(ofPage, [...page.messages.map(({ text }) => text), ...markup()]);
});

test("what both say is translated once, by the page, whose translations the extension has, too", () => {
  assert.deepEqual(Object.keys(ofPage).filter((text) => Object.hasOwn(ofExtension, text)), []);
  assert.ok(extension.messages.filter(({ text }) => Object.hasOwn(ofPage, text)).length > 20);
});

test("texts are literals, so that the two tests above see them all", () => {
  assert.deepEqual([...extension.unread, ...page.unread].filter((call) => !call.startsWith("l10n.js") && !/^start\.js: t\((text|child)/.test(call)), []);
});

test("translations read as Chinese", () => {
  // Names of programs, files and keys.
  const names = /Goalwright|Python|VS Code|TypeScript|JavaScript|Debian|Ubuntu|PATH|API|DEMO|MB|Enter|Alt|Ctrl|Shift|Esc|Token|token|goalwright\S*|sudo apt install|config\.json|provider\/model|null|VS Code|Anthropic|OpenAI|Gemini|OpenRouter|Ollama|LM Studio|SVG|MCP|mcp_servers/g;
  for (const [text, translated] of Object.entries({ ...ofPage, ...ofExtension })) {
    const rest = translated.replace(/`[^`]*`|\{\d+\}/g, "").replace(names, "");
    assert.doesNotMatch(rest, /[A-Za-z]{3,}/, text);
  }
});

/** What the user never sees: names of classes, icons, keys and commands, the log, HTML and the policy of a page. */
const HIDDEN = new RegExp(
  [
    /(?:class(?:Name)?|type|role|icon|kind|name|style\.transform)["']?(?: ?[:=] ?|: \w+[^,]*\? |: [^,]*: )$/,
    /(?:[!=]==|case) $/,
    /(?:log|output)\.(?:info|warn|error|debug)\($|console\.error\($|\blog\($|\bstop\($/,
    /(?:startsWith|endsWith|includes|authorization:|createOutputChannel|LanguageClient)[( ]*$|LanguageClient\( "goalwright", $/,
  ]
    .map(({ source }) => source)
    .join("|"),
);
/** Not for the user's eyes either, in places where the text does not show it: file and text. */
const EXEMPT = new Set([
  "dom.js: #{0} is missing in index.html", "page.js: {0} – Goalwright", "picture.js: system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif", "item.ts: $({0}) Goalwright",
  "editor_state.ts: Shift+Alt+Y", "editor_state.ts: Shift+Alt+N", "tool.tsx: waiting for approval", "tools.ts: waiting for approval",
  "completion.ts: @goal", "completion.ts: @session", "agents.ts: execute", "agents.ts: init", "message.tsx: Goalwright", "plan.ts: <planning>\n", "install.ts: Scripts",
  // For the model.
  "language_model_wire.ts: [An image was left out: this model takes no images.]",
  // Scripts and arguments of programs.
  "attention.ts: Goalwright", "attention.ts: on run argv", "attention.ts: end run", 'attention.ts: display notification (item 1 of argv) with title "Goalwright"',
  // Texts of the daemon to which the model's answers are matched.
  "python.ts: Python {0} at {1}",
]);
const SHOWN = /(?:title|placeholder|placeHolder|"aria-label"|label|children|detail|description|tooltip|prompt|hover|message|textContent)["']?: $|(?:textContent =|\btext:|show\w+Message\(|\bnotify\("\w+",|setStatusBarMessage\(|Error\(|\bh\("\w+", \{[^{}]*\},) ?$/;

function looksShown({ file, text, before }: Text): boolean {
  const words = text.replace(/\{\d+\}/g, " ");
  if (HIDDEN.test(before) || EXEMPT.has(`${file}: ${text}`) || /^\s*(?:[<\n]|translate\(|[a-z]+-src |base-uri|H\{0\}|url\()/.test(text)) return false;
  if (SHOWN.test(before)) return /[A-Za-z]{2}/.test(words.replace(/^Goalwright: +$|\$\([\w~-]+\)/, ""));
  // Two words, one beside a value, or one that begins like a sentence.
  if (/(?:^|\s)[A-Za-z]{2,}[:,]? \{\d|\{\d+\} [A-Za-z]{2,}/.test(text)) return true;
  return /[A-Za-z’']{2,}[,.:;…]? [a-z]{2,}/.test(words) ? !/^[a-z-]*-[a-z -]*$/.test(text.trim()) : /^[A-Z][a-z]+(?:[….:]| |$)/.test(words);
}

test("no text that a user reads stands outside of the translation", () => {
  const left = [...extension.others, ...page.others].filter(looksShown).map(({ file, text, before }) => `${file}: ${text} | ${before.slice(-40)}`);
  assert.deepEqual(left, []);
});

test("the manifest's texts are all in both languages", () => {
  const used = [...manifest.matchAll(/"%([^%"]+)%"/g)].map(([, key]) => key ?? "");
  for (const catalogue of [english, chinese]) assert.deepEqual(Object.keys(catalogue).sort(), [...new Set(used)].sort());
  const visible = /"(title|description|markdownDescription|name|contextualTitle|contents)": "(?!%)([^"]+)"/g;
  assert.deepEqual([...manifest.matchAll(visible)].map(([, , text]) => text).filter((text) => !/^Goalwright$|^goalwright$/.test(text ?? "")), []);
  for (const [key, text] of Object.entries(english)) {
    // Links and code stay as they are.
    assert.deepEqual(chinese[key]?.match(/command:[\w.]+|`[^`]+`/g) ?? [], text.match(/command:[\w.]+|`[^`]+`/g) ?? [], key);
  }
});

test("a text is translated with its values, and stays English without a translation", () => {
  assert.equal(t("Goal {0}, unchanged", 3), "Goal 3, unchanged");
  setCatalogue({ "Goal {0}, unchanged": "目标 {0}，保持不变", "{0} file": "{0} 个文件", "{0} files": "{0} 个文件" });
  try {
    assert.equal(t("Goal {0}, unchanged", "{0}"), "目标 {0}，保持不变");
    assert.equal(plural(1, "{0} file", "{0} files"), "1 个文件");
    assert.equal(plural(2, "{0} file", "{0} files", "2k"), "2k 个文件");
    assert.equal(t("constructor"), "constructor");
  } finally {
    setCatalogue({});
  }
  assert.equal(plural(1, "{0} file", "{0} files"), "1 file");
});

test("a page in English carries no catalogue, and a translation cannot end its block", () => {
  assert.deepEqual([language(), catalogue], ["en", {}]);
  assert.equal(translations({}), "");
  const block = translations({ a: "</script><script>alert(1)</script>" });
  assert.equal(block.match(/<\/?script/g)?.length, 2);
  const texts: unknown = JSON.parse(block.replace(/^<[^>]*>|<\/script>$/g, ""));
  assert.deepEqual(texts, { a: "</script><script>alert(1)</script>" });
});

test("a script that speaks of comments of HTML ends where its element ends", () => {
  assert.equal(inScript("const comment = /<!--.*-->/, text = '<!--';"), "const comment = /\\x3C!--.*-->/, text = '\\x3C!--';");
});
