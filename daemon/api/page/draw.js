// Draws a graph with pan, zoom and keyboard control. Only visible elements exist, and text becomes text nodes, never HTML.

import { placeOfWork } from "./dag.js";
import { h, svg } from "./dom.js";
import { Minimap } from "./minimap.js";
import { grouped } from "./goals.js";
import { keep, neighbour } from "./keyboard_navigation.js";
import { definitions, edgeElement, nodeElement } from "./graph_elements.js";
import { Viewport } from "./viewport.js";
import { t } from "./l10n.js";

/** @import { Dag, DagEdge, DagNode, DagViewOptions, Layout } from "./shapes.js" */

/** Below this scale there is room for the titles of goals only, and none for the numbers on edges. */
const SMALL = 0.92;
/** Pixels around the visible part in which elements are created in advance. */
const ROOM = 400;
/** Space for the numbers on an edge, in units of the plane. */
const LABEL = 132;
const HELP =
  t("Arrow keys move between goals, along the work and between parallel goals. Enter opens a goal, Escape goes back up. Shift+Enter shows messages. Space shows the sub-goals of a goal or hides branches, Shift+Space collapses the parent. Plus, minus and 0 zoom.");

export class DagView {
  /**
   * @param {HTMLElement} host filled by the view; its class `dag` sets the colours, see dag.css
   * @param {DagViewOptions} options
   */
  constructor(host, options) {
    this.host = host;
    this.options = options;
    /** @type {Dag} */
    this.dag = { nodes: [], edges: [] };
    /** @type {Layout | null} */
    this.layout = null;
    /** @type {Map<string, DagNode>} */
    this.nodes = new Map();
    /** Incoming and outgoing edges of each node. @type {Map<string, DagEdge[]>} */
    this.incoming = new Map();
    /** @type {Map<string, DagEdge[]>} */
    this.outgoing = new Map();
    /**
     * Elements on the page, each with a string that changes when it must be redrawn.
     * @type {Map<string, { element: Element, shows: string }>}
     */
    this.drawnNodes = new Map();
    /** @type {Map<string, { element: Element, shows: string }>} */
    this.drawnEdges = new Map();
    /** @type {string | null} */
    this.selected = null;
    /** Key of the node that keeps its place on the screen at the next `show`. @type {string | null} */
    this.held = null;
    this.due = 0;
    /** Keys of the nodes that match the search. @type {ReadonlySet<string>} */
    this.matches = new Set();

    this.edgeLayer = svg("g", {});
    this.plane = h("div", { class: "dag-plane", role: "presentation" },
      svg("svg", { class: "dag-edges", "aria-hidden": "true", width: 1, height: 1 }, definitions(), this.edgeLayer));
    this.map = new Minimap(host, () => this.viewport);
    host.classList.add("dag");
    host.setAttribute("role", "tree");
    host.setAttribute("aria-label", `${t("Graph of goals.")} ${HELP}`);
    host.replaceChildren(this.plane, this.map.element);
    this.viewport = new Viewport(host, () => this.moved());
    this.observer = new ResizeObserver(() => this.moved());
    this.observer.observe(host);
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    host.addEventListener("click", (event) => this.clicked(event), { signal });
    host.addEventListener("keydown", (event) => this.pressed(event), { signal });
    // When the browser scrolls an element into view (for find-in-page, say), move the plane instead.
    host.addEventListener("scroll", () => {
      const { scrollLeft, scrollTop } = host;
      if (!scrollLeft && !scrollTop) return;
      host.scrollTo(0, 0);
      this.viewport.pan(-scrollLeft, -scrollTop);
    }, { signal });
  }

  dispose() {
    cancelAnimationFrame(this.due);
    this.leaving.abort();
    this.observer.disconnect();
    this.viewport.dispose();
    this.host.replaceChildren();
  }

