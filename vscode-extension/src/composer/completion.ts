import * as vscode from "vscode";
import { workspaceFolder } from "../daemon/environment";
import type { Daemon } from "../daemon/daemon";
import { goalNumbers } from "../goals/tree";
import type { SessionController } from "../session/controller";
import { LEFT_OUT, nameOf, spanOf } from "./context";
import { fitOf, foldersOf, ranked, type Completion, type CONTEXTS } from "./text";
import { t } from "../l10n";

const MOST_FILES = 5_000;
const MOST_ROWS = 12;
const MOST_SESSIONS = 50;
/** Time in milliseconds to reuse a list of files, so that not every letter lists them again. */
const FRESH_MS = 5_000;

/** Completions for `@` mentions. */
export class Mentions {
  private listed: { at: number; pattern: string; files: Promise<readonly string[]> } | undefined;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
  ) {}

  /** Return completions for the text after `@`, best first. `begins`: the mention starts the prompt. */
  async rows(query: string, begins: boolean): Promise<Completion[]> {
    const special = /^(goal|session) (.*)$/i.exec(query);
    if (special?.[1]?.toLowerCase() === "goal") return this.goals(special[2] ?? "");
    if (special) return this.others(special[2] ?? "");
    const lower = query.toLowerCase();
    const fixed = contexts().filter(({ label }) => label.slice(1).startsWith(lower));
    const [agents, files, symbols, resources] = await Promise.all([
      begins ? this.agents(lower) : [],
      this.files(query),
      query.length > 1 ? this.symbols(query) : [],
      this.resources(query),
    ]);
    if (query.includes(":") && resources.length > 0) return resources;
    // Letters usually mean a file. Without letters, show the fixed kinds of context early.
    return (query ? [...fixed, ...agents, ...files, ...symbols, ...resources] : [...files.slice(0, 4), ...fixed, ...agents, ...resources]).slice(0, MOST_ROWS + 4);
  }

  /** Return the text for an empty list; empty while letters are typed, because they may not be a mention. */
  nothing(query: string): string {
    if (query === "goal ") return t("This session has no goals yet.");
    return query === "session " ? t("There are no other sessions.") : "";
  }

  private async files(query: string): Promise<Completion[]> {
    const folder = workspaceFolder();
    if (!folder) return [];
    const all = await this.list(folder, "");
    // The list of a large folder is truncated, so also search it by name.
    const files = all.length >= MOST_FILES && query ? [...all, ...(await this.list(folder, query))] : all;
    const unique = [...new Set(files)];
    return ranked([...unique, ...foldersOf(unique)], query, openTabs(), MOST_ROWS).map((name) => {
      const isFolder = name.endsWith("/");
      const parts = name.replace(/\/$/, "").split("/");
      const label = `${parts.at(-1) ?? name}${isFolder ? "/" : ""}`;
      const kind = isFolder ? "folder" : "file";
      return { kind, label, detail: parts.slice(0, -1).join("/"), insert: `@${name} `, mention: `${kind}:${name}` };
    });
  }

  private list(folder: vscode.WorkspaceFolder, query: string): Promise<readonly string[]> {
    const pattern = query ? `**/*${query.replace(/[^\w.-]/g, "?")}*` : "**/*";
    if (this.listed?.pattern !== pattern || Date.now() - this.listed.at > FRESH_MS) {
      const found = vscode.workspace.findFiles(new vscode.RelativePattern(folder, pattern), LEFT_OUT, MOST_FILES);
      this.listed = { at: Date.now(), pattern, files: Promise.resolve(found).then((uris) => uris.map(nameOf)) };
    }
    return this.listed.files;
  }

  private async symbols(query: string): Promise<Completion[]> {
    const found = await vscode.commands.executeCommand<vscode.SymbolInformation[] | undefined>("vscode.executeWorkspaceSymbolProvider", query);
    return (found ?? [])
      .filter(({ location, name }) => location.uri.scheme === "file" && [0, 1].includes(fitOf(name.toLowerCase(), query.toLowerCase())))
      .slice(0, 6)
      .map(({ name, location: { uri, range } }) => {
        const file = nameOf(uri);
        const place = `${file}:${spanOf(range)}`;
        return { kind: "symbol", label: name, detail: `${file}:${range.start.line + 1}`, insert: `@${place} `, mention: `lines:${place}` };
      });
  }

  private goals(query: string): Completion[] {
    const tree = this.sessions.state?.goalTree;
    if (!tree) return [];
    const numbers = goalNumbers(tree);
    return tree.goals
      .map(({ id, description }) => ({ number: numbers.get(id) ?? "", description }))
      .filter(({ number, description }) => number && (number.startsWith(query) || description.toLowerCase().includes(query.toLowerCase())))
      .slice(0, MOST_ROWS)
      .map(({ number, description }) => ({ kind: "goal", label: `${number} ${description}`, detail: "", insert: `@goal ${number} (${description}) ` }));
  }

  private async others(query: string): Promise<Completion[]> {
    const { sessions } = await this.sessions.list(MOST_SESSIONS);
    return sessions
      .filter(({ trace }) => trace.traceId !== this.sessions.sessionId && trace.title.toLowerCase().includes(query.toLowerCase()))
      .slice(0, MOST_ROWS)
      .map(({ trace: { traceId, title } }) => ({ kind: "session", label: title || t("Untitled session"), detail: "", insert: `@session ${title} `, mention: `session:${traceId}` }));
  }

  /** Resources of MCP servers that run. The daemon reads them when the prompt is sent. */
  private async resources(query: string): Promise<Completion[]> {
    if (this.daemon.state.phase !== "connected") return [];
    const { sessionId } = this.sessions;
    const limit = query.includes(":") ? MOST_ROWS : 4;
    const { resources } = await this.daemon.request("goalwright/mcp/resources", { query, limit, ...(sessionId ? { sessionId } : {}) });
    return resources.map(({ name, title, description, template }) => {
      const detail = [title, description].filter(Boolean).join(": ");
      // What is in braces must be written by the user.
      const fixed = template ? name.split("{", 1).join("") : `${name} `;
      return { kind: "resource", label: name, detail, insert: `@${fixed}` };
    });
  }

  private async agents(query: string): Promise<Completion[]> {
    if (this.daemon.state.phase !== "connected") return [];
    const { agents } = await this.daemon.request("goalwright/agent/list", {});
    return agents
      .filter(({ name }) => name.startsWith(query) && name !== this.sessions.agentName)
      .slice(0, 6)
      .map(({ name, description }) => ({ kind: "agent", label: `@${name}`, detail: description, insert: `@${name} ` }));
  }
}

function contexts(): Completion[] {
  const row = (name: (typeof CONTEXTS)[number], detail: string): Completion => ({ kind: "context", label: `@${name}`, detail, insert: `@${name} `, mention: name });
  return [
    row("problems", t("Errors and warnings of all files")),
    row("selection", t("Selected text of the active editor")),
    row("terminal", t("Selected text or last output of the terminal")),
    row("changes", t("Uncommitted changes in git")),
    { kind: "goal", label: "@goal", detail: t("A goal of the plan"), insert: "@goal ", leads: true },
    { kind: "session", label: "@session", detail: t("Conversation of another session"), insert: "@session ", leads: true },
  ];
}

/** Return the files of the open tabs, the active one first. */
function openTabs(): string[] {
  const { all, activeTabGroup } = vscode.window.tabGroups;
  const tabs = [...(activeTabGroup.activeTab ? [activeTabGroup.activeTab] : []), ...all.flatMap((group) => group.tabs)];
  return [...new Set(tabs.flatMap(({ input }) => (input instanceof vscode.TabInputText && input.uri.scheme === "file" ? [nameOf(input.uri)] : [])))];
}
