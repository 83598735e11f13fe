import "../../chat/webview/translations";
import "../../../../daemon/api/page/dag.css";
import "./graph.css";
import { h } from "../../../../daemon/api/page/dom.js";
import { MessagesPane } from "../../../../daemon/api/page/messages.js";
import type { DagEdge, DagNode, LiveState } from "../../../../daemon/api/page/shapes";
import { goalsWord, messagesWord, money, sessionWord, statusWord, tokensWord } from "../../../../daemon/api/page/words.js";
import type { ToGraph } from "../messages";
import { Graph } from "./graph";
import { HostApi, post, save, saved } from "./host";
import { t } from "../../l10n";

/** The page: a bar, the graph, and the messages of an edge beside it. */
function page(root: HTMLElement): void {
  const title = h("h1", {}, t("Graph"));
  const facts = h("p", { class: "facts", role: "status" });
  const place = h("div", { id: "graph" });
  const pane = h("aside", { id: "pane", "aria-label": t("Messages"), hidden: true });
  const empty = h(
    "div",
    { id: "empty" },
    h("p", {}, t("The graph of the session in the chat grows here, goal by goal.")),
    button(t("Open Chat"), t("Go to the chat"), () => post({ type: "focusChat" })),
  );
  const hostApi = new HostApi();
  const messages = new MessagesPane(pane, hostApi.api, () => {
    graph.view.settle();
    const { selected } = graph.view;
    if (selected) graph.view.select(selected, { focus: true });
  });

  const graph = new Graph(place, {
    onState: (state) => {
      paint(state);
      messages.update(state);
    },
    onMessage: (message) => {
      messages.touched(message);
      messages.update(graph.state);
    },
    onOpen: (node, edge, reveal) => {
      void messages.show(subject(graph.traceId, node, edge));
      if (reveal && (node.goal_id ?? node.branch_id) !== null) post({ type: "reveal", goal_id: node.goal_id, branch_id: node.branch_id });
    },
    onExpanded: () => save({ trace_id: graph.traceId, expanded: [...graph.expanded] }),
    onBranch: (id) => post({ type: "branch", trace_id: graph.traceId, branch_id: id }),
  });

  const follow = h("input", { type: "checkbox", checked: true, onchange: () => (graph.follow = follow.checked) });
  const tools = h(
    "div",
    { id: "tools", role: "toolbar", "aria-label": t("Graph") },
    button(t("Expand all"), t("Show all goals within others, and all branches"), () => graph.expandAll()),
    button(t("Collapse all"), t("Show the top goals only"), () => graph.collapseAll()),
    h("span", { class: "gap" }),
    h("label", { title: t("Keep the goal at work in view") }, follow, t("Follow")),
    button("−", t("Zoom out"), () => graph.view.zoom(1 / 1.25), t("Zoom out")),
    button("+", t("Zoom in"), () => graph.view.zoom(1.25), t("Zoom in")),
    button(t("Fit"), t("The whole graph, however small"), () => graph.view.fit()),
    button(t("Readable"), t("Back to a size that can be read"), () => graph.view.readable()),
  );
  root.append(h("header", { id: "head" }, title, facts), tools, h("div", { id: "body" }, h("main", { id: "view" }, place, empty), pane));

  function paint(state: LiveState | null): void {
    empty.hidden = state !== null;
    tools.hidden = state === null;
    title.textContent = (state && (state.trace.title || state.goal_tree.mission.split("\n", 1)[0]?.slice(0, 120))) || t("Graph");
    facts.replaceChildren();
    if (!state) return;
    const { trace } = state;
    const { goals } = state.goal_tree;
    const words = [goalsWord(goals.length), messagesWord(trace.total_messages), tokensWord(trace.total_tokens), money(trace.total_cost)];
    facts.append(h("span", { class: `pill ${trace.status}` }, sessionWord(trace.status)), words.filter(Boolean).join(" · "));
  }

  function receive(message: ToGraph): void {
    if (message.type === "all") {
      const { trace } = message;
      const before = saved();
      if (graph.traceId !== (trace?.trace_id ?? "") && !pane.hidden) messages.close();
      graph.show(trace, before && before.trace_id === trace?.trace_id ? before.expanded : []);
      save({ trace_id: graph.traceId, expanded: [...graph.expanded] });
      // Of messages that came before this nobody tells.
      messages.refresh();
      return;
    }
    if ("request" in message) hostApi.answered(message);
    else if (message.trace_id !== graph.traceId) return;
    else if (message.type === "frames") graph.apply(message.frames);
    else if (message.type === "branch") graph.branch(message);
    else graph.branchFailed(message.branch_id);
  }

  paint(null);
  window.addEventListener("message", ({ data }: MessageEvent<ToGraph>) => receive(data));
  post({ type: "ready" });
}

/** What the pane shows for an edge: the work that led to its node. */
function subject(traceId: string, node: DagNode, edge: DagEdge | null): Parameters<MessagesPane["show"]>[0] {
  const start = node.kind === "start";
  return {
    traceId,
    goalId: node.goal_id,
    branchId: node.branch_id,
    descendants: edge?.counts === "cumulative",
    beside: node.goal_id === null && edge?.counts === "self",
    heading: start ? t("All messages") : [node.label, node.title].filter(Boolean).join(" "),
    text: start ? node.title : node.summary,
    status: start ? "" : node.kind === "branch" && node.status === "in_progress" ? t("exploring") : statusWord(node.status),
    stats: edge?.stats ?? null,
  };
}

function button(text: string, title: string, onclick: () => void, label?: string): HTMLButtonElement {
  return h("button", { type: "button", title, "aria-label": label, onclick }, text);
}

const root = document.getElementById("app");
if (root) page(root);
