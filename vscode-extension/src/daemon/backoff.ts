/** Attempts after which it is the person's turn. */
export const MAX_ATTEMPTS = 8;

/** Milliseconds to wait before attempt `n` (the first is 0): doubling from a quarter of a second up to 15 s. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  if (attempt === 0) return 0;
  const base = Math.min(15_000, 250 * 2 ** (attempt - 1));
  // Two windows that lost the same daemon should not come back in step.
  return Math.round(base * (0.8 + 0.4 * random()));
}
