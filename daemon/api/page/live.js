// What is known of a watched trace, and what the frames of the WebSocket change in it (source: seed 000). No I/O.

import { extendedPreview, NO_STATS, workedMs } from "./goals.js";

/** @import { AffectedGoal, Branch, Changed, Frame, Goal, GoalTree, LiveState, Subagent, TraceDetail, TraceMeta } from "./shapes.js" */

/**
 * @param {TraceDetail} detail the answer of `GET /api/traces/{id}`
 * @returns {LiveState}
 */
export function stateOf(detail) {
  const { goal_tree, goal_numbers: _numbers, branches, subagents, ...trace } = detail;
  return {
    trace,
    goal_tree: treeOf(goal_tree),
    branches: { ...branches },
    subagents: byId(subagents),
    spent: {},
    last_event_id: detail.last_event_id ?? 0,
  };
}

/** Whether the agent is at work, or waits for an answer. @param {LiveState} state */
export const isWorking = ({ trace }) => trace.status === "running" || trace.status === "waiting";

/** @returns {Changed} */
const nothing = () => ({ graph: false, shape: false, trace: false, message: null, stale_branch: null });

/**
 * Applies a frame to the state, in place. A stored event that was applied before is not applied again; unknown frames
 * and fields that are missing change nothing.
 * @param {LiveState} state
 * @param {Frame} frame
 * @returns {Changed}
 */
export function applyFrame(state, frame) {
  const changed = nothing();
  if (frame.event === "connected") {
    connected(state, frame, changed);
    return changed;
  }
  if (typeof frame.event_id === "number" && frame.event_id > 0) {
    if (frame.event_id <= state.last_event_id) return changed;
    state.last_event_id = frame.event_id;
  }
  if (frame.trace_id && state.trace.trace_id && frame.trace_id !== state.trace.trace_id) return changed;
  own(CHANGES, frame.event)?.(state, frame, changed);
  return changed;
}

/**
 * @param {LiveState} state
 * @param {Frame} frame
 * @param {Changed} changed
 */
function connected(state, frame, changed) {
  // It tells the plan as it is now, but of the events until then none has come: the next ones count from since_event_id.
  if (frame.goal_tree) state.goal_tree = treeOf(frame.goal_tree);
  if (frame.branches) {
    const before = state.branches;
    state.branches = {};
    for (const [id, branch] of Object.entries(/** @type {Record<string, Branch>} */ (frame.branches))) {
      state.branches[id] = { ...before[id], ...branch };
      if (before[id]?.goal_tree) changed.stale_branch = id;
    }
  }
  state.spent = {};
  if (frame.trace) state.trace = { ...state.trace, ...frame.trace };
  if (frame.subagents) state.subagents = byId(frame.subagents);
  if (typeof frame.current_event_id === "number") state.last_event_id = frame.current_event_id;
  changed.graph = changed.shape = changed.trace = true;
}

/** @typedef {(state: LiveState, frame: Frame, changed: Changed) => void} Change */

