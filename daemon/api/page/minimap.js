// A small picture of a graph that does not fit, with a frame around the visible part. Keyboard users move in the graph itself.

import { h, svg } from "./dom.js";
import { farElements } from "./graph_elements.js";

/** @import { Dag, Layout } from "./shapes.js" */
/** @import { Viewport } from "./viewport.js" */

/** Largest size in pixels, and largest share of the graph's size. */
const WIDE = 140;
const HIGH = 110;
const SHARE = 0.3;

export class Minimap {
  /**
   * @param {HTMLElement} host of the graph
   * @param {() => Viewport} viewport
   */
  constructor(host, viewport) {
    this.host = host;
    this.viewport = viewport;
    this.frame = svg("rect", { class: "dag-map-frame", rx: 2 });
    this.graph = svg("g", {});
    this.picture = svg("svg", {}, this.graph, this.frame);
    this.element = h("div", { class: "dag-map", "aria-hidden": "true", hidden: true }, this.picture);
    /** @type {Layout | null} */
    this.layout = null;
    const go = (/** @type {PointerEvent} */ event) => {
      event.stopPropagation();
      if (event.buttons & 1) this.go(event.clientX, event.clientY);
    };
    for (const name of ["pointerdown", "pointermove"]) this.element.addEventListener(name, /** @type {EventListener} */ (go));
  }

  /**
   * @param {Dag} dag
   * @param {Layout} layout
   */
  show(dag, layout) {
    this.layout = layout;
    this.graph.replaceChildren(...farElements(dag, layout));
    this.picture.setAttribute("viewBox", `0 0 ${Math.max(1, layout.width)} ${Math.max(1, layout.height)}`);
    this.update();
  }

  /** Moves the frame to the visible part. */
  update() {
    const { layout, host } = this;
    const { left, top, right, bottom } = this.viewport().seen();
    const whole = !layout || (left <= 1 && top <= 1 && right >= layout.width - 1 && bottom >= layout.height - 1);
    this.element.hidden = whole;
    if (whole) return;
    const scale = Math.min(Math.min(WIDE, host.clientWidth * SHARE) / layout.width, Math.min(HIGH, host.clientHeight * SHARE) / layout.height);
    this.picture.setAttribute("width", String(Math.max(14, layout.width * scale)));
    this.picture.setAttribute("height", String(Math.max(14, layout.height * scale)));
    const [x, y] = [Math.max(0, left), Math.max(0, top)];
    for (const [name, value] of Object.entries({ x, y, width: Math.min(right, layout.width) - x, height: Math.min(bottom, layout.height) - y })) {
      this.frame.setAttribute(name, String(Math.max(0, value)));
    }
  }

  /**
   * @param {number} clientX
   * @param {number} clientY
   */
  go(clientX, clientY) {
    const matrix = this.graph.getScreenCTM();
    const viewport = this.viewport();
    if (!matrix) return;
    const at = new DOMPoint(clientX, clientY).matrixTransform(matrix.inverse());
    const { left, top, right, bottom } = viewport.seen();
    viewport.touched = true;
    viewport.pan(((left + right) / 2 - at.x) * viewport.scale, ((top + bottom) / 2 - at.y) * viewport.scale);
  }
}
