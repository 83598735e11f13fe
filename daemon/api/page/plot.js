// Numbers of sessions as plots: which values they show, and where the bars stand. Pure.

/** @import { Group } from "./shapes.js" */

/** @typedef {{ x: number, y: number, width: number, height: number }} Bar */

const DAY_MS = 86_400_000;
const MOST_DAYS = 400;

/** @param {Group} group */
export const asked = (group) => group.input + group.cacheRead + group.cacheWrite;

/** Share of input tokens that came from the cache; null: there were none. @param {Group} group */
export const cachedShare = (group) => (asked(group) ? group.cacheRead / asked(group) : null);

/** Share of sessions that ended well; null: there were none. @param {Group} group */
export const finishedShare = (group) => (group.sessions ? group.finished / group.sessions : null);

/** @param {string} key @returns {Group} */
const nothing = (key) => ({ key, sessions: 0, finished: 0, calls: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0, unpriced: 0, modelMs: 0 });

/**
 * Orders days, oldest first, with those on which nothing happened.
 * @param {readonly Group[]} groups
 * @param {string} today YYYY-MM-DD, UTC
 * @param {number | null} days number of days up to today; null: from the first one
 */
export function everyDay(groups, today, days) {
  const known = new Map(groups.map((group) => [group.key, group]));
  const end = Date.parse(today);
  const times = groups.map((group) => Date.parse(group.key)).filter((time) => !Number.isNaN(time) && time <= end);
  const first = days === null ? Math.min(end, ...times) : end - (days - 1) * DAY_MS;
  const count = Math.min(MOST_DAYS, Math.round((end - first) / DAY_MS) + 1);
  return Array.from({ length: count }, (_, at) => {
    const key = new Date(end - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10);
    return known.get(key) ?? nothing(key);
  });
}

/**
 * Places bars side by side. One that stands for something is at least a pixel high.
 * @param {readonly (number | null)[]} values null and 0 have no bar
 * @param {{ width: number, height: number, top?: number }} area `top`: the value of the full height; default: the largest
 * @returns {(Bar | null)[]}
 */
export function standing(values, { width, height, top = Math.max(...values.map((value) => value ?? 0)) }) {
  const step = width / Math.max(1, values.length);
  const gap = Math.min(4, step / 4);
  return values.map((value, at) => {
    if (!value || top <= 0) return null;
    const tall = Math.max(1, (Math.min(value, top) / top) * height);
    return { x: at * step + gap / 2, y: height - tall, width: Math.max(0.5, step - gap), height: tall };
  });
}

/**
 * Places bars below each other.
 * @param {readonly (number | null)[]} values
 * @param {{ width: number, row: number, top?: number }} area `row`: height of a row
 * @returns {(Bar | null)[]}
 */
export function lying(values, { width, row, top }) {
  return standing(values, { width: row * values.length, height: width, ...(top === undefined ? {} : { top }) }).map(
    (bar) => bar && { x: 0, y: bar.x, width: bar.height, height: bar.width },
  );
}
