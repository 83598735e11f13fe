// The page: the list of traces and the open trace. The address names it: `#/{traceId}` or `#/{traceId}/steps`.

import { Api, ApiError, LOCKED, shareToken, takeToken } from "./api.js";
import { askForToken, showUser } from "./sign_in.js";
import { h, part } from "./dom.js";
import { TraceList, titleOf } from "./list.js";
import { MessagesPane } from "./messages.js";
import { TraceView } from "./trace.js";
import { NumbersView } from "./numbers.js";
import { amount, money, nodeStatusWord, plain, sessionWord, statusWord } from "./format.js";
import { t } from "./l10n.js";

/** @import { DagEdge, DagNode, SessionView, Step } from "./shapes.js" */

const LIST_PAUSE_MS = 5000;
const NUMBERS = "#numbers";

/** Whether this is a shared server, whose users sign in. */
const shared = "signIn" in document.body.dataset;
const token = shared ? "" : takeToken();
const asked = new URL(location.href).searchParams.get("trace");
if (asked) history.replaceState(null, "", `/#/${encodeURIComponent(asked)}`);

const api = new Api(token, () => {
  // Stop all requests, because the token is rejected.
  view?.watch?.close();
  say("lost", t("Disconnected"));
  if (shared) askForToken();
  else complain(LOCKED);
});
if (!shared) shareToken(() => (api.locked ? "" : api.token));
const button = (/** @type {string} */ id) => part(id, HTMLButtonElement);
const [graph, steps, pane, empty] = [part("graph", HTMLElement), part("steps", HTMLElement), part("pane", HTMLElement), part("empty", HTMLElement)];
const connection = part("connection", HTMLElement);
const line = part("line", HTMLSelectElement);
const follow = part("follow", HTMLInputElement);

const list = new TraceList(
  {
    list: part("traces", HTMLElement), note: part("list-note", HTMLElement), more: button("more"), form: part("filter", HTMLFormElement),
    query: part("query", HTMLInputElement), status: part("status", HTMLSelectElement), found: part("found", HTMLElement),
  },
  api,
);
const numbers = new NumbersView(part("numbers", HTMLElement), api);
const messages = new MessagesPane(pane, (wanted) => api.messages(wanted), () => {
  view?.view.settle();
  // Focus that the user has moved elsewhere in the meantime stays there.
  if (!pane.contains(document.activeElement) && document.activeElement !== document.body) return;
  const { selected } = view?.view ?? {};
  const step = steps.querySelector('[tabindex="0"]');
  if (tab === "steps" && step instanceof HTMLElement) step.focus();
  else if (selected) view?.view.select(selected, { focus: true });
});
/** @type {TraceView | null} */
let view = null;
/** @type {"graph" | "steps"} */
let tab = "graph";
/** Whether the open trace got no answer; it is loaded again when the daemon answers. */
let unanswered = false;

/**
 * @param {"connecting" | "live" | "lost" | ""} state
 * @param {string} detail
 */
function say(state, detail = "") {
  const words = { live: t("Live"), connecting: t("Connecting…"), lost: detail || t("Connection lost, reconnecting…"), "": detail };
  connection.className = state;
  connection.textContent = words[state];
}

/** Shows an error until it is dismissed or no longer matters. The connection has its own indicator. @param {string} message */
function complain(message) {
  const problem = part("problem", HTMLElement);
  problem.hidden = !message;
  /** @type {HTMLElement} */ (problem.firstElementChild).textContent = message;
}

// -- one trace

function route() {
  part("to-numbers", HTMLElement).toggleAttribute("aria-current", location.hash === NUMBERS);
  if (location.hash === NUMBERS) {
    void openTrace("", "graph");
    empty.hidden = true;
    part("title", HTMLElement).textContent = t("Numbers");
    document.title = t("Numbers – Goalwright");
    void numbers.show();
    return;
  }
  // Fragments of other kinds are places in the page.
  if (location.hash && !location.hash.startsWith("#/")) return;
  const [, id = "", which = ""] = location.hash.split("/");
  let traceId = "";
  try {
    traceId = decodeURIComponent(id);
  } catch {
    // A malformed address names no trace.
  }
  const wanted = which === "steps" ? "steps" : "graph";
  const left = numbers.shown;
  numbers.hide();
  if (left || traceId !== (view?.traceId ?? "")) void openTrace(traceId, wanted);
  else if (wanted !== tab) show(wanted);
}

