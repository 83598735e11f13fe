// The elements of a graph: a node, an edge, and a distant view of the whole graph.

import { h, svg } from "./dom.js";
import { plural, t } from "./l10n.js";
import { clip, spoken, statsLine, statsWords, statusIcon, subGoals, workTime } from "./format.js";
import { grouped } from "./goals.js";

/** @import { Dag, DagEdge, DagNode, Layout, OwnWork, Route } from "./shapes.js" */

/** Lines of numbers that fit above an edge. */
const MOST_OWN = 3;
/** Characters that fit between two nodes. */
const ROOM = 22;
/** Longer goal numbers show only their end. */
const LONG_LABEL = 14;

/**
 * @param {DagNode} node
 * @param {DagEdge | undefined} edge the work that led to the node
 * @returns {HTMLElement} element without its position
 */
export function nodeElement(node, edge) {
  const classes = ["dag-node", node.kind, node.status, node.abandoned && "grey", node.current && "current", node.selected && "selected-branch"];
  const open = node.expand || node.fork ? String(node.fork ? node.forked : false) : null;
  const element = h("div", {
    class: classes.filter(Boolean).join(" "), role: "treeitem", tabindex: -1, "aria-level": node.within.length + 1, "aria-current": node.current ? "step" : null, "data-key": node.key, "aria-label": spoken(node, edge), "aria-expanded": open,
    title: [node.title, node.summary].filter(Boolean).join("\n→ "),
  });
  if (node.kind === "start") {
    element.append(h("span", { class: "dag-head" }, node.label ? h("b", {}, node.label) : t("START")), h("span", { class: "dag-title" }, node.title || t("No mission yet")));
    return element;
  }
  const kind = { goal: "", explore_start: t("explore"), explore_merge: t("merge"), branch: t("branch"), start: "" }[node.kind];
  element.append(h("span", { class: "dag-words" },
    h("span", { class: "dag-head" },
      h("span", { class: "dag-icon", "aria-hidden": "true" }, statusIcon(node.status)),
      node.label && h("b", {}, node.label.length > LONG_LABEL ? `…${node.label.slice(1 - LONG_LABEL)}` : node.label),
      kind && h("i", {}, node.selected ? t("branch · used") : kind),
      node.status === "abandoned" && h("i", {}, t("abandoned")),
      node.loading && h("i", {}, t("loading…")),
      node.expand && h("span", { class: "dag-inside", "data-enter": node.expand, title: t("Open: {0}", subGoals(node.inside)) }, h("span", {}, subGoals(node.inside)), " ›")),
    h("span", { class: "dag-title" }, node.title)));
  if (node.fork) {
    const words = node.forked ? plural(node.branches, "Hide {0} branch", "Hide {0} branches") : plural(node.branches, "Show {0} branch", "Show {0} branches");
    element.append(toggle(node.fork, !node.forked, words));
  }
  return element;
}

/**
 * @param {string} key
 * @param {boolean} opens
 * @param {string} words
 */
function toggle(key, opens, words) {
  // Keyboard users expand the node itself, so screen readers skip this control.
  return h("span", { class: "dag-toggle dag-fork", "data-toggle": key, "data-opens": String(opens), title: words, "aria-hidden": "true" }, opens ? "+" : "−");
}

/**
 * @param {DagEdge} edge
 * @param {Route} route
 * @param {boolean} down labels stand beside the edge, otherwise above and below it
 * @returns {SVGGElement}
 */
