import type { JSX } from "preact";
import type { ActiveFile } from "../../composer/active";
import { OPEN_FILE } from "../../composer/text";
import type { Attachment } from "../../session/controller";
import { IconButton } from "./buttons";
import { post, type Chip } from "./host";
import { Icon } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

/** The name of an attached file; a click opens it if it exists on disk. */
export function FileName({ file }: { file: Attachment }): JSX.Element {
  const { name, data, mediaType } = file;
  const title = visibleLine(name);
  const label = visibleLine(/[^\\/]*[\\/]?$/.exec(name)?.[0] ?? name);
  // Pasted and collected data has a name, but no path.
  const isPlace = data === null || /:\d+(-\d+)?$/.test(name) || name.includes("/");
  if (!isPlace) return <span title={title}>{label}</span>;
  return (
    <button type="button" class="chip-name" title={mediaType === OPEN_FILE ? t("{0}, open in the editor", title) : title} onClick={() => post({ type: "openChip", name })}>
      {mediaType === OPEN_FILE && <Icon name="eye" />}
      {label}
    </button>
  );
}

/** Files that are sent with the next prompt, the one in the active editor first. */
export function Chips({ files, active, onRemove }: { files: readonly Chip[]; active: ActiveFile | null; onRemove: (index: number) => void }): JSX.Element | null {
  if (files.length === 0 && !active) return null;
  return (
    <ul class="attachments" aria-label={t("Attachments")}>
      {active && (
        <li class={active.on ? "chip" : "chip left-out"}>
          <button
            type="button"
            aria-pressed={active.on}
            aria-label={t("Tell the agent about {0}", visibleLine(active.name))}
            title={active.on ? t("The agent sees that {0} is open in the editor. Click to leave it out.", visibleLine(active.name)) : t("The agent does not see that {0} is open. Click to include it.", visibleLine(active.name))}
            onClick={() => post({ type: "includeActive", on: !active.on })}
          >
            <Icon name={active.on ? "eye" : "hidden"} />
            <span>{visibleLine(active.label)}</span>
          </button>
        </li>
      )}
      {files.map((file, index) => (
        <li key={index} class="chip">
          <FileName file={file} />
          <IconButton icon="cross" label={t("Remove {0}", visibleLine(file.name))} onClick={() => onRemove(index)} />
        </li>
      ))}
    </ul>
  );
}

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
