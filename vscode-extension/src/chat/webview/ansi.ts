/** Terminal colors and styles as classes of the theme's terminal colors. Pure. */

export interface Span {
  text: string;
  /** Classes, such as `ansi-bold ansi-fg-1`; empty for plain text. */
  style: string;
}

interface Style {
  marks: readonly string[];
  fg: number | undefined;
  bg: number | undefined;
}

const PLAIN: Style = { marks: [], fg: undefined, bg: undefined };
const MARKS: Readonly<Record<number, string>> = { 1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
/** Codes that end styles. */
const ENDS: Readonly<Record<number, readonly string[]>> = { 22: ["bold", "faint"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
// Match every control sequence, complete or cut off at either end; only SGR ("m") changes the style.
// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b(?:\[([0-9;:]*)m|\[[0-?]*[ -/]*[@-~]?|[P\]X^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)/g;

/** Split text into pieces of one style each, without escape sequences. */
export function spans(text: string): Span[] {
  const found: Span[] = [];
  let style = PLAIN;
  let from = 0;
  const add = (piece: string): void => {
    if (piece) found.push({ text: piece, style: classes(style) });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[1] !== undefined) style = styled(style, match[1]);
  }
  add(text.slice(from));
  return found;
}

function styled(before: Style, codes: string): Style {
  let style = before;
  const rest = (codes || "0").split(/[;:]/).map(Number);
  while (rest.length > 0) {
    const code = rest.shift() ?? 0;
    if (code === 0) style = PLAIN;
    else if (MARKS[code]) style = { ...style, marks: [...new Set([...style.marks, MARKS[code]])] };
    else if (ENDS[code]) style = { ...style, marks: style.marks.filter((mark) => !ENDS[code]?.includes(mark)) };
    else style = { ...style, ...colored(code, rest) };
  }
  return style;
}

/** Decode a color code: 30 to 37 and 90 to 97 set the text color, ten more the background. */
function colored(code: number, rest: number[]): Pick<Style, "fg"> | Pick<Style, "bg"> | undefined {
  const behind = (code >= 40 && code <= 49) || (code >= 100 && code <= 107);
  const base = behind ? code - 10 : code;
  const set = (color: number | undefined): Pick<Style, "fg"> | Pick<Style, "bg"> => (behind ? { bg: color } : { fg: color });
  if (base === 39) return set(undefined);
  if (base === 38) return set(extended(rest));
  if (base >= 30 && base <= 37) return set(base - 30);
  return base >= 90 && base <= 97 ? set(base - 82) : undefined;
}

/** Return the theme color nearest to `5;n` or `2;r;g;b`; removes these from `codes`. */
function extended(codes: number[]): number | undefined {
  const kind = codes.shift();
  if (kind === 2) {
    const [red = 0, green = 0, blue = 0] = codes.splice(0, 3);
    return nearest(red, green, blue);
  }
  const index = kind === 5 ? codes.shift() : undefined;
  if (index === undefined || index < 16) return index;
  if (index >= 232) return nearest((index - 232) * 11, (index - 232) * 11, (index - 232) * 11);
  const level = (n: number): number => (n % 6) * 51;
  return nearest(level(Math.floor((index - 16) / 36)), level(Math.floor((index - 16) / 6)), level(index - 16));
}

function nearest(red: number, green: number, blue: number): number {
  const brightest = Math.max(red, green, blue);
  if (brightest < 50) return 0;
  const bit = (value: number): number => (value > brightest * 0.6 ? 1 : 0);
  const color = bit(red) | (bit(green) << 1) | (bit(blue) << 2);
  if (color === 7) return brightest > 200 ? 15 : brightest > 120 ? 7 : 8;
  return color + (brightest > 200 ? 8 : 0);
}

function classes({ marks, fg, bg }: Style): string {
  const inverse = marks.includes("inverse");
  return [
    ...marks.map((mark) => `ansi-${mark}`),
    ...(fg === undefined ? [] : [`ansi-${inverse ? "bg" : "fg"}-${fg}`]),
    ...(bg === undefined ? [] : [`ansi-${inverse ? "fg" : "bg"}-${bg}`]),
  ].join(" ");
}

/** The theme's names of the 16 colors. */
const COLORS = "Black,Red,Green,Yellow,Blue,Magenta,Cyan,White,BrightBlack,BrightRed,BrightGreen,BrightYellow,BrightBlue,BrightMagenta,BrightCyan,BrightWhite".split(",");

/** Return the colors of a style as CSS variables: `--ansi-fg` for `ansi-fg-1`. */
export function variables(style: string): Record<string, string> {
  return Object.fromEntries([...style.matchAll(/(ansi-[fb]g)-(\d+)/g)].map(([, name, number]) => [`--${name}`, `var(--vscode-terminal-ansi${COLORS[Number(number)]})`]));
}
