/** Text as it really is, for what a person approves. Pure. */

/**
 * What a browser draws as nothing or lets reorder the line: controls but tab and newline, formats (direction of writing,
 * zero width, tags), lone surrogates, separators, Unicode's default ignorables, and the empty Braille cell.
 */
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800]/gu;

/** `text` with a shape for every character that has none; newlines and tabs stay. The terminal client shows the same. */
export function visible(text: string): string {
  return text.replace(UNSEEN, shape);
}

/** `visible` on one line, for names, titles and patterns. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "␊").replaceAll("\t", "␉");
}

/** A line of Markdown without its marks, for a glimpse of a text. */
export function bareLine(line: string): string {
  return visibleLine(line.trim().replace(/^(?:#+|[-*>])\s+|`+|\*\*/g, "").replace(/\*(\S(?:[^*]*\S)?)\*/g, "$1"));
}

function shape(letter: string): string {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code); // Unicode's pictures of the controls: ␛, ␇, ␍
  if (code === 0x7f) return "␡";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
