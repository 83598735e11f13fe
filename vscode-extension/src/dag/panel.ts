import * as vscode from "vscode";
import { page } from "../chat/html";
import type { Parts } from "../extension";
import { asProblem } from "../daemon/problems";
import { childSession } from "../explore/view";
import type { BranchParams, Event, TraceMessagesParams } from "../protocol.gen";
import type { Update } from "../session/state";
import { TOLD } from "../../../daemon/api/page/session.js";
import type { Branch, Frame, Message, SessionView } from "../../../daemon/api/page/shapes";
import { Soon } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

// Messages between the extension host and the graph's page.

export type ToGraph =
  /** The full state, at the start and whenever frames are not enough. */
  | { type: "all"; view: SessionView | null }
  /** Changes since the last message, in order. */
  | { type: "frames"; traceId: string; frames: readonly Frame[] }
  | { type: "answer"; request: number; answer: Asked[keyof Asked]["answer"] }
  | { type: "failed"; request: number; text: string };

/** Requests of the page, and their answers. */
export interface Asked {
  /** The plan of a branch and the branches within it. */
  branch: { params: BranchParams; answer: Partial<Branch> };
  messages: { params: TraceMessagesParams; answer: { messages: Message[]; hasEarlier: boolean } };
}

export type FromGraph =
  | { type: "ready" }
  | { type: "ask"; request: number; what: keyof Asked; params: Asked[keyof Asked]["params"] }
  | { type: "reveal"; goalId: string | null; branchId: string | null }
  | { type: "focusChat" }
  /** Save an SVG to a file that the user chooses. */
  | { type: "savePicture"; name: string; svg: string };

/** State that the page keeps when VS Code discards it and when the window reloads. */
export interface SavedGraph {
  traceId: string;
  expanded: readonly string[];
  /** The goal or branch that is shown alone. */
  root?: string | null;
}

/** Shortest time between two posts of events to the page. */
const PAUSE_MS = 50;

type GraphParts = Pick<Parts, "daemon" | "sessions" | "goals" | "log">;

/** The graph of the current session in an editor of its own. The page renders it with the web page's modules. */
export class GraphPanel implements vscode.WebviewPanelSerializer, vscode.Disposable {
  static readonly id = "goalwright.graph";
  private readonly disposables: vscode.Disposable[];
  private panel: vscode.WebviewPanel | undefined;
  private ready = false;
  /** Number of pages so far, each of which counts its requests from 1. */
  private pages = 0;
  private waiting: Frame[] = [];
  private readonly soon = new Soon(PAUSE_MS, () => this.flush());

  constructor(
    private readonly extension: vscode.Uri,
    private readonly parts: GraphParts,
  ) {
    const { sessions } = parts;
    this.disposables = [
      this.soon,
      vscode.window.registerWebviewPanelSerializer(GraphPanel.id, this),
      sessions.onDidChange((change) => {
        if (change.kind === "reset") this.postAll();
        else if (change.kind === "update") this.enqueue(change.update);
      }),
    ];
  }

  /** Open the panel as a full-width editor, or bring it to the front. */
  show(): void {
    if (this.panel) {
      this.panel.reveal(undefined, false);
      return;
    }
    this.adopt(vscode.window.createWebviewPanel(GraphPanel.id, t("Graph"), { viewColumn: vscode.ViewColumn.Active, preserveFocus: false }, { retainContextWhenHidden: true }));
  }

  /** Restore the panel after a reload of the window. */
  deserializeWebviewPanel(panel: vscode.WebviewPanel): Promise<void> {
    if (this.panel) panel.dispose();
    else this.adopt(panel);
    return Promise.resolve();
  }

