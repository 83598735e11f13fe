// The state of a session and how events change it: for the extension, its chat and graph, and the trace page. Pure.

import { applyToGoals, numbered } from "./goals.js";
import { camelKeys } from "./keys.js";

/** @import { Branch, Changed, Frame, SessionView, TraceDetail, ViewUpdate } from "./shapes.js" */

/**
 * @param {TraceDetail} detail the answer of `GET /api/traces/{id}`
 * @returns {SessionView}
 */
export function viewOf(detail) {
  const { goalTree, goalNumbers, branches, subagents, ...trace } = detail;
  return { trace, goalTree: numbered(goalTree, goalNumbers), branches, subagents, awaits: [], lastEventId: detail.lastEventId ?? 0 };
}

/** Whether the agent works or waits for an answer. @param {Pick<SessionView, "trace">} view */
export const isWorking = ({ trace }) => trace.status === "running" || trace.status === "waiting";

/**
 * Returns the view after an event of the session or a frame of its WebSocket. A stored event is applied only once;
 * unknown events and missing fields change nothing.
 * @template {SessionView} V
 * @param {V} view
 * @param {Frame} event
 * @returns {V}
 */
export function applyEvent(view, event) {
  const eventId = typeof event.eventId === "number" ? event.eventId : 0;
  if (eventId > 0 && eventId <= view.lastEventId) return view;
  const change = event["traceId"] && view.trace.traceId && event["traceId"] !== view.trace.traceId ? undefined : own(CHANGES, event.event);
  const changes = change?.(view, event);
  if (!changes && eventId === 0 && !event["view"]) return view;
  const next = { ...view, ...changes, lastEventId: changes?.lastEventId ?? Math.max(view.lastEventId, eventId) };
  return event["view"] ? { ...next, ...shown(next, event["view"]) } : next;
}

/**
 * Determines what an event changed, so that only that is redrawn.
 * @param {SessionView} before
 * @param {SessionView} after
 * @param {Frame} event
 * @returns {Changed}
 */
export function changesOf(before, after, event) {
  const { lastEventId } = before;
  const told = Object.entries({ ...after, lastEventId }).some(([name, value]) => value !== /** @type {any} */ (before)[name]);
  const graph = after.goalTree !== before.goalTree || after.branches !== before.branches || isWorking(after) !== isWorking(before);
  const said = after !== before && (event.event === "message_added" || event.event === "branch_message_added");
  const message = said ? { branchId: event["branchId"] ?? event["message"]?.branchId ?? null, goalId: event["message"]?.goalId ?? null } : null;
  const ended = after !== before && event.event === "branch_completed" ? own(after.branches, event["branchId"]) : undefined;
  return { told, graph, message, staleBranch: ended?.goalTree ? ended.id : null };
}

/** @typedef {(view: SessionView, event: Frame) => Partial<SessionView> | undefined} Change */

/** @type {Record<string, Change>} */
const CHANGES = {
  // The frame has the current plan, but none of the events before it arrived: the next ones count from sinceEventId.
  connected: (view, { goalTree, goalNumbers, branches, trace, subagents, currentEventId }) => ({
    goalTree: goalTree ? numbered(goalTree, goalNumbers) : view.goalTree,
    branches: branches ? Object.fromEntries(Object.entries(branches).map(([id, one]) => [id, { ...own(view.branches, id), ...one }])) : view.branches,
    subagents: subagents ?? view.subagents,
    trace: { ...view.trace, ...trace },
    lastEventId: typeof currentEventId === "number" ? currentEventId : view.lastEventId,
  }),
  goal_added: inPlan,
  goal_updated: inPlan,
  goal_moved: inPlan,
  goal_removed: inPlan,
  message_added: inPlan,
  session_updated(view, event) {
    const { updates } = event;
    const told = Object.fromEntries(["title", "summary", "model", "agent", "mode"].filter((name) => updates && name in updates).map((name) => [name, updates[name]]));
    const task = typeof updates?.mission === "string" ? { task: updates.mission } : {};
    return { ...inPlan(view, event), trace: { ...view.trace, ...told, ...task } };
  },
  branch_started(view, { branch, exploreStartId }) {
    if (!branch?.id) return undefined;
    const goalTree = { mission: branch.description, currentId: null, goals: [] };
    return { branches: { ...view.branches, [branch.id]: { goalTree, ...branch, exploreStartId: branch.exploreStartId ?? exploreStartId } } };
  },
  branch_placed: (view, event) => inBranch(view, event, () => ({ node: event["node"] ?? "" })),
  branch_goal_added: (view, event) => inBranch(view, event, (branch) => ({ goalCount: (branch.goalCount ?? 0) + 1 })),
  branch_goal_updated: (view, event) => inBranch(view, event),
  branch_message_added: (view, event) => inBranch(view, event, () => ({ lastMessage: event["message"] })),
  branch_completed: (view, event) => inBranch(view, event, (branch) => ({
    status: event["status"] ?? "completed",
    score: event["score"] ?? null,
    summary: event["summary"] ?? branch.summary ?? null,
    cumulativeStats: event["cumulativeStats"] ?? branch.cumulativeStats,
    lastMessage: event["lastMessage"] ?? branch.lastMessage ?? null,
  })),
  branch_removed: (view, event) => inBranch(view, event, () => ({ removed: true })),
  subagent_started: withSubagent,
  subagent_completed: withSubagent,
};

