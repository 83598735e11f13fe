import "../../chat/webview/translations";
import "../../../../daemon/api/page/dag.css";
import "./graph.css";
import { h, svg } from "../../../../daemon/api/page/dom.js";
import { MessagesPane } from "../../../../daemon/api/page/messages.js";
import type { DagEdge, DagNode, SessionView } from "../../../../daemon/api/page/shapes";
import { showWay } from "../../../../daemon/api/page/levels.js";
import { coloursOf, pictureOf } from "../../../../daemon/api/page/picture.js";
import { messagesWord, money, nodeStatusWord, sessionWord, tokensWord } from "../../../../daemon/api/page/format.js";
import { progress } from "../../goals/tree";
import type { ToGraph } from "../panel";
import { Graph } from "./graph";
import { answered, ask, post, save, saved } from "./host";
import { plural, t } from "../../l10n";

/** Build the page: a bar, the graph, and the messages of an edge beside it. */
function page(root: HTMLElement): void {
  const title = h("h1", {}, t("Graph"));
  const facts = h("p", { class: "facts", role: "status" });
  const place = h("div", { id: "graph" });
  const wayHere = h("nav", { class: "dag-way", "aria-label": t("Level of the plan"), hidden: true });
  const pane = h("aside", { id: "pane", "aria-label": t("Messages"), hidden: true });
  const empty = h(
    "div",
    { id: "empty" },
    h("p", {}, t("The graph of the chat's session appears here, goal by goal.")),
    button(t("Open Chat"), t("Go to the chat"), () => post({ type: "focusChat" })),
  );
  const messages = new MessagesPane(pane, (wanted) => ask("messages", wanted), () => {
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
      if (reveal && (node.goalId ?? node.branchId) !== null) post({ type: "reveal", goalId: node.goalId, branchId: node.branchId });
    },
    onExpanded: remember,
    onLevel: (way) => showWay(wayHere, way, (key) => graph.go(key)),
    readBranch: (id) => ask("branch", { sessionId: graph.traceId, branchId: id }),
  });

  const query = h("input", { type: "search", placeholder: t("Find a goal"), "aria-label": t("Find a goal"), autocomplete: "off", oninput: () => find(), onkeydown: searchKeys });
  const found = h("span", { class: "found", role: "status" });
  const follow = h("input", { type: "checkbox", checked: true, onchange: () => (graph.follow = follow.checked) });
  const tools = h(
    "div",
    { id: "tools", role: "toolbar", "aria-label": t("Graph") },
    h("div", { class: "find", role: "search" }, query, found),
    button(icon("M2 2h12v12H2zM8 5v6M5 8h6"), t("Show all sub-goals and branches"), () => graph.expandAll(), t("Expand all")),
    button(icon("M2 2h12v12H2zM5 8h6"), t("Show the top goals only"), () => graph.collapseAll(), t("Collapse all")),
    h("span", { class: "gap" }),
    h("label", { title: t("Keep the current goal in view") }, follow, t("Follow")),
    button("−", t("Zoom out"), () => graph.view.zoom(1 / 1.25), t("Zoom out")),
    button("+", t("Zoom in"), () => graph.view.zoom(1.25), t("Zoom in")),
    button(t("Fit"), t("Fit the graph into the view, as far as it stays readable"), () => graph.view.fit()),
    button(icon("M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11"), t("Save the graph as a picture"), savePicture, t("Save as SVG…")),
  );
  root.append(h("header", {}, h("div", { id: "head" }, title, facts), tools, wayHere), h("div", { id: "body" }, h("main", { id: "view" }, place, empty), pane));

  function remember(): void {
    save({ traceId: graph.traceId, expanded: [...graph.expanded], root: graph.root });
  }

  function find(): void {
    const count = graph.find(query.value);
    found.textContent = query.value.trim() ? (count === 0 ? t("No goal has this text") : plural(count, "{0} goal found", "{0} goals found")) : "";
  }

  function searchKeys(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      const at = graph.next(event.shiftKey ? -1 : 1);
      if (at > 0) found.textContent = t("{0} of {1}", at, graph.view.matches.size);
    } else if (event.key === "Escape") {
      clearSearch();
      graph.view.select(graph.view.selected ?? "start", { focus: true });
    } else return;
    event.preventDefault();
  }

  function clearSearch(): void {
    query.value = "";
    find();
  }

  function savePicture(): void {
    const { dag, layout, host } = graph.view;
    if (layout) post({ type: "savePicture", name: "goals.svg", svg: pictureOf(dag, layout, coloursOf(host), title.textContent || t("Graph")) });
  }

  function paint(state: SessionView | null): void {
    empty.hidden = state !== null;
    tools.hidden = state === null;
    title.textContent = (state && (state.trace.title || state.goalTree.mission.split("\n", 1)[0]?.slice(0, 120))) || t("Graph");
    facts.replaceChildren();
    if (!state) return;
    const { trace } = state;
    const { done, all } = progress(state.goalTree);
    const words = [all > 0 ? t("{0} of {1} goals done", done, all) : "", messagesWord(trace.totalMessages), tokensWord(trace.totalTokens), money(trace.totalCost, trace.unpricedTokens)];
    facts.append(h("span", { class: `pill ${trace.status}` }, sessionWord(trace.status)), words.filter(Boolean).join(" · "));
  }

  function showAll(view: SessionView | null): void {
    const before = saved();
    const another = graph.traceId !== (view?.trace.traceId ?? "");
    if (another && !pane.hidden) messages.close();
    const same = before !== undefined && before.traceId === view?.trace.traceId;
    graph.show(view, same ? before.expanded : [], same ? (before.root ?? null) : null);
    remember();
    if (another) clearSearch();
    // Messages added before this state have no frames, so read them again.
    messages.refresh();
  }

  function receive(message: ToGraph): void {
    if (message.type === "all") showAll(message.view);
    else if ("request" in message) answered(message);
    else if (message.traceId === graph.traceId) graph.apply(message.frames);
  }

  paint(null);
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (!(event.key === "f" && (event.ctrlKey || event.metaKey)) && (event.key !== "/" || typing)) return;
    event.preventDefault();
    query.select();
    query.focus();
  });
  window.addEventListener("message", ({ data }: MessageEvent<ToGraph>) => receive(data));
  post({ type: "ready" });
}

/** Return what the pane shows for an edge: the work that led to its node. */
function subject(traceId: string, node: DagNode, edge: DagEdge | null): Parameters<MessagesPane["show"]>[0] {
  const start = node.kind === "start" && node.goalId === null && node.branchId === null;
  return {
    traceId,
    goalId: node.goalId,
    branchId: node.branchId,
    descendants: edge ? edge.counts === "cumulative" : node.goalId !== null,
    beside: node.goalId === null && edge?.counts === "self",
    heading: start ? t("All messages") : [node.label, node.title].filter(Boolean).join(" "),
    text: start ? node.title : node.summary,
    status: start ? "" : nodeStatusWord(node),
    stats: edge?.stats ?? null,
  };
}

/** Create a line drawing of 16 × 16. */
function icon(d: string): SVGSVGElement {
  return svg("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.3 }));
}

function button(text: string | Node, title: string, onclick: () => void, label?: string): HTMLButtonElement {
  return h("button", { type: "button", title, "aria-label": label, onclick }, text);
}

const root = document.getElementById("app");
if (root) page(root);
