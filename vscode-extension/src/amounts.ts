/** Formats and parses of tokens, money and times. Pure. */

import { amount as short, money as spent } from "../../daemon/api/page/format.js";
import { plural, t } from "./l10n";

export { amount as short, duration, messagesWord, tokensWord } from "../../daemon/api/page/format.js";

/** Format an amount of money: `$0`, `$0.004`, `$1.23`. With tokens of unknown price (`unpriced`) it is the least that was spent: `≥ $0.12`. */
export function money(dollars: number, unpriced = 0): string {
  return spent(dollars, unpriced) || "$0";
}

/** Format the size of a model's window: `200k window`, `128k window (assumed)` when nobody has told it. */
export function windowWords(tokens: number, assumed: boolean): string {
  return assumed ? t("{0} window (assumed)", short(tokens)) : t("{0} window", short(tokens));
}

/** Format a number of files: `1 file`, `3 files`. */
export function filesWord(count: number): string {
  return plural(count, "{0} file", "{0} files");
}

/** Format a limit in dollars as a user would type it: `$5`, `$0.50`, `$0.005`. */
export function limitOf(dollars: number): string {
  const cents = Math.round(dollars * 100) / 100;
  if (Math.abs(dollars - cents) > 1e-9) return `$${Number(dollars.toFixed(6))}`;
  return `$${Number.isInteger(cents) ? cents : cents.toFixed(2)}`;
}

/** Format a share of 0 … 1 in per cent. Anything below 1 stays below 100 %. */
export function percent(share: number): string {
  const rounded = Math.round(share * 100);
  return `${share < 1 ? Math.min(rounded, 99) : rounded} %`;
}

/** Parse an amount of money that a user typed: `5`, `$2.50`, `0,25 $`. Undefined when it is invalid or not above zero. */
export function readMoney(text: string): number | undefined {
  const match = /^\$?\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*(?:\$|usd|dollars?)?$/i.exec(text.trim());
  const value = Number(match?.[1]?.replace(",", "."));
  return value > 0 && Number.isFinite(value) ? value : undefined;
}

/** Parse a number of tokens that a user typed: `200000`, `200 000`, `200k`, `1.5M`. Undefined when it is invalid. */
export function readTokens(text: string): number | undefined {
  const match = /^([\d\s_'’]*\d(?:[.,]\d+)?)\s*(k|m)?(?:\s*tokens?)?$/i.exec(text.trim());
  if (!match) return undefined;
  const [, digits = "", unit = ""] = match;
  let plain = digits.replace(/[\s_'’]/g, "");
  // A number without a unit has no fraction, so the separator in `200,000` marks thousands.
  plain = unit ? plain.replace(",", ".") : plain.replace(/[.,](?=\d{3}$)/, "");
  const value = Math.round(Number(plain) * ({ k: 1_000, m: 1_000_000 }[unit.toLowerCase()] ?? 1));
  return value > 0 && Number.isSafeInteger(value) ? value : undefined;
}

/** Format a time in the past: `just now`, `5 min ago`, `3 h ago`, `yesterday`, `12 days ago`. `now` in milliseconds. */
export function ago(iso: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (Number.isNaN(minutes)) return "";
  if (minutes < 1) return t("just now");
  if (minutes < 60) return t("{0} min ago", minutes);
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return t("{0} h ago", hours);
  const days = Math.floor(hours / 24);
  return days === 1 ? t("yesterday") : t("{0} days ago", days);
}
