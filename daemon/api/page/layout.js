// Places of a graph's nodes and the ways of its edges: from left to right, in rows like text. Pure; grows linearly.

/** @import { Dag, DagEdge, DagTrack, Layout, LayoutOptions, Place, Route } from "./shapes.js" */

/** Where edges turn, behind the column they come from. */
const TRUNK = 18;
/** Radius of the turns. */
const ROUND = 9;

/**
 * A track and what hangs on it, in columns and lanes relative to the track's own lane.
 * @typedef {object} Strip
 * @property {DagTrack} track
 * @property {number} first first and last column
 * @property {number} last
 * @property {number} up lanes above and below its own
 * @property {number} down
 * @property {number} offset lanes below that of its parent
 * @property {Set<number>} own columns with nodes of the track itself
 * @property {Strip[]} below what leaves it
 */

/**
 * @param {Dag} dag
 * @param {LayoutOptions} [options] pixels
 * @returns {Layout}
 */
export function layoutOf(dag, options = {}) {
  const { nodeWidth = 188, nodeHeight = 64, gapX = 148, gapY = 46, wrap = 0 } = options;
  const columns = columnsOf(dag);
  const lanes = lanesOf(dag, columns);
  // Very many are a block rather than a ribbon: so it can be seen as a whole, too.
  const square = Math.ceil(Math.sqrt(dag.nodes.length * 0.5));
  const rows = rowsOf(dag, columns, wrap > 0 ? Math.max(3, square, Math.floor((wrap - gapX) / (nodeWidth + gapX))) : Infinity);
  const margin = rows.count > 1 ? gapX + TRUNK : 0;
  const tops = topsOf(dag, columns, lanes, rows, { pitch: nodeHeight + gapY, gap: gapY });

  /** @type {Map<string, Place>} */
  const places = new Map();
  const taken = new Set();
  let width = 0;
  for (const { key, track } of dag.nodes) {
    const column = columns.get(key) ?? 0;
    const row = rows.of(column);
    const lane = lanes.get(track) ?? 0;
    const x = margin + (column - rows.first(row)) * (nodeWidth + gapX);
    places.set(key, { x, y: (tops.at[row] ?? 0) + lane * (nodeHeight + gapY) });
    taken.add(`${column} ${lane}`);
    width = Math.max(width, x + nodeWidth);
  }
  const routes = new Map();
  const size = { nodeWidth, nodeHeight, gapX, gapY };
  const trackOf = new Map(dag.nodes.map((node) => [node.key, node.track]));
  for (const edge of dag.edges) {
    const from = columns.get(edge.from) ?? 0;
    const to = columns.get(edge.to) ?? 0;
    const lane = lanes.get(trackOf.get(edge.from) ?? "") ?? 0;
    let blocked = false;
    for (let column = from + 1; column < to && !blocked; column++) blocked = taken.has(`${column} ${lane}`);
    const wraps = rows.of(from) !== rows.of(to);
    routes.set(edge.key, routeOf(edge, places, size, wraps ? (tops.above[rows.of(to)] ?? 0) - gapY : null, blocked));
  }
  return { nodeWidth, nodeHeight, width: width + (rows.count > 1 ? 2 * TRUNK : 0), height: tops.height, places, routes };
}

/**
 * Each node stands one column behind the last of those that lead to it.
 * @param {Dag} dag
 */
function columnsOf(dag) {
  /** @type {Map<string, DagEdge[]>} */
  const incoming = new Map();
  for (const edge of dag.edges) {
    const known = incoming.get(edge.to);
    if (known) known.push(edge);
    else incoming.set(edge.to, [edge]);
  }
  /** @type {Map<string, number>} */
  const columns = new Map();
  for (const { key } of dag.nodes) {
    let column = 0;
    for (const { from } of incoming.get(key) ?? []) column = Math.max(column, (columns.get(from) ?? 0) + 1);
    columns.set(key, column);
  }
  return columns;
}

/**
 * The lane of each track: branches around the line they leave, dead ends below it.
 * @param {Dag} dag
 * @param {Map<string, number>} columns
 * @returns {Map<string, number>}
 */
function lanesOf(dag, columns) {
  /** @type {Map<string, Strip>} */
  const strips = new Map();
  for (const track of dag.tracks) {
    /** @type {Strip} */
    const strip = { track, first: Infinity, last: -Infinity, up: 0, down: 0, offset: 0, own: new Set(), below: [] };
    strips.set(track.id, strip);
    strips.get(track.parent ?? "")?.below.push(strip);
  }
  for (const node of dag.nodes) {
    const strip = strips.get(node.track);
    const column = columns.get(node.key) ?? 0;
    if (!strip) continue;
    strip.own.add(column);
    strip.first = Math.min(strip.first, column);
    strip.last = Math.max(strip.last, column);
  }
  // A track is listed before those that leave it.
  for (const { id } of [...dag.tracks].reverse()) {
    const strip = strips.get(id);
    if (strip) stack(strip);
  }
  /** @type {Map<string, number>} */
  const lanes = new Map();
  for (const { id, parent } of dag.tracks) lanes.set(id, (lanes.get(parent ?? "") ?? 0) + (strips.get(id)?.offset ?? 0));
  return lanes;
}

/**
 * Gives all that leaves a track its lane, and the track its height.
 * @param {Strip} strip
 */