export function edgeElement(edge, route, down) {
  const group = svg("g", { class: `dag-edge${edge.abandoned ? " grey" : ""}`, "data-key": edge.key, "data-to": edge.to, "data-from": edge.from });
  const { x, y } = route.label;
  const own = edge.own.map(({ node, stats }) => t("{0} itself: {1}", node.label || clip(node.title, 30), statsWords(stats)));
  const words = [statsWords(edge.stats), edge.stats.preview ?? "", ...own].filter(Boolean).join("\n");
  group.append(svg("title", {}, words), svg("path", { class: "dag-hit", d: route.d }), svg("path", { class: "dag-line", d: route.d, "marker-end": "url(#dag-arrow)" }));
  if (!edge.shared) {
    const line = statsLine(edge.stats, ROOM);
    const below = [line && workTime(edge.stats), clip(edge.stats.preview ?? "", ROOM)];
    const own = edge.own.slice(0, down && line ? 1 : MOST_OWN);
    const left = x + (edge.expand && edge.begins[0] ? 30 : 16);
    // Beside a vertical edge there is room for three lines of text.
    const lines = [line, ...own, ...below.filter(Boolean)].length;
    let beside = y + 4 - 6.5 * (Math.min(lines, 3) - 1);
    const at = (/** @type {number} */ above) => {
      if (!down) return { x, y: above };
      beside += 13;
      return { x: left, y: beside - 13 };
    };
    if (line) group.append(svg("text", { class: "dag-stats", ...at(y - 14) }, line));
    for (const [index, one] of own.entries()) group.append(ownWork(one, at(y - 14 - (index + (line ? 1 : 0)) * 14)));
    for (const [index, text] of below.filter(Boolean).slice(0, down ? 3 - own.length - (line ? 1 : 0) : 2).entries()) {
      group.append(svg("text", { class: text === below[0] ? "dag-time" : "dag-preview", ...at(y + 24 + index * 13) }, text));
    }
  }
  const collapse = edge.begins[0];
  const key = edge.shared ? null : (edge.expand ?? collapse ?? null);
  if (key) group.append(edgeToggle(key, edge.expand !== null, x - (edge.expand && collapse ? 13 : 0), y));
  if (!edge.shared && edge.expand && collapse) group.append(edgeToggle(collapse, false, x + 13, y));
  return group;
}

/**
 * @param {string} key
 * @param {boolean} opens
 * @param {number} x
 * @param {number} y
 */
function edgeToggle(key, opens, x, y) {
  return svg("g", { class: "dag-toggle", "data-toggle": key, "data-opens": String(opens), transform: `translate(${x} ${y})` },
    svg("title", {}, opens ? t("Show sub-goals") : t("Collapse again")),
    svg("circle", { r: 10 }),
    svg("path", { d: opens ? "M-4.5 0h9M0-4.5v9" : "M-4.5 0h9" }));
}

/**
 * Shows the work of an expanded goal itself, which no longer has an edge of its own.
 * @param {OwnWork} own
 * @param {{ x: number, y: number }} place
 */
function ownWork({ key, node, stats }, place) {
  const name = node.label || t("it");
  const head = `${name.length > 6 ? `…${name.slice(-5)}` : name}: `;
  return svg("text", { class: "dag-own", ...place, "data-own": key }, head + statsLine(stats, ROOM - head.length));
}

/** Defines the arrow head. */
export function definitions() {
  return svg("defs", {},
    svg("marker", { id: "dag-arrow", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      svg("path", { d: "M0 .8 9.5 5 0 9.2z", fill: "context-stroke" })));
}

/**
 * Draws a graph that is too distant to read as a few paths, however many nodes there are.
 * @param {Dag} dag
 * @param {Layout} layout
 * @returns {SVGPathElement[]}
 */
export function farElements(dag, layout) {
  const lines = dag.edges.map((edge) => ({ name: `dag-far-line${edge.abandoned ? " grey" : ""}`, d: layout.routes.get(edge.key)?.d ?? "" }));
  const boxes = dag.nodes.flatMap((node) => {
    const place = layout.places.get(node.key);
    const state = node.abandoned ? "grey" : node.current ? "current" : node.status;
    return place ? [{ name: `dag-far ${state}`, d: `M${place.x} ${place.y}h${layout.nodeWidth}v${layout.nodeHeight}h${-layout.nodeWidth}z` }] : [];
  });
  return [...grouped([...lines, ...boxes], ({ name }) => name)].map(([name, parts]) => svg("path", { class: name, d: parts.map(({ d }) => d).join("") }));
}
