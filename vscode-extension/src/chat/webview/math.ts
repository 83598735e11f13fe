/**
 * Math in answers: inline `$…$` and `\(…\)`, block `$$…$$` and `\[…\]`. The library that creates MathML is a separate
 * script, loaded with the first formula. Until then, and for invalid formulas, the source is shown.
 */
import type { MarkdownIt as Markdown, StateBlock } from "markdown-it";

type Render = (source: string, display: boolean) => string;

declare global {
  /** Set by `mathml.ts`. */
  var goalwrightMath: Render | undefined;
}

/** The page's script element, which has the URL of `mathml.js` and the nonce that the content security policy requires. */
const page = typeof document === "undefined" ? null : (document.currentScript as HTMLScriptElement | null);
/** Longest inline formula in characters: how far to search for the end after each opening sign. */
const LONGEST = 2_000;
const waiting = new Set<() => void>();
let asked = false;

/** Call `then` when math can be rendered; returns a function that cancels this. */
export function whenMath(then: () => void): () => void {
  waiting.add(then);
  return () => waiting.delete(then);
}

function load(): void {
  if (asked || !page) return;
  asked = true;
  const script = document.createElement("script");
  script.nonce = page.nonce;
  script.src = page.dataset["math"] ?? "";
  script.onload = () => {
    for (const then of waiting) then();
  };
  document.head.append(script);
}

/** Add the four ways to write a formula to Markdown. */
export function withMath(md: Markdown): void {
  const escape = md.utils.escapeHtml;
  md.inline.ruler.before("escape", "math", (state, silent) => {
    const found = inlineMath(state.src.slice(state.pos, Math.min(state.posMax, state.pos + LONGEST)), state.src[state.pos - 1] ?? "");
    if (!found) return false;
    if (!silent) Object.assign(state.push("math", "", 0), { content: found.source, hidden: false, info: found.display ? "display" : "", markup: found.whole });
    state.pos += found.whole.length;
    return true;
  });
  md.block.ruler.before("fence", "math_block", blockMath);
  md.renderer.rules["math"] = (tokens, index) => {
    const token = tokens[index];
    const drawn = token && draw(token.content, token.info === "display");
    if (!token || !drawn) return `<code>${escape(token?.markup ?? "")}</code>`;
    return token.info === "display" ? `<div class="math" tabindex="0">${drawn}</div>` : drawn;
  };
}

/** Read a formula that has whole lines of its own. */
function blockMath(state: StateBlock, from: number, to: number, silent: boolean): boolean {
  const line = (index: number): string => state.src.slice((state.bMarks[index] ?? 0) + (state.tShift[index] ?? 0), state.eMarks[index]);
  const open = /^(\$\$|\\\[)/.exec(line(from))?.[1];
  if (!open) return false;
  const close = open === "$$" ? /\$\$\s*$/ : /\\\]\s*$/;
  for (let last = from; last < to; last++) {
    // The enclosing list item or quotation ends here.
    if (last > from && !state.isEmpty(last) && (state.sCount[last] ?? 0) < state.blkIndent) return false;
    const text = last === from ? line(from).slice(2) : line(last);
    if (!close.test(text) || (last === from && text.trim() === "$$")) continue;
    if (silent) return true;
    const lines = Array.from({ length: last - from + 1 }, (_, index) => line(from + index));
    const whole = lines.join("\n").trim();
    Object.assign(state.push("math", "", 0), { block: true, content: whole.slice(2, -2).trim(), info: "display", markup: whole });
    state.line = last + 1;
    return true;
  }
  return false;
}

/**
 * Return the formula at the beginning of `text`, also as a `whole` with its delimiters. Amounts of money and shell
 * variables are not formulas: `$5 and $6`, `$HOME/$USER`.
 */
export function inlineMath(text: string, before: string) {
  const made = (match: RegExpExecArray | null, display: boolean) => {
    const source = match?.[1]?.trim();
    return match && source ? { whole: match[0], source, display } : undefined;
  };
  if (text.startsWith("\\(")) return made(/^\\\(((?:[^\\]|\\[^)])+?)\\\)/.exec(text), false);
  if (text.startsWith("\\[")) return made(/^\\\[((?:[^\\]|\\[^\]])+?)\\\]/.exec(text), true);
  if (!text.startsWith("$") || /[\w$\\]/.test(before)) return undefined;
  if (text.startsWith("$$")) return made(/^\$\$((?:[^$\\]|\\.)+?)\$\$/s.exec(text), true);
  return made(/^\$((?!\s)(?:[^$\\\n]|\\.)*(?<!\s))\$(?![\w$])/.exec(text), false);
}

/** Return MathML without style attributes, which the page's policy forbids; `styled` sets them. Empty until the library is loaded. */
function draw(source: string, display: boolean): string {
  const render = globalThis.goalwrightMath;
  if (!render) {
    load();
    return "";
  }
  try {
    return render(source, display).replace(/ style="/g, ' data-style="');
  } catch {
    return ""; // invalid or incomplete formula
  }
}

/** Apply the styles of formula elements. */
export function styled(root: HTMLElement | null): void {
  for (const element of root?.querySelectorAll<MathMLElement>("math [data-style], math[data-style]") ?? []) element.style.cssText = element.dataset["style"] ?? "";
}