  dispose(): void {
    this.panel?.dispose();
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private adopt(panel: vscode.WebviewPanel): void {
    this.panel = panel;
    this.ready = false;
    panel.webview.options = { enableScripts: true, localResourceRoots: [vscode.Uri.joinPath(this.extension, "dist")] };
    const icon = (theme: string): vscode.Uri => vscode.Uri.joinPath(this.extension, "media", `graph-${theme}.svg`);
    panel.iconPath = { light: icon("light"), dark: icon("dark") };
    const received = panel.webview.onDidReceiveMessage((message: FromGraph) => void this.receive(message));
    panel.onDidDispose(() => {
      received.dispose();
      if (this.panel !== panel) return;
      this.panel = undefined;
      this.ready = false;
    });
    panel.webview.html = page(panel.webview, this.extension, "graph");
    const { daemon } = this.parts;
    // Connecting loads the last session. The chat shows connection errors.
    if (daemon.state.phase === "idle") daemon.connect().catch(() => undefined);
  }

  private async receive(message: FromGraph): Promise<void> {
    try {
      if (message.type === "ready") {
        this.ready = true;
        this.pages++;
        this.postAll();
      } else if (message.type === "ask") await this.answer(message);
      else if (message.type === "reveal") await this.parts.goals.reveal(message.goalId, message.branchId);
      else if (message.type === "focusChat") await vscode.commands.executeCommand("goalwright.focusChat");
      else await this.savePicture(message.name, message.svg);
    } catch (error) {
      this.parts.log.error(`graph, ${message.type}: ${asProblem(error).message}`);
    }
  }

  private async answer({ request, what, params }: Extract<FromGraph, { type: "ask" }>): Promise<void> {
    const { pages } = this;
    try {
      const answer = await (what === "branch" ? this.branch(params as BranchParams) : this.parts.daemon.request("goalwright/trace/messages", params as TraceMessagesParams));
      // The panel may have been closed and opened again: its page would take this for an answer to another request.
      if (pages !== this.pages) return;
      // Waiting frames are older than this answer, so send them first.
      this.flush();
      this.post({ type: "answer", request, answer });
    } catch (error) {
      const text = asProblem(error).message;
      if (what === "branch") void vscode.window.setStatusBarMessage(`Goalwright: ${text}`, 6_000);
      if (pages === this.pages) this.post({ type: "failed", request, text });
    }
  }

  private async branch({ sessionId, branchId }: BranchParams): Promise<Partial<Branch>> {
    const { goalTree, goalNumbers, branches } = await this.parts.daemon.request("goalwright/session/load", { sessionId: childSession(sessionId, branchId), messages: 0 });
    return { goalTree, goalNumbers, goalCount: goalTree.goals.length, branches };
  }

  private async savePicture(name: string, svg: string): Promise<void> {
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const file = await vscode.window.showSaveDialog({
      title: t("Save the graph as a picture"),
      filters: { SVG: ["svg"] },
      ...(folder ? { defaultUri: vscode.Uri.joinPath(folder, name) } : {}),
    });
    if (!file) return;
    try {
      await vscode.workspace.fs.writeFile(file, new TextEncoder().encode(svg));
    } catch (error) {
      void notify("error", t("Cannot save the graph: {0}. Choose another location.", asProblem(error).message));
      return;
    }
    vscode.window.setStatusBarMessage(t("Saved the graph as {0}", vscode.workspace.asRelativePath(file)), 6_000);
  }

  private enqueue(update: Update): void {
    if (!this.ready || !("event" in update)) return;
    const frame = frameOf(update);
    if (!frame) return;
    this.waiting.push(frame);
    this.soon.request();
  }

  private flush(): void {
    this.soon.dispose();
    const frames = this.waiting;
    this.waiting = [];
    const { sessionId } = this.parts.sessions;
    if (frames.length > 0 && sessionId) this.post({ type: "frames", traceId: sessionId, frames });
  }

  private postAll(): void {
    // The full state already contains the waiting frames.
    this.waiting = [];
    const { state } = this.parts.sessions;
    if (this.ready) this.post({ type: "all", view: state ? graphView(state) : null });
  }

  private post(message: ToGraph): void {
    if (this.ready) void this.panel?.webview.postMessage(message);
  }
}

export function graphView({ trace, goalTree, branches, subagents, awaits, lastEventId }: SessionView): SessionView {
  return { trace, goalTree, branches, subagents, awaits, lastEventId };
}

/** Return an event with the totals that it changed; undefined if it does not affect the graph. */
export function frameOf({ event, view }: Extract<Update, { event: Event }>): Frame | undefined {
  return view || TOLD.has(event.event) ? { ...event, view } : undefined;
}

/** Open the trace API's web page in the browser, at the current session. Starts the API if necessary. */
export async function openTrace({ daemon, sessions }: Pick<Parts, "daemon" | "sessions">): Promise<void> {
  const { page } = await daemon.request("goalwright/api/open", {});
  const address = vscode.Uri.parse(pageOf(page, sessions.sessionId), true);
  // Desktop VS Code forwards the port of a remote machine.
  if (vscode.env.uiKind === vscode.UIKind.Desktop) {
    await vscode.env.openExternal(address);
    return;
  }
  // VS Code in a browser would use its server's proxy, whose host the API rejects.
  const where = `${address.scheme}://${address.authority}`;
  // A dialog stays open until the user has noted the address; a notification would disappear.
  const choice = await vscode.window.showInformationMessage(
    t("The trace is at {0}, on the machine that Goalwright runs on.", where),
    { modal: true, detail: t("Copy the address and open it in a browser on that machine, or forward the port.") },
    t("Copy Address"),
  );
  if (choice) await vscode.env.clipboard.writeText(pageOf(page, sessions.sessionId));
}

/** Return the page's address with the trace to show. */
export function pageOf(page: string, traceId: string | undefined): string {
  const address = new URL(page);
  if (traceId) address.searchParams.set("trace", traceId);
  return address.href;
}