  /**
   * Shows a graph and keeps one node where it is on the screen: `anchor`, else the node where an edge was expanded, else
   * the selected one. When the selected node was replaced by its sub-goals or by the goal around it, that is selected.
   * @param {Dag} dag
   * @param {Layout} layout
   * @param {{ anchor?: string | null }} [how]
   */
  show(dag, layout, { anchor = null } = {}) {
    const held = [anchor, this.held, this.selected, this.middle()].find((key) => key && this.layout?.places.has(key) && layout.places.has(key));
    const before = held ? this.layout?.places.get(held) : undefined;
    const after = held ? layout.places.get(held) : undefined;
    const first = this.layout === null;
    const focused = this.host.contains(document.activeElement) && document.activeElement !== this.host;
    const old = this.nodes.get(this.selected ?? "");
    this.held = null;
    this.dag = dag;
    this.layout = layout;
    this.nodes = new Map(dag.nodes.map((node) => [node.key, node]));
    this.incoming = grouped(dag.edges, (edge) => edge.to);
    this.outgoing = grouped(dag.edges, (edge) => edge.from);
    this.host.classList.toggle("down", layout.down);
    this.map.show(dag, layout);
    if (before && after) {
      this.viewport.x += (before.x - after.x) * this.viewport.scale;
      this.viewport.y += (before.y - after.y) * this.viewport.scale;
    }
    if (old && !this.nodes.has(old.key)) this.selected = this.instead(old);
    if (first) this.readable();
    if (focused && this.selected) this.select(this.selected, { focus: true });
    else this.moved();
    this.draw();
  }

  /**
   * Finds the node that replaces one that is no longer drawn.
   * @param {DagNode} old
   */
  instead(old) {
    const within = this.dag.nodes.find((node) => node.within.includes(old.key));
    // Branches are within `fork:3`, which is toggled at `goal:3`.
    const around = old.within.map((key) => key.replace(/^fork:/, "goal:")).find((key) => this.nodes.has(key));
    return within?.key ?? around ?? null;
  }

  /** Fits the whole graph while titles stay readable; otherwise shows its beginning or the agent's place. */
  fit() {
    this.begin(0);
  }

  /** Fits the graph like `fit`, at a scale at which the numbers on edges stay readable. */
  readable() {
    this.begin(SMALL);
  }

  /** @param {number} least smallest scale for the whole graph */
  begin(least) {
    const { layout, viewport, host } = this;
    if (!layout || !host.clientWidth || viewport.fit(layout, least)) return;
    const place = placeOfWork(this.dag);
    if (place) this.reveal(place.key);
  }

  /** Moves the graph back when there is more room again, unless the user has moved it. */
  settle() {
    if (this.layout && this.host.clientWidth && !this.viewport.touched) this.viewport.settle(this.layout);
  }

  /** @param {number} factor zooms around the middle; above 1 enlarges */
  zoom(factor) {
    this.viewport.zoomAt(this.viewport.scale * factor, this.host.clientWidth / 2, this.host.clientHeight / 2);
  }

  /**
   * Pans until a node is entirely visible, with the numbers of the work that led to it.
   * @param {string} key
   */
  reveal(key) {
    const place = this.layout?.places.get(key);
    if (!place || !this.layout) return;
    const { scale, x, y } = this.viewport;
    const room = 48;
    const [left, top] = [place.x * scale + x, place.y * scale + y];
    const [right, bottom] = [left + this.layout.nodeWidth * scale, top + this.layout.nodeHeight * scale];
    const { clientWidth: width, clientHeight: height } = this.host;
    const sideways = Math.max(8, Math.min(room, (width - this.layout.nodeWidth * scale) / 2));
    const before = !this.layout.down && this.incoming.has(key) ? Math.min(LABEL * scale, Math.max(0, width - 2 * sideways - this.layout.nodeWidth * scale)) : 0;
    const dx = left - before < sideways ? sideways - left + before : right > width - sideways ? width - sideways - right : 0;
    const dy = top < room ? room - top : bottom > height - room ? height - room - bottom : 0;
    if (dx || dy) this.viewport.pan(dx, dy);
  }

  /**
   * Selects a node and scrolls it into view; `focus` also gives it the keyboard.
   * @param {string | null} key
   * @param {{ focus?: boolean }} [how]
   */
  select(key, { focus = false } = {}) {
    this.selected = key && this.nodes.has(key) ? key : null;
    if (this.selected) this.reveal(this.selected);
    this.draw();
    if (!focus || !this.selected) return;
    const element = this.drawnNodes.get(this.selected)?.element;
    if (element instanceof HTMLElement) element.focus({ preventScroll: true });
  }

  // -- drawing

