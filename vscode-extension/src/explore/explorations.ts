import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import { aboutOf, addressOf, type Address } from "../diff/uris";
import type { BranchContentParams, FileDiff, SessionUpdate } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import type { Records } from "./record";
import { childSession, type Explored, type Glimpse, NOTHING_EXPLORED, type Outcome, outcomeKey } from "./view";
import { branchLabel, brief, lastLine } from "./format";
import type { SessionState } from "../session/state";
import { Observable } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

/** The user's actions on branches: view, apply, leave the choice to the model, remove. The daemon carries them out; `shown` changes. */
export class Explorations extends Observable {
  shown: Explored = NOTHING_EXPLORED;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
    private readonly records: Records,
  ) {
    super();
    const glimpses = new Glimpses(daemon, (live) => this.show({ live }));
    const follow = (): void => glimpses.follow([sessions.state, records.state]);
    this.disposables.push(
      branchContents(daemon),
      daemon.onUpdate((update) => glimpses.receive(update)),
      daemon.onDidChangeState(({ phase }) => {
        // A new connection follows nothing yet.
        if (phase === "connected") glimpses.follow([]);
      }),
      sessions.onDidChange(follow),
      records.onDidChange(follow),
    );
  }

  /** Read a branch's changed files for the page. An error is shown in the branch's card. */
  async list(sessionId: string, branchId: string): Promise<void> {
    const key = childSession(sessionId, branchId);
    try {
      const files = await this.files(sessionId, branchId);
      const { [key]: _, ...problems } = this.shown.problems;
      this.show({ files: { ...this.shown.files, [key]: files }, problems });
    } catch (error) {
      this.show({ problems: { ...this.shown.problems, [key]: asProblem(error).message } });
    }
  }

  /** Open the diff of a branch, or of one of its files. */
  async open(sessionId: string, branchId: string, path?: string): Promise<void> {
    const files = await this.files(sessionId, branchId);
    await showContents(sessionId, branchId, t("Branch {0}", this.nameOf(sessionId, branchId)), path === undefined ? files : files.filter((file) => file.path === path));
  }

  /** Apply a branch, or files of branches; writing needs approval as usual. Never throws. */
  async use(sessionId: string, exploreStartId: string, choice: readonly string[]): Promise<void> {
    const key = outcomeKey(sessionId, exploreStartId);
    if (this.shown.outcomes[key]?.state === "busy") return;
    const tell = (outcome: Outcome): void => this.show({ outcomes: { ...this.shown.outcomes, [key]: outcome } });
    tell({ state: "busy", title: t("Using {0}…", choice.join(", ")), detail: "" });
    try {
      const { applied, title, detail } = await this.daemon.request("goalwright/explore/select", { sessionId, choice: [...choice] });
      // After success, further details are only for the model.
      tell({ state: applied ? "applied" : "refused", title, detail: applied ? "" : detail });
    } catch (error) {
      const [title = "", ...detail] = asProblem(error).message.split("\n");
      tell({ state: "refused", title, detail: detail.join("\n").trim() });
    }
  }

  /** Leave the choice to the model, or with `none` reject all branches. */
  async leave(sessionId: string, exploreStartId: string, none: boolean): Promise<void> {
    const { left } = await this.daemon.request("goalwright/explore/leave", { sessionId, exploreStartId, none });
    if (!left) void notify("info", t("This choice is closed."));
  }

  /** Remove a branch's work after confirmation, because this cannot be undone. */
  async remove(sessionId: string, branchId: string): Promise<void> {
    const name = this.nameOf(sessionId, branchId);
    const detail = t("Its changes are deleted and can no longer be used; its conversation is kept. This cannot be undone.");
    const answer = await vscode.window.showWarningMessage(t("Remove branch {0}?", name), { modal: true, detail }, t("Remove"));
    if (answer === undefined) return;
    await this.daemon.request("goalwright/explore/remove", { sessionId, branchId });
  }

  private async files(sessionId: string, branchId: string): Promise<readonly FileDiff[]> {
    return (await this.daemon.request("goalwright/explore/files", { sessionId, branchId })).files;
  }

  /** Return the label of a branch, shortened, or else its id. */
  private nameOf(sessionId: string, branchId: string): string {
    const state = [this.sessions.state, this.records.state].find((one) => one?.session.trace.traceId === sessionId);
    const branch = state?.branches[branchId];
    return branch ? branchLabel({ id: branchId, description: brief(branch.description) }) : branchId;
  }

  private show(change: Partial<Explored>): void {
    this.shown = { ...this.shown, ...change };
    this.changed.fire();
  }
}

