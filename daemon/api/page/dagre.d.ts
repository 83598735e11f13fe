/** The part of @dagrejs/dagre that the page uses. */

export interface Point {
  x: number;
  y: number;
}

export class Graph {
  setGraph(label: { rankdir?: "TB" | "LR"; align?: "UL"; ranker?: string; nodesep?: number; edgesep?: number; ranksep?: number }): this;
  setDefaultEdgeLabel(label: () => object): this;
  setNode(key: string, label: { width: number; height: number }): this;
  setEdge(from: string, to: string, label: { weight: number }): this;
  node(key: string): Point;
  edge(from: string, to: string): { points: Point[] };
}

export function layout(graph: Graph, options?: { disableOptimalOrderHeuristic?: boolean }): void;
