// Reading a plan: children, and the numbers people see. Forged or damaged plans are read too, and never loop.

/** @import { Goal, GoalTree, GoalStats } from "./shapes.js" */

/** @type {GoalStats} */
export const NO_STATS = Object.freeze({ message_count: 0, total_tokens: 0, total_cost: 0, duration_ms: 0, preview: null });

/**
 * The time at work that a message stands for, as the daemon's `daemon/plan/counting.py: worked_ms` has it.
 * @param {{ duration_ms?: number | null, overlap_ms?: number | null } | null | undefined} message
 */
export const workedMs = (message) => Math.max(0, (message?.duration_ms ?? 0) - (message?.overlap_ms ?? 0));

const LONGEST_PREVIEW = 8;
const LONGEST_NAME = 40;
/** What they do is in the plan itself, as `daemon/plan/counting.py: tools_of` has it. */
const TOOLS_OF_THE_PLAN = new Set(["goal", "step", "read_progress"]);

/**
 * The preview after one more message, as the daemon's `daemon/plan/counting.py: extended_preview` has it.
 * @param {string | null} preview
 * @param {{ content?: readonly { type: string, name?: string }[] } | undefined} message
 * @returns {string | null}
 */
export function extendedPreview(preview, message) {
  let segments = preview ? preview.split(" → ") : [];
  for (const part of message?.content ?? []) {
    if (part?.type !== "tool_result" || TOOLS_OF_THE_PLAN.has(part.name ?? "")) continue;
    const words = String(part.name ?? "").replace(/[→×…]/g, "-").split(/\s+/).filter(Boolean).join(" ");
    const wanted = [...words].slice(0, LONGEST_NAME).join("").trim() || "?";
    const [name, count] = (segments.at(-1) ?? "").split(" × ");
    if (segments.length > 0 && name === wanted) segments[segments.length - 1] = `${wanted} × ${(Number(count) || 1) + 1}`;
    else segments.push(wanted);
  }
  if (segments.length > LONGEST_PREVIEW) segments = ["…", ...segments.slice(1 - LONGEST_PREVIEW)];
  return segments.join(" → ") || null;
}

/**
 * Goals by id, and their children in order. A goal whose parent is missing, or is itself below it, counts as the top.
 * @param {GoalTree | undefined} tree
 * @returns {{ byId: Map<string, Goal>, children: Map<string | null, Goal[]> }}
 */
export function indexOf(tree) {
  /** @type {Map<string, Goal>} */
  const byId = new Map();
  for (const goal of tree?.goals ?? []) if (!byId.has(goal.id)) byId.set(goal.id, goal);
  /** @type {Map<string | null, Goal[]>} */
  const children = new Map([[null, []]]);
  const sound = soundParents(byId);
  for (const goal of byId.values()) {
    const parent = sound.has(goal.id) ? (goal.parent_id ?? null) : null;
    const siblings = children.get(parent);
    if (siblings) siblings.push(goal);
    else children.set(parent, [goal]);
  }
  return { byId, children };
}

/**
 * Goals whose chain of parents ends at the top; in a circle, the first goal met is made a top one.
 * @param {Map<string, Goal>} byId
 * @returns {Set<string>} ids whose `parent_id` may be followed
 */
function soundParents(byId) {
  /** @type {Set<string>} */
  const sound = new Set();
  /** @type {Set<string>} */
  const known = new Set();
  for (const first of byId.values()) {
    /** @type {string[]} */
    const way = [];
    const onWay = new Set();
    /** @type {Goal | undefined} */
    let goal = first;
    while (goal && !known.has(goal.id) && !onWay.has(goal.id)) {
      onWay.add(goal.id);
      way.push(goal.id);
      goal = byId.get(goal.parent_id ?? "");
    }
    // The last one met closes a circle when it leads back to the way itself.
    const cut = goal && onWay.has(goal.id) ? goal.id : null;
    for (const id of way) {
      known.add(id);
      const parent = byId.get(id)?.parent_id;
      if (id !== cut && parent != null && byId.has(parent)) sound.add(id);
    }
  }
  return sound;
}

/**
 * Numbers by goal id: `1`, `2.1`, …; abandoned goals and what is below them have none (source: seed 000, "显示序号").
 * @param {ReadonlyMap<string | null, readonly { id: string, status?: string }[]>} children
 * @returns {Map<string, string>}
 */
export function numbersOf(children) {
  /** @type {Map<string, string>} */
  const numbers = new Map();
  /** @type {{ parent: string | null, prefix: string }[]} */
  const todo = [{ parent: null, prefix: "" }];
  for (let one = todo.pop(); one; one = todo.pop()) {
    let next = 1;
    for (const goal of children.get(one.parent) ?? []) {
      if (goal.status === "abandoned") continue;
      const number = `${one.prefix}${next++}`;
      numbers.set(goal.id, number);
      if (children.has(goal.id)) todo.push({ parent: goal.id, prefix: `${number}.` });
    }
  }
  return numbers;
}