function stack(strip) {
  /** Lowest lane in use by column. @type {Map<number, number>} */
  const lowest = new Map([...strip.own].map((column) => [column, 0]));
  /** @type {Map<string, Strip[]>} */
  const forks = new Map();
  const dead = [];
  for (const one of strip.below.filter((below) => below.own.size > 0 || below.below.length > 0)) {
    const group = one.track.kind === "branch" ? forks.get(one.track.at ?? "") : undefined;
    if (group) group.push(one);
    else if (one.track.kind === "branch") forks.set(one.track.at ?? "", [one]);
    else dead.push([one]);
  }
  for (const group of [...forks.values(), ...dead]) {
    const first = Math.min(...group.map((one) => one.first));
    const last = Math.max(...group.map((one) => one.last));
    const height = group.reduce((sum, one) => sum + one.up + one.down + 1, 0);
    let base = -Infinity;
    for (let column = first; column <= last; column++) base = Math.max(base, lowest.get(column) ?? -Infinity);
    const centred = base === -Infinity && group[0]?.track.kind === "branch";
    let lane = centred ? -(height - 1) / 2 : Math.max(base, 0) + 1;
    for (const one of group) {
      one.offset = lane + one.up;
      lane += one.up + one.down + 1;
      strip.up = Math.max(strip.up, one.up - one.offset);
      strip.down = Math.max(strip.down, one.offset + one.down);
    }
    for (let column = first; column <= last; column++) lowest.set(column, lane - 1);
    strip.first = Math.min(strip.first, first);
    strip.last = Math.max(strip.last, last);
  }
}

/**
 * Where the main line goes on in the next row: only where nothing else is under way.
 * @param {Dag} dag
 * @param {Map<string, number>} columns
 * @param {number} wanted columns in a row
 * @returns {{ count: number, of: (column: number) => number, first: (row: number) => number }}
 */
function rowsOf(dag, columns, wanted) {
  let total = 0;
  for (const column of columns.values()) total = Math.max(total, column + 1);
  const starts = [0];
  const rowOf = new Array(total).fill(0);
  if (total > wanted) {
    const crossing = new Array(total + 1).fill(0);
    for (const edge of dag.edges) {
      const from = columns.get(edge.from) ?? 0;
      const to = columns.get(edge.to) ?? 0;
      crossing[from] += 1;
      crossing[to] -= 1;
    }
    let open = 0;
    let possible = -1;
    for (let column = 0; column < total; column++) {
      const start = starts[starts.length - 1] ?? 0;
      // A row of very few would look lost: then it rather becomes longer.
      if (column - start >= wanted && possible - start >= wanted / 2) starts.push(possible);
      open += crossing[column];
      if (open === 1) possible = column + 1;
      rowOf[column] = starts.length - 1;
    }
    // A row that began at an earlier column than where that was noticed.
    let row = 0;
    for (let column = 0; column < total; column++) {
      if (column === starts[row + 1]) row += 1;
      rowOf[column] = row;
    }
  }
  return { count: starts.length, of: (column) => rowOf[column] ?? 0, first: (row) => starts[row] ?? 0 };
}

/**
 * The y of each row's middle lane, and of its top.
 * @param {Dag} dag
 * @param {Map<string, number>} columns
 * @param {Map<string, number>} lanes
 * @param {ReturnType<typeof rowsOf>} rows
 * @param {{ pitch: number, gap: number }} size
 */
function topsOf(dag, columns, lanes, rows, { pitch, gap }) {
  /** @type {{ min: number, max: number }[]} */
  const ranges = Array.from({ length: rows.count }, () => ({ min: 0, max: 0 }));
  for (const node of dag.nodes) {
    const range = ranges[rows.of(columns.get(node.key) ?? 0)];
    const lane = lanes.get(node.track) ?? 0;
    if (range) {
      range.min = Math.min(range.min, lane);
      range.max = Math.max(range.max, lane);
    }
  }
  let y = 0;
  /** @type {number[]} */
  const above = [];
  const at = ranges.map(({ min, max }) => {
    above.push(y);
    const middle = y - min * pitch;
    y = middle + (max + 1) * pitch + gap;
    return middle;
  });
  return { at, above, height: y - 2 * gap };
}

/**
 * @param {DagEdge} edge
 * @param {Map<string, Place>} places
 * @param {{ nodeWidth: number, nodeHeight: number, gapX: number, gapY: number }} size
 * @param {number | null} between it leads to the next row; the y in between
 * @param {boolean} blocked a node stands in its way
 * @returns {Route}
 */
function routeOf(edge, places, { nodeWidth, nodeHeight, gapX, gapY }, between, blocked) {
  const from = places.get(edge.from) ?? { x: 0, y: 0 };
  const to = places.get(edge.to) ?? { x: 0, y: 0 };
  const [sx, sy] = [from.x + nodeWidth, from.y + nodeHeight / 2];
  const [tx, ty] = [to.x, to.y + nodeHeight / 2];
  const label = { x: tx - (gapX - TRUNK) / 2, y: ty };
  let [top, bottom] = [Math.min(sy, ty), Math.max(sy, ty)];
  let d;
  const turn = tx - gapX + TRUNK;
  if (between !== null) {
    const left = tx - gapX - TRUNK / 2;
    d = `M${sx} ${sy}${path(sx + TRUNK, sy, between, 1, -1)}${path(left, between, ty, -1)}H${tx}`;
    return { d, label, box: { left, top: top - 40, right: sx + 2 * TRUNK, bottom: bottom + 40 } };
  }
  if (blocked) {
    // Above what stands in the way.
    top -= nodeHeight / 2 + gapY / 2;
    d = `M${sx} ${sy}${path(sx + TRUNK, sy, top)}${path(turn, top, ty)}H${tx}`;
  } else if (sy === ty) d = `M${sx} ${sy}H${tx}`;
  else d = `M${sx} ${sy}${path(turn, sy, ty)}H${tx}`;
  return { d, label, box: { left: sx, top: top - 40, right: tx, bottom: bottom + 40 } };
}

/**
 * To a column in one lane, there up or down to another lane, with round turns; it ends a little beside the column.
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
