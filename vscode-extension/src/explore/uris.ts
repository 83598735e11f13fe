/** URIs of the two sides of a file that a branch changed. Pure: independent of VS Code. */

import { t } from "../l10n";

export const BRANCH = "goalwright-branch";

export interface BranchSide {
  sessionId: string;
  branchId: string;
  /** Path as in `FileDiff.path`. */
  path: string;
  side: "base" | "branch";
}

/** Build a URI. Its path keeps name and extension, by which VS Code detects the language; the query has the exact values. */
export function sideAddress(side: BranchSide): { scheme: string; path: string; query: string } {
  const slashed = side.path.replaceAll("\\", "/");
  return { scheme: BRANCH, path: slashed.startsWith("/") ? slashed : `/${slashed}`, query: JSON.stringify(side) };
}

export function sideOf(uri: { scheme: string; query: string }): BranchSide | undefined {
  if (uri.scheme !== BRANCH) return undefined;
  try {
    const { sessionId, branchId, path, side } = JSON.parse(uri.query) as Partial<Record<string, unknown>>;
    const known = typeof sessionId === "string" && typeof branchId === "string" && typeof path === "string";
    return known && (side === "base" || side === "branch") ? { sessionId, branchId, path, side } : undefined;
  } catch {
    return undefined;
  }
}

/** Return the tab's title: `cart.py — Branch A`. */
export function sideTitle({ path, branchId }: Pick<BranchSide, "path" | "branchId">): string {
  return t("{0} — Branch {1}", path.split(/[\\/]/).at(-1) || path, branchId);
}
