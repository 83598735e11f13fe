// Draws a graph as SVG: only what is visible, with pan, zoom and keyboard. Text becomes text nodes, never HTML.

/** @import { Dag, DagViewOptions, Layout } from "./shapes.js" */

export class DagView {
  /**
   * @param {HTMLElement} host filled by the view; its class `dag` carries the colours, see dag.css
   * @param {DagViewOptions} options
   */
  constructor(host, options) {
    this.host = host;
    this.options = options;
  }

  /**
   * Shows a graph; what has the same key stays where the person looks at it.
   * @param {Dag} _dag
   * @param {Layout} _layout
   */
  show(_dag, _layout) {}

  /** The whole graph, as far as it stays readable. */
  fit() {}

  /** @param {number} _factor around the middle; above 1 nearer */
  zoom(_factor) {}

  /**
   * Selects a node and brings it into view.
   * @param {string | null} _key
   */
  select(_key) {}

  dispose() {}
}
