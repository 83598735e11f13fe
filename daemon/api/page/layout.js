// Computes the positions of nodes and the paths of edges. Dagre ranks the nodes and orders them within each rank; this
// module turns the ranks into one column, or into rows from left to right. Pure; linear in the size of the graph.

import { Graph, layout as dagre } from "./dagre.js";
import { grouped } from "./goals.js";

/** @import { Dag, DagEdge, Layout, LayoutOptions, Place, Route } from "./shapes.js" */

/** Distance behind a node's rank at which its edges turn. */
const TRUNK = 18;
/** Radius of the turns, in pixels. */
const ROUND = 9;
/** Narrower windows have no room for rows of three nodes at full size, so the graph runs from top to bottom. */
export const NARROW = 1080;
/** From this width on, nodes of a vertical graph are wider. */
const ROOMY = 480;

/**
 * Positions within the ranks: pixels across the reading direction, 0 on the main session.
 * @typedef {object} Ranked
 * @property {Map<string, number>} ranks by node key
 * @property {Map<string, number>} across the middle of each node
 * @property {Map<string, Map<number, number>>} passing position of an edge in each rank between its ends, by edge key
 */

/**
 * @param {Dag} dag
 * @param {LayoutOptions} [options] pixels
 * @returns {Layout}
 */
export function layoutOf(dag, options = {}) {
  // While the agent works, numbers change constantly but positions rarely, so the latest layout is reused.
  const shape = JSON.stringify([options, dag.nodes.map(({ key, track }) => [key, track]), dag.edges.map(({ key, shared }) => [key, shared])]);
  if (last?.shape !== shape) last = { shape, layout: made(dag, options) };
  return last.layout;
}

/** The latest layout. @type {{ shape: string, layout: Layout } | null} */
let last = null;

/**
 * @param {Dag} dag
 * @param {LayoutOptions} options
 * @returns {Layout}
 */
function made(dag, options) {
  const { wrap = 0 } = options;
  const down = wrap > 0 && wrap < NARROW;
  const { nodeWidth = down ? (wrap < ROOMY ? 200 : 240) : 188, nodeHeight = 64, gapX = down ? 24 : 148, gapY = down ? 66 : 46 } = options;
  const size = { nodeWidth, nodeHeight, gapX, gapY };
  const ranked = rankedOf(dag, down ? nodeWidth : nodeHeight, down ? gapX : gapY);
  // Very large graphs become a block instead of a ribbon, so that they can be seen as a whole.
  const square = Math.ceil(Math.sqrt(dag.nodes.length * 0.5));
  const rows = rowsOf(dag, ranked.ranks, wrap > 0 && !down ? Math.max(3, square, Math.floor((wrap - gapX) / (nodeWidth + gapX))) : Infinity);
  return down ? downwards(dag, ranked, size) : inRows(dag, ranked, rows, size);
}

/**
 * @param {Dag} dag
 * @param {Ranked} ranked
 * @param {Size} size
 * @returns {Layout}
 */
function downwards(dag, { ranks, across, passing }, { nodeWidth, nodeHeight, gapX, gapY }) {
  const least = Math.min(0, ...across.values());
  const [pitch, left] = [nodeHeight + gapY, nodeWidth / 2 - least];
  /** @type {Map<string, Place>} */
  const places = new Map();
  let [width, height] = [0, 0];
  for (const { key } of dag.nodes) {
    const place = { x: left + (across.get(key) ?? 0) - nodeWidth / 2, y: (ranks.get(key) ?? 0) * pitch };
    places.set(key, place);
    [width, height] = [Math.max(width, place.x + nodeWidth), Math.max(height, place.y + nodeHeight)];
  }
  const routes = new Map(dag.edges.map((edge) => {
    const [from, to] = [places.get(edge.from) ?? NOWHERE, places.get(edge.to) ?? NOWHERE];
    const turns = turnsOf(edge, ranks, passing, (rank, at) => ({ along: rank * pitch + nodeHeight + TRUNK, across: left + at }));
    const [sx, sy, tx, ty] = [from.x + nodeWidth / 2, from.y + nodeHeight, to.x + nodeWidth / 2, to.y];
    const route = walk({ along: sy, across: sx }, turns, { along: ty, across: tx });
    return [edge.key, { d: drawn(route, true), label: { x: tx, y: ty - (gapY - TRUNK) / 2 }, box: boxOf(route, true, gapX) }];
  }));
  return { nodeWidth, nodeHeight, width, height, down: true, places, routes };
}

