/** Addresses of the two sides of a file that a branch changed. Pure: no part of VS Code in here. */

import { t } from "../l10n";

export const BRANCH = "goalwright-branch";

export interface BranchSide {
  sessionId: string;
  branchId: string;
  /** As in `FileDiff.path`. */
  path: string;
  side: "base" | "branch";
}

/** The path keeps its name and extension, by which VS Code finds the language; the query has what is exact. */
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

/** Title of the tab: `cart.py — Branch A`. */
export function sideTitle({ path, branchId }: Pick<BranchSide, "path" | "branchId">): string {
  return t("{0} — Branch {1}", path.split(/[\\/]/).at(-1) || path, branchId);
}