/** @type {Record<string, Change>} */
const CHANGES = {
  goal_added(state, { goal, index }, changed) {
    if (goal?.id) addGoal(state.goal_tree, goal, index);
    changed.graph = changed.shape = true;
  },
  goal_updated(state, frame, changed) {
    updateGoal(state.goal_tree, frame);
    changed.graph = changed.shape = true;
  },
  goal_moved(state, { goal_id, parent_id, before_id, affected_goals }, changed) {
    moveGoal(state.goal_tree, goal_id, parent_id ?? null, before_id ?? null);
    affect(state.goal_tree, affected_goals);
    changed.graph = changed.shape = true;
  },
  goal_removed(state, { goal_id, current_id }, changed) {
    state.goal_tree.goals = state.goal_tree.goals.filter((goal) => goal.id !== goal_id);
    state.goal_tree.current_id = current_id ?? null;
    changed.graph = changed.shape = true;
  },
  message_added(state, { message, affected_goals }, changed) {
    state.trace.total_messages += 1;
    spend(state.trace, spentBy(message));
    changed.shape = affect(state.goal_tree, affected_goals);
    changed.graph = (affected_goals?.length ?? 0) > 0;
    changed.trace = true;
    changed.message = { branch_id: message?.branch_id ?? null, goal_id: message?.goal_id ?? null };
  },
  session_updated(state, { updates, usage, cost }, changed) {
    // A small model wrote the title or the summary.
    spend(state.trace, spentBy({ usage, cost }));
    for (const name of /** @type {const} */ (["title", "summary", "model", "agent", "mode"])) {
      if (updates && name in updates) /** @type {any} */ (state.trace)[name] = updates[name];
    }
    if (typeof updates?.mission === "string") {
      state.goal_tree.mission = state.trace.task = updates.mission;
      changed.graph = changed.shape = true;
    }
    changed.trace = true;
  },
  turn_started: (state, _frame, changed) => status(state, "running", changed),
  turn_ended: (state, { stop_reason }, changed) => status(state, endedAs(stop_reason), changed),
  permission_asked: (state, _frame, changed) => status(state, "waiting", changed),
  permission_replied: (state, _frame, changed) => status(state, "running", changed),
  trace_completed(state, frame, changed) {
    status(state, frame.status ?? state.trace.status, changed);
    for (const name of /** @type {const} */ (["total_messages", "total_tokens", "total_cost"])) {
      if (typeof frame[name] === "number") state.trace[name] = frame[name];
    }
  },
  branch_started(state, { branch, explore_start_id }, changed) {
    // From here on all that it takes is known, see branch_completed.
    if (branch?.id) state.spent[branch.id] = { tokens: 0, cost: 0 };
    if (branch?.id) state.branches[branch.id] = { ...branch, explore_start_id: branch.explore_start_id ?? explore_start_id };
    changed.graph = changed.shape = true;
  },
  branch_goal_added(state, { branch_id, goal, index }, changed) {
    const branch = own(state.branches, branch_id);
    if (!branch) return;
    branch.goal_count = (branch.goal_count ?? 0) + 1;
    if (branch.goal_tree && goal?.id) addGoal(branch.goal_tree, goal, index);
    changed.graph = changed.shape = true;
  },
  branch_goal_updated(state, frame, changed) {
    const branch = own(state.branches, frame.branch_id);
    if (branch?.goal_tree) updateGoal(branch.goal_tree, frame);
    changed.graph = changed.shape = Boolean(branch);
  },
  branch_message_added(state, { branch_id, message, affected_goals }, changed) {
    const branch = own(state.branches, branch_id);
    changed.message = { branch_id, goal_id: message?.goal_id ?? null };
    // What branches take is part of what the session takes (source: daemon/state/children.py).
    const spent = spentBy(message);
    spend(state.trace, spent);
    spend(own(state.spent, branch_id), spent);
    changed.trace = true;
    if (!branch) return;
    const before = branch.cumulative_stats ?? NO_STATS;
    branch.last_message = message;
    branch.cumulative_stats = {
      ...before,
      message_count: before.message_count + 1,
      total_tokens: before.total_tokens + spent.tokens,
      total_cost: before.total_cost + (message?.cost ?? 0),
      duration_ms: (before.duration_ms ?? 0) + workedMs(message),
      preview: extendedPreview(before.preview ?? null, message),
    };
    if (branch.goal_tree) affect(branch.goal_tree, affected_goals);
    changed.graph = true;
  },
  branch_completed(state, { branch_id, status: ended, summary, cumulative_stats, last_message, usage, cost }, changed) {
    const counted = own(state.spent, branch_id);
    if (counted && usage) {
      // Its sub-agents' share was not among its messages. Where only a part of those was heard, the turn's end has the sum.
      spend(state.trace, { tokens: Math.max(0, total(usage) - counted.tokens), cost: Math.max(0, (cost ?? 0) - counted.cost) });
      changed.trace = true;
    }
    delete state.spent[branch_id];
    const branch = own(state.branches, branch_id);
    if (!branch) return;
    branch.status = ended ?? "completed";
    branch.summary = summary ?? branch.summary ?? null;
    if (cumulative_stats) branch.cumulative_stats = cumulative_stats;
    if (last_message) branch.last_message = last_message;
    changed.graph = changed.shape = true;
    changed.stale_branch = branch.goal_tree ? branch_id : null;
  },
  explore_completed(state, { explore_merge_id, merge_summary }, changed) {
    const merge = state.goal_tree.goals.find((goal) => goal.id === explore_merge_id);
    if (merge) merge.merge_summary = merge_summary ?? null;
    changed.graph = changed.shape = true;
  },
  branch_removed(state, { branch_id }, changed) {
    const branch = own(state.branches, branch_id);
    if (branch) branch.removed = true;
    changed.graph = changed.shape = Boolean(branch);
  },
  subagent_started: subagent,
  subagent_completed(state, frame, changed) {
    subagent(state, frame, changed);
    const { usage, cost } = frame["subagent"] ?? {};
    spend(state.trace, { tokens: usage ? total(usage) : 0, cost: cost ?? 0 });
  },
};

/** Events that change something here. @type {ReadonlySet<string>} */
export const TOLD = new Set(Object.keys(CHANGES));

/**
 * The status that a turn leaves, as the daemon's `daemon/model/traces.py: trace_status` has it.
 * @param {string} reason why it ended
 * @returns {TraceMeta["status"]}
 */
