import { existsSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { ago } from "../amounts";
import type { Parts } from "../extension";
import type { SessionHit, SessionInfo } from "../protocol.gen";
import { LAST_SESSION } from "./controller";
import { t } from "../l10n";

type Memory = Pick<vscode.Memento, "get" | "update">;
type PickerParts = Pick<Parts, "daemon" | "sessions" | "memory" | "shared">;

const PINNED = "goalwright.pinned";
const MOST = 200;
const PAUSE_MS = 200;
const SHOWN_MS = 4_000;

type Action = "pin" | "unpin" | "rename" | "export" | "delete";
interface Button extends vscode.QuickInputButton {
  action: Action;
}
interface Row extends vscode.QuickPickItem {
  session?: SessionInfo;
  /** A session of another folder, which a search in the database found. */
  elsewhere?: SessionHit;
}

function button(action: Action): Button {
  const known: Record<Action, [string, string]> = {
    pin: ["pin", t("Pin")],
    unpin: ["pinned", t("Unpin")],
    rename: ["edit", t("Rename…")],
    export: ["export", t("Export…")],
    delete: ["trash", t("Delete…")],
  };
  const [icon, tooltip] = known[action];
  return { action, tooltip, iconPath: new vscode.ThemeIcon(icon) };
}

/** The list of all sessions, to open, rename, pin, export and delete them. */
export class SessionPicker {
  constructor(private readonly parts: PickerParts) {}

  /** Let the user choose a session. Returns its id, or undefined for none. */
  async choose(): Promise<string | undefined> {
    const pick = vscode.window.createQuickPick<Row>();
    pick.placeholder = t("Search sessions by title or text");
    pick.matchOnDetail = true;
    let sessions: readonly SessionInfo[] = [];
    let hits: readonly SessionHit[] = [];
    let searches = 0;
    let timer: NodeJS.Timeout | undefined;
    const show = (): void => {
      pick.items = [...this.rows(sessions, hits), ...elsewhere(hits)];
    };
    const read = async (): Promise<void> => {
      ({ sessions } = await this.parts.sessions.list(MOST));
      show();
    };
    const search = async (query: string): Promise<void> => {
      const search = ++searches;
      const found = query.trim() ? (await this.parts.daemon.request("goalwright/session/search", { query, everywhere: true })).hits : [];
      if (search !== searches) return;
      hits = found;
      show();
    };
    const tell = (error: unknown): void => void vscode.window.showErrorMessage((error as Error).message);
    try {
      // Somebody may type before the list is there.
      pick.onDidChangeValue((value) => {
        clearTimeout(timer);
        timer = setTimeout(() => void search(value).catch(tell), PAUSE_MS);
      });
      pick.show();
      pick.busy = true;
      await read();
      pick.busy = false;
      return await new Promise<string | undefined>((resolve) => {
        pick.onDidTriggerItemButton(({ item: { session }, button: pressed }) => {
          const { action } = pressed as Button;
          if (!session) return;
          if (action === "pin" || action === "unpin") return void this.pin(session.trace.traceId, action === "pin").then(show, tell);
          // Actions with a dialog replace the list.
          resolve(undefined);
          this[action](session).catch(tell);
        });
        pick.onDidAccept(() => {
          const [row] = pick.selectedItems;
          if (row?.elsewhere) this.openElsewhere(row.elsewhere).catch(tell);
          resolve(row?.session?.trace.traceId);
        });
        pick.onDidHide(() => resolve(undefined));
      });
    } finally {
      clearTimeout(timer);
      pick.dispose();
    }
  }

  /** Rename the current session. */
  async renameShown(): Promise<void> {
    const info = this.parts.sessions.state?.session;
    if (!info) throw new Error(t("Open a session first."));
    await this.rename(info);
  }

  private async openElsewhere({ sessionId, title, folder, user }: SessionHit): Promise<void> {
    if (!folder || !existsSync(path.join(folder, ".trace", sessionId))) {
      const command = ["goalwright", "trace", "copy", "URL", "files", "--trace", sessionId].join(" ");
      const copy = t("Copy Command");
      const text = t("“{0}” of {1} is not on this machine. To read it here, copy it with {2}.", title || t("Untitled session"), user || t("an unknown user"), command);
      if ((await vscode.window.showInformationMessage(text, copy)) === copy) await vscode.env.clipboard.writeText(command);
      return;
    }
    await this.parts.shared.update(folder, sessionId);
    await vscode.commands.executeCommand("vscode.openFolder", vscode.Uri.file(folder), { forceNewWindow: true });
  }

  private rows(sessions: readonly SessionInfo[], hits: readonly SessionHit[]): Row[] {
    const excerpts = new Map(hits.map(({ sessionId, excerpt }) => [sessionId, excerpt]));
    const pinned = new Set(this.parts.memory.get<string[]>(PINNED, []));
    const first = sessions.filter(({ trace }) => pinned.has(trace.traceId));
    const others = sessions.filter(({ trace }) => !pinned.has(trace.traceId));
    const row = (session: SessionInfo): Row => {
      const { trace, status } = session;
      const excerpt = excerpts.get(trace.traceId);
      return {
        label: titleOf(session),
        description: [ago(trace.updatedAt, Date.now()), status === "idle" ? "" : status === "waiting" ? t("waiting") : t("running")].filter(Boolean).join(" · "),
        detail: excerpt || trace.summary.replace(/\*\*|`/g, "") || trace.model || "",
        iconPath: new vscode.ThemeIcon(trace.traceId === this.parts.sessions.sessionId ? "check" : "comment"),
        buttons: [button(pinned.has(trace.traceId) ? "unpin" : "pin"), button("rename"), button("export"), button("delete")],
        // VS Code would hide a row that matches by text but not by label.
        ...(excerpt === undefined ? {} : { alwaysShow: true }),
        session,
      };
    };
    if (sessions.length === 0) return [{ label: t("No sessions yet") }];
    const separator = (label: string): Row => ({ label, kind: vscode.QuickPickItemKind.Separator });
    return [...(first.length > 0 ? [separator(t("pinned")), ...first.map(row), separator(t("others"))] : []), ...others.map(row)];
  }

  private async pin(sessionId: string, on: boolean): Promise<void> {
    const others = this.parts.memory.get<string[]>(PINNED, []).filter((id) => id !== sessionId);
    await this.parts.memory.update(PINNED, on ? [...others, sessionId] : others);
  }

  private async rename(session: SessionInfo): Promise<void> {
    const title = await vscode.window.showInputBox({ title: t("Rename Session"), value: session.trace.title, prompt: t("The title of the session"), validateInput: (text) => (text.trim() ? undefined : t("Enter a title.")) });
    if (title?.trim()) await this.parts.daemon.request("goalwright/session/set", { sessionId: session.trace.traceId, title: title.trim() });
  }

  private async export(session: SessionInfo): Promise<void> {
    const { traceId } = session.trace;
    const target = await vscode.window.showSaveDialog({ title: t("Export Session"), defaultUri: vscode.Uri.file(path.join(os.homedir(), `${traceId}.tar.gz`)), filters: { tar: ["tar.gz"] } });
    if (!target) return;
    const { archive } = await this.parts.daemon.request("goalwright/trace/export", { sessionId: traceId, archive: target.fsPath });
    void vscode.window.showInformationMessage(t("Exported to {0}. Secrets are taken out.", archive));
  }

  private async delete(session: SessionInfo): Promise<void> {
    const { sessions, daemon } = this.parts;
    const { traceId } = session.trace;
    const confirm = t("Delete");
    const detail = t("Its messages, plan and file history are deleted. Workspace files stay as they are.");
    if ((await vscode.window.showWarningMessage(t("Delete the session “{0}”?", titleOf(session)), { modal: true, detail }, confirm)) !== confirm) return;
    await daemon.request("goalwright/session/delete", { sessionId: traceId });
    await this.pin(traceId, false);
    if (sessions.sessionId === traceId) await sessions.startNew();
    vscode.window.setStatusBarMessage(t("Goalwright: deleted “{0}”", titleOf(session)), SHOWN_MS);
  }
}

/** Remember, as the one to show, the session of this folder that was chosen in the window of another folder. */
export function takeChosen(shared: Memory, memory: Memory, folder: string): void {
  const sessionId = shared.get<string>(folder);
  if (sessionId === undefined) return;
  void memory.update(LAST_SESSION, sessionId);
  void shared.update(folder, undefined);
}

function elsewhere(hits: readonly SessionHit[]): Row[] {
  const rows = hits
    .filter(({ folder }) => folder !== null)
    .map((hit): Row => ({
      label: hit.title || t("Untitled session"),
      description: [path.basename(hit.folder ?? ""), hit.user].filter(Boolean).join(" · "),
      detail: hit.excerpt,
      iconPath: new vscode.ThemeIcon("folder"),
      alwaysShow: true,
      elsewhere: hit,
    }));
  return rows.length > 0 ? [{ label: t("in other folders"), kind: vscode.QuickPickItemKind.Separator }, ...rows] : [];
}

function titleOf({ trace }: SessionInfo): string {
  return trace.title || t("Untitled session");
}
