import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { ago } from "../chat/time";
import type { Daemon } from "../daemon/daemon";
import type { SessionInfo } from "../protocol.gen";
import type { SessionController } from "./controller";
import { t } from "../l10n";

interface Parts {
  daemon: Daemon;
  sessions: SessionController;
  /** Storage for the pinned sessions of this folder. */
  memory: vscode.Memento;
}

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
  constructor(private readonly parts: Parts) {}

  /** Let the user choose a session. Returns its id, or undefined for none. */
  async choose(): Promise<string | undefined> {
    const pick = vscode.window.createQuickPick<Row>();
    pick.placeholder = t("Search sessions by title or text");
    pick.matchOnDetail = true;
    let sessions: readonly SessionInfo[] = [];
    let excerpts: ReadonlyMap<string, string> = new Map();
    let searches = 0;
    let timer: NodeJS.Timeout | undefined;
    const show = (): void => {
      pick.items = this.rows(sessions, excerpts);
    };
    const read = async (): Promise<void> => {
      ({ sessions } = await this.parts.sessions.list(MOST));
      show();
    };
    const search = async (query: string): Promise<void> => {
      const search = ++searches;
      const { hits } = query.trim() ? await this.parts.daemon.request("goalwright/session/search", { query }) : { hits: [] };
      if (search !== searches) return;
      excerpts = new Map(hits.map(({ sessionId, excerpt }) => [sessionId, excerpt ?? ""]));
      show();
    };
    const tell = (error: unknown): void => void vscode.window.showErrorMessage((error as Error).message);
    try {
      pick.show();
      pick.busy = true;
      await read();
      pick.busy = false;
      return await new Promise<string | undefined>((resolve) => {
        pick.onDidChangeValue((value) => {
          clearTimeout(timer);
          timer = setTimeout(() => void search(value).catch(tell), PAUSE_MS);
        });
        pick.onDidTriggerItemButton(({ item, button: pressed }) => {
          const { action } = pressed as Button;
          if (!item.session) return;
          // Actions with a dialog replace the list.
          if (action !== "pin" && action !== "unpin") resolve(undefined);
          this.act(action, item.session).then(show, tell);
        });
        pick.onDidAccept(() => resolve(pick.selectedItems[0]?.session?.trace.traceId));
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

  private rows(sessions: readonly SessionInfo[], excerpts: ReadonlyMap<string, string>): Row[] {
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

  private async act(action: Action, session: SessionInfo): Promise<void> {
    switch (action) {
      case "pin":
      case "unpin":
        return this.pin(session.trace.traceId, action === "pin");
      case "rename":
        return this.rename(session);
      case "export":
        return this.export(session);
      case "delete":
        return this.delete(session);
    }
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

function titleOf({ trace }: SessionInfo): string {
  return trace.title || t("Untitled session");
}
