/** URIs of the two virtual documents of a proposed file. Pure: independent of VS Code. */

import { askerName } from "../explore/format";
import type { FileDiff } from "../protocol.gen";
import { t } from "../l10n";

export const BEFORE = "goalwright-before";
export const AFTER = "goalwright-after";

export interface Address {
  scheme: string;
  path: string;
  query: string;
}

export interface Proposed {
  requestId: string;
  /** Path as in `FileDiff.path`. */
  path: string;
}

/** Build a URI of a file. Its path keeps name and extension, by which VS Code detects the language; the query has the exact values. */
export function addressOf(scheme: string, path: string, about: object): Address {
  const slashed = path.replaceAll("\\", "/");
  return { scheme, path: slashed.startsWith("/") ? slashed : `/${slashed}`, query: JSON.stringify(about) };
}

export function address(scheme: typeof BEFORE | typeof AFTER, { requestId, path }: Proposed): Address {
  return addressOf(scheme, path, { request: requestId, path });
}

/** Parse a URI, or return undefined when this module did not make it. */
export function proposedBy(uri: Address): Proposed | undefined {
  if (uri.scheme !== BEFORE && uri.scheme !== AFTER) return undefined;
  try {
    const { request, path } = JSON.parse(uri.query) as { request?: unknown; path?: unknown };
    return typeof request === "string" && typeof path === "string" ? { requestId: request, path } : undefined;
  } catch {
    return undefined;
  }
}

/** Return the tab's title: the file's name, its origin, and the branch or sub-agent that asks. */
export function title(file: Pick<FileDiff, "path" | "kind" | "movedFrom">, branchId: string | null = null): string {
  return branchId ? `${askerName(branchId)} · ${plainTitle(file)}` : plainTitle(file);
}

const TITLES: Readonly<Record<FileDiff["kind"], (name: string) => string>> = {
  create: (name) => t("{0} — new file proposed by Goalwright", name),
  update: (name) => t("{0} — proposed by Goalwright", name),
  delete: (name) => t("{0} — deletion proposed by Goalwright", name),
};

function plainTitle({ path, kind, movedFrom }: Pick<FileDiff, "path" | "kind" | "movedFrom">): string {
  const name = path.split(/[\\/]/).at(-1) || path;
  if (movedFrom) {
    const old = movedFrom.split(/[\\/]/).at(-1) || movedFrom;
    return t("{0} → {1} — move proposed by Goalwright", old === name ? movedFrom : old, old === name ? path : name);
  }
  return TITLES[kind](name);
}
