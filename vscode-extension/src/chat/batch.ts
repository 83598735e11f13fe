import { merged } from "../meter/model";
import type { Update } from "../session/state";

/** Appends an update. A delta joins the one before it when both make the same part grow, the meter the meter before it. Pure but for `updates`. */
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
