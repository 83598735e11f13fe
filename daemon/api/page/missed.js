// The newest messages, back to those that are known: what came at once may be more than one answer has. Pure.

/** @import { Message } from "./shapes.js" */

/** Further back nobody looks for what was known: it is asked for when somebody wants it. */
const PAGES = 10;

/**
 * @param {(before: number | undefined) => Promise<{ messages: Message[], hasEarlier: boolean }>} ask for a page
 * @param {number | null} back sequence to which what is known must be reached; null: nothing is known
 * @returns {Promise<{ messages: Message[], hasEarlier: boolean, joined: boolean }>} oldest first; `joined`: they reach
 *   back to what is known, or nothing was known. Otherwise there is a gap, and what is known must go.
 */
export async function newest(ask, back) {
  /** @type {Message[]} */
  let messages = [];
  /** @type {number | undefined} */
  let before;
  for (let page = 1; ; page++) {
    const { messages: older, hasEarlier } = await ask(before);
    messages = [...older, ...messages];
    const next = older[0]?.sequence;
    const joined = back === null || !hasEarlier || next === undefined || next <= back;
    if (joined || page === PAGES) return { messages, hasEarlier, joined };
    before = next;
  }
}

/**
 * Where a message goes among others. Those of branches that work side by side come in any order.
 * @param {readonly Message[]} sorted by sequence
 * @param {Message} message
 * @returns {number} behind all of the same sequence
 */
export function placeOf(sorted, message) {
  let at = sorted.length;
  while (at > 0 && /** @type {Message} */ (sorted[at - 1]).sequence > message.sequence) at--;
  return at;
}