/**
 * @param {Dag} dag
 * @param {Ranked} ranked
 * @param {ReturnType<typeof rowsOf>} rows
 * @param {Size} size
 * @returns {Layout}
 */
function inRows(dag, { ranks, across, passing }, rows, { nodeWidth, nodeHeight, gapX, gapY }) {
  const pitch = nodeWidth + gapX;
  const margin = rows.count > 1 ? gapX + TRUNK : 0;
  const tops = topsOf(dag, ranks, across, rows, nodeHeight, gapY);
  const xOf = (/** @type {number} */ rank) => margin + (rank - rows.first(rows.of(rank))) * pitch;
  const yOf = (/** @type {number} */ rank, /** @type {number} */ at) => (tops.at[rows.of(rank)] ?? 0) + at;
  /** @type {Map<string, Place>} */
  const places = new Map();
  let width = 0;
  for (const { key } of dag.nodes) {
    const rank = ranks.get(key) ?? 0;
    places.set(key, { x: xOf(rank), y: yOf(rank, across.get(key) ?? 0) - nodeHeight / 2 });
    width = Math.max(width, xOf(rank) + nodeWidth);
  }
  const routes = new Map(dag.edges.map((edge) => {
    const [from, to] = [places.get(edge.from) ?? NOWHERE, places.get(edge.to) ?? NOWHERE];
    const [sx, sy, tx, ty] = [from.x + nodeWidth, from.y + nodeHeight / 2, to.x, to.y + nodeHeight / 2];
    const label = { x: tx - (gapX - TRUNK) / 2, y: ty };
    const [first, last] = [rows.of(ranks.get(edge.from) ?? 0), rows.of(ranks.get(edge.to) ?? 0)];
    if (first !== last) {
      // The edge to the next row runs back to the left between the rows.
      const [between, left] = [(tops.above[last] ?? 0) - gapY, tx - gapX - TRUNK / 2];
      const d = `M${sx} ${sy}${path(sx + TRUNK, sy, between, 1, -1)}${path(left, between, ty, -1)}H${tx}`;
      return [edge.key, { d, label, box: { left, top: Math.min(sy, ty) - 40, right: sx + 2 * TRUNK, bottom: Math.max(sy, ty) + 40 } }];
    }
    const turns = turnsOf(edge, ranks, passing, (rank, at) => ({ along: xOf(rank) + nodeWidth + TRUNK, across: yOf(rank, at) }));
    const route = walk({ along: sx, across: sy }, turns, { along: tx, across: ty });
    return [edge.key, { d: drawn(route, false), label, box: boxOf(route, false, 40) }];
  }));
  return { nodeWidth, nodeHeight, width: width + (rows.count > 1 ? 2 * TRUNK : 0), height: tops.height, down: false, places, routes };
}

const NOWHERE = { x: 0, y: 0 };
/** @typedef {{ nodeWidth: number, nodeHeight: number, gapX: number, gapY: number }} Size */
/** A point of an edge, in reading direction. @typedef {{ along: number, across: number }} Step */

// -- ranks

/**
 * Ranks the nodes. Dagre places each connected piece; pieces of a single node are placed in one line without it.
 * @param {Dag} dag
 * @param {number} width width of a node, across the reading direction
 * @param {number} gap
 * @returns {Ranked}
 */
