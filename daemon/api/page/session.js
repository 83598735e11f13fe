// What is known of a session, and how its events change it: for the extension, its chat and graph, and the trace page. Pure.

import { applyToGoals, extendedPreview, NO_STATS, workedMs } from "./goals.js";

/** @import { Branch, Changed, Frame, GoalTree, SessionView, Subagent, TraceDetail, TraceMeta } from "./shapes.js" */

/**
 * @param {TraceDetail} detail the answer of `GET /api/traces/{id}`
 * @returns {SessionView}
 */
export function viewOf(detail) {
  const { goalTree, goalNumbers: _numbers, branches, subagents, ...trace } = detail;
  return { trace, goalTree: treeOf(goalTree), branches, subagents: byId(subagents), awaits: [], spent: {}, lastEventId: detail.lastEventId ?? 0 };
}

/** Whether the agent is at work, or waits for an answer. @param {Pick<SessionView, "trace">} view */
export const isWorking = ({ trace }) => trace.status === "running" || trace.status === "waiting";

/**
 * The view after an event of the session, or a frame of its WebSocket. A stored event that was applied before is not
 * applied again; unknown ones and fields that are missing change nothing.
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
  return changes || eventId > 0 ? { ...view, ...changes, lastEventId: changes?.lastEventId ?? Math.max(view.lastEventId, eventId) } : view;
}

/**
 * What an event changed, so that only that is drawn again.
 * @param {SessionView} before
 * @param {SessionView} after
 * @param {Frame} event
 * @returns {Changed}
 */
export function changesOf(before, after, event) {
  const { lastEventId } = before;
  const told = Object.entries({ ...after, lastEventId }).some(([name, value]) => value !== /** @type {any} */ (before)[name]);
  const graph = after.goalTree !== before.goalTree || after.branches !== before.branches || isWorking(after) !== isWorking(before);
  const said = told && (event.event === "message_added" || event.event === "branch_message_added");
  const message = said ? { branchId: event["branchId"] ?? event["message"]?.branchId ?? null, goalId: event["message"]?.goalId ?? null } : null;
  const ended = told && event.event === "branch_completed" ? own(after.branches, event["branchId"]) : undefined;
  return { told, graph, message, staleBranch: ended?.goalTree ? ended.id : null };
}

/** @typedef {(view: SessionView, event: Frame) => Partial<SessionView> | undefined} Change */

/** @type {Record<string, Change>} */
const CHANGES = {
  // It tells the plan as it is now, but of the events until then none has come: the next ones count from sinceEventId.
  connected: (view, { goalTree, branches, trace, subagents, currentEventId }) => ({
    goalTree: goalTree ? treeOf(goalTree) : view.goalTree,
    branches: branches ? Object.fromEntries(Object.entries(branches).map(([id, one]) => [id, { ...own(view.branches, id), ...one }])) : view.branches,
    subagents: subagents ? byId(subagents) : view.subagents,
    trace: { ...view.trace, ...trace },
    spent: {},
    lastEventId: typeof currentEventId === "number" ? currentEventId : view.lastEventId,
  }),
  goal_added: inPlan,
  goal_updated: inPlan,
  goal_moved: inPlan,
  goal_removed: inPlan,
  message_added: (view, event) => ({
    ...inPlan(view, event),
    trace: spend({ ...view.trace, totalMessages: view.trace.totalMessages + 1 }, spentBy(event["message"])),
    // The call has its result: somebody has chosen, or it was left to the model.
    awaits: event["message"]?.content?.some((/** @type {any} */ part) => part.type === "tool_result" && part.name === "explore") ? [] : view.awaits,
  }),
  session_updated(view, event) {
    const { updates } = event;
    const told = Object.fromEntries(["title", "summary", "model", "agent", "mode"].filter((name) => updates && name in updates).map((name) => [name, updates[name]]));
    const task = typeof updates?.mission === "string" ? { task: updates.mission } : {};
    // A small model wrote the title or the summary.
    return { ...inPlan(view, event), trace: { ...spend(view.trace, spentBy(event)), ...told, ...task } };
  },
  turn_started: (view) => withStatus(view, "running"),
  turn_ended: (view, { stopReason }) => ({ ...withStatus(view, endedAs(stopReason)), awaits: [] }),
  permission_asked: (view) => withStatus(view, "waiting"),
  permission_replied: (view) => withStatus(view, "running"),
  trace_completed: ({ trace }, { status = trace.status, totalMessages = trace.totalMessages, totalTokens = trace.totalTokens, totalCost = trace.totalCost }) => ({
    trace: { ...trace, status, totalMessages, totalTokens, totalCost },
  }),
  notice({ awaits }, { code, about }) {
    if (code === AWAITED) return { awaits: [...awaits.filter((one) => one !== about), about] };
    return code === MADE ? { awaits: awaits.filter((one) => one !== about) } : undefined;
  },
  branch_started(view, { branch, exploreStartId }) {
    if (!branch?.id) return undefined;
    // From here on all that it takes and does is known, see branch_completed.
    const goalTree = { mission: branch.description, currentId: null, goals: [] };
    return {
      branches: { ...view.branches, [branch.id]: { goalTree, ...branch, exploreStartId: branch.exploreStartId ?? exploreStartId } },
      spent: { ...view.spent, [branch.id]: { totalTokens: 0, totalCost: 0 } },
    };
  },
  branch_goal_added: (view, event) => inBranch(view, event, (branch) => ({ goalCount: (branch.goalCount ?? 0) + 1 })),
  branch_goal_updated: (view, event) => inBranch(view, event),
  branch_message_added(view, event) {
    const { branchId, message } = event;
    // What branches take is part of what the session takes (source: daemon/state/children.py).
    const taken = spentBy(message);
    const counted = own(view.spent, branchId);
    return {
      trace: spend(view.trace, taken),
      spent: counted ? { ...view.spent, [branchId]: spend(counted, taken) } : view.spent,
      ...inBranch(view, event, ({ cumulativeStats = NO_STATS }) => ({
        lastMessage: message,
        cumulativeStats: {
          ...spend(cumulativeStats, taken),
          messageCount: cumulativeStats.messageCount + 1,
          durationMs: (cumulativeStats.durationMs ?? 0) + workedMs(message),
          preview: extendedPreview(cumulativeStats.preview ?? null, message),
        },
      })),
    };
  },
  branch_completed(view, event) {
    const { branchId, status = "completed", cumulativeStats, lastMessage, score = null } = event;
    const { [branchId]: counted, ...spent } = view.spent;
    const all = spentBy(event);
    // Its sub-agents' share was not among its messages. Where only a part of those was heard, the turn's end has the sum.
    const rest = counted && { totalTokens: Math.max(0, all.totalTokens - counted.totalTokens), totalCost: Math.max(0, all.totalCost - counted.totalCost) };
    return {
      trace: rest ? spend(view.trace, rest) : view.trace,
      spent,
      ...inBranch(view, event, (branch) => ({
        status,
        score,
        summary: event["summary"] ?? branch.summary ?? null,
        cumulativeStats: cumulativeStats ?? branch.cumulativeStats,
        lastMessage: lastMessage ?? branch.lastMessage ?? null,
      })),
    };
  },
  branch_removed: (view, event) => inBranch(view, event, () => ({ removed: true })),
  subagent_started: withSubagent,
  subagent_completed: (view, event) => ({ ...withSubagent(view, event), trace: spend(view.trace, spentBy(event["subagent"])) }),
};

