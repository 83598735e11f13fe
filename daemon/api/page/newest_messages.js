// Fetches the newest messages back to those already known, because more may have arrived than one answer holds. Pure.

/** @import { Message } from "./shapes.js" */

/** Pages to search for the known messages. Anything older is fetched when the user asks for it. */
const PAGES = 10;

/**
 * @param {(before: number | undefined) => Promise<{ messages: Message[], hasEarlier: boolean }>} ask for a page
 * @param {number | null} back sequence of the known messages that the answers must reach; null: nothing is known
 * @returns {Promise<{ messages: Message[], hasEarlier: boolean, joined: boolean }>} oldest first; `joined`: they reach
 *   back to the known messages, or nothing was known. Otherwise there is a gap, and the known messages must be dropped.
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
 * Finds the index for a message. Messages of branches that work in parallel arrive in any order.
 * @param {readonly Message[]} sorted by sequence
 * @param {Message} message
 * @returns {number} index behind all messages of the same sequence
 */
export function placeOf(sorted, message) {
  let at = sorted.length;
  while (at > 0 && /** @type {Message} */ (sorted[at - 1]).sequence > message.sequence) at--;
  return at;
}