function rankedOf(dag, width, gap) {
  const columns = columnsOf(dag);
  /** @type {Ranked} */
  const ranked = { ranks: new Map(), across: new Map(), passing: new Map() };
  const track = new Map(dag.nodes.map((node) => [node.key, node.track]));
  for (const piece of piecesOf(dag, columns)) {
    const first = Math.min(...piece.keys.map((key) => columns.get(key) ?? 0));
    if (piece.keys.length === 1) {
      ranked.ranks.set(piece.keys[0] ?? "", first);
      ranked.across.set(piece.keys[0] ?? "", 0);
    } else place(piece, first, track, width, gap, ranked);
  }
  return ranked;
}

/**
 * @param {{ keys: string[], edges: DagEdge[] }} piece
 * @param {number} first rank of the piece's first node
 * @param {Map<string, string>} track
 * @param {number} width
 * @param {number} gap
 * @param {Ranked} ranked receives the result
 */
function place({ keys, edges }, first, track, width, gap, { ranks, across, passing }) {
  const graph = new Graph().setGraph({ rankdir: "TB", align: "UL", nodesep: gap, edgesep: gap / 2, ranksep: 2 }).setDefaultEdgeLabel(() => ({}));
  for (const key of keys) graph.setNode(key, { width, height: 2 });
  // Edges of a node are added in the order of the plan, those that stay on their track first.
  const weight = (/** @type {DagEdge} */ { from, to, shared }) => (shared ? 1 : track.get(from) === track.get(to) ? 8 : 3);
  for (const edge of [...edges].sort((one, other) => weight(other) - weight(one))) graph.setEdge(edge.from, edge.to, { weight: weight(edge) });
  dagre(graph, { disableOptimalOrderHeuristic: true });
  const levels = [...new Set(keys.map((key) => graph.node(key).y))].sort((a, b) => a - b);
  const rankAt = new Map(levels.map((y, at) => [y, at]));
  const shifts = shiftsOf(keys, graph, rankAt, track);
  for (const key of keys) {
    const { x, y } = graph.node(key);
    const rank = rankAt.get(y) ?? 0;
    ranks.set(key, first + rank);
    across.set(key, x - (shifts[rank] ?? 0));
  }
  for (const { key, from, to } of edges) {
    const lanes = new Map();
    for (const { x, y } of graph.edge(from, to).points) {
      const rank = rankAt.get(y);
      if (rank !== undefined && y > graph.node(from).y && y < graph.node(to).y) lanes.set(first + rank, x - (shifts[rank] ?? 0));
    }
    passing.set(key, lanes);
  }
}

/**
 * Returns the shift per rank that moves the main session to 0; ranks without a node of it are centred as a group.
 * @param {readonly string[]} keys
 * @param {Graph} graph
 * @param {Map<number, number>} rankAt
 * @param {Map<string, string>} track
 */
function shiftsOf(keys, graph, rankAt, track) {
  const ranks = ranksOf(keys, graph, rankAt, track);
  /** @type {number[]} */
  const shifts = [];
  for (let at = 0; at < ranks.length; ) {
    let end = at;
    while (ranks[end]?.line === null && end < ranks.length) end++;
    const group = ranks.slice(at, end);
    const middle = (Math.min(...group.map((one) => one.least)) + Math.max(...group.map((one) => one.most))) / 2;
    for (; at < end; at++) shifts.push(middle);
    for (; at < ranks.length && ranks[at]?.line !== null; at++) shifts.push(ranks[at]?.line ?? 0);
  }
  return shifts;
}

/**
 * Returns where the main session is in each rank, and how far the rank reaches.
 * @param {readonly string[]} keys
 * @param {Graph} graph
 * @param {Map<number, number>} rankAt
 * @param {Map<string, string>} track
 */
function ranksOf(keys, graph, rankAt, track) {
  const home = track.get(keys[0] ?? "");
  /** @type {{ line: number | null, least: number, most: number }[]} */
  const ranks = Array.from({ length: rankAt.size }, () => ({ line: null, least: Infinity, most: -Infinity }));
  for (const key of keys) {
    const { x, y } = graph.node(key);
    const rank = ranks[rankAt.get(y) ?? 0];
    if (!rank) continue;
    if (track.get(key) === home) rank.line = x;
    [rank.least, rank.most] = [Math.min(rank.least, x), Math.max(rank.most, x)];
  }
  return ranks;
}

