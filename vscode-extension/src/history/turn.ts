/** File changes of the last turn. Pure. */
import type { HistoryChange, HistoryFile } from "../protocol.gen";
import type { Item } from "../session/state";

export interface TurnChanges {
  /** The message that started the turn. */
  messageId: string;
  /** Each file once, with the sum of its changed lines. */
  files: readonly Pick<HistoryFile, "path" | "added" | "removed">[];
}

/** Return the changes of the last turn; undefined when it changed nothing or everything is undone. */
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
