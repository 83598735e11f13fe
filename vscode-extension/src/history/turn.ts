/** What the newest turn changed on disk. Pure. */
import type { HistoryChange, HistoryFile } from "../protocol.gen";
import type { Item } from "../session/state";

export interface TurnChanges {
  /** The message that the turn began with. */
  messageId: string;
  /** Each file once, with all its changed lines. */
  files: readonly Pick<HistoryFile, "path" | "added" | "removed">[];
}

/** Undefined when the turn changed nothing, or all of it is undone. */
export function turnChanges(items: readonly Item[], changes: Readonly<Record<string, HistoryChange>>): TurnChanges | undefined {
  const files = new Map<string, { path: string; added: number; removed: number }>();
  for (const item of items.toReversed()) {
    if (item.kind !== "message") continue;
    const { message } = item;
    if (message.role === "user" && !message.content.some((part) => part.type === "compaction")) {
      return files.size > 0 ? { messageId: message.messageId, files: [...files.values()] } : undefined;
    }
    const applied = message.content.map((part) => (part.type === "tool_call" ? changes[part.id] : undefined)).filter((change) => change?.state === "applied");
    for (const { path, added, removed } of applied.flatMap((change) => change?.files ?? [])) {
      const known = files.get(path);
      files.set(path, { path, added: added + (known?.added ?? 0), removed: removed + (known?.removed ?? 0) });
    }
  }
  return undefined;
}
