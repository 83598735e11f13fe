/** Pasted and dropped data as attachments of a prompt. */
import type { Attachment } from "../../session/controller";
import { t } from "../../l10n";

/** The daemon's limit in bytes for all attachments of a prompt; sending more would fail. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Return files dragged from VS Code's Explorer, which gives their paths; the daemon reads them. */
export function pathsOf(given: DataTransfer | null): Attachment[] {
  const list = given?.getData("application/vnd.code.uri-list") || given?.getData("text/uri-list") || "";
  return list.split(/\r?\n/).flatMap((line) => {
    const path = line.startsWith("#") ? "" : pathOf(line.trim());
    return path ? [{ type: "file", name: path, mediaType: "", data: null }] : [];
  });
}

function pathOf(uri: string): string {
  const found = /^(?:file|vscode-remote):\/\/[^/]*(\/.+)$/.exec(uri);
  if (!found?.[1]) return "";
  try {
    const path = decodeURIComponent(found[1]);
    return path.replace(/^\/(?=[a-zA-Z]:)/, "");
  } catch {
    return "";
  }
}

/** Read pasted images and files from other programs. Throws an error with a message for the user. */
export async function contentsOf(files: readonly File[]): Promise<Attachment[]> {
  if (files.reduce((sum, file) => sum + file.size, 0) > MOST_BYTES) throw new Error(t("These files are too large to attach: the limit is 16 MB in total."));
  return Promise.all(files.map(async (file) => ({ type: "file" as const, name: file.name || t("pasted"), mediaType: file.type, data: await base64(file) })));
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(new Error(t("{0} cannot be read. Attach it again.", file.name || t("The file"))));
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.readAsDataURL(file);
  });
}
