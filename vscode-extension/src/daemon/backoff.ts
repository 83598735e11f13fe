/** Number of attempts before the user has to reconnect. */
export const MAX_ATTEMPTS = 8;

/** Return the milliseconds to wait before attempt `n` (the first is 0): doubling from 250 ms up to 15 s. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  if (attempt === 0) return 0;
  const base = Math.min(15_000, 250 * 2 ** (attempt - 1));
  // Jitter keeps two windows that lost the same daemon from reconnecting in step.
  return Math.round(base * (0.8 + 0.4 * random()));
}