/** Notices that the daemon waits for the person to choose among the branches of the exploration they are about, or no longer. */
export const AWAITED = "explore_choice_awaited";
export const MADE = "explore_choice_made";

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
function inPlan({ goalTree }, event) {
  const next = applyToGoals(goalTree, event);
  return next === goalTree ? {} : { goalTree: next };
}

/**
 * @param {SessionView} view
 * @param {Frame} event of a branch: what it says of goals is the same without `branch_`
 * @param {(branch: Branch) => Partial<Branch>} [also] what else it changes
 * @returns {Partial<SessionView>}
 */
function inBranch({ branches }, event, also = () => ({})) {
  const { branchId } = event;
  const branch = own(branches, branchId);
  if (!branch) return {};
  const goalTree = branch.goalTree && { goalTree: applyToGoals(branch.goalTree, { ...event, event: event.event.replace("branch_", "") }) };
  return { branches: { ...branches, [branchId]: { ...branch, ...also(branch), ...goalTree } } };
}

/** @type {Change} */
function withSubagent({ subagents }, { subagent }) {
  return subagent?.id ? { subagents: { ...subagents, [subagent.id]: subagent } } : {};
}

/**
 * @param {SessionView} view
 * @param {TraceMeta["status"]} status
 */
const withStatus = ({ trace }, status) => ({ trace: { ...trace, status } });

/**
 * What something took: all tokens that went in or came out, as in the API's totals.
 * @param {any} of a message, or what else has `usage` and `cost`
 */
function spentBy(of) {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0 } = of?.usage ?? {};
  return { totalTokens: input + output + cacheRead + cacheWrite, totalCost: of?.cost ?? 0 };
}

/**
 * @template {{ totalTokens: number, totalCost: number }} T
 * @param {T} total
 * @param {{ totalTokens: number, totalCost: number }} more
 * @returns {T}
 */
const spend = (total, more) => ({ ...total, totalTokens: total.totalTokens + more.totalTokens, totalCost: total.totalCost + more.totalCost });

/**
 * @param {GoalTree | undefined} tree
 * @returns {GoalTree}
 */
const treeOf = (tree) => ({ mission: tree?.mission ?? "", currentId: tree?.currentId ?? null, goals: tree?.goals ?? [] });

/**
 * @param {readonly Subagent[] | Record<string, Subagent> | undefined} subagents
 * @returns {Record<string, Subagent>}
 */
const byId = (subagents) => Object.fromEntries(Object.values(subagents ?? {}).map((one) => [one.id, one]));

/**
 * @template T
 * @param {Readonly<Record<string, T>>} record
 * @param {string | undefined} key
 * @returns {T | undefined}
 */
export const own = (record, key) => (key !== undefined && Object.hasOwn(record, key) ? record[key] : undefined);
