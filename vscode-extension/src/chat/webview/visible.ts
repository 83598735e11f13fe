/** Text with invisible characters made visible, for whatever the user approves. Pure. */

/**
 * Characters that a browser does not draw or that reorder the line: controls except tab and newline, format characters
 * (text direction, zero width, tags), lone surrogates, separators, Unicode's default ignorables, and the empty Braille
 * cell.
 */
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800]/gu;

/** Replace invisible characters by visible symbols; newlines and tabs stay. The terminal client uses the same symbols. */
export function visible(text: string): string {
  return text.replace(UNSEEN, shape);
}

/** Like `visible`, but on one line, for names, titles and patterns. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "␊").replaceAll("\t", "␉");
}

/** Return a line of Markdown without its markup, for previews. */
export function bareLine(line: string): string {
  return visibleLine(line.trim().replace(/^(?:#+|[-*>])\s+|`+|\*\*/g, "").replace(/\*(\S(?:[^*]*\S)?)\*/g, "$1"));
}

function shape(letter: string): string {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code); // Unicode's symbols for control characters: ␛, ␇, ␍
  if (code === 0x7f) return "␡";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