/**
 * @param {string} traceId
 * @param {"graph" | "steps"} wanted
 */
async function openTrace(traceId, wanted) {
  view?.close();
  view = null;
  if (!pane.hidden) messages.close();
  unanswered = false;
  if (!api.locked) complain("");
  if (traceId && small.matches) showList(false);
  // Branches in the list belong to the previous trace.
  line.replaceChildren(h("option", { value: "" }, t("the main session")));
  list.select(traceId || null);
  empty.hidden = false;
  empty.textContent = traceId ? t("Loading…") : t("Choose a trace.");
  part("bar", HTMLElement).hidden = true;
  if (!traceId) {
    paintHead(null);
    return;
  }
  const opened = new TraceView({ graph, steps }, api, traceId, {
    onState: (state) => {
      if (view !== opened) return;
      paintHead(state);
      messages.update(state);
    },
    onConnection: (state, detail) => {
      if (view !== opened) return;
      say(state, detail);
      // Messages sent while disconnected produce no event.
      if (state === "live") messages.refresh();
      // An API request finds the cause: the daemon does not answer, or another one has started.
      else if (state === "lost") void list.refresh();
    },
    onMessage: (message) => {
      messages.touched(message);
      messages.update(opened.state);
    },
    onOpen: openWork,
    onStep: openStep,
    onError: complain,
  });
  view = opened;
  opened.follow = follow.checked;
  try {
    show(wanted);
    await opened.open();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (view !== opened) return;
    empty.textContent = error.message;
    say("");
    unanswered = error.status === 0 || error.status === 503;
    return;
  }
  if (view !== opened) return;
  empty.hidden = true;
  part("bar", HTMLElement).hidden = false;
  opened.draw();
}

/** @param {SessionView | null} state */
function paintHead(state) {
  const trace = state?.trace;
  const title = trace ? titleOf(trace) : t("Traces");
  part("title", HTMLElement).textContent = title;
  document.title = trace ? `${title} – Goalwright` : t("Goalwright traces");
  const facts = part("facts", HTMLElement);
  facts.replaceChildren();
  if (!state || !trace) {
    say("");
    return;
  }
  list.heard({ ...trace, lastEventId: state.lastEventId });
  facts.append(h("span", { class: `pill ${trace.status}` }, sessionWord(trace.status)),
    [
      t("{0} messages", amount(trace.totalMessages)), t("{0} tokens", amount(trace.totalTokens)), money(trace.totalCost, trace.unpricedTokens),
      [plain(trace.agent), plain(trace.model)].filter(Boolean).join(", "), trace.foreign ? t("from elsewhere") : "",
    ].filter(Boolean).join(" · "));
  const lines = [...Object.keys(state.branches), ...Object.keys(state.subagents)];
  const options = [...line.options].slice(1).map((one) => one.value);
  if (lines.join() !== options.join()) {
    const chosen = line.value;
    line.replaceChildren(h("option", { value: "" }, t("the main session")),
      ...Object.values(state.branches).map((one) => h("option", { value: one.id }, t("branch {0}: {1}", one.id, plain(one.description.slice(0, 40))))),
      ...Object.values(state.subagents).map((one) => h("option", { value: one.id }, `${plain(one.agent)} (${one.id})`)));
    line.value = lines.includes(chosen) ? chosen : "";
  }
  part("line-choice", HTMLElement).hidden = tab !== "steps" || lines.length === 0;
}