export function endedAs(reason) {
  if (reason === "end_turn" || reason === "tool_use") return "completed";
  return reason === "canceled" || reason === "permission_denied" ? "canceled" : "failed";
}

/** @type {Change} */
function subagent(state, { subagent: one }, changed) {
  if (one?.id) state.subagents[one.id] = one;
  changed.trace = true;
}

/**
 * @param {LiveState} state
 * @param {TraceMeta["status"]} now
 * @param {Changed} changed
 */
function status(state, now, changed) {
  const before = isWorking(state);
  state.trace.status = now;
  changed.trace = true;
  // The graph marks where the agent is at work.
  if (isWorking(state) !== before) changed.graph = true;
}

/** @typedef {{ input?: number, output?: number, cache_read?: number, cache_write?: number }} Usage */

/** All tokens that went in or came out. @param {Usage} usage */
const total = ({ input = 0, output = 0, cache_read = 0, cache_write = 0 }) => input + output + cache_read + cache_write;

/**
 * What a message took. Its `tokens` are its own size; what was sent along with it counts, too, as in the API's totals.
 * @param {{ usage?: Usage | null, cost?: number | null } | undefined} message
 */
const spentBy = (message) => ({ tokens: message?.usage ? total(message.usage) : 0, cost: message?.cost ?? 0 });

/**
 * @param {TraceMeta | { tokens: number, cost: number } | undefined} on
 * @param {{ tokens: number, cost: number }} spent
 */
function spend(on, { tokens, cost }) {
  if (!on) return;
  if ("trace_id" in on) {
    on.total_tokens += tokens;
    on.total_cost += cost;
  } else {
    on.tokens += tokens;
    on.cost += cost;
  }
}

/**
 * @param {GoalTree} tree
 * @param {Goal} goal
 * @param {number | null | undefined} index place in the flat list
 */
function addGoal(tree, goal, index) {
  const goals = tree.goals.filter((one) => one.id !== goal.id);
  goals.splice(typeof index === "number" && index >= 0 ? index : goals.length, 0, { ...goal });
  tree.goals = goals;
}

/**
 * @param {GoalTree} tree
 * @param {Frame} frame
 */
function updateGoal(tree, { goal_id, updates, affected_goals, current_id }) {
  const goal = tree.goals.find((one) => one.id === goal_id);
  if (goal && updates) Object.assign(goal, updates, { id: goal.id, parent_id: goal.parent_id ?? null });
  affect(tree, affected_goals);
  if (current_id !== undefined) tree.current_id = current_id;
}

/**
 * @param {GoalTree} tree
 * @param {string} goalId
 * @param {string | null} parentId
 * @param {string | null} beforeId
 */
function moveGoal(tree, goalId, parentId, beforeId) {
  const goal = tree.goals.find((one) => one.id === goalId);
  if (!goal) return;
  const goals = tree.goals.filter((one) => one.id !== goalId);
  const before = goals.findIndex((one) => one.id === beforeId && (one.parent_id ?? null) === parentId);
  goals.splice(before < 0 ? goals.length : before, 0, { ...goal, parent_id: parentId });
  tree.goals = goals;
}

/**
 * @param {GoalTree} tree
 * @param {readonly AffectedGoal[] | undefined} affected
 * @returns {boolean} whether more than numbers changed
 */
function affect(tree, affected) {
  if (!affected?.length) return false;
  let more = false;
  const changes = new Map(affected.map((one) => [one.goal_id, one]));
  for (const goal of tree.goals) {
    const change = changes.get(goal.id);
    if (!change) continue;
    if (change.self_stats) goal.self_stats = change.self_stats;
    if (change.cumulative_stats) goal.cumulative_stats = change.cumulative_stats;
    if (change.status && change.status !== goal.status) {
      goal.status = change.status;
      more = true;
    }
    if (change.summary) {
      goal.summary = change.summary;
      more = true;
    }
  }
  return more;
}

/**
 * @param {GoalTree | undefined} tree
 * @returns {GoalTree}
 */
const treeOf = (tree) => ({ mission: tree?.mission ?? "", current_id: tree?.current_id ?? null, goals: (tree?.goals ?? []).map((goal) => ({ ...goal })) });

/**
 * @param {Subagent[] | Record<string, Subagent> | undefined} subagents
 * @returns {Record<string, Subagent>}
 */
const byId = (subagents) => Object.fromEntries(Object.values(subagents ?? {}).map((one) => [one.id, one]));

/**
 * @template T
 * @param {Record<string, T>} record
 * @param {string | undefined} key
 * @returns {T | undefined}
 */
const own = (record, key) => (key !== undefined && Object.hasOwn(record, key) ? record[key] : undefined);
