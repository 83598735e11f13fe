// A plan: how events change it, its children, and its displayed numbers. Forged or damaged plans are read without loops.
// All functions return new values.

import { camelKeys } from "./keys.js";

/** @import { AffectedGoal, Goal, GoalTree, GoalStats } from "./shapes.js" */

/** @type {GoalStats} */
export const NO_STATS = Object.freeze({ messageCount: 0, totalTokens: 0, totalCost: 0, unpricedTokens: 0, durationMs: 0, preview: null });

/**
 * Returns the plan after an event; the same object when the event is not about goals. Missing fields change nothing.
 * @template {GoalTree} T
 * @param {T} tree
 * @param {{ event: string } & Record<string, any>} event
 * @returns {T}
 */
export function applyToGoals(tree, event) {
  const { goal, goalId, currentId = tree.currentId } = event;
  switch (event.event) {
    case "goal_added":
      return goal?.id ? { ...tree, goals: placed(tree.goals.filter((one) => one.id !== goal.id), goal, event.index) } : tree;
    case "goal_updated": {
      const updates = camelKeys(event.updates ?? {});
      const goals = tree.goals.map((one) => (one.id === goalId ? { ...one, ...updates, id: one.id, parentId: one.parentId } : one));
      return { ...tree, goals: affected(goals, event.affectedGoals), currentId };
    }
    case "goal_moved": {
      const parentId = event.parentId ?? null;
      const moved = tree.goals.find((one) => one.id === goalId);
      const others = tree.goals.filter((one) => one !== moved);
      // Insert before the given sibling, or last. Sub-goals follow through their own `parentId`.
      const before = others.findIndex((one) => one.id === event.beforeId && (one.parentId ?? null) === parentId);
      return moved ? { ...tree, goals: affected(placed(others, { ...moved, parentId }, before), event.affectedGoals) } : tree;
    }
    case "goal_removed":
      return { ...tree, goals: tree.goals.filter((one) => one.id !== goalId), currentId: event.currentId ?? null };
    case "message_added":
      return event.affectedGoals?.length ? { ...tree, goals: affected(tree.goals, event.affectedGoals) } : tree;
    case "session_updated":
      return typeof event.updates?.mission === "string" ? { ...tree, mission: event.updates.mission } : tree;
    default:
      return tree;
  }
}

/**
 * @param {Goal[]} goals
 * @param {Goal} goal
 * @param {unknown} index position in the flat list; last without one
 */
function placed(goals, goal, index) {
  goals.splice(typeof index === "number" && index >= 0 ? index : goals.length, 0, goal);
  return goals;
}

/**
 * @param {Goal[]} goals
 * @param {readonly AffectedGoal[] | undefined} changes
 * @returns {Goal[]}
 */
function affected(goals, changes) {
  if (!changes?.length) return goals;
  const byId = new Map(changes.map((change) => [change.goalId, change]));
  return goals.map((goal) => {
    const change = byId.get(goal.id);
    if (!change) return goal;
    const { goalId: _, ...fields } = change;
    return { ...goal, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) };
  });
}

/**
 * Indexes goals by id and by parent, in order. A goal whose parent is missing, or is its own descendant, becomes a top-level goal.
 * @template {Goal} G
 * @param {{ goals: readonly G[] } | undefined} tree
 * @returns {{ byId: Map<string, G>, children: Map<string | null, G[]> }}
 */
export function indexOf(tree) {
  /** @type {Map<string, G>} */
  const byId = new Map();
  for (const goal of tree?.goals ?? []) if (!byId.has(goal.id)) byId.set(goal.id, goal);
  const sound = soundParents(byId);
  return { byId, children: grouped(byId.values(), (goal) => (sound.has(goal.id) ? (goal.parentId ?? null) : null)) };
}

/**
 * Groups values by a key, in order.
 * @template K, V
 * @param {Iterable<V>} values
 * @param {(value: V) => K} keyOf
 * @returns {Map<K, V[]>}
 */
export function grouped(values, keyOf) {
  /** @type {Map<K, V[]>} */
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}

/**
 * Finds the goals whose chain of parents ends at the top; in a cycle, the first goal met becomes a top-level one.
 * @param {Map<string, Goal>} byId
 * @returns {Set<string>} ids of goals whose `parentId` is safe to follow
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
      goal = byId.get(goal.parentId ?? "");
    }
    // A chain that returns to itself is a cycle, which is cut at the goal met twice.
    const cut = goal && onWay.has(goal.id) ? goal.id : null;
    for (const id of way) {
      known.add(id);
      const parent = byId.get(id)?.parentId;
      if (id !== cut && parent != null && byId.has(parent)) sound.add(id);
    }
  }
  return sound;
}

/**
 * Returns the display numbers of a plan by goal id; abandoned goals and their sub-goals have none.
 * @param {GoalTree | undefined} tree
 * @returns {ReadonlyMap<string, string>}
 */
export const numbersOf = (tree) => new Map(Object.entries(tree?.numbers ?? {}));

/**
 * Returns a plan with its display numbers, `1`, `2.1`, …, which only the daemon computes.
 * @template {GoalTree} T
 * @param {T} tree
 * @param {Readonly<Record<string, string | null>> | null | undefined} numbers new ones by goal id; null: the goal has none any more
 * @returns {T}
 */
export function numbered(tree, numbers) {
  if (!numbers) return tree;
  const known = Object.entries({ ...tree.numbers, ...numbers }).filter(([, number]) => number !== null);
  return { ...tree, numbers: Object.fromEntries(known) };
}
