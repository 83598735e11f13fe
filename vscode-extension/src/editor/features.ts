import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import type { Parts } from "../extension";
import { toLsp } from "../diagnostics/editor";
import { ALL, type Choice, decision, undecided, units } from "../diff/choice";
import type { FileDiff } from "../protocol.gen";
import { plural, t } from "../l10n";

export const ACCEPT_HUNK = "goalwright.acceptHunk";
export const REJECT_HUNK = "goalwright.rejectHunk";
export const ACCEPT_CHANGES = "goalwright.acceptChanges";
export const REJECT_CHANGES = "goalwright.rejectChanges";
export const SHOW_CHANGES = "goalwright.showChanges";

const FIX = "goalwright.fix";
const PROMPTS: ReadonlySet<string> = new Set([FIX, "goalwright.explain", "goalwright.ask"]);
const DECISIONS: ReadonlySet<string> = new Set([ACCEPT_HUNK, REJECT_HUNK, ACCEPT_CHANGES, REJECT_CHANGES, SHOW_CHANGES]);
/** Largest number of a file's problems in one prompt. */
const MOST = 50;

/** The daemon's result of a command for a client with a chat. */
interface Handed {
  kind: "prompt" | "reference";
  text: string;
}

/**
 * Connect the daemon's code actions and lenses with VS Code: their prompts go into the chat, and decisions by lens
 * appear on the chat's card.
 */
export class EditorFeatures implements vscode.Disposable {
  private readonly subscription: vscode.Disposable;

  constructor(private readonly parts: Pick<Parts, "daemon" | "sessions" | "review" | "chat" | "tell">) {
    this.subscription = parts.review.onDidChange(() => parts.daemon.refreshLenses());
  }

  readonly middleware: Pick<Middleware, "executeCommand" | "provideCodeActions" | "provideCodeLenses"> = {
    executeCommand: async (command, args: unknown[], next) => {
      try {
        if (PROMPTS.has(command)) return await this.hand((await next(command, args)) as Handed | null);
        const target = DECISIONS.has(command) ? targetOf(args) : undefined;
        // The daemon itself handles requests of other sessions.
        if (!target || !this.parts.review.pending(target.requestId)) return (await next(command, args)) as unknown;
        return await this.decide(command, target);
      } catch (error) {
        await this.parts.tell(error);
        return undefined;
      }
    },
    provideCodeActions: async (document, range, context, token, next) => {
      const found = (await next(document, range, context, token)) ?? [];
      const all = this.fixFile(document, context);
      return all ? [...found, all] : found;
    },
    provideCodeLenses: async (document, token, next) => {
      const lenses = (await next(document, token)) ?? [];
      return lenses.flatMap((lens) => {
        const title = lens.command && this.title(lens.command);
        if (!lens.command || title === undefined) return [];
        return [new vscode.CodeLens(lens.range, { ...lens.command, title })];
      });
    },
  };

  dispose(): void {
    this.subscription.dispose();
  }

  private async hand(made: Handed | null): Promise<void> {
    const { chat, sessions } = this.parts;
    if (made?.kind === "reference") await chat.insert(made.text);
    if (made?.kind !== "prompt") return;
    await chat.reveal();
    // The answer comes when the turn has ended, and the command does not wait for it.
    void sessions.prompt(made.text);
  }

  private async decide(command: string, { requestId, path, hunk }: Target): Promise<void> {
    const { review } = this.parts;
    if (command === SHOW_CHANGES) return review.show(requestId, path);
    const accepted = command === ACCEPT_HUNK || command === ACCEPT_CHANGES;
    await review.decide(requestId, path, hunk, accepted);
  }

  private title({ command, title, arguments: args }: vscode.Command): string | undefined {
    const target = targetOf(args ?? []);
    const { review } = this.parts;
    const request = target && review.pending(target.requestId);
    if (!target || !request) return title;
    return lensTitle(command, title, target, request.files, review.choices[target.requestId] ?? ALL);
  }

  /** Add an action for all problems of the file: the daemon's own action knows only those at the caret. */
  private fixFile(document: vscode.TextDocument, context: vscode.CodeActionContext): vscode.CodeAction | undefined {
    const { only, diagnostics } = context;
    if (!vscode.workspace.isTrusted || diagnostics.length === 0 || (only && !only.contains(vscode.CodeActionKind.QuickFix))) return undefined;
    const problems = vscode.languages
      .getDiagnostics(document.uri)
      .filter(({ severity }) => severity <= vscode.DiagnosticSeverity.Warning)
      .slice(0, MOST);
    if (problems.length <= Math.max(diagnostics.length, 1)) return undefined;
    const title = t("Fix all {0} problems of this file with Goalwright", problems.length);
    const action = new vscode.CodeAction(title, vscode.CodeActionKind.QuickFix);
    const argument = { uri: document.uri.toString(), version: document.version, diagnostics: problems.map(toLsp) };
    action.command = { title, command: FIX, arguments: [argument] };
    return action;
  }
}

function targetOf(args: readonly unknown[]): Target | undefined {
  const [about] = args as [Partial<Target> | undefined];
  if (typeof about?.requestId !== "string") return undefined;
  return {
    requestId: about.requestId,
    ...(typeof about.path === "string" ? { path: about.path } : {}),
    ...(typeof about.hunk === "number" ? { hunk: about.hunk } : {}),
  };
}

/** The subject of a lens; without a path: all files of the request. */
export interface Target {
  requestId: string;
  path?: string;
  hunk?: number;
}

function hunkTitle(command: string, title: string, accepted: boolean | undefined): string | undefined {
  if (accepted === undefined) return title;
  if (accepted) return command === REJECT_HUNK ? t("Accepted (reject instead)") : undefined;
  return command === ACCEPT_HUNK ? t("Rejected (accept instead)") : undefined;
}

/** Return the lens title after the decisions, or undefined to hide the lens. */
export function lensTitle(command: string, title: string, target: Target, files: readonly FileDiff[], choice: Choice): string | undefined {
  const { path, hunk } = target;
  if (path !== undefined && hunk !== undefined) return hunkTitle(command, title, decision(choice, path, hunk));
  if (command !== ACCEPT_CHANGES && command !== REJECT_CHANGES) return title;
  const about = path === undefined ? files : files.filter((file) => file.path === path);
  const left = undecided(about, choice).length;
  if (left === about.reduce((sum, file) => sum + units(file), 0)) return title;
  if (left === 0) return undefined;
  return command === ACCEPT_CHANGES
    ? plural(left, "Accept the other change", "Accept the other {0} changes")
    : plural(left, "Reject the other change", "Reject the other {0} changes");
}