interface Followed extends Glimpse {
  /** Events that came before the sub-agent was loaded. */
  early?: SessionUpdate["event"][];
}

/** Follow running sub-agents: the log of their parent contains only their start and end. */
export class Glimpses {
  private readonly seen = new Map<string, Followed>();

  /** `changed` is called when a glimpse changes. */
  constructor(
    private readonly daemon: Pick<Daemon, "request" | "show">,
    private readonly changed: (live: Readonly<Record<string, Glimpse>>) => void,
  ) {}

  /** Follow the running sub-agents of these sessions, and drop all others. */
  follow(states: readonly (SessionState | undefined)[]): void {
    const wanted = new Set<string>();
    for (const state of states) {
      for (const agent of Object.values(state?.subagents ?? {})) {
        if (state && agent.status === "running") wanted.add(childSession(state.session.trace.traceId, agent.id));
      }
    }
    for (const sessionId of this.seen.keys()) if (!wanted.has(sessionId)) this.seen.delete(sessionId);
    this.daemon.show(this, [...wanted]);
    for (const sessionId of wanted) if (!this.seen.has(sessionId)) void this.begin(sessionId);
  }

  /** Handle an event of any session. */
  receive({ sessionId, event }: SessionUpdate): void {
    const known = this.seen.get(sessionId);
    if (!known || event.event !== "message_added") return;
    known.early?.push(event);
    if (!known.early) this.set(sessionId, { line: lastLine(event.message) || known.line, messages: known.messages + 1 });
  }

  private async begin(sessionId: string): Promise<void> {
    const early: SessionUpdate["event"][] = [];
    const begun: Followed = { line: "", messages: 0, early };
    this.seen.set(sessionId, begun);
    try {
      const { messages, session, lastEventId } = await this.daemon.request("goalwright/session/load", { sessionId, messages: 1 });
      if (this.seen.get(sessionId) !== begun) return;
      this.set(sessionId, { line: lastLine(messages.at(-1) ?? null), messages: session.trace.messageCount });
      for (const event of early) if (event.eventId > lastEventId) this.receive({ sessionId, event, view: null });
    } catch {
      // The sub-agent has ended already; its card shows the result.
      delete begun.early;
    }
  }

  private set(sessionId: string, glimpse: Glimpse): void {
    this.seen.set(sessionId, glimpse);
    this.changed(Object.fromEntries(this.seen));
  }
}

const BRANCH = "goalwright-branch";

type BranchSide = BranchContentParams & { side: "base" | "branch" };

/** Register the files of branches as read-only documents for VS Code's diff editors. */
function branchContents(daemon: Pick<Daemon, "request">): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(BRANCH, {
    provideTextDocumentContent: async (uri) => {
      const about = sideOf(uri);
      if (!about) return "";
      const { side, ...file } = about;
      try {
        const { base, branch, binary } = await daemon.request("goalwright/explore/content", file);
        return binary ? t("(binary file)") : ((side === "base" ? base : branch) ?? "");
      } catch (error) {
        return asProblem(error).message;
      }
    },
  });
}

/** Show all files of a branch in one diff editor, or a single file in its own. The caret stays where it is. */
async function showContents(sessionId: string, branchId: string, title: string, files: readonly FileDiff[]): Promise<void> {
  const uri = (path: string, side: BranchSide["side"]): vscode.Uri => vscode.Uri.from(sideAddress({ sessionId, branchId, path, side }));
  const [first] = files;
  if (!first) {
    void notify("info", t("Branch {0} changed no file.", branchId));
    return;
  }
  if (files.length === 1) {
    await vscode.commands.executeCommand("vscode.diff", uri(first.movedFrom ?? first.path, "base"), uri(first.path, "branch"), sideTitle({ path: first.path, branchId }), {
      preview: true,
      preserveFocus: true,
    });
    return;
  }
  const changes = files.map(({ path, kind, movedFrom }) => [
    uri(path, "branch"),
    kind === "create" ? undefined : uri(movedFrom ?? path, "base"),
    kind === "delete" ? undefined : uri(path, "branch"),
  ]);
  await vscode.commands.executeCommand("vscode.changes", title, changes);
}

export function sideAddress(side: BranchSide): Address {
  return addressOf(BRANCH, side.path, side);
}

export function sideOf(uri: Omit<Address, "path">): Record<keyof BranchSide, string> | undefined {
  return aboutOf(uri, [BRANCH], ["sessionId", "branchId", "path", "side"]);
}

/** Return the tab's title: `cart.py — Branch A`. */
export function sideTitle({ path, branchId }: Pick<BranchSide, "path" | "branchId">): string {
  return t("{0} — Branch {1}", path.split(/[\\/]/).at(-1) || path, branchId);
}
