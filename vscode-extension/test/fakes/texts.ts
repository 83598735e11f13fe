/** Texts in the sources of the extension and the web page: what is given to `t`, and what looks as if it should be. */
import { readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { transformSync } from "esbuild";

export interface Text {
  file: string;
  /** Of a template, with `{0}`, `{1}` … for what is filled in. */
  text: string;
  /** The code before it, on one line. */
  before: string;
}

export interface Found {
  /** What is translated. */
  messages: Text[];
  /** All other strings. */
  others: Text[];
  /** Calls whose text is no literal. */
  unread: string[];
}

export function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map((name) => path.join(folder, String(name)))
    .filter((name) => /\.(?:tsx?|js)$/.test(name) && !/\.d\.ts$|\.gen\.ts$|[\\/]dagre\.js$/.test(name))
    .sort();
}

/** Compiled to plain JavaScript first: what stands between tags is a string then, and types and comments are gone. */
export function textsOf(file: string): Found {
  const loader = file.endsWith(".tsx") ? "tsx" : "ts";
  const { code } = transformSync(readFileSync(file, "utf8"), { loader, jsx: "automatic", jsxImportSource: "preact", charset: "utf8" });
  const found: Found = { messages: [], others: [], unread: [] };
  let many = false;
  for (const [at, raw] of strings(code)) {
    const before = code.slice(Math.max(0, at - 160), at).replace(/\s+/g, " ");
    const text: Text = { file: path.basename(file), text: raw, before };
    const one = /\bplural\((?:[^"`;()]|\([^"`;()]*\))*, ?$/.test(before);
    (one || many || /\bt\( ?$/.test(before) ? found.messages : found.others).push(text);
    many = one;
  }
  for (const [call] of code.matchAll(/(?<!function )\bt\((?!\s*")[^\n]{0,40}/g)) found.unread.push(`${path.basename(file)}: ${call}`);
  return found;
}

/** The strings and templates of plain JavaScript, with their places. */
function* strings(code: string): Generator<[number, string]> {
  const token = /\/\/[^\n]*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`|(?<=(?:^|[=(,:[!&|?{};]|return|=>)\s*)\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g;
  for (let match = token.exec(code); match; match = token.exec(code)) {
    const [found] = match;
    if (found === "`") {
      const { text, end, inner } = template(code, match.index + 1);
      yield [match.index, text];
      for (const [at, part] of inner) for (const [offset, within] of strings(part)) yield [at + offset, within];
      token.lastIndex = end;
    } else if (/^["']/.test(found)) yield [match.index, String(new Function(`return ${found}`)())];
  }
}

/** Where the `}` of a `${…}` ends. */
function endOfPlace(code: string, from: number): number {
  let at = from;
  for (let depth = 1; depth > 0; at++) {
    if (code[at] === "{") depth++;
    else if (code[at] === "}") depth--;
    else if (code[at] === "`") at = template(code, at + 1).end - 1;
    else if (code[at] === '"') at += (/^"(?:[^"\\]|\\.)*"/.exec(code.slice(at))?.[0].length ?? 1) - 1;
  }
  return at;
}

function template(code: string, start: number): { text: string; end: number; inner: [number, string][] } {
  const inner: [number, string][] = [];
  let text = "";
  let at = start;
  while (code[at] !== "`") {
    if (code[at] === "\\") {
      text += code.slice(at, at + 2);
      at += 2;
    } else if (code.startsWith("${", at)) {
      const from = at + 2;
      at = endOfPlace(code, from);
      text += `{${inner.length}}`;
      inner.push([from, code.slice(from, at - 1)]);
    } else text += code[at++];
  }
  return { text, end: at + 1, inner };
}
