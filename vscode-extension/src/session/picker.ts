import { existsSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { ago } from "../amounts";
import type { Parts } from "../extension";
import { button, type ListRow, liveList } from "../live_list";
import type { SessionHit, SessionInfo } from "../protocol.gen";
import { LAST_SESSION } from "./controller";
import { t } from "../l10n";
import { notify } from "../notify";

type Memory = Pick<vscode.Memento, "get" | "update">;
type PickerParts = Pick<Parts, "daemon" | "sessions" | "memory" | "shared">;

const PINNED = "goalwright.pinned";
const MOST = 200;
const PAUSE_MS = 200;
const SHOWN_MS = 4_000;

/** The list of all sessions, to open, rename, pin, export and delete them. */
export class SessionPicker {
  private sessions: readonly SessionInfo[] = [];
  private hits: readonly SessionHit[] = [];

  constructor(private readonly parts: PickerParts) {}

  /** Show the list. `open` is called with the id of the session that the user chooses. */
  async show(open: (sessionId: string) => Promise<void>): Promise<void> {
    let searches = 0;
    let timer: NodeJS.Timeout | undefined;
    this.hits = [];
    const search = async (query: string): Promise<ListRow[] | undefined> => {
      const search = ++searches;
      const found = query.trim() ? (await this.parts.daemon.request("goalwright/session/search", { query, everywhere: true })).hits : [];
      if (search !== searches) return undefined;
      this.hits = found;
      return this.rows(open);
    };
    try {
      await liveList({ placeholder: t("Search sessions by title or text"), matchOnDetail: true }, async (pick) => {
        // Somebody may type before the list is there.
        pick.onDidChangeValue((value) => {
          clearTimeout(timer);
          timer = setTimeout(() => {
            search(value).then(
              (rows) => rows && (pick.items = rows),
              (error: Error) => void notify("error", error.message),
            );
          }, PAUSE_MS);
        });
        this.sessions = (await this.parts.sessions.list(MOST)).sessions;
        return this.rows(open);
      });
    } finally {
      clearTimeout(timer);
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
      if ((await notify("info", text, copy)) === copy) await vscode.env.clipboard.writeText(command);
      return;
    }
    await this.parts.shared.update(folder, sessionId);
    await vscode.commands.executeCommand("vscode.openFolder", vscode.Uri.file(folder), { forceNewWindow: true });
  }

  private rows(open: (sessionId: string) => Promise<void>): ListRow[] {
    const { sessions, hits } = this;
    const excerpts = new Map(hits.map(({ sessionId, excerpt }) => [sessionId, excerpt]));
    const pinned = new Set(this.parts.memory.get<string[]>(PINNED, []));
    const first = sessions.filter(({ trace }) => pinned.has(trace.traceId));
    const others = sessions.filter(({ trace }) => !pinned.has(trace.traceId));
    const row = (session: SessionInfo): ListRow => {
      const { trace, status } = session;
      const excerpt = excerpts.get(trace.traceId);
      const pin = (on: boolean) => ({ stay: () => this.pin(trace.traceId, on).then(() => this.rows(open)) });
      return {
        label: titleOf(session),
        description: [ago(trace.updatedAt, Date.now()), status === "idle" ? "" : status === "waiting" ? t("waiting") : t("running")].filter(Boolean).join(" · "),
        detail: excerpt || trace.summary.replace(/\*\*|`/g, "") || trace.model || "",
        iconPath: new vscode.ThemeIcon(trace.traceId === this.parts.sessions.sessionId ? "check" : "comment"),
        buttons: [
          pinned.has(trace.traceId) ? button("pinned", t("Unpin"), pin(false)) : button("pin", t("Pin"), pin(true)),
          button("edit", t("Rename…"), { leave: () => this.rename(session) }),
          button("export", t("Export…"), { leave: () => this.export(session) }),
          button("trash", t("Delete…"), { leave: () => this.delete(session) }),
        ],
        // VS Code would hide a row that matches by text but not by label.
        ...(excerpt === undefined ? {} : { alwaysShow: true }),
        enter: () => open(trace.traceId),
      };
    };
    const separator = (label: string): ListRow => ({ label, kind: vscode.QuickPickItemKind.Separator });
    const mine = first.length > 0 ? [separator(t("pinned")), ...first.map(row), separator(t("others")), ...others.map(row)] : others.map(row);
    const found = (hit: SessionHit): ListRow => ({
      label: hit.title || t("Untitled session"),
      description: [path.basename(hit.folder ?? ""), hit.user].filter(Boolean).join(" · "),
      detail: hit.excerpt,
      iconPath: new vscode.ThemeIcon(hit.folder === null ? "comment" : "folder"),
      alwaysShow: true,
      enter: () => (hit.folder === null ? open(hit.sessionId) : this.openElsewhere(hit)),
    });
    const listed = new Set(sessions.map(({ trace }) => trace.traceId));
    const older = hits.filter(({ folder, sessionId }) => folder === null && !listed.has(sessionId)).map(found);
    const elsewhere = hits.filter(({ folder }) => folder !== null).map(found);
    return [
      ...(sessions.length > 0 ? [...mine, ...older] : [{ label: t("No sessions yet") }]),
      ...(elsewhere.length > 0 ? [separator(t("in other folders")), ...elsewhere] : []),
    ];
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
    void notify("info", t("Exported to {0}. Secrets are taken out.", archive));
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

function titleOf({ trace }: SessionInfo): string {
  return trace.title || t("Untitled session");
}
