// Moves between the nodes of a displayed graph, and maintains its elements by key.

/** @import { DagView } from "./draw.js" */
/** @import { DagNode } from "./shapes.js" */

/**
 * Finds the node to which a key moves from another node.
 * @param {DagView} view
 * @param {DagNode} node
 * @param {string} key
 * @returns {DagNode | undefined}
 */
export function neighbour(view, node, key) {
  const down = view.layout?.down === true;
  const [back, forward, before, after] = down ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"] : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
  const same = (/** @type {DagNode | undefined} */ one) => one?.track === node.track;
  if (key === forward) {
    const next = (view.outgoing.get(node.key) ?? []).map((edge) => view.nodes.get(edge.to));
    return next.find(same) ?? next[0];
  }
  if (key === back) return view.nodes.get(view.incoming.get(node.key)?.[0]?.from ?? "");
  if (key === "Home") return view.dag.nodes[0];
  if (key === "End") return view.dag.nodes.at(-1);
  if (key === before) return beside(view, node, -1, down);
  return key === after ? beside(view, node, 1, down) : undefined;
}

/**
 * Finds the nearest node beside a node.
 * @param {DagView} view
 * @param {DagNode} node
 * @param {1 | -1} way -1: above, or left of it when the graph goes down
 * @param {boolean} down
 */
function beside(view, node, way, down) {
  const here = view.layout?.places.get(node.key);
  if (!here) return undefined;
  /** @type {DagNode | undefined} */
  let nearest;
  let least = Infinity;
  for (const one of view.dag.nodes) {
    const place = view.layout?.places.get(one.key);
    if (!place) continue;
    const [aside, along] = down ? [place.x - here.x, place.y - here.y] : [place.y - here.y, place.x - here.x];
    const distance = aside * way > 0 ? aside * way + 2 * Math.abs(along) : Infinity;
    if (distance < least) [nearest, least] = [one, distance];
  }
  return nearest;
}

/**
 * Removes the elements that are no longer wanted.
 * @param {Map<string, { element: Element, shows: string }>} drawn
 * @param {readonly string[]} wanted
 */
export function keep(drawn, wanted) {
  const keys = new Set(wanted);
  for (const [key, { element }] of drawn) {
    if (keys.has(key)) continue;
    element.remove();
    drawn.delete(key);
  }
}
