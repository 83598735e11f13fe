/** URIs of the two virtual documents of a proposed file. Pure: independent of VS Code. */

import { askerName } from "../explore/format";
import type { FileDiff, PermissionContentParams } from "../protocol.gen";
import { t } from "../l10n";

export const BEFORE = "goalwright-before";
export const AFTER = "goalwright-after";

export interface Address {
  scheme: string;
  path: string;
  query: string;
}

/** A file of a request. */
export type Proposed = PermissionContentParams;

/** Build a URI of a file. Its path keeps name and extension, by which VS Code detects the language; the query has the exact values. */
export function addressOf(scheme: string, path: string, about: object): Address {
  // VS Code rejects a path that begins with two slashes, as a Windows share's does.
  return { scheme, path: `/${path.replaceAll("\\", "/").replace(/^\/+/, "")}`, query: JSON.stringify(about) };
}

/** Return the values that `addressOf` put into a URI; undefined for a URI of another scheme, or without one of `names`. */
export function aboutOf<N extends string>({ scheme, query }: Omit<Address, "path">, schemes: readonly string[], names: readonly N[]): Record<N, string> | undefined {
  if (!schemes.includes(scheme)) return undefined;
  try {
    const about = JSON.parse(query) as Record<string, unknown>;
    return names.every((name) => typeof about[name] === "string") ? (about as Record<N, string>) : undefined;
  } catch {
    return undefined;
  }
}

export function address(scheme: typeof BEFORE | typeof AFTER, { requestId, path }: Proposed): Address {
  return addressOf(scheme, path, { requestId, path });
}

export function proposedBy(uri: Address): Proposed | undefined {
  return aboutOf(uri, [BEFORE, AFTER], ["requestId", "path"]);
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