/** @param {"graph" | "steps"} wanted */
function show(wanted) {
  tab = wanted;
  for (const name of /** @type {const} */ (["graph", "steps"])) {
    const chosen = name === wanted;
    button(`tab-${name}`).setAttribute("aria-selected", String(chosen));
    button(`tab-${name}`).tabIndex = chosen ? 0 : -1;
  }
  graph.hidden = wanted !== "graph";
  steps.hidden = wanted !== "steps";
  part("tools", HTMLElement).hidden = wanted !== "graph";
  if (wanted === "steps") void view?.showSteps(line.value || null);
  else {
    view?.hideSteps();
    view?.draw();
  }
  if (view?.state) paintHead(view.state);
}

// -- the pane

/**
 * @param {DagNode} node
 * @param {DagEdge | null} edge
 */
function openWork(node, edge) {
  if (!view) return;
  const status = node.kind === "start" ? "" : nodeStatusWord(node);
  void messages.show({
    traceId: view.traceId, goalId: node.goalId, branchId: node.branchId, descendants: edge?.counts === "cumulative",
    beside: node.goalId === null && edge?.counts === "self",
    heading: node.kind === "start" ? t("All messages") : [node.label, node.title].filter(Boolean).join(" "),
    text: node.kind === "start" ? node.title : node.summary, status, stats: edge?.stats ?? null,
  });
  // The pane took some of the graph's space.
  view.view.reveal(node.key);
}

/** @param {Step} step */
function openStep(step) {
  const data = Object.entries(step.data ?? {});
  messages.showContent(
    { heading: step.description, status: `${step.stepType}, ${statusWord(step.status)}`, text: step.summary ?? "" },
    data.map(([name, value]) => h("section", {}, h("h4", {}, name.replaceAll("_", " ")), h("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2)))),
  );
}

// -- user input

for (const name of /** @type {const} */ (["graph", "steps"])) {
  button(`tab-${name}`).addEventListener("click", () => go(name));
  button(`tab-${name}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = name === "graph" ? "steps" : "graph";
    go(other);
    button(`tab-${other}`).focus();
  });
}

/** @param {"graph" | "steps"} name */
function go(name) {
  if (view) location.hash = `#/${encodeURIComponent(view.traceId)}${name === "steps" ? "/steps" : ""}`;
}

button("expand-all").addEventListener("click", () => view?.expandAll());
button("collapse-all").addEventListener("click", () => view?.collapseAll());
button("zoom-in").addEventListener("click", () => view?.view.zoom(1.25));
button("zoom-out").addEventListener("click", () => view?.view.zoom(0.8));
button("fit").addEventListener("click", () => view?.view.fit());
follow.addEventListener("change", () => {
  if (!view) return;
  view.follow = follow.checked;
  if (follow.checked && view.place) view.view.reveal(view.place);
});
line.addEventListener("change", () => void view?.showSteps(line.value || null));
/** On small screens the list would cover the trace, so it opens on demand. */
const small = matchMedia("(max-width: 620px)");

/** @param {boolean} shown */
function showList(shown) {
  part("list", HTMLElement).hidden = !shown;
  button("show-list").hidden = shown;
}

for (const [id, shown] of /** @type {const} */ ([["hide-list", false], ["show-list", true]])) {
  button(id).addEventListener("click", () => {
    showList(shown);
    button(shown ? "hide-list" : "show-list").focus();
  });
}
small.addEventListener("change", () => showList(!small.matches));
part("list", HTMLElement).addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key !== "Escape" || !small.matches || (target instanceof HTMLInputElement && target.value)) return;
  event.preventDefault();
  showList(false);
  button("show-list").focus();
});
part("problem", HTMLElement).querySelector("button")?.addEventListener("click", () => complain(""));
addEventListener("hashchange", route);
addEventListener("resize", () => view?.soon());
addEventListener("online", () => view?.watch?.retry());

async function keepList() {
  if (api.locked) return;
  if (document.visibilityState === "visible" && await list.refresh() && unanswered && view) void openTrace(view.traceId, tab);
  setTimeout(() => void keepList(), LIST_PAUSE_MS);
}

if (small.matches) showList(false);
if (shared) await showUser(api);
route();
await list.refresh();
const [newest] = list.traces;
if (!location.hash && newest) location.replace(`#/${encodeURIComponent(newest.traceId)}`);
setTimeout(() => void keepList(), LIST_PAUSE_MS);