  moved() {
    const { x, y, scale } = this.viewport;
    this.plane.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.plane.style.setProperty("--zoom", String(scale));
    this.host.classList.toggle("small", scale < SMALL);
    this.map.update();
    if (!this.due) {
      this.due = requestAnimationFrame(() => {
        this.due = 0;
        this.draw();
      });
    }
  }

  /** Returns the key of the node nearest to the middle of the visible part. */
  middle() {
    const { left, top, right, bottom } = this.viewport.seen();
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    let nearest = null;
    let least = Infinity;
    for (const [key, place] of this.layout?.places ?? []) {
      const distance = Math.hypot(place.x - x, place.y - y);
      if (distance < least) [nearest, least] = [key, distance];
    }
    return nearest;
  }

  draw() {
    const { layout } = this;
    if (!layout) return;
    const seen = this.viewport.seen(ROOM);
    const wanted = this.dag.nodes.filter(({ key }) => {
      const place = layout.places.get(key);
      return place && place.x < seen.right && place.x + layout.nodeWidth > seen.left && place.y < seen.bottom && place.y + layout.nodeHeight > seen.top;
    });
    // The focused or reachable node is always drawn, wherever the plane was moved to, so that Tab still reaches it.
    const reached = this.nodes.get(this.selected ?? "") ?? this.dag.nodes.find((node) => node.current) ?? this.dag.nodes[0];
    if (reached && !wanted.includes(reached)) wanted.push(reached);
    const focused = document.activeElement?.closest?.("[data-key]")?.getAttribute("data-key");
    keep(this.drawnNodes, wanted.map((node) => node.key));
    for (const node of wanted) this.drawNode(node, layout, node === reached);
    if (focused && this.host.contains(document.activeElement) === false) {
      const again = this.drawnNodes.get(focused)?.element;
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    }
    const lines = this.dag.edges.filter(({ key }) => {
      const box = layout.routes.get(key)?.box;
      return box && box.left < seen.right && box.right > seen.left && box.top < seen.bottom && box.bottom > seen.top;
    });
    keep(this.drawnEdges, lines.map((edge) => edge.key));
    for (const edge of lines) this.drawEdge(edge, layout);
  }

  /**
   * @param {DagNode} node
   * @param {Layout} layout
   * @param {boolean} reached by Tab
   */
  drawNode(node, layout, reached) {
    const edge = this.incoming.get(node.key)?.find((one) => !one.shared);
    const shows = JSON.stringify([node, edge?.stats, edge?.own.map(({ key, stats }) => [key, stats])]);
    // Only visible nodes are in the DOM, so each states its position among all of them.
    const [at, all] = [this.dag.nodes.indexOf(node) + 1, this.dag.nodes.length];
    let drawn = this.drawnNodes.get(node.key);
    if (drawn?.shows !== shows) {
      const element = nodeElement(node, edge);
      if (drawn) drawn.element.replaceWith(element);
      else this.plane.append(element);
      drawn = { element, shows };
      this.drawnNodes.set(node.key, drawn);
    }
    const { element } = drawn;
    const place = layout.places.get(node.key) ?? { x: 0, y: 0 };
    if (!(element instanceof HTMLElement)) return;
    element.style.transform = `translate(${place.x}px, ${place.y}px)`;
    element.style.width = `${layout.nodeWidth}px`;
    element.style.height = `${layout.nodeHeight}px`;
    element.tabIndex = reached ? 0 : -1;
    element.classList.toggle("chosen", node.key === this.selected);
    element.classList.toggle("match", this.matches.has(node.key));
    element.setAttribute("aria-selected", String(node.key === this.selected));
    element.setAttribute("aria-posinset", String(at));
    element.setAttribute("aria-setsize", String(all));
  }

  /**
   * @param {DagEdge} edge
   * @param {Layout} layout
   */
  drawEdge(edge, layout) {
    const route = layout.routes.get(edge.key);
    if (!route) return;
    // The picture shows only the key and the numbers of own work, so the string leaves its node out.
    const shows = `${JSON.stringify({ ...edge, own: edge.own.map(({ key, stats }) => [key, stats]) })}${route.d}${layout.down}`;
    const drawn = this.drawnEdges.get(edge.key);
    if (drawn?.shows !== shows) {
      const element = edgeElement(edge, route, layout.down);
      if (drawn) drawn.element.replaceWith(element);
      else this.edgeLayer.append(element);
      this.drawnEdges.set(edge.key, { element, shows });
    }
    this.drawnEdges.get(edge.key)?.element.classList.toggle("chosen", edge.to === this.selected);
  }

