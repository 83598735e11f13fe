// Places of a graph's nodes and the ways of its edges: from left to right, in rows like text. Pure; grows linearly.

/** @import { Dag, DagEdge, DagTrack, Layout, LayoutOptions, Place, Route } from "./shapes.js" */

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
  const { nodeWidth = 208, nodeHeight = 64, gapX = 148, gapY = 36, wrap = 0 } = options;
  const columns = columnsOf(dag);
  const lanes = lanesOf(dag, columns);
  const rows = rowsOf(dag, columns, wrap > 0 ? Math.max(3, Math.floor(wrap / (nodeWidth + gapX))) : Infinity);
  const margin = rows.count > 1 ? gapX : 0;
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
    routes.set(edge.key, routeOf(edge, places, size, rows.of(from) !== rows.of(to), blocked));
  }
  return { nodeWidth, nodeHeight, width: width + (rows.count > 1 ? gapX / 4 : 0), height: tops.height, places, routes };
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
      if (column - start >= wanted && possible > start) starts.push(possible);
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
 * The y of each row's middle lane.
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
  const at = ranges.map(({ min, max }) => {
    const middle = y - min * pitch;
    y = middle + (max + 1) * pitch + gap;
    return middle;
  });
  return { at, height: y - 2 * gap };
}

/**
 * @param {DagEdge} edge
 * @param {Map<string, Place>} places
 * @param {{ nodeWidth: number, nodeHeight: number, gapX: number, gapY: number }} size
 * @param {boolean} wraps it leads to the next row
 * @param {boolean} blocked a node stands in its way
 * @returns {Route}
 */
function routeOf(edge, places, { nodeWidth, nodeHeight, gapX, gapY }, wraps, blocked) {
  const from = places.get(edge.from) ?? { x: 0, y: 0 };
  const to = places.get(edge.to) ?? { x: 0, y: 0 };
  const [sx, sy] = [from.x + nodeWidth, from.y + nodeHeight / 2];
  const [tx, ty] = [to.x, to.y + nodeHeight / 2];
  const label = { x: tx - gapX / 2, y: ty };
  let [top, bottom] = [Math.min(sy, ty), Math.max(sy, ty)];
  let d;
  if (wraps) {
    const r = 14;
    const between = to.y - gapY;
    const left = tx - gapX + r;
    d = `M${sx} ${sy}h6q${r} 0 ${r} ${r}V${between - r}q0 ${r} ${-r} ${r}H${left + r}q${-r} 0 ${-r} ${r}V${ty - r}q0 ${r} ${r} ${r}H${tx}`;
    return { d, label, box: { left: left - r, top: top - 40, right: sx + 2 * r, bottom: bottom + 40 } };
  }
  const bend = gapX * 0.5;
  if (blocked) {
    top -= nodeHeight / 2 + gapY * 0.6;
    d = `M${sx} ${sy}C${sx + bend} ${sy} ${sx + bend * 0.4} ${top} ${sx + gapX} ${top}H${tx - gapX}C${tx - bend * 0.4} ${top} ${tx - bend} ${ty} ${tx} ${ty}`;
  } else if (sy === ty) d = `M${sx} ${sy}H${tx}`;
  else {
    const turn = tx - gapX;
    d = `M${sx} ${sy}${turn > sx ? `H${turn}` : ""}C${turn + bend} ${sy} ${tx - bend} ${ty} ${tx} ${ty}`;
  }
  return { d, label, box: { left: sx, top: top - 40, right: tx, bottom: bottom + 40 } };
}
