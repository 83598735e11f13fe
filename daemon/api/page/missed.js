// The newest messages, back to those that are known: what came at once may be more than one answer has. Pure.

/** @import { Message } from "./shapes.js" */

/** Further back nobody looks for what was known: it is asked for when somebody wants it. */
const PAGES = 10;

/**
 * @param {(before: number | undefined) => Promise<{ messages: Message[], has_earlier: boolean }>} ask for a page
 * @param {ReadonlyMap<string, unknown>} known by message id
 * @returns {Promise<{ messages: Message[], has_earlier: boolean, joined: boolean }>} oldest first; `joined`: they reach
 *   back to what is known, or nothing was known. Otherwise there is a gap, and what is known must go.
 */
export async function newest(ask, known) {
  /** @type {Message[]} */
  let messages = [];
  /** @type {number | undefined} */
  let before;
  for (let page = 1; ; page++) {
    const { messages: older, has_earlier } = await ask(before);
    messages = [...older, ...messages];
    const joined = known.size === 0 || !has_earlier || older.some((one) => known.has(one.message_id));
    const next = older[0]?.sequence;
    if (joined || page === PAGES || next === undefined) return { messages, has_earlier, joined };
    before = next;
  }
}
