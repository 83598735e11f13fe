// Writes a graph as a self-contained SVG file with its colours and positions. Pure except for reading the colours.

import { statsLine, statusIcon, clip, columns } from "./format.js";

/** @import { Dag, DagNode, Layout } from "./shapes.js" */

/** @typedef {"back" | "node" | "ink" | "muted" | "border" | "line" | "grey" | "done" | "doing" | "fork"} Colour */

const MARGIN = 32;
/** Average pixels per column of text. */
const COLUMN = 7;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "");

/**
 * @param {Dag} dag
 * @param {Layout} layout
 * @param {Readonly<Record<Colour, string>>} colours
 * @param {string} title
 * @returns {string}
 */
export function pictureOf(dag, layout, colours, title) {
  const [width, height] = [Math.ceil(layout.width + 2 * MARGIN), Math.ceil(layout.height + 2 * MARGIN)];
  const room = layout.down ? 150 : 0;
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ size, /** @type {string} */ fill, /** @type {string} */ words, more = "") =>
    `<text x="${x}" y="${y}" font-size="${size}" fill="${fill}"${more}>${escaped(words)}</text>`;
  const edges = dag.edges.map((edge) => {
    const route = layout.routes.get(edge.key);
    if (!route) return "";
    const stroke = edge.abandoned ? `${colours.grey}" stroke-dasharray="5 4` : colours.line;
    const stats = edge.shared ? "" : statsLine(edge.stats, 22);
    const { x, y } = route.label;
    const label = stats && (layout.down ? text(x + 12, y + 4, 11, colours.muted, stats) : text(x, y - 8, 11, colours.muted, stats, ' text-anchor="middle"'));
    return `<path d="${route.d}" fill="none" stroke="${stroke}" stroke-width="1.5" marker-end="url(#arrow)"/>${label}`;
  });
  const nodes = dag.nodes.map((node) => {
    const place = layout.places.get(node.key);
    if (!place) return "";
    const ink = node.abandoned ? colours.grey : colours.ink;
    const state = colourOf(node, colours);
    const box = `<rect width="${layout.nodeWidth}" height="${layout.nodeHeight}" rx="${node.kind === "start" ? 32 : 10}" fill="${colours.node}" stroke="${node.current ? colours.doing : colours.border}"${node.abandoned || node.status === "pending" ? ' stroke-dasharray="4 3"' : ""}/>`;
    const head = node.kind === "start" ? "" : text(14, 19, 11, state, statusIcon(node.status)) + text(30, 19, 11, ink, node.label, ' font-weight="600"');
    const words = linesOf(node.title, Math.floor((layout.nodeWidth - 28) / COLUMN)).map((line, at) => text(14, (node.kind === "start" ? 28 : 37) + at * 16, 12.5, ink, line));
    return `<g transform="translate(${place.x} ${place.y})"><title>${escaped([node.title, node.summary].filter(Boolean).join("\n"))}</title>${box}${head}${words.join("")}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width + room}" height="${height}" viewBox="${-MARGIN} ${-MARGIN} ${width + room} ${height}" font-family="${FONT}">
<title>${escaped(title)}</title>
<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 .8 9.5 5 0 9.2z" fill="${colours.line}"/></marker></defs>
<rect x="${-MARGIN}" y="${-MARGIN}" width="100%" height="100%" fill="${colours.back}"/>
${edges.join("\n")}
${nodes.join("\n")}
</svg>
`;
}

/**
 * @param {DagNode} node
 * @param {Readonly<Record<Colour, string>>} colours
 */
function colourOf(node, colours) {
  if (node.abandoned) return colours.grey;
  return node.status === "completed" ? colours.done : node.status === "in_progress" ? colours.doing : colours.muted;
}

/**
 * Breaks a title into at most two lines.
 * @param {string} title
 * @param {number} room columns in each
 */
function linesOf(title, room) {
  const words = title.replace(/\s+/g, " ").trim().split(" ");
  let first = "";
  while (words[0] !== undefined && columns(`${first} ${words[0]}`) <= room + 1) first += `${first && " "}${words.shift()}`;
  if (!first) return [clip(title, room - 1)];
  return words.length > 0 ? [first, clip(words.join(" "), room - 1)] : [first];
}

/**
 * Reads the colours of a displayed graph, opaque and in a format that every viewer knows.
 * @param {HTMLElement} host
 * @returns {Record<Colour, string>}
 */
export function coloursOf(host) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const probe = host.appendChild(document.createElement("i"));
  const solid = (/** @type {string} */ name) => {
    probe.style.color = `var(--g-${name})`;
    if (!canvas) return getComputedStyle(probe).color;
    for (const layer of ["back", name]) {
      probe.style.color = `var(--g-${layer})`;
      canvas.fillStyle = getComputedStyle(probe).color;
      canvas.fillRect(0, 0, 1, 1);
    }
    const [red = 0, green = 0, blue = 0] = canvas.getImageData(0, 0, 1, 1).data;
    return `#${[red, green, blue].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
  };
  const colours = {
    back: solid("back"), node: solid("node"), ink: solid("ink"), muted: solid("edge-text"), border: solid("border"), line: solid("line"),
    grey: solid("grey"), done: solid("done"), doing: solid("doing"), fork: solid("fork"),
  };
  probe.remove();
  return colours;
}
