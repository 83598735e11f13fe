import * as vscode from "vscode";
import type { ActiveEditor } from "../composer/active";
import type { Daemon, DaemonState } from "../daemon/daemon";
import { configuredMode, places, workspaceFolder } from "../daemon/environment";
import { ACTIONS, type ActionId, stateText } from "../daemon/problems";
import type { DaemonStatus, Mode, SessionInfo } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import type { Attention } from "../status/attention";
import type { Surrounding } from "./messages";
import { ago } from "../amounts";
import { USUAL_AGENT } from "../explore/format";
import { Observable } from "../observable";
import { t } from "../l10n";

const RECENT = 6;

/** Keep `Surrounding` up to date for the webview. */
export class SurroundingModel extends Observable<Surrounding> {
  private recent: readonly SessionInfo[] = [];
  /** Numbers of the last question for the recent sessions, and of the last one that was answered. */
  private listed = 0;
  private newest = 0;
  private installing = false;
  private mode: Mode | undefined;
  private local: readonly string[] = [];

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
    private readonly attention: Attention,
    private readonly active: ActiveEditor,
  ) {
    super();
    this.disposables.push(
      daemon.onDidChangeState((state) => {
        this.fire();
        if (state.phase !== "connected") return;
        this.readRecent();
        this.readMode();
        this.readLocal(state.status);
      }),
      sessions.onDidChange((change) => {
        if (change.kind === "reset" && !sessions.state && daemon.state.phase === "connected") this.readRecent();
      }),
      attention.onDidChange(() => {
        if (sessions.state || daemon.state.phase !== "connected") return;
        this.fire();
        this.readRecent();
      }),
      active.onDidChange(() => this.fire()),
      vscode.workspace.onDidChangeWorkspaceFolders(() => this.fire()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.fire()),
    );
  }

  get value(): Surrounding {
    const { state } = this.daemon;
    const status = state.phase === "connected" ? state.status : undefined;
    const folder = workspaceFolder();
    const several = (vscode.workspace.workspaceFolders?.length ?? 0) > 1;
    const mac = process.platform === "darwin";
    return {
      connection: this.installing
        ? { phase: "installing", text: t("Installing Goalwright…"), actions: buttons(["showLog"]) }
        : connection(state),
      model: status?.model ?? "",
      demo: status?.demo ?? false,
      examples: status ? examples(status) : [],
      local: this.local,
      notice: status ? [status.demo ? "" : status.modelNotice, status.notice].filter(Boolean).join("\n") : "",
      folder: folder?.name ?? "",
      folderNote: several && folder ? t("Working in {0}.", folder.name) : "",
      recent: this.recent.map(({ trace }) => {
        const active = this.attention.active.find(({ sessionId }) => sessionId === trace.traceId);
        const needs = active?.waits ?? false;
        const when = needs ? t("needs approval") : active ? t("working") : ago(trace.updatedAt, Date.now());
        return { id: trace.traceId, title: trace.title || t("Untitled session"), when, needs };
      }),
      keys: mac ? { accept: "⌥⌘Y", reject: "⌥⌘N" } : { accept: "Shift+Alt+Y", reject: "Shift+Alt+N" },
      places: places(),
      mode: this.defaultMode,
      agent: this.sessions.agentName ?? USUAL_AGENT,
      active: this.active.value,
      restricted: folder !== undefined && !vscode.workspace.isTrusted,
    };
  }

  /** The mode of a new session. */
  get defaultMode(): Mode {
    return this.mode ?? configuredMode() ?? "ask";
  }

  setInstalling(installing: boolean): void {
    this.installing = installing;
    this.fire();
  }

  /** Read a part of the state. It is a convenience: without it the old one stays, and what needs it reports the error. */
  private read(part: () => Promise<void>): void {
    void part().then(() => this.fire(), () => undefined);
  }

  private readRecent(): void {
    const number = ++this.listed;
    this.read(async () => {
      const { sessions } = await this.sessions.list(RECENT);
      // A newer list may have come before this one.
      if (number > this.newest) [this.newest, this.recent] = [number, sessions];
    });
  }

  /** Only users without a model need to know which model servers run on this machine. */
  private readLocal({ demo }: DaemonStatus): void {
    if (!demo) return;
    this.read(async () => {
      const { providers } = await this.daemon.request("goalwright/model/list", { provider: null, env: {} });
      this.local = providers.filter(({ keyVariable, connected }) => !keyVariable && connected).map(({ id }) => id);
    });
  }

  private readMode(): void {
    this.read(async () => {
      // Without an answer, a new session has the mode of the setting.
      this.mode = await this.daemon.request("goalwright/permission/rules", {}).then(({ mode }) => mode, () => undefined);
    });
  }

  private fire(): void {
    this.changed.fire(this.value);
  }
}

/** The demo has a single task; a real model can start with any of these prompts. */
function examples({ demo, demoPrompt }: DaemonStatus): string[] {
  if (demo) return demoPrompt ? [demoPrompt] : [];
  return [t("Explain this project: what it does, its main parts, and how to run its tests."), t("Run the tests, and fix what fails."), t("Plan a change with me. Ask what I want first.")];
}

function connection(state: DaemonState): Surrounding["connection"] {
  const { phase } = state;
  const actions = phase === "stopped" ? [{ id: "tryAgain" as const, label: t("Start Again") }] : buttons(phase === "failed" ? state.problem.actions : phase === "noFolder" ? ["openFolder"] : []);
  return { phase, text: stateText(state), actions };
}

function buttons(ids: readonly ActionId[]): { id: ActionId; label: string }[] {
  return ids.map((id) => ({ id, label: ACTIONS[id].label }));
}