  // -- user input

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target : null;
    const into = target?.closest("[data-enter]")?.getAttribute("data-enter");
    if (into) {
      this.options.onEnter?.(into);
      return;
    }
    const toggle = target?.closest("[data-toggle]");
    if (toggle) {
      const edge = toggle.closest(".dag-edge");
      // The expanded part unfolds to the right of the edge's start, which therefore stays in place.
      this.held = edge?.getAttribute("data-from") ?? null;
      const near = edge?.getAttribute("data-to") ?? toggle.closest(".dag-node")?.getAttribute("data-key") ?? null;
      this.toggle(toggle.getAttribute("data-toggle") ?? "", toggle.getAttribute("data-opens") === "true", near);
      return;
    }
    const edge = this.dag.edges.find((one) => one.key === target?.closest(".dag-edge")?.getAttribute("data-key"));
    const node = this.nodes.get(edge?.to ?? target?.closest(".dag-node")?.getAttribute("data-key") ?? "");
    if (!node) return;
    this.select(node.key, { focus: !edge });
    this.options.onSelect?.(node);
    const own = target?.closest("[data-own]")?.getAttribute("data-own");
    if (own && this.openOwn(edge ?? null, own)) return;
    this.options.onOpen(node, edge ?? this.workOf(node));
  }

  /**
   * @param {string} key
   * @param {boolean} open
   * @param {string | null} near
   */
  toggle(key, open, near) {
    if (near) this.selected = near;
    this.options.onToggle(key, open);
  }

  /**
   * Shows the messages of an expanded goal or branch itself, whose work begins with an edge.
   * @param {DagEdge | null} edge
   * @param {string} [key] key of that goal or branch; the innermost one by default
   */
  openOwn(edge, key) {
    const own = edge?.own.findLast((one) => key === undefined || one.key === key);
    if (!edge || !own) return false;
    const { goalId, branchId } = own.node;
    this.options.onOpen(own.node, { ...edge, goalId, branchId, stats: own.stats, counts: "self", expand: null, own: [] });
    return true;
  }

  /** @param {DagNode} node */
  workOf(node) {
    return this.incoming.get(node.key)?.find((one) => !one.shared) ?? null;
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const node = this.nodes.get((event.target instanceof Element ? event.target.closest(".dag-node") : null)?.getAttribute("data-key") ?? "");
    if (!node || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = neighbour(this, node, event.key);
    if (next) {
      this.viewport.touched = true;
      this.select(next.key, { focus: true });
      this.options.onSelect?.(next);
    } else if (event.key === "Enter") this.enter(node, event.shiftKey);
    else if (event.key === " ") this.within(node, event.shiftKey);
    else if (event.key === "Escape") {
      if (!this.options.onUp?.()) return;
    } else if (!this.zoomed(event.key) && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
  }

  /**
   * @param {DagNode} node
   * @param {boolean} messages rather than what is within
   */
  enter(node, messages) {
    this.select(node.key, { focus: true });
    if (!messages && node.expand && this.options.onEnter) {
      this.options.onEnter(node.expand);
      return;
    }
    const work = this.workOf(node);
    if (!messages || node.expand || !this.openOwn(work)) this.options.onOpen(node, work);
  }

  /**
   * Expands a node in place, or collapses the goal around it.
   * @param {DagNode} node
   * @param {boolean} around
   */
  within(node, around) {
    const key = around ? node.within[0] : (node.expand ?? node.fork);
    if (key) this.toggle(key, !around && (node.expand !== null || !node.forked), node.key);
  }

  /** @param {string} key @returns {boolean} whether the key zooms */
  zoomed(key) {
    const factor = { "+": 1.25, "=": 1.25, "-": 1 / 1.25 }[key];
    if (factor) this.zoom(factor);
    else if (key === "0") this.fit();
    else return false;
    if (this.selected) this.reveal(this.selected);
    return true;
  }
}