/**
 * Assigns columns: each node stands one column behind its last predecessor.
 * @param {Dag} dag
 */
function columnsOf(dag) {
  /** @type {Map<string, number>} */
  const columns = new Map(dag.nodes.map(({ key }) => [key, 0]));
  const incoming = grouped(dag.edges, (edge) => edge.to);
  for (const { key } of dag.nodes) {
    let column = 0;
    for (const { from } of incoming.get(key) ?? []) column = Math.max(column, (columns.get(from) ?? 0) + 1);
    columns.set(key, column);
  }
  return columns;
}

/**
 * Finds the columns into which only a single edge leads: no other path crosses them.
 * @param {Dag} dag
 * @param {Map<string, number>} columns
 * @returns {boolean[]} by column
 */
function cutsOf(dag, columns) {
  let total = 0;
  for (const column of columns.values()) total = Math.max(total, column + 1);
  const crossing = new Array(total + 1).fill(0);
  for (const { from, to } of dag.edges) {
    crossing[columns.get(from) ?? 0] += 1;
    crossing[columns.get(to) ?? 0] -= 1;
  }
  let open = 0;
  return Array.from({ length: total }, (_, column) => {
    const alone = open === 1 || column === 0;
    open += crossing[column];
    return alone;
  });
}

/**
 * @param {Dag} dag
 * @param {Map<string, number>} columns
 * @returns {{ keys: string[], edges: DagEdge[] }[]}
 */
function piecesOf(dag, columns) {
  let piece = -1;
  const pieceAt = cutsOf(dag, columns).map((cut) => (cut ? ++piece : piece));
  /** @type {{ keys: string[], edges: DagEdge[] }[]} */
  const pieces = Array.from({ length: piece + 1 }, () => ({ keys: [], edges: [] }));
  const of = (/** @type {string} */ key) => pieceAt[columns.get(key) ?? 0] ?? 0;
  for (const { key } of dag.nodes) pieces[of(key)]?.keys.push(key);
  for (const edge of dag.edges) if (of(edge.from) === of(edge.to)) pieces[of(edge.to)]?.edges.push(edge);
  return pieces.filter(({ keys }) => keys.length > 0);
}

// -- rows

/**
 * Breaks the graph into rows, only where no other path is crossed.
 * @param {Dag} dag
 * @param {Map<string, number>} ranks
 * @param {number} wanted ranks in a row
 * @returns {{ count: number, of: (rank: number) => number, first: (row: number) => number }}
 */
function rowsOf(dag, ranks, wanted) {
  const cuts = cutsOf(dag, ranks);
  const starts = [0];
  if (cuts.length > wanted) {
    let possible = -1;
    for (let rank = 0; rank < cuts.length; rank++) {
      const start = starts[starts.length - 1] ?? 0;
      // A row of very few nodes looks lost, so a longer row is preferred.
      if (rank - start >= wanted && possible - start >= wanted / 2) starts.push(possible);
      if (cuts[rank + 1]) possible = rank + 1;
    }
  }
  let row = 0;
  const rowOf = cuts.map((_, rank) => (rank === starts[row + 1] ? ++row : row));
  return { count: starts.length, of: (rank) => rowOf[rank] ?? 0, first: (at) => starts[at] ?? 0 };
}

/**
 * Computes the y of each row's main line and of its top.
 * @param {Dag} dag
 * @param {Map<string, number>} ranks
 * @param {Map<string, number>} across
 * @param {ReturnType<typeof rowsOf>} rows
 * @param {number} nodeHeight
 * @param {number} gap
 */
function topsOf(dag, ranks, across, rows, nodeHeight, gap) {
  const ranges = Array.from({ length: rows.count }, () => ({ least: 0, most: 0 }));
  for (const { key } of dag.nodes) {
    const range = ranges[rows.of(ranks.get(key) ?? 0)];
    const at = across.get(key) ?? 0;
    if (range) [range.least, range.most] = [Math.min(range.least, at), Math.max(range.most, at)];
  }
  let y = 0;
  /** @type {number[]} */
  const above = [];
  const at = ranges.map(({ least, most }) => {
    above.push(y);
    const middle = y - least + nodeHeight / 2;
    y = middle + most + nodeHeight / 2 + 2 * gap;
    return middle;
  });
  return { at, above, height: y - 2 * gap };
}

