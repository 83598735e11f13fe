import { merged } from "../meter/model";
import type { Update } from "../session/state";

/** Append an update to `updates`. Consecutive deltas of the same part are joined, and so are consecutive meter updates. */
export function add(updates: Update[], update: Update): void {
  const last = updates.at(-1);
  if (last && "delta" in last && "delta" in update) {
    const [a, b] = [last.delta, update.delta];
    if (a.kind === b.kind && a.messageId === b.messageId && a.index === b.index && a.toolCallId === b.toolCallId) {
      updates[updates.length - 1] = { delta: { ...b, name: b.name ?? a.name, text: a.text + b.text } };
      return;
    }
  }
  if (last && "meter" in last && "meter" in update) {
    updates[updates.length - 1] = { meter: merged(last.meter, update.meter) };
    return;
  }
  updates.push(update);
}