/** Events that change this state directly, in addition to `view`. @type {ReadonlySet<string>} */
export const TOLD = new Set(Object.keys(CHANGES));

/**
 * Applies what the daemon sends with an event: status, totals, numbers of goals, awaited choices and the stats of branches.
 * @param {SessionView} view
 * @param {ViewUpdate} update
 * @returns {Partial<SessionView>}
 */
function shown({ trace, goalTree, branches, awaits }, { goalNumbers, awaitsChoice, status, totalMessages, totalTokens, totalCost, unpricedTokens, branches: stats }) {
  const told = Object.entries({ status, totalMessages, totalTokens, totalCost, unpricedTokens }).filter(([, value]) => value != null);
  const worked = Object.entries(stats ?? {}).flatMap(([id, cumulativeStats]) => {
    const branch = own(branches, id);
    return branch ? [[id, { ...branch, cumulativeStats }]] : [];
  });
  return {
    trace: told.length > 0 ? { ...trace, ...Object.fromEntries(told) } : trace,
    goalTree: numbered(goalTree, goalNumbers),
    awaits: awaitsChoice ?? awaits,
    branches: worked.length > 0 ? { ...branches, ...Object.fromEntries(worked) } : branches,
  };
}

/** @type {Change} */
function inPlan({ goalTree }, event) {
  const next = applyToGoals(goalTree, event);
  return next === goalTree ? {} : { goalTree: next };
}

/**
 * @param {SessionView} view
 * @param {Frame} event event of a branch
 * @param {(branch: Branch) => Partial<Branch>} [also] further changes of the branch
 * @returns {Partial<SessionView>}
 */
function inBranch({ branches }, event, also = () => ({})) {
  const { branchId } = event;
  const branch = own(branches, branchId);
  if (!branch) return {};
  const goalTree = branch.goalTree && { goalTree: numbered(applyToGoals(branch.goalTree, ofPlan(event)), event["goalNumbers"]) };
  return { branches: { ...branches, [branchId]: { ...branch, ...also(branch), ...goalTree } } };
}

/**
 * Returns an event of a branch as the event of its own plan: without the `branch_` prefix, and moves and removals by name.
 * @param {Frame} event
 * @returns {Frame}
 */
function ofPlan(event) {
  const { removed, ...moved } = camelKeys(event["updates"] ?? {});
  if (removed) return { ...event, event: "goal_removed" };
  return "beforeId" in moved ? { ...event, ...moved, event: "goal_moved" } : { ...event, event: event.event.replace("branch_", "") };
}

/** @type {Change} */
function withSubagent({ subagents }, { subagent }) {
  return subagent?.id ? { subagents: { ...subagents, [subagent.id]: subagent } } : {};
}

/**
 * @template T
 * @param {Readonly<Record<string, T>>} record
 * @param {string | undefined} key
 * @returns {T | undefined}
 */
const own = (record, key) => (key !== undefined && Object.hasOwn(record, key) ? record[key] : undefined);