// -- edges

/**
 * Lists the points where an edge changes its lane: behind each rank that it leaves.
 * @param {DagEdge} edge
 * @param {Map<string, number>} ranks
 * @param {Ranked["passing"]} passing
 * @param {(rank: number, at: number) => Step} place
 * @returns {Step[]} NaN as lane: the target's own
 */
function turnsOf(edge, ranks, passing, place) {
  const [from, to] = [ranks.get(edge.from) ?? 0, ranks.get(edge.to) ?? 0];
  const lanes = passing.get(edge.key);
  const turns = [];
  for (let rank = from; rank < to; rank++) {
    const lane = lanes?.get(rank + 1);
    turns.push({ along: place(rank, 0).along, across: lane === undefined ? NaN : place(rank + 1, lane).across });
  }
  return turns;
}

/**
 * Returns the corners of an edge; lane NaN is the target's.
 * @param {Step} from
 * @param {readonly Step[]} turns
 * @param {Step} to
 * @returns {Step[]}
 */
function walk(from, turns, to) {
  const steps = [from];
  let lane = from.across;
  for (const { along, across } of turns) {
    const next = Number.isNaN(across) ? to.across : across;
    if (Math.abs(next - lane) > 0.5) steps.push({ along, across: lane }, { along, across: next });
    lane = next;
  }
  return [...steps, to];
}

/**
 * Draws straight lines with round corners as an SVG path.
 * @param {readonly Step[]} steps
 * @param {boolean} down
 */
function drawn(steps, down) {
  const [first, ...rest] = steps;
  const point = (/** @type {Step} */ one) => (down ? `${one.across} ${one.along}` : `${one.along} ${one.across}`);
  let d = `M${point(first ?? { along: 0, across: 0 })}`;
  rest.forEach((at, index) => {
    const [before, after] = [steps[index] ?? at, steps[index + 2]];
    if (!after) {
      d += `L${point(at)}`;
      return;
    }
    const [start, end] = [towards(at, before), towards(at, after)];
    d += `L${point(start)}Q${point(at)} ${point(end)}`;
  });
  return d;
}

/**
 * @param {Step} from
 * @param {Step} to
 * @returns {Step} a point on the way, at most half of it and at most the radius away
 */
function towards(from, to) {
  const [along, across] = [to.along - from.along, to.across - from.across];
  const length = Math.hypot(along, across) || 1;
  const share = Math.min(ROUND, length / 2) / length;
  return { along: from.along + along * share, across: from.across + across * share };
}

/**
 * @param {readonly Step[]} steps
 * @param {boolean} down
 * @param {number} room
 * @returns {Route["box"]}
 */
function boxOf(steps, down, room) {
  const along = steps.map((one) => one.along);
  const across = steps.map((one) => one.across);
  const [a, b, c, e] = [Math.min(...along), Math.max(...along), Math.min(...across) - room, Math.max(...across) + room];
  return down ? { left: c, top: a, right: e + 200, bottom: b } : { left: a, top: c, right: b, bottom: e };
}

/**
 * Draws a path to a column in one lane and along it to another lane, with round corners; it ends slightly beside the column.
 * @param {number} x
 * @param {number} from
 * @param {number} to
 * @param {1 | -1} [comes] 1: from the left
 * @param {1 | -1} [leaves] 1: to the right
 */
function path(x, from, to, comes = 1, leaves = 1) {
  const r = Math.min(ROUND, Math.abs(to - from) / 2);
  const down = Math.sign(to - from) * r;
  return `H${x - comes * r}q${comes * r} 0 ${comes * r} ${down}V${to - down}q0 ${down} ${leaves * r} ${down}`;
}
